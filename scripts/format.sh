#!/bin/sh
# Formats the C sources, and Python and Rust where there are ruff and rustfmt, in place.  With
# --check names the C and Rust files that differ.
. "$(dirname "$0")/common.sh"

command -v clang-format >/dev/null || die "clang-format is not installed"
if cargo fmt --version >/dev/null 2>&1; then
    (cd bindings/rust && cargo fmt --all ${1:+--check})
fi
[ $# -gt 0 ] || ! command -v ruff >/dev/null || ruff check --quiet --fix-only
set -- ${1:+--dry-run --Werror}
[ $# -gt 0 ] || set -- -i
find include src tools tests examples cuda -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o \
    -name '*.[ch]pp' |
    sort | xargs clang-format "$@"
