#!/bin/sh
# scripts/abi-check.sh [LIBRARY [HEADERS [BASELINES]]]: compares a library that has debugging
# information (build/libgsplat_c.so by default) and its headers (include) with each frozen
# interface in a folder (abi).  Reports what is broken and exits 1; additions pass, in a higher
# minor version.
library=${1:+$(realpath "$1")}
headers=${2:+$(realpath "$2")}
baselines=${3:+$(realpath "$3")}
. "$(dirname "$0")/common.sh"

library=${library:-build/libgsplat_c.so}
headers=${headers:-include}
baselines=${baselines:-abi}
[ -e "$library" ] || die "$library does not exist; build first"
for tool in cc nm readelf abidiff python3; do
    command -v $tool >/dev/null || die "$tool is not installed"
done
readelf -S "$library" | grep -q '\.debug_info' || die "$library has no debugging information"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
PYTHONDONTWRITEBYTECODE=1
export PYTHONDONTWRITEBYTECODE

# The ABI version of a folder of headers, as 1.0.
version_of() {
    printf '#include "gsplat_c.h"\nGSC_ABI_MAJOR.GSC_ABI_MINOR\n' |
        cc -E -P -I"$1" - | tail -n 1 | tr -d ' '
}
# name@@VERSION of the functions that a library exports, without those for bindings, whose interface
# is not promised
symbols() {
    sed -n 's/^GSC_API.* \**\(gsc_[a-z_]*\)(.*/^\1@/p' "$headers/gsplat_c/bindings.h" >"$scratch/for-bindings"
    nm -D --defined-only "$1" | awk '$2 != "A" { print $3 }' | grep -vf "$scratch/for-bindings" | sort
}

# check BASELINE: what a program built with it relies on.
check() {
    base=$1
    broken=
    python3 tools/abi_reference.py "$base" --asserts >"$scratch/asserts.c"
    cc -std=c11 -fsyntax-only -I"$headers" "$scratch/asserts.c" || broken="$broken headers"

    python3 tools/abi_reference.py "$base" --library >"$scratch/reference.c"
    cc -std=c11 -g -w -shared -fPIC -I"$base/include" "$scratch/reference.c" \
        -Wl,-soname,libgsplat_c.so.1 -Wl,--version-script="$base/libgsplat_c.map" \
        -o "$scratch/reference.so"
    python3 tools/abi_reference.py "$base" --grown "$headers" >"$scratch/grown.ini"
    abidiff --drop-private-types --no-added-syms --no-show-locs --show-bytes \
        --headers-dir1 "$base/include" --headers-dir2 "$headers" \
        --suppressions "$scratch/grown.ini" "$scratch/reference.so" "$library" ||
        broken="$broken library"

    symbols "$scratch/reference.so" >"$scratch/then"
    symbols "$library" >"$scratch/now"
    comm -13 "$scratch/then" "$scratch/now" >"$scratch/added"
    if [ "$version" != "$(basename "$base")" ]; then
        sed 's/.*@//' "$scratch/then" | sort -u >"$scratch/closed"
        grep -wFf "$scratch/closed" "$scratch/added" >"$scratch/late" || true
        mv "$scratch/late" "$scratch/added"
    fi
    if [ -s "$scratch/added" ]; then
        say "new in a version that is frozen: $(tr '\n' ' ' <"$scratch/added")"
        broken="$broken additions"
    fi
    [ -z "$broken" ]
}

version=$(version_of "$headers")
failed=
for folder in "$baselines/${version%%.*}".*; do
    [ -d "$folder" ] || die "no interface of major version ${version%%.*} is frozen in $baselines"
    if check "$folder"; then
        say "ABI $version keeps what $(basename "$folder") promises"
    else
        say "ABI $(basename "$folder") is broken:$broken"
        failed="$failed $(basename "$folder")"
    fi
done
[ -z "$failed" ] || die "programs built for ABI$failed would not run; see docs/abi.md"
