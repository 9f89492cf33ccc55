#!/bin/sh
# Builds everything with gcc and with clang, warnings being errors, checks the format, runs
# clang-tidy, makes the API reference, to which every public item must be known, and looks at
# the Rust crates.
. "$(dirname "$0")/common.sh"

for compiler in gcc clang; do
    say "== $compiler, warnings are errors"
    CC=$compiler sh scripts/build.sh build-lint/$compiler -Dwerror=true -Dtests=enabled \
        -Dtools=enabled -Dgpu_targets=90
done
say "== clang-format"
sh scripts/format.sh --check
say "== clang-tidy"
# tidy FLAG..: the files named on standard input
tidy() {
    xargs -P 2 -n 4 sh -c '
        flags=$1
        shift
        clang-tidy --quiet --warnings-as-errors="*" "$@" -- $flags 2>&1' \
        tidy "-std=c11 -Iinclude -iquote src -Ibuild-lint/clang $*"
}
echo src/cpu/cpu_isa.c src/cpu/project.c | tidy -DGSC_ISA=avx2 -mavx2 -mfma -mbmi2
runtime=$(ls -d .venv/lib/python3*/site-packages/nvidia/cuda_runtime/include 2>/dev/null |
    head -n 1)
if [ -n "$runtime" ]; then
    find tools examples -name '*_cuda.c' | sort | tidy -isystem "$runtime" -isystem tools/cuda
else
    say "no CUDA Runtime: what uses it is left out"
fi
{
    find src tools examples -name '*.c' ! -path 'src/cpu/*' ! -name '*_cuda.c' ! -name '*_windows.c'
    echo src/cpu/camera.c src/cpu/raster_state.c src/cpu/sort.c
} | tidy
if [ -d /usr/x86_64-w64-mingw32/include ]; then
    find src tools -name '*_windows.c' | sort | tidy --target=x86_64-w64-mingw32
fi
say "== doxygen"
sh scripts/docs.sh
say "== clippy, rustfmt, rustdoc"
sh scripts/rust.sh lint
say "lint: clean"
