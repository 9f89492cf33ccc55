#!/bin/sh
# Formats the C sources, and the Rust ones where there is rustfmt, in place; with --check
# only says which files differ.
. "$(dirname "$0")/common.sh"

command -v clang-format >/dev/null || die "clang-format is not installed"
if cargo fmt --version >/dev/null 2>&1; then
    (cd bindings/rust && cargo fmt --all ${1:+--check})
fi
set -- ${1:+--dry-run --Werror}
[ $# -gt 0 ] || set -- -i
find include src tools tests examples cuda -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o \
    -name '*.cpp' |
    sort | xargs clang-format "$@"
