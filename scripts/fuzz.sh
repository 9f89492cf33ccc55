#!/bin/sh
# scripts/fuzz.sh [SECONDS [TARGET..]]: builds the fuzz targets with clang in build-fuzz/
# and runs each for that long (60 by default), one after the other.  What they find
# new stays in build-fuzz/corpus/TARGET, an input that fails in build-fuzz/TARGET-*.
. "$(dirname "$0")/common.sh"

seconds=${1:-60}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- fuzz_raster fuzz_state fuzz_ops fuzz_train fuzz_ply fuzz_cameras
command -v clang >/dev/null || die "clang is not installed"

CC=clang sh scripts/build.sh build-fuzz -Dfuzz=enabled -Dtests=enabled -Dtools=enabled \
    -Dgpu=disabled -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 \
    -Dc_args=-fsanitize=fuzzer-no-link,float-cast-overflow
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export ASAN_OPTIONS=allocator_may_return_null=1
failed=
for target; do
    say "== $target"
    mkdir -p "build-fuzz/corpus/$target"
    "build-fuzz/tests/fuzz/$target" -max_total_time="$seconds" -max_len=4096 -len_control=0 -timeout=20 \
        -print_final_stats=1 -artifact_prefix="build-fuzz/$target-" \
        "build-fuzz/corpus/$target" "tests/fuzz/corpus/$target" >"build-fuzz/$target.log" 2>&1 ||
        failed="$failed $target"
    grep -E '^(stat::number_of_executed|stat::average_exec|SUMMARY|fuzz:)' \
        "build-fuzz/$target.log" || true
done
[ -z "$failed" ] || die "findings in:$failed; see build-fuzz/TARGET.log"
