#!/bin/sh
# Which lines of src/ the C tests run: builds into build-coverage/, writes a page for each file
# to build-coverage/report/, and fails below 90 % of all lines.  Code for GPUs is in cuda/; the
# host's part of it, in src/gpu/, runs on a mock driver.
. "$(dirname "$0")/common.sh"

minimum=90
export GSPLAT_C_GOLDEN="$root/tests/golden"
command -v gcovr >/dev/null || die "gcovr is not installed"

# Counters are shared by threads.  The float64 build is the tests' oracle, not the library.
# shellcheck disable=SC2086 # options are a list of words
sh scripts/build.sh build-coverage -Dtests=enabled -Dtools=disabled -Dgpu_targets=90 \
    -Db_coverage=true -Doptimization=1 -Dc_args=-fprofile-update=atomic \
    ${GSPLAT_C_MESON_OPTIONS:-}
find build-coverage -name '*.gcda' -exec rm {} +
meson test -C build-coverage --no-rebuild --print-errorlogs --timeout-multiplier 4 --no-suite f64 \
    >build-coverage/tests.log ||
    { cat build-coverage/tests.log >&2 && die "a test failed"; }
mkdir -p build-coverage/report
gcovr --root . --object-directory build-coverage --filter src/ -j 2 \
    --html-details build-coverage/report/index.html --txt build-coverage/coverage.txt \
    --fail-under-line $minimum build-coverage >build-coverage/gcovr.log 2>&1 || failed=$?
sed -n '/TOTAL/p' build-coverage/coverage.txt
awk '$1 ~ /^src/ && $4 + 0 < 90' build-coverage/coverage.txt
say "line by line: build-coverage/report/index.html"
[ -z "${failed:-}" ] || { tail -n 3 build-coverage/gcovr.log >&2 && die "less than $minimum %"; }
