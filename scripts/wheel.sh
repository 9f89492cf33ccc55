#!/bin/sh
# scripts/wheel.sh [PLATFORM..]: builds into dist/ the Python wheel with the library for CPU and
# CUDA, the wheels of the drop-in modules, the source distribution, and SHA256SUMS of them; for
# each PLATFORM, arm64 or windows, one more wheel.  The same source and tools give the same
# bytes.
#
#   GSPLAT_C_CUDA=0           the library is for the CPU only
#   GSPLAT_C_MESON_OPTIONS    more options for meson, such as -Dgpu_targets=90
. "$(dirname "$0")/common.sh"

for platform; do cross_file "$platform" >/dev/null; done
gpu=-Dgpu=enabled
[ "${GSPLAT_C_CUDA:-1}" != 0 ] || gpu=-Dgpu=disabled
rm -rf dist
PYTHONPATH="$root/bindings/python/backend"
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE
# shellcheck disable=SC2086 # options are a list of words
python3 -m gsplat_c_build dist $gpu ${GSPLAT_C_MESON_OPTIONS:-}
for platform; do
    # shellcheck disable=SC2086
    python3 -m gsplat_c_build dist "--cross-file=$(cross_file "$platform")" $gpu \
        ${GSPLAT_C_MESON_OPTIONS:-}
done
