#!/bin/sh
# Builds for Linux arm64 into build-arm64/ by Debian's cross compiler, and tests that under
# qemu-aarch64, an emulator: the C tests with golden data, the mock CUDA driver and hosts that open
# the library; the agreement with a build for this machine; symbols; and the wheel, in
# an arm64 Python with NumPy.
#
# Left out:
#   suite fork          forks with threads, which qemu loses in the child
#   suite oracle        the tests' own reference rasterizer
#   suite slow          the slowest tests of the float64 library, 7 minutes of an emulated
#                       processor: the same C as on x86-64, while arm64's own code is for float32
#   Python tests that start processes, which would not be emulated, and those with torch or jax
#   device code of all targets but two, which the wheel has
#
# Golden data: as in scripts/test.sh.
#
#   GSPLAT_C_CUDA=0           for the CPU only
#   GSPLAT_C_MESON_OPTIONS    more options for meson
. "$(dirname "$0")/common.sh"

find_golden_data
folder=build-arm64
system=$root/$folder-root # what arm64 programs are linked with and run on, from Debian and PyPI
libraries=$system/usr/lib/aarch64-linux-gnu
qemu="qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=$libraries"

sh scripts/unpack.sh arm64 "$system" libcmocka-dev libcmocka0 libcjson-dev libcjson1 libpng-dev \
    libpng16-16 zlib1g zlib1g-dev python3.11-minimal libpython3.11-minimal libpython3.11-stdlib \
    libexpat1 libffi8
runtime=$(grep '^nvidia-cuda-runtime' tests/requirements-cuda.txt)
gpu="-Dgpu=auto -Dgpu_targets=87,90"
cudart=-Dcudart=$system/python/nvidia/cuda_runtime
if [ "${GSPLAT_C_CUDA:-1}" = 0 ]; then
    gpu=-Dgpu=disabled
    cudart=
    runtime=
fi
key=$(cksum <scripts/arm64.sh) && key="$key $runtime"
if [ "$(cat "$system/python-packages" 2>/dev/null || true)" != "$key" ]; then
    say "fetching for arm64: numpy, pytest $runtime"
    rm -rf "$system/python"
    # shellcheck disable=SC2086 # no word where there is no runtime
    python3 -m pip install --quiet --disable-pip-version-check --target "$system/python" \
        --python-version 3.11 --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 \
        --only-binary=:all: -r tests/requirements.txt $runtime
    printf '%s\n' "$key" >"$system/python-packages"
fi

cat >"$system/meson.ini" <<INI
[binaries]
exe_wrapper = ['$(echo "$qemu" | sed "s/ /', '/g")']
[properties]
sys_root = '$system'
pkg_config_libdir = '$libraries/pkgconfig'
INI
cross=
[ -e $folder/build.ninja ] ||
    cross="--cross-file=$(cross_file arm64) --cross-file=$system/meson.ini"
# shellcheck disable=SC2086 # options are a list of words
sh scripts/build.sh $folder $cross -Dwerror=true -Dtests=enabled -Dtools=enabled \
    -Ddefault_library=both $gpu $cudart ${GSPLAT_C_MESON_OPTIONS:-}

failed=
meson test -C $folder --no-rebuild --print-errorlogs --timeout-multiplier 4 \
    --no-suite fork --no-suite oracle --no-suite slow || failed="$failed meson"
grep -hE '^\[  (PASSED|FAILED|SKIPPED)' $folder/meson-logs/testlog.txt || true
# shellcheck disable=SC2086 # qemu is a list of words
sh scripts/agreement.sh $qemu $folder/tests/agreement || failed="$failed agreement"
env "GSPLAT_C_LIBRARY=$root/$folder/libgsplat_c.so" "GSPLAT_C_BUILD=$root/$folder" \
    python3 -m pytest -q -rs -p no:cacheprovider tests/repo/test_symbols.py tests/repo/test_wheel.py \
    -k 'test_symbols or arm64' || failed="$failed tests"

# The package as it is in a wheel.
GSPLAT_C_CUDA=0 DIST=$folder/wheel sh scripts/wheel.sh arm64
python3 -m zipfile -e $folder/wheel/*.whl $folder/wheel/package
cd bindings/python/tests
# shellcheck disable=SC2086
$qemu -E PYTHONHOME="$system/usr" -E PYTHONDONTWRITEBYTECODE=1 \
    -E PYTHONPATH="$system/python:$root/$folder/wheel/package" "$system/usr/bin/python3.11" \
    -m pytest -q -rs -p no:cacheprovider --noconftest test_arrays.py test_rasterize.py test_backward.py \
    test_train_step.py || failed="$failed python"

[ -z "$failed" ] || die "failed:$failed"
