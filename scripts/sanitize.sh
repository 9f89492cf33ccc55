#!/bin/sh
# The C tests once more, with AddressSanitizer and UndefinedBehaviorSanitizer, in
# build-sanitize/.
. "$(dirname "$0")/common.sh"

export GSPLAT_C_GOLDEN="${GSPLAT_C_GOLDEN:-$root/tests/golden}"
sh scripts/build.sh build-sanitize -Dtests=enabled -Dgpu_targets=90 -Db_sanitize=address,undefined \
    -Db_lundef=false -Doptimization=1
UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
    ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 \
    meson test -C build-sanitize --no-rebuild --print-errorlogs --timeout-multiplier 10
grep -hE '^\[  (PASSED|FAILED|SKIPPED)' build-sanitize/meson-logs/testlog.txt
