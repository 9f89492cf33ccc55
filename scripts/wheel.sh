#!/bin/sh
# Builds into dist/ the Python wheel with the library for CPU and CUDA, the wheels of the
# drop-in modules, the source distribution, and SHA256SUMS of them.  The same source and
# tools give the same bytes.
#
#   GSPLAT_C_CUDA=0           the library is for the CPU only
#   GSPLAT_C_MESON_OPTIONS    more options for meson, such as -Dgpu_targets=90
. "$(dirname "$0")/common.sh"

gpu=-Dgpu=enabled
[ "${GSPLAT_C_CUDA:-1}" != 0 ] || gpu=-Dgpu=disabled
rm -rf dist
PYTHONPATH="$root/bindings/python/backend"
PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH PYTHONDONTWRITEBYTECODE
# shellcheck disable=SC2086 # options are a list of words
python3 -m gsplat_c_build dist $gpu ${GSPLAT_C_MESON_OPTIONS:-}
