#!/bin/sh
# Format, linters, and builds with gcc and with clang; every warning is an error.
. "$(dirname "$0")/common.sh"

say "== clang-format, rustfmt"
sh scripts/format.sh --check
say "== shellcheck"
shellcheck scripts/*.sh .ci/run
say "== ruff, mypy"
ruff check --quiet
mypy
say "== doxygen"
sh scripts/docs.sh
for compiler in gcc clang; do
    say "== $compiler"
    CC=$compiler sh scripts/build.sh build-lint/$compiler -Dwerror=true -Dtests=enabled \
        -Dtools=enabled -Dgpu_targets=90
done
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
runtime=$(find .venv -path '*/nvidia/cuda_runtime/include' -prune)
if [ -n "$runtime" ]; then
    find tools examples -name '*_cuda.c' | tidy -isystem "$runtime" -isystem tools/cuda
else
    say "no CUDA Runtime: files that use it are left out"
fi
{
    find src tools examples -name '*.c' ! -path 'src/cpu/*' ! -name '*_cuda.c' ! -name '*_windows.c'
    echo src/cpu/raster_state.c src/cpu/sort.c
} | tidy
if [ -d /usr/x86_64-w64-mingw32/include ]; then
    find src tools -name '*_windows.c' | tidy --target=x86_64-w64-mingw32
fi
say "== clippy, rustdoc"
sh scripts/rust.sh lint
say "lint: clean"
