#!/bin/sh
# The GPU tests under compute-sanitizer, on the library that make test built:
#
#   scripts/sanitize_gpu.sh [TOOL ..]     racecheck, memcheck and initcheck, or some of them
#
# Needs torch with a CUDA device, and compute-sanitizer in the path.  One tool after the other,
# processes on all devices take tests from a list until it is empty or time is up; a line is
# printed when one ends.  Under racecheck a test takes seconds to minutes, all of them half an
# hour of a GPU.  Scenes are of a fifth of their size ($GSPLAT_C_TEST_SCALE).  Tests of time and
# of size are left out: kernels run hundreds of times slower, one by one, and torch's allocator,
# which counts memory, is off.
#
#   SECONDS_EACH=400     the time of each tool, after which no test is begun
#   WORKERS=16           processes; as many as there are processors
#   LEFT=FOLDER          tests that are left when time is up are kept there, a file for each tool,
#                        and the next run begins with them instead of all
. "$(dirname "$0")/common.sh"

export GSPLAT_C_TEST_SCALE="${GSPLAT_C_TEST_SCALE:-0.2}" OMP_NUM_THREADS=1
export PYTORCH_NO_CUDA_MEMORY_CACHING=1 # so that every tensor has bounds of its own
limit=${SECONDS_EACH:-400}
workers=${WORKERS:-$(nproc)}
python=${PYTHON:-python3}
left_out="not quadratic and not busy_other_stream and not nothing_is_kept"
left_out="$left_out and not takes_nothing_of_torch and not without_memory"
files=$(printf 'tests/gpu/test_%s.py ' raster forward train_step gradients deterministic ops knn)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v compute-sanitizer >/dev/null || die "there is no compute-sanitizer"
find_library
devices=$("$python" -c 'import torch; print(torch.cuda.device_count())')
[ "$devices" -gt 0 ] || die "torch sees no CUDA device"

# shellcheck disable=SC2086 # lists of words
run_pytest() { "$@" "$python" -m pytest -p no:cacheprovider -k "$left_out" $pytest $files; }

# Grace for the test that a process is in when time is up.
worker() { # tool, number, device
    log=$work/$1-$2
    code=0
    pytest=-v
    CUDA_VISIBLE_DEVICES=$3 run_pytest timeout -k 5 $((limit + 60)) \
        compute-sanitizer --tool "$1" --error-exitcode 9 --print-limit 20 >"$log" 2>&1 || code=$?
    case $code in
    0) result=clean ;;
    9) result='ERRORS OR HAZARDS' ;;
    124 | 137) result='CUT, clean until then' ;;
    *) result="FAILED ($code)" ;;
    esac
    printf '%-10s %3s %4s passed %3s failed  %s\n' "$1" "$2" "$(grep -c PASSED "$log")" \
        "$(grep -c FAILED "$log")" "$result"
    case $code in 0 | 124 | 137) return ;; esac
    grep -E '^(E  |FAILED|=========)' "$log" | head -20
    touch "$work/failed"
}

check() { # tool
    tests=$work/$1.tests
    pytest='--collect-only -q'
    if [ -n "${LEFT:-}" ] && [ -e "$LEFT/$1" ]; then
        cp "$LEFT/$1" "$tests"
    else
        run_pytest env | grep :: >"$tests"
    fi
    cp "$tests" "$work/queue"
    GSPLAT_C_TEST_QUEUE=$work/queue
    GSPLAT_C_TEST_UNTIL=$(($(date +%s) + limit))
    export GSPLAT_C_TEST_QUEUE GSPLAT_C_TEST_UNTIL
    number=0
    while [ $number -lt "$workers" ]; do
        worker "$1" $number $((number % devices)) &
        number=$((number + 1))
    done
    wait
    unset GSPLAT_C_TEST_QUEUE
    sed -n 's/ \(PASSED\|SKIPPED\).*//p' "$work/$1"-[0-9]* >"$work/done"
    grep -vxFf "$work/done" "$tests" >"$work/left" || true
    say "$1: $(wc -l <"$work/left") of $(wc -l <"$tests") tests left"
    [ ! -s "$work/left" ] || touch "$work/failed"
    [ -z "${LEFT:-}" ] || { mkdir -p "$LEFT" && cp "$work/left" "$LEFT/$1"; }
}

[ $# -gt 0 ] || set -- racecheck memcheck initcheck
for tool; do check "$tool"; done
[ ! -e "$work/failed" ]
