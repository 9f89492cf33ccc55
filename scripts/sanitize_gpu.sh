#!/bin/sh
# The GPU tests under compute-sanitizer, on the library that make test built:
#
#   scripts/sanitize_gpu.sh [TOOL ..]     racecheck, memcheck and initcheck, or some of them
#
# Needs torch with a CUDA device, and compute-sanitizer in the path.  Tests are dealt to
# processes on all devices, one tool after the other; a line is printed when one ends, and one that is
# not done after $SECONDS_EACH (default 400) is cut and says so.  Scenes are of a fifth of
# their size ($GSPLAT_C_TEST_SCALE).  Tests of time and of size are left out: kernels run
# hundreds of times slower, and one by one.
. "$(dirname "$0")/common.sh"

export GSPLAT_C_LIBRARY="${GSPLAT_C_LIBRARY:-$root/build/libgsplat_c.so}"
export GSPLAT_C_TEST_SCALE="${GSPLAT_C_TEST_SCALE:-0.2}" PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=2
limit=${SECONDS_EACH:-400}
python=${PYTHON:-python3}
left_out="not quadratic and not busy_other_stream and not nothing_is_kept"
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
command -v compute-sanitizer >/dev/null || die "there is no compute-sanitizer"
[ -e "$GSPLAT_C_LIBRARY" ] || die "there is no $GSPLAT_C_LIBRARY: run make test first"
devices=$("$python" -c 'import torch; print(torch.cuda.device_count())')
[ "$devices" -gt 0 ] || die "torch sees no CUDA device"

# processes, test files
groups="4 raster draw train_step
4 gradients
1 deterministic
2 ops
4 knn"

one() { # tool, shard, shards, device, name, files
    tool=$1 shard=$2 shards=$3 device=$4 name=$5
    shift 5
    log="$logs/$tool-$name-$shard"
    code=0
    CUDA_VISIBLE_DEVICES=$device GSPLAT_C_TEST_SHARD=$shard/$shards timeout -k 5 "$limit" \
        compute-sanitizer --tool "$tool" --error-exitcode 9 --print-limit 20 \
        "$python" -m pytest -v -p no:cacheprovider -k "$left_out" "$@" >"$log" 2>&1 || code=$?
    passed=$(grep -c PASSED "$log") || code=5
    case $code in
    0) result=clean ;;
    5) result='NOTHING RAN' ;;
    9) result='ERRORS OR HAZARDS' ;;
    124 | 137) result="CUT after $limit s" ;;
    *) result="FAILED ($code)" ;;
    esac
    printf '%-10s %-16s %s/%s  %4s passed %3s failed  %s\n' "$tool" "$name" $((shard + 1)) \
        "$shards" "$passed" "$(grep -c FAILED "$log")" "$result"
    [ $code -eq 0 ] || grep -E '^(E  |FAILED|=========)' "$log" | head -20
    [ $code -eq 0 ] || touch "$logs/failed"
}

start() { # tool
    echo "$groups" | {
        number=0
        while read -r shards first more; do
            files="tests/gpu/test_$first.py"
            for file in $more; do files="$files tests/gpu/test_$file.py"; done
            shard=0
            while [ $shard -lt "$shards" ]; do
                # shellcheck disable=SC2086
                one "$1" $shard "$shards" $((number % devices)) "$first" $files &
                number=$((number + 1)) shard=$((shard + 1))
            done
        done
        wait
    }
}

for tool in ${*:-racecheck memcheck initcheck}; do start "$tool"; done
[ ! -e "$logs/failed" ]
