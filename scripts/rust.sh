#!/bin/sh
# The Rust crates of bindings/rust:
#
#   scripts/rust.sh test    their tests, on the library in build/
#   scripts/rust.sh lint    clippy and rustdoc, warnings being errors
#
# Crates that they need are fetched once; without them, or without cargo, it says so and
# leaves the rest out.  Golden data as for test.sh.
. "$(dirname "$0")/common.sh"

skip() {
    say "skipped: the Rust crates: $*"
    exit 0
}

have_cargo || skip "there is no cargo 1.88 or newer"
cd bindings/rust
cargo fetch --quiet --locked --offline 2>/dev/null || cargo fetch --quiet --locked ||
    skip "what they need could not be fetched"

# The build looks for no library but this one.
export GSPLAT_C_LIB_DIR="$root/build"

lint() {
    cargo clippy --quiet --offline --locked --all-targets "$@" -- -D warnings
}

# With RUSTC_BOOTSTRAP rustdoc compares the error codes of what must not compile, too.
run() {
    RUSTC_BOOTSTRAP=1 cargo test --quiet --offline --locked "$@"
}

case ${1:-} in
lint)
    cargo clippy --version >/dev/null 2>&1 || skip "there is no clippy"
    lint --all-features
    lint --no-default-features
    RUSTDOCFLAGS='-D warnings' cargo doc --quiet --offline --locked --no-deps --all-features
    python3 "$root/tools/rust_licences.py" --check
    ;;
test)
    # A build for the CPU only has no driver to test with.
    mock="$root/build/tests/gpu_host/libmock_driver.so"
    [ ! -e "$mock" ] || export GSC_CUDA_LIBRARY="$mock"
    export GSPLAT_C_LIBRARY="$root/build/libgsplat_c.so"
    export LD_LIBRARY_PATH="$root/build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    say "== Rust crates"
    run --all-features
    say "== Rust crates, the library loaded at run time"
    run --no-default-features --package gsplat-c --test interface
    ;;
*) die "usage: rust.sh test | lint" ;;
esac
