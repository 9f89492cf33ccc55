#!/bin/sh
# scripts/windows-libraries.sh FOLDER: cJSON, libpng and cmocka for Windows, which Debian has no
# packages of, from its source packages, static.  zlib is a package.  FOLDER/meson.ini tells
# meson where they are.  Quick when they are there.
folder=$(mkdir -p "$1" && cd "$1" && pwd)
. "$(dirname "$0")/common.sh"

target=x86_64-w64-mingw32
stamp="$folder/stamp"
key=$(cksum <scripts/windows-libraries.sh)
[ "$(cat "$stamp" 2>/dev/null || true)" != "$key" ] || exit 0
command -v apt-get >/dev/null ||
    die "no apt-get: build the libraries by other means, and write a $folder/meson.ini"

# The system's own sources once more, as source packages, in lists of their own.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch/sources" "$scratch/lists/partial" "$scratch/cache/archives/partial"
apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(SOURCESENTRY)' 'Created-By: Packages' |
    grep -iE '^[^/]*(debian|ubuntu)|/(debian|ubuntu)' | sed 's/.* //; s/:[0-9]*$//' | sort -u |
    while read -r file; do
        sed 's/^Types:.*/Types: deb-src/; s/^deb /deb-src /' "$file" \
            >"$scratch/sources/$(basename "$file")"
    done
apt() {
    tool=$1
    shift
    $tool -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$scratch/sources" \
        -o Dir::State::Lists="$scratch/lists" -o Dir::Cache="$scratch/cache" \
        -o APT::Sandbox::User="$(id -un)" "$@"
}
sources="$folder/sources"
rm -rf "$sources"
mkdir -p "$sources" "$folder/include" "$folder/lib/pkgconfig"
# The newest version that the mirror has whole.
fetch() {
    for version in $(apt apt-cache showsrc --only-source "$1" | sed -n 's/^Version: //p' | sort -ruV); do
        ! (cd "$sources" && apt apt-get source "$1=$version") || return 0
    done
    return 1
}
say "fetching the sources of cJSON, libpng and cmocka"
(apt apt-get update && fetch cjson && fetch libpng1.6 && fetch cmocka) >"$scratch/log" 2>&1 ||
    { cat "$scratch/log" >&2 && die "the source packages could not be had"; }

# archive NAME FLAGS FILE..: compiles a static library.
archive() {
    name=$1
    flags=$2
    shift 2
    mkdir -p "$scratch/$name"
    # shellcheck disable=SC2086 # flags are a list of words
    (cd "$scratch/$name" && $target-gcc -O2 -w $flags -c "$@" &&
        $target-ar rcs "$folder/lib/lib$name.a" ./*.o)
}
# describe PACKAGE LIBRARY FLAGS [MODULE]: writes MODULE.pc, or PACKAGE.pc.
describe() {
    version=$(basename "$sources/$1"-[0-9]*)
    printf '%s\n' "prefix=$folder" "Name: $1" "Description: $1, static, for Windows" \
        "Version: ${version#"$1"-}" \
        'Libs: -L${prefix}/lib'" -l$2" 'Cflags: -isystem ${prefix}/include'" $3" \
        >"$folder/lib/pkgconfig/${4:-$1}.pc"
}

cd "$sources"/cjson-*
mkdir -p "$folder/include/cjson"
cp cJSON.h "$folder/include/cjson/"
archive cjson -DCJSON_HIDE_SYMBOLS "$PWD/cJSON.c"
describe cjson cjson "-isystem \${prefix}/include/cjson -DCJSON_HIDE_SYMBOLS" libcjson

cd "$sources"/libpng1.6-*
cp scripts/pnglibconf.h.prebuilt "$folder/include/pnglibconf.h"
cp png.h pngconf.h "$folder/include/"
rm pngtest.c
archive png "-I$folder/include" "$PWD"/png*.c
cp "/usr/$target/lib/libz.a" "$folder/lib/" # without the one for zlib's DLL beside it
describe libpng1.6 'png -lz' '' libpng

cd "$sources"/cmocka-*
# Formats of C99, which mingw-w64's printf functions take when C11 is asked for.
sed 's/(__format__ (__printf__,/(__format__ (__gnu_printf__,/' include/cmocka.h >"$folder/include/cmocka.h"
: >"$scratch/config.h"
for header in assert inttypes io malloc setjmp stdarg stddef stdint stdio stdlib string time; do
    echo "#define HAVE_$(echo $header | tr '[:lower:]' '[:upper:]')_H 1" >>"$scratch/config.h"
done
archive cmocka "-DHAVE_CONFIG_H -DCMOCKA_STATIC -I$scratch -Iinclude -I$PWD/include" "$PWD/src/cmocka.c"
describe cmocka cmocka -DCMOCKA_STATIC

cat >"$folder/meson.ini" <<INI
[binaries]
pkgconfig = 'pkg-config'
[properties]
pkg_config_libdir = '$folder/lib/pkgconfig'
INI
printf '%s\n' "$key" >"$stamp"
