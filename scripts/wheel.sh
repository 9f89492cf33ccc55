#!/bin/sh
# scripts/wheel.sh [PART..]: builds Python packages into $DIST (dist/), with their SHA256SUMS.
#
#   source    the source distribution of the last commit, and the wheels of the drop-in modules
#   native    the wheel with the library for this machine
#   arm64     the one for Linux on arm64, cross-compiled
#   windows   the one for Windows, cross-compiled
#
# The default is `source native`.  The same commit and tools give the same bytes.
#
#   GSPLAT_C_CUDA=0           the library is for the CPU only
#   GSPLAT_C_MESON_OPTIONS    more options for meson, such as -Dgpu_targets=90
. "$(dirname "$0")/common.sh"

dist=${DIST:-dist}
gpu=-Dgpu=enabled
[ "${GSPLAT_C_CUDA:-1}" != 0 ] || gpu=-Dgpu=disabled
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
scratch=$(mktemp -d)
finish() {
    [ $? -eq 0 ] || cat "$scratch/log" >&2
    rm -rf "$scratch"
}
trap finish EXIT

build() { python3 -m build --no-isolation --skip-dependency-check "$@"; }

source_packages() {
    build --sdist --outdir "$dist" -Csetup-args=-Dgpu=disabled
    cp -r bindings/python/shims "$scratch/"
    for shim in "$scratch"/shims/*; do
        cp LICENSE "$shim/"
        build --wheel --outdir "$dist" "$shim"
    done
}

# library_wheel PLATFORM [-MESON-OPTION..]: PLATFORM as Python names it.
library_wheel() {
    platform=$1
    place=$scratch/$platform
    shift
    settings=
    for option in -Dtools=enabled $gpu ${GSPLAT_C_MESON_OPTIONS:-} "$@"; do
        settings="$settings -Csetup-args=$option"
    done
    # shellcheck disable=SC2086 # settings are a list of words
    _PYTHON_HOST_PLATFORM=$platform build --wheel --outdir "$place" "-Cbuild-dir=$place/build" \
        $settings
    # ctypes loads the library, so every Python does.
    wheel tags --remove --python-tag py3 --abi-tag none "$place"/*.whl
    case $platform in
    linux-*) # auditwheel looks for cJSON as the loader does
        LD_LIBRARY_PATH=$(system_of arm64)/usr/lib/aarch64-linux-gnu \
            auditwheel repair --wheel-dir "$place/repaired" "$place"/*.whl
        rm "$place"/*.whl
        mv "$place/repaired"/*.whl "$place/"
        ;;
    esac
    wheel unpack --dest "$place/files" "$place"/*.whl
    (
        cd "$place/files"/*/
        info=$(echo *.dist-info)
        rm -rf "$info/sboms" # auditwheel's, which leaves out static libraries
        mkdir "$info/sboms"
        python3 "$root/tools/sbom.py" "$place/build" >"$info/sboms/gsplat_c.cdx.json"
        [ $gpu != -Dgpu=disabled ] || {
            sed -i 's/^Version: .*/&+cpu/' "$info/METADATA"
            mv "$info" "${info%.dist-info}+cpu.dist-info"
        }
    )
    wheel pack --dest-dir "$dist" "$place/files"/*/
}

# cross_wheel PLATFORM PYTHON-PLATFORM
cross_wheel() {
    sh scripts/cross.sh "$1" libraries
    # shellcheck disable=SC2046 # two options
    library_wheel "$2" $(cross_files "$1")
}

[ $# -gt 0 ] || set -- source native
rm -rf "$dist"
mkdir -p "$dist"
for part; do
    case $part in
    source) source_packages ;;
    native) library_wheel "$(python3 -c 'import sysconfig; print(sysconfig.get_platform())')" ;;
    arm64) cross_wheel arm64 linux-aarch64 ;;
    windows) cross_wheel windows win-amd64 ;;
    *) die "unknown part '$part'; one of source, native, arm64, windows" ;;
    esac
done >"$scratch/log" 2>&1
(cd "$dist" && sha256sum -- * >"$scratch/sums" && mv "$scratch/sums" SHA256SUMS && ls -l)
