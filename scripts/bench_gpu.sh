#!/bin/sh
# bench/gpu.py with the arguments given, on the library in build/ or $GSPLAT_C_LIBRARY: nothing
# is built here, so that a machine with a GPU needs only Python with torch.
. "$(dirname "$0")/common.sh"

GSPLAT_C_LIBRARY=${GSPLAT_C_LIBRARY:-$root/build/libgsplat_c.so}
PYTHONDONTWRITEBYTECODE=1
export GSPLAT_C_LIBRARY PYTHONDONTWRITEBYTECODE
[ -e "$GSPLAT_C_LIBRARY" ] || die "no library at $GSPLAT_C_LIBRARY: run make test first"
exec python3 bench/gpu.py "$@"
