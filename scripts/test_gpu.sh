#!/bin/sh
# The GPU tests, with torch tensors, of the library in build/ or $GSPLAT_C_LIBRARY: nothing
# is built here, so that a machine with a GPU needs only Python with torch and pytest.  A
# table of what they measured comes last.
#
# GSPLAT_C_LIBRARY_F64   the float64 build; else libgsplat_c_f64.so beside the library
# GSPLAT_C_GOLDEN        golden data, as for test.sh
# GSPLAT_C_SEED          repeats a run's random scenes
# GSPLAT_C_SANITIZER     compute-sanitizer, for the tests of damaged states
. "$(dirname "$0")/common.sh"

find_library
if ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    say "skipped: this python3 has no torch that sees a CUDA device"
    exit 0
fi
exec python3 -m pytest -q -rs -p no:cacheprovider tests/gpu "$@"
