#!/bin/sh
# scripts/release.sh [--dry-run]: builds a release into dist/, from a clean tree whose tag is v and
# the version:
#
#   gsplat_c-VERSION.tar.gz          the source
#   gsplat_c-VERSION-SYSTEM.tar.gz   the library for hosts that are not Python: for this machine, for
#                                    Linux on arm64 and for Windows
#   *.whl                            the Python package for each of them, and the drop-in modules
#   SHA256SUMS                       of all files
#
# Every library is built twice, in two places, and must come out the same.  Publishes nothing.
# --dry-run does without the tag and the heading in the changelog, and allows:
#
#   GSPLAT_C_CUDA=0           the libraries are for the CPU only
#   GSPLAT_C_MESON_OPTIONS    more options for meson
#   GSPLAT_C_PLATFORMS        platforms besides this machine, instead of 'arm64 windows'
. "$(dirname "$0")/common.sh"

dry=
case "${1:-}" in
'') ;;
--dry-run) dry=1 ;;
*) die "usage: scripts/release.sh [--dry-run]" ;;
esac
gpu=-Dgpu=enabled
[ "${GSPLAT_C_CUDA:-1}" != 0 ] || gpu=-Dgpu=disabled
platforms=${GSPLAT_C_PLATFORMS-arm64 windows}

# ---------------------------------------------------------------- what is released
changes=$(git status --porcelain) || die "not a checkout"
[ -z "$changes" ] || die "the tree is not clean:
$changes"
version=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)
abi=$(sed -n 's/^#define GSC_ABI_M[AI][JN]OR \([0-9]*\).*/\1/p' include/gsplat_c.h | paste -sd.)
for file in bindings/python/shims/*/pyproject.toml packaging/vcpkg/vcpkg.json; do
    grep -Eq "^ *\"?version\"?( =|:) \"$version\"" "$file" || die "$file has another version than $version"
done
case $version in
0.*) ;; # the interface is not frozen before 1.0.0
*)
    [ -d "abi/$abi" ] || die "abi/$abi is missing: freeze the interface with scripts/abi-freeze.sh"
    cmp -s src/libgsplat_c.map "abi/$abi/libgsplat_c.map" ||
        die "src/libgsplat_c.map differs from that of abi/$abi: a change needs a higher GSC_ABI_MINOR"
    ;;
esac
if [ -z "$dry" ]; then
    [ -z "${GSPLAT_C_MESON_OPTIONS:-}" ] && [ $gpu = -Dgpu=enabled ] &&
        [ "$platforms" = "arm64 windows" ] ||
        die "a release has every platform, every instruction set and every GPU"
    git tag --points-at HEAD | grep -qx "v$version" || die "HEAD has no tag v$version"
    grep -q "^## $version" CHANGELOG.md || die "CHANGELOG.md has no heading '## $version'"
fi
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH

# -------------------------------------------------------------------- wheels, source
# shellcheck disable=SC2086 # platforms are a list of words
sh scripts/wheel.sh source native $platforms

# --------------------------------------------------- the libraries, in another place
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
git archive HEAD | tar -x -C "$place"
[ ! -d .venv ] || ln -s "$root/.venv" "$place/.venv"

# archive SYSTEM TAG [-MESON-OPTION..]: packs what `meson install` installs.  Its library must be the
# one in the wheel for TAG.
archive() {
    name=gsplat_c-$version-$1 tag=$2
    shift 2
    # shellcheck disable=SC2086 # options are a list of words
    meson setup "$place/build-$name" "$place" -Dbuildtype=release -Dc_link_args=-s \
        -Dtests=disabled -Dtools=disabled $gpu --prefix=/ --libdir=lib \
        -Dpkgconfig.relocatable=true ${GSPLAT_C_MESON_OPTIONS:-} "$@"
    meson install -C "$place/build-$name" --quiet --destdir "$place/$name"
    cp LICENSE README.md CHANGELOG.md "$place/$name/"
    tar --sort=name --mode=u=rwX,go=rX --owner=0 --group=0 --numeric-owner \
        --mtime="@$SOURCE_DATE_EPOCH" \
        -C "$place" -c "$name" | gzip -n -9 >"dist/$name.tar.gz"
    python3 -m zipfile -e dist/gsplat_c-"$version"[-+]*"$tag".whl "$place/wheel-$name"
    library=$(find "$place/$name" -type f -name 'libgsplat_c.so.*' -o -name gsplat_c.dll)
    cmp "$place/wheel-$name"/gsplat_c/*gsplat_c.[sd]* "$library" ||
        die "$name: the library differs between two builds"
}
archive "$(uname -s | tr '[:upper:]' '[:lower:]')-$(uname -m)" "$(uname -m)"
# shellcheck disable=SC2086 # options are a list of words
for platform in $platforms; do
    cross=$(cross_files "$platform")
    case $platform in
    arm64) archive linux-aarch64 aarch64 $cross ;;
    windows) archive windows-x86_64 win_amd64 $cross ;;
    esac
done

(cd dist && rm SHA256SUMS && sha256sum -- * >SHA256SUMS)
say "release $version, ABI $abi${dry:+ (dry run)}:"
cat dist/SHA256SUMS
