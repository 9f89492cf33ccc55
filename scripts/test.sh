#!/bin/sh
# Builds into build/ and runs the C tests, the Python tests and those of the Rust crates.
# Golden data: $GSPLAT_C_GOLDEN, or ../shared/golden where that exists, or the small
# cases of tests/golden.
. "$(dirname "$0")/common.sh"

[ -e build/build.ninja ] || say "building and testing takes about ten minutes on two cores"
find_golden_data
# shellcheck disable=SC2086 # options are a list of words
sh scripts/build.sh build -Dtests=enabled -Dtools=enabled -Dgpu=auto -Ddefault_library=both \
    ${GSPLAT_C_MESON_OPTIONS:-}

failed=
meson test -C build --no-rebuild --print-errorlogs || failed="$failed meson"
grep -hE '^\[  (PASSED|FAILED|SKIPPED)' build/meson-logs/testlog.txt || true

export GSPLAT_C_LIBRARY="$root/build/libgsplat_c.so" GSPLAT_C_BUILD="$root/build" \
    GSPLAT_C_COMMAND="$root/build/tools/gsplat-c" PYTHONPATH="$root/bindings/python"
# Fetches what the packages of the crates are tested with below.
sh scripts/rust.sh test || failed="$failed bindings/rust"

# tests/gpu is for machines with a GPU.
for folder in tests bindings/python/tests; do
    python3 -m pytest -q -rs -p no:cacheprovider --ignore=tests/gpu $folder ||
        failed="$failed $folder"
done

[ -z "$failed" ] || die "failed:$failed"
