#!/bin/sh
# scripts/setup.sh [PURPOSE]: installs what is missing for a target of make: demo, install, test (the
# default), arm64, lint, coverage, fuzz, windows, docs, wheel or bare.  scripts/packages.txt lists the
# system's packages, tests/requirements*.txt what pip installs into .venv.
#
# On Debian and Ubuntu it calls apt-get, through sudo unless it runs as root; elsewhere it
# prints the packages to install.  Quick when everything is there.
#
#   GSPLAT_C_CUDA=0             no NVRTC and no CUDA Runtime in .venv: the library and the
#                               command are built for the CPU only
#   GSPLAT_C_RUST=0             no cargo; the Rust crates are left out where there is none
#   GSPLAT_C_TORCH=0            no torch in .venv; the tests that need it are skipped
#   GSPLAT_C_JAX=0              the same for jax
#   GSPLAT_C_TORCH_INDEX=URL    take torch from this package index, one with CPU-only
#                               wheels, instead of the default one with its CUDA libraries
. "$(dirname "$0")/common.sh"

PATH="$PATH:/usr/lib/wine" # where Debian has wine64
purpose=${1:-test}

found() {
    case $1 in
    module:*) pkg-config --exists "${1#*:}" ;;
    python:*) python3 -c "import ${1#*:}" ;;
    header:*) echo "#include <${1#*:}>" | cc -E - ;;
    clang:*) [ -e "$(clang --print-file-name="${1#*:}")" ] ;;
    file:*) [ -e "${1#*:}" ] ;;
    python3) python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))' ;;
    *) command -v "$1" ;;
    esac >/dev/null 2>&1
}

# install PURPOSE: the system's packages for it.
install() {
    group=build
    case $1 in docs | bare | rust) group=none ;; esac
    missing='' debian='' fedora='' arch=''
    while read -r item on_debian on_fedora on_arch purposes; do
        case ,$purposes, in *,"$1",* | *,$group,*) ;; *) continue ;; esac
        if ! found "$item"; then
            missing="$missing $item" debian="$debian,$on_debian"
            fedora="$fedora,$on_fedora" arch="$arch,$on_arch"
        fi
    done <<TABLE
$(grep -v '^#' scripts/packages.txt)
TABLE
    [ -n "$missing" ] || return 0
    debian=$(list "$debian")
    command -v apt-get >/dev/null || die "missing:$missing
Install these with your system's package manager and run the command again:
  Debian, Ubuntu: $debian
  Fedora:         $(list "$fedora")
  Arch Linux:     $(list "$arch")"
    apt_install "$debian"
}

# list ,NAME,..: the names without duplicates and without "-".
list() { printf %s "$1" | tr , '\n' | grep -vx -e - -e '' | sort -u | tr '\n' ' '; }

apt_install() {
    as_root=
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "not root and no sudo; as root run: apt-get install $1"
        as_root=sudo
    fi
    say "installing: $1"
    log=$(mktemp)
    # shellcheck disable=SC2086 # a list of packages
    if ! { $as_root apt-get update -q &&
        $as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -q -y --no-install-recommends $1; } >"$log" 2>&1; then
        cat "$log" >&2
        rm -f "$log"
        die "apt-get failed; needed: $1"
    fi
    rm -f "$log"
}

# fetch WHAT PIP-ARGUMENT..: installs into .venv, unless it did so before.
fetch() {
    what=$1
    shift
    key="$* $(python3 -V) $(cat tests/requirements*.txt | cksum)"
    ! grep -qxF -e "$key" .venv/fetched 2>/dev/null || return 0
    say "installing into .venv: $what"
    [ -x .venv/bin/python ] || python3 -m venv .venv || die "python3 -m venv failed"
    .venv/bin/python -m pip install --quiet --no-warn-conflicts \
        --disable-pip-version-check "$@" || return 1
    printf '%s\n' "$key" >>.venv/fetched
}

install "$purpose"
case $purpose in docs | bare) exit 0 ;; esac
case $(meson --version) in 0.*) fetch "meson 1.0 or newer" 'meson>=1.0' ;; esac
case $purpose in
demo | fuzz) exit 0 ;;
test | lint)
    [ "${GSPLAT_C_RUST:-1}" = 0 ] || have_cargo || (install rust) ||
        say "no cargo 1.88 or newer: the Rust crates are left out" >&2
    ;;
esac
case $purpose in
test | arm64 | windows) fetch "numpy and pytest" -r tests/requirements.txt ;;
lint) fetch "ruff and mypy" -r tests/requirements-lint.txt ;;
esac
case $purpose in
test | arm64 | wheel) # meson and ninja are the system's
    fetch "meson-python and auditwheel" --no-deps -r tests/requirements-wheel.txt
    ;;
esac
[ "${GSPLAT_C_CUDA:-1}" = 0 ] ||
    fetch "NVRTC and the CUDA Runtime (about 90 MB to fetch; GSPLAT_C_CUDA=0 goes without)" \
        --no-deps -r tests/requirements-cuda.txt ||
    say "NVRTC could not be installed: the library is built for the CPU only" >&2
[ "$purpose" = test ] || exit 0
[ "${GSPLAT_C_JAX:-1}" = 0 ] ||
    fetch "jax (about 100 MB to fetch; GSPLAT_C_JAX=0 goes without)" jax ||
    say "jax could not be installed: the tests that need it are skipped" >&2
if [ -n "${GSPLAT_C_TORCH_INDEX:-}" ]; then
    torch="--index-url $GSPLAT_C_TORCH_INDEX torch"
else
    torch="--no-deps -r tests/requirements-torch.txt"
fi
# shellcheck disable=SC2086 # a list of arguments
[ "${GSPLAT_C_TORCH:-1}" = 0 ] ||
    fetch "torch (about 2.5 GB to fetch; GSPLAT_C_TORCH=0 goes without)" $torch ||
    say "torch could not be installed: the tests that need it are skipped" >&2
