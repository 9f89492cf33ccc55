#!/bin/sh
# Sourced by the other scripts: goes to the repository root and prefers the tools
# that setup.sh put into .venv.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
if [ -d "$root/.venv/bin" ]; then
    PATH="$root/.venv/bin:$PATH"
    export PATH
fi
export PYTHONDONTWRITEBYTECODE=1

say() { printf '%s\n' "$*"; }
die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# A Rust that the crates can be tested with: the feature cudarc asks for the most.
have_cargo() {
    command -v cargo >/dev/null && command -v rustc >/dev/null || return 1
    rustc --version | awk '{ split($2, v, "."); exit !(v[1] > 1 || v[2] >= 88) }'
}

# Sets GSPLAT_C_GOLDEN, unless it is set: ../shared/golden where that exists, or the small cases
# of tests/golden.
find_golden_data() {
    if [ -z "${GSPLAT_C_GOLDEN:-}" ]; then
        GSPLAT_C_GOLDEN="$root/tests/golden"
        [ ! -d "$root/../shared/golden" ] || GSPLAT_C_GOLDEN=$(cd "$root/../shared/golden" && pwd)
    fi
    export GSPLAT_C_GOLDEN
    say "golden data: $GSPLAT_C_GOLDEN"
}

# Sets GSPLAT_C_LIBRARY, unless it is set, on a machine where nothing is built.
find_library() {
    export GSPLAT_C_LIBRARY="${GSPLAT_C_LIBRARY:-$root/build/libgsplat_c.so}"
    [ -e "$GSPLAT_C_LIBRARY" ] || die "no library at $GSPLAT_C_LIBRARY: run make test first"
}

# system_of PLATFORM: prints the folder of what its programs are linked with.  GSPLAT_C_SYSTEMS names
# another place than this tree.
system_of() { say "${GSPLAT_C_SYSTEMS:-$root}/build-$1-root"; }

# cross_files PLATFORM: prints meson's options for it, whose compiler is there.
cross_files() {
    case $1 in
    arm64) target=aarch64-linux-gnu ;;
    windows) target=x86_64-w64-mingw32 ;;
    *) die "unknown platform '$1'; one of arm64, windows" ;;
    esac
    command -v $target-gcc >/dev/null || die "no $target-gcc: run scripts/setup.sh $1"
    say "--cross-file=$root/cross/$target.ini --cross-file=$(system_of "$1")/meson.ini"
}

# configure DIR [MESON OPTION..]: makes or reconfigures a build folder.
configure() {
    folder=$1
    shift
    if [ -e "$folder/build.ninja" ]; then
        meson configure "$folder" "$@"
    else
        meson setup "$folder" "$@"
    fi
}
