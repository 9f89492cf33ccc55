#!/bin/sh
# Installs what is missing for one purpose:
#
#   scripts/setup.sh demo     compiler, meson, ninja, cJSON, libpng
#   scripts/setup.sh test     the same, cmocka, g++, CMake, valgrind, abidiff, cargo, and .venv
#                             with numpy, pytest, jax, torch, NVRTC and the CUDA Runtime
#   scripts/setup.sh arm64    the same as demo, cmocka, a cross compiler for Linux arm64, qemu,
#                             and .venv with pytest and NVRTC
#   scripts/setup.sh lint     the same as demo, clang, clang-format, clang-tidy, doxygen and
#                             cargo, and .venv with the CUDA Runtime
#   scripts/setup.sh coverage the same as demo, cmocka, gcovr, and .venv with NVRTC
#   scripts/setup.sh windows  the same as demo, cmocka, mingw-w64, Wine, CMake, clang and LLVM's
#                             linker, and .venv with pytest and NVRTC
#   scripts/setup.sh docs     doxygen and Python
#   scripts/setup.sh wheel    compiler, meson, ninja, and .venv with NVRTC
#
# On Debian and Ubuntu it calls apt-get (through sudo if need be); elsewhere it says
# what to install.  Quick when everything is there.
#
#   GSPLAT_C_CUDA=0             no NVRTC and no CUDA Runtime in .venv: the library and the
#                               command are built for the CPU only
#   GSPLAT_C_RUST=0             no cargo; the Rust crates are left out where there is none
#   GSPLAT_C_TORCH=0            no torch in .venv; the tests that need it are skipped
#   GSPLAT_C_JAX=0              the same for jax
#   GSPLAT_C_TORCH_INDEX=URL    take torch from this package index, one with CPU-only
#                               wheels, instead of the default one with its CUDA libraries
. "$(dirname "$0")/common.sh"

purpose=${1:-test}
case $purpose in
demo | test | arm64 | lint | coverage | windows | docs | wheel) ;;
*) die "unknown purpose '$purpose'; one of demo, test, arm64, lint, coverage, windows, docs, wheel" ;;
esac

have() { command -v "$1" >/dev/null 2>&1; }
have_headers() { echo '#include <stdio.h>' | cc -E - >/dev/null 2>&1; }
have_module() { pkg-config --exists "$1" 2>/dev/null; }
have_python() { python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; }
have_venv() { python3 -c 'import ensurepip, venv' 2>/dev/null; }
have_meson() {
    have meson || return 1
    case $(meson --version) in 0.*) return 1 ;; esac
}

# Debian's names of what is missing, one line.
missing_packages() {
    if [ "$purpose" = docs ]; then
        have doxygen || echo doxygen
        have_python || echo python3
        return 0
    fi
    have cc || echo gcc
    have_headers || echo libc6-dev
    have ninja || echo ninja-build
    have pkg-config || echo pkg-config
    have_python || echo python3
    have_meson || echo meson
    [ "$purpose" = wheel ] || have_module libcjson || echo libcjson-dev
    [ "$purpose" = wheel ] || have_module libpng || echo libpng-dev
    case $purpose in
    wheel) have_venv || echo python3-venv ;;
    coverage)
        have_module cmocka || echo libcmocka-dev
        have gcovr || echo gcovr
        have_venv || echo python3-venv
        ;;
    windows)
        have_module cmocka || echo libcmocka-dev
        have x86_64-w64-mingw32-gcc || echo gcc-mingw-w64-x86-64-posix
        have x86_64-w64-mingw32-g++ || echo g++-mingw-w64-x86-64-posix
        [ -e /usr/x86_64-w64-mingw32/lib/libz.a ] || echo libz-mingw-w64-dev
        have wine64 || [ -x /usr/lib/wine/wine64 ] || echo wine64
        have dpkg-source || echo dpkg-dev
        have cmake || echo cmake
        have clang || echo clang
        have lld-link || echo lld
        have llvm-dlltool || echo llvm
        have_venv || echo python3-venv
        ;;
    arm64)
        have_module cmocka || echo libcmocka-dev
        have aarch64-linux-gnu-gcc || echo gcc-aarch64-linux-gnu libc6-dev-arm64-cross
        have aarch64-linux-gnu-g++ || echo g++-aarch64-linux-gnu
        have qemu-aarch64 || echo qemu-user
        have_venv || echo python3-venv
        ;;
    test)
        have_module cmocka || echo libcmocka-dev
        have readelf || echo binutils
        have abidiff || echo abigail-tools
        have g++ || echo g++
        have cmake || echo cmake
        have valgrind || echo valgrind
        have_venv || echo python3-venv
        ;;
    lint)
        for tool in clang clang-format clang-tidy doxygen; do
            have $tool || echo $tool
        done
        have_venv || echo python3-venv
        ;;
    esac
}

list_for_other_systems() {
    cat >&2 <<'LIST'
Install these by your system's own means, then run the command again:
  all          a C11 compiler (gcc or clang), ninja, pkg-config, Python 3.9 or newer,
               meson 1.0 or newer, cJSON and libpng with their headers
  make test    cmocka with its headers, binutils, g++, CMake, valgrind, abidiff (libabigail), Python's
               venv module
  make arm64   cmocka, gcc and g++ for aarch64-linux-gnu with the C library's headers, and qemu-user;
               Debian or Ubuntu, whose arm64 packages it unpacks
  make lint    clang, clang-format, clang-tidy and doxygen
  make docs    doxygen alone, and Python
  make coverage  cmocka with its headers, gcovr
  make windows gcc and g++ of mingw-w64, zlib for it, Wine, clang, lld, LLVM's dlltool
  make test, make lint  cargo 1.88 or newer, with clippy and rustfmt, for the Rust crates
Fedora:      gcc meson ninja-build pkgconf cjson-devel libpng-devel libcmocka-devel gcc-c++
             cmake valgrind libabigail clang clang-tools-extra doxygen
Arch Linux:  base-devel meson ninja cjson libpng cmocka python cmake valgrind libabigail clang doxygen
LIST
}

install_system_packages() {
    packages=$(missing_packages | tr '\n' ' ')
    [ -n "$packages" ] || return 0
    if ! have apt-get; then
        say "missing: $packages(Debian's names)" >&2
        list_for_other_systems
        exit 1
    fi
    apt_install $packages
}

apt_install() {
    packages=$*
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        have sudo || die "not root and no sudo; as root run: apt-get install $packages"
        as_root=sudo
    fi
    say "installing: $packages"
    log=$(mktemp)
    if ! { $as_root apt-get update -q &&
        $as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -q -y --no-install-recommends $packages; } >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        die "apt-get failed; what is needed: $packages"
    fi
    rm -f "$log"
}

# The Rust compiler for the crates of bindings/rust: Debian 12 has a new one beside its own.
install_cargo() {
    [ "${GSPLAT_C_RUST:-1}" != 0 ] || return 0
    ! have_cargo || return 0
    have apt-get || return 1
    (apt_install cargo-web rustc-web rust-web-clippy rustfmt-web)
}

make_venv() {
    [ -x .venv/bin/python ] || python3 -m venv .venv
}

pip_install() {
    .venv/bin/python -m pip install --quiet --disable-pip-version-check "$@"
}

# Ubuntu 22.04 ships a meson that is too old.
install_meson() {
    have_meson && return 0
    have_venv || {
        say "the system's meson is older than 1.0, and python3-venv is missing" >&2
        die "install python3-venv, or meson 1.0 or newer"
    }
    make_venv
    pip_install 'meson>=1.0'
    PATH="$root/.venv/bin:$PATH"
}

install_torch() {
    if [ -n "${GSPLAT_C_TORCH_INDEX:-}" ]; then
        pip_install --index-url "$GSPLAT_C_TORCH_INDEX" torch
    else
        pip_install --no-deps -r tests/requirements-torch.txt
    fi && .venv/bin/python -c 'import torch'
}

# NVRTC compiles the device code, the Runtime is for the command; neither a CUDA toolkit nor
# a GPU is needed.
install_cuda() {
    [ "${GSPLAT_C_CUDA:-1}" != 0 ] || return 0
    say "installing into .venv: NVRTC and the CUDA Runtime (about 90 MB to fetch;" \
        "GSPLAT_C_CUDA=0 goes without)"
    pip_install --no-deps -r tests/requirements-cuda.txt
}

# The compiler of the device code and what packs it, without the Runtime.
install_nvrtc() {
    [ "${GSPLAT_C_CUDA:-1}" != 0 ] || return 0
    packages=.venv/lib/python3*/site-packages/nvidia
    # shellcheck disable=SC2086 # the pattern is to be expanded
    ! ls $packages/cuda_nvrtc/lib/libnvrtc.so.12 $packages/nvfatbin/lib/libnvfatbin.so.12 \
        >/dev/null 2>&1 || return 0
    make_venv
    say "installing into .venv: NVRTC (about 90 MB to fetch; GSPLAT_C_CUDA=0 goes without)"
    # shellcheck disable=SC2046 # one word a package
    pip_install --no-deps $(grep -E '^nvidia-(cuda-nvrtc|nvfatbin)' tests/requirements-cuda.txt)
}

install_pytest() {
    make_venv
    .venv/bin/python -c 'import numpy, pytest' 2>/dev/null || pip_install -r tests/requirements.txt
}

# The Runtime alone, so that lint sees the files that use it.
install_cuda_runtime() {
    [ "${GSPLAT_C_CUDA:-1}" != 0 ] || return 0
    ! ls .venv/lib/python3*/site-packages/nvidia/cuda_runtime/lib/libcudart_static.a \
        >/dev/null 2>&1 || return 0
    make_venv
    say "installing into .venv: the CUDA Runtime (about 4 MB to fetch)"
    pip_install --no-deps "$(grep '^nvidia-cuda-runtime' tests/requirements-cuda.txt)"
}

# The stamp names what was installed: this script, the requirement files and the choices.
install_python_packages() {
    stamp=.venv/setup-stamp
    key=$(cat scripts/setup.sh tests/requirements*.txt | cksum)
    key="$key $(python3 -V) torch=${GSPLAT_C_TORCH:-1} ${GSPLAT_C_TORCH_INDEX:-}"
    key="$key cuda=${GSPLAT_C_CUDA:-1} jax=${GSPLAT_C_JAX:-1}"
    [ "$(cat $stamp 2>/dev/null || true)" != "$key" ] || return 0
    make_venv
    say "installing into .venv: numpy and pytest"
    pip_install -r tests/requirements.txt
    install_cuda || {
        say "NVRTC or the CUDA Runtime could not be installed: for the CPU only" >&2
        return 0 # and no stamp: the next run tries again
    }
    if [ "${GSPLAT_C_JAX:-1}" != 0 ] && ! .venv/bin/python -c 'import jax' 2>/dev/null; then
        say "installing into .venv: jax (about 100 MB to fetch; GSPLAT_C_JAX=0 goes without)"
        pip_install jax ||
            say "jax could not be installed: the tests that need it will be skipped" >&2
    fi
    if [ "${GSPLAT_C_TORCH:-1}" != 0 ] && ! .venv/bin/python -c 'import torch' 2>/dev/null; then
        say "installing into .venv: torch (about 2.5 GB to fetch; GSPLAT_C_TORCH=0 goes without)"
        install_torch || {
            say "torch could not be installed: the tests that need it will be skipped" >&2
            return 0 # and no stamp: the next run tries again
        }
    fi
    printf '%s\n' "$key" >$stamp
}

install_system_packages
[ "$purpose" = docs ] || install_meson
case $purpose in
test | lint) install_cargo || say "no cargo 1.88 or newer: the Rust crates are left out" >&2 ;;
esac
case $purpose in
test) install_python_packages ;;
coverage) install_nvrtc || say "NVRTC could not be installed: src/gpu is left out" >&2 ;;
windows | arm64)
    install_pytest
    install_nvrtc || say "NVRTC could not be installed: for the CPU only" >&2
    ;;
wheel) install_nvrtc ;;
lint) install_cuda_runtime || say "the CUDA Runtime could not be installed" >&2 ;;
esac
