#!/bin/sh
# Builds for Windows x86_64 into build-windows/ by mingw-w64: gsplat_c.dll, its import libraries
# and module definition, gsplat-c.exe.  Under Wine, runs the C tests, the command's, hosts that
# are built against the library, and the Python package in a Python for Windows.  Golden data:
# as in scripts/test.sh.
#
#   GSPLAT_C_CUDA=0           for the CPU only
#   GSPLAT_C_MESON_OPTIONS    more options for meson, such as -Dgpu_targets=90
. "$(dirname "$0")/common.sh"

PATH="$PATH:/usr/lib/wine" # where Debian has wine64
folder=build-windows
find_golden_data
gpu=-Dgpu=auto
[ "${GSPLAT_C_CUDA:-1}" != 0 ] || gpu=-Dgpu=disabled

# A Wine of its own, which shows nothing, and of which nothing stays.
scratch=$(mktemp -d)
WINEPREFIX=$scratch/wine
WINEDEBUG=-all
WINEDLLOVERRIDES=mscoree,mshtml=
DISPLAY=
PYTHONDONTWRITEBYTECODE=1
export PATH WINEPREFIX WINEDEBUG WINEDLLOVERRIDES DISPLAY PYTHONDONTWRITEBYTECODE
close_wine() {
    wineserver -k || true
    wineserver -w || true
    rm -rf "$scratch"
}
trap close_wine EXIT
mkdir "$WINEPREFIX"
# Started here, it does not hold the output of the first test that needs it.
wineserver -p >/dev/null 2>&1
wine64 wineboot --init >/dev/null 2>&1 </dev/null

sh scripts/windows-libraries.sh $folder-libraries
cross=
[ -e $folder/build.ninja ] ||
    cross="--cross-file=$(cross_file windows) --cross-file=$folder-libraries/meson.ini"
# shellcheck disable=SC2086 # options are a list of words
sh scripts/build.sh $folder $cross -Dwerror=true -Dtests=enabled -Dtools=enabled $gpu \
    ${GSPLAT_C_MESON_OPTIONS:-}

# Left out of the command's tests: a pseudo-terminal, /dev/full, a limit to the size of files,
# symbolic links and devices.
command_tests="tests/command/test_command.py tests/command/test_command_errors.py
    --deselect tests/command/test_command.py::test_progress_bar_on_a_terminal
    --deselect tests/command/test_command_errors.py::test_unwritable_output
    --deselect tests/command/test_command_errors.py::test_failed_write_keeps_the_old_picture
    --deselect tests/command/test_command_errors.py::test_link_and_device_outputs"

failed=
meson test -C $folder --no-rebuild --print-errorlogs || failed="$failed meson"
grep -hE '^\[  (PASSED|FAILED|SKIPPED)' $folder/meson-logs/testlog.txt || true
sh scripts/agreement.sh wine64 $folder/tests/agreement.exe || failed="$failed agreement"

pytest="-m pytest -q -rs -p no:cacheprovider"
# shellcheck disable=SC2086 # options are a list of words
env "GSPLAT_C_WINDOWS=$root/$folder" python3 $pytest tests/windows </dev/null ||
    failed="$failed tests/windows"

printf '#!/bin/sh\nexec wine64 "%s" "$@"\n' "$root/$folder/tools/gsplat-c.exe" >"$scratch/gsplat-c"
chmod +x "$scratch/gsplat-c"
# shellcheck disable=SC2086
env "WINEPATH=$root/$folder" "GSPLAT_C_COMMAND=$scratch/gsplat-c" \
    python3 $pytest $command_tests </dev/null || failed="$failed gsplat-c"

if sh scripts/windows-python.sh $folder-python; then
    # Python under Wine wants to write into a pipe: it takes a file for a broken handle.
    # shellcheck disable=SC2086
    { env "PYTHONPATH=$root/$folder-python/site;$root/bindings/python" \
        "GSPLAT_C_LIBRARY=$root/$folder/gsplat_c.dll" wine64 $folder-python/python.exe \
        $pytest bindings/python/tests </dev/null && : >"$scratch/passed"; } 2>&1 | cat
    [ -e "$scratch/passed" ] || failed="$failed bindings/python/tests"
else
    say "there is no Python for Windows to be had: the tests of the Python package are left out"
fi

[ -z "$failed" ] || die "failed:$failed"
