#!/bin/sh
# Builds for Windows x86_64 into build-windows/ by mingw-w64 - gsplat_c.dll, its import libraries
# and module definition, gsplat-c.exe - and runs the C tests under Wine.  Golden data: as in
# scripts/test.sh.
#
#   GSPLAT_C_CUDA=0           for the CPU only
#   GSPLAT_C_MESON_OPTIONS    more options for meson, such as -Dgpu_targets=90
. "$(dirname "$0")/common.sh"

PATH="$PATH:/usr/lib/wine" # where Debian has wine64
folder=build-windows
if [ -z "${GSPLAT_C_GOLDEN:-}" ]; then
    GSPLAT_C_GOLDEN="$root/tests/golden"
    [ ! -d "$root/../shared/golden" ] || GSPLAT_C_GOLDEN=$(cd "$root/../shared/golden" && pwd)
fi
export GSPLAT_C_GOLDEN
gpu=-Dgpu=auto
[ "${GSPLAT_C_CUDA:-1}" != 0 ] || gpu=-Dgpu=disabled

sh scripts/windows-libraries.sh $folder-libraries
cross=
[ -e $folder/build.ninja ] || cross="--cross-file=cross/x86_64-w64-mingw32.ini
    --cross-file=$folder-libraries/meson.ini"
# shellcheck disable=SC2086 # options are a list of words
sh scripts/build.sh $folder $cross -Dwerror=true -Dtests=enabled -Dtools=enabled $gpu \
    ${GSPLAT_C_MESON_OPTIONS:-}

# A Wine of its own, which shows nothing, and of which nothing stays.
WINEPREFIX=$(mktemp -d)
WINEDEBUG=-all
WINEDLLOVERRIDES=mscoree,mshtml=
DISPLAY=
export PATH WINEPREFIX WINEDEBUG WINEDLLOVERRIDES DISPLAY
close_wine() {
    wineserver -k || true
    wineserver -w || true
    rm -rf "$WINEPREFIX"
}
trap close_wine EXIT
# Started here, it does not hold the output of the first test that needs it.
wineserver -p >/dev/null 2>&1
wine64 wineboot --init >/dev/null 2>&1 </dev/null

failed=
meson test -C $folder --no-rebuild --print-errorlogs || failed=1
grep -hE '^\[  (PASSED|FAILED|SKIPPED)' $folder/meson-logs/testlog.txt
[ -z "$failed" ] || die "a test failed"
