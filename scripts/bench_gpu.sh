#!/bin/sh
# bench/gpu.py with the arguments given, on the library in build/ or $GSPLAT_C_LIBRARY: nothing
# is built here, so that a machine with a GPU needs only Python with torch.
. "$(dirname "$0")/common.sh"

find_library
exec python3 bench/gpu.py "$@"
