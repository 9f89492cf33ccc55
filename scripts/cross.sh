#!/bin/sh
# scripts/cross.sh PLATFORM [libraries]: cross-compiles for arm64 (Linux) or windows (x86-64) into
# build-PLATFORM/, and tests that in an emulator: the C tests with golden data, the agreement
# with a build for this machine in build-native/, and what scripts/cross_PLATFORM.sh adds.
# Golden data: as in scripts/test.sh.  `libraries` only fetches what programs are linked with.
#
#   GSPLAT_C_CUDA=0           for the CPU only
#   GSPLAT_C_MESON_OPTIONS    more options for meson, such as -Dgpu_targets=90
. "$(dirname "$0")/common.sh"

platform=${1:-}
cross_files=$(cross_files "$platform")
folder=build-$platform
system=$(system_of "$platform") # what the platform's programs are linked with, and a Python for it
cuda=
[ "${GSPLAT_C_CUDA:-1}" = 0 ] || cuda=1
scratch=$(mktemp -d)
trap 'clean_up; rm -rf "$scratch"' EXIT

pip() { python3 -m pip --quiet --disable-pip-version-check "$@"; }
run_pytest() { python3 -m pytest -q -rs -p no:cacheprovider "$@" </dev/null; }
prepare() { :; }
clean_up() { :; }
emulator="" exe="" options="" suites=""

# Sets these, and defines make_system, which fills $system and writes its meson.ini, prepare and
# test_more.
# shellcheck source=/dev/null
. "scripts/cross_$platform.sh"

key=$(cat "scripts/cross_$platform.sh" tests/requirements*.txt | cksum)
if [ "$(cat "$system/complete" 2>/dev/null)" != "$key" ]; then
    rm -rf "$system"
    mkdir -p "$system"
    make_system
    printf '%s\n' "$key" >"$system/complete"
fi
[ "${2:-}" != libraries ] || exit 0
find_golden_data
prepare

[ -e "$folder/build.ninja" ] || options="$options $cross_files"
gpu=-Dgpu=disabled
[ -z "$cuda" ] || gpu=-Dgpu=auto
# shellcheck disable=SC2086 # lists of words
sh scripts/build.sh "$folder" -Dwerror=true -Dtests=enabled -Dtools=enabled $gpu $options \
    ${GSPLAT_C_MESON_OPTIONS:-}

failed=
# shellcheck disable=SC2086 # a list of words
meson test -C "$folder" --no-rebuild --print-errorlogs --timeout-multiplier 4 $suites ||
    failed="$failed meson"
grep -hE '^\[  (PASSED|FAILED|SKIPPED)' "$folder/meson-logs/testlog.txt" || true
sh scripts/build.sh build-native -Dtests=enabled -Dtools=disabled -Dgpu=disabled tests/agreement
build-native/tests/agreement write build-native/agreement.bin
say "against this machine's build:"
# shellcheck disable=SC2086 # a list of words
$emulator "$folder/tests/agreement$exe" compare build-native/agreement.bin || failed="$failed agreement"
test_more
[ -z "$failed" ] || die "failed:$failed"
