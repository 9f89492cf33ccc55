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
    shift
    settings=
    for option in $gpu ${GSPLAT_C_MESON_OPTIONS:-} "$@"; do
        settings="$settings -Csetup-args=$option"
    done
    # shellcheck disable=SC2086 # settings are a list of words
    _PYTHON_HOST_PLATFORM=$platform build --wheel --outdir "$scratch/$platform" $settings
    # ctypes loads the library, so every Python does.
    wheel tags --remove --python-tag py3 --abi-tag none "$scratch/$platform"/*.whl
    case $platform in
    linux-*) auditwheel repair --wheel-dir "$dist" "$scratch/$platform"/*.whl ;;
    *) mv "$scratch/$platform"/*.whl "$dist/" ;;
    esac
}

[ $# -gt 0 ] || set -- source native
rm -rf "$dist"
mkdir -p "$dist"
for part; do
    case $part in
    source) source_packages ;;
    native) library_wheel "$(python3 -c 'import sysconfig; print(sysconfig.get_platform())')" ;;
    arm64) library_wheel linux-aarch64 "--cross-file=$root/$(cross_file arm64)" ;;
    windows) library_wheel win-amd64 "--cross-file=$root/$(cross_file windows)" ;;
    *) die "unknown part '$part'; one of source, native, arm64, windows" ;;
    esac
done >"$scratch/log" 2>&1
(cd "$dist" && sha256sum -- * >"$scratch/sums" && mv "$scratch/sums" SHA256SUMS && ls -l)
