# shellcheck shell=sh disable=SC2034,SC2154 # variables of cross.sh
# Sourced by cross.sh: Linux on arm64 by Debian's cross compiler and qemu.
#
# Left out:
#   suite fork          forks with threads, which qemu loses in the child
#   suite oracle        the tests' own reference rasterizer
#   suite slow          the slowest tests of the float64 library: the same C as on x86-64, while
#                       arm64's own code is for float32
#   Python tests that start processes, which would not be emulated, and those with torch or jax
#   device code of all targets but two, which the wheel has

emulator="qemu-aarch64 -L $system"
suites="--no-suite fork --no-suite oracle --no-suite slow"
options="-Ddefault_library=both -Dgpu_targets=87,90"

make_system() {
    say "fetching for arm64: Debian's libraries and Python, numpy, pytest, the CUDA Runtime"
    mmdebstrap --quiet --variant=extract --architectures=arm64 --skip=check/qemu \
        --include=libcmocka-dev,libcjson-dev,libpng-dev \
        --include=python3-minimal,libpython3-stdlib,libstdc++6 \
        "$(. /etc/os-release && echo "$VERSION_CODENAME")" "$scratch/system.tar"
    tar -x --exclude=./dev -f "$scratch/system.tar" -C "$system"
    grep '^nvidia-cuda-runtime' tests/requirements-cuda.txt >"$scratch/runtime.txt"
    for list in tests/requirements.txt "$scratch/runtime.txt"; do
        pip install --no-warn-conflicts --target "$system/python" --only-binary=:all: \
            --python-version "$($emulator "$system/usr/bin/python3" -V | cut -d ' ' -f 2)" \
            --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 -r "$list"
    done
    cat >"$system/meson.ini" <<INI
[binaries]
exe_wrapper = ['qemu-aarch64', '-L', '$system']
[built-in options]
c_args = ['--sysroot=$system']
c_link_args = ['--sysroot=$system']
[project options]
cudart = '$system/python/nvidia/cuda_runtime'
[properties]
sys_root = '$system'
pkg_config_libdir = '$system/usr/lib/aarch64-linux-gnu/pkgconfig'
INI
}

test_more() {
    GSPLAT_C_LIBRARY=$root/$folder/libgsplat_c.so GSPLAT_C_BUILD=$root/$folder run_pytest \
        tests/repo/test_symbols.py tests/repo/test_wheel.py -k 'test_symbols or arm64' ||
        failed="$failed tests"

    # The package as it is in a wheel.
    GSPLAT_C_CUDA=0 DIST=$folder/wheel sh scripts/wheel.sh arm64
    python3 -m zipfile -e "$folder"/wheel/*.whl "$folder/wheel/package"
    # shellcheck disable=SC2086 # a list of words
    (cd bindings/python/tests && $emulator -E PYTHONDONTWRITEBYTECODE=1 \
        -E PYTHONPATH="$system/python:$root/$folder/wheel/package" "$system/usr/bin/python3" \
        -m pytest -q -rs -p no:cacheprovider --noconftest test_arrays.py test_rasterize.py \
        test_backward.py test_train_step.py) || failed="$failed python"
}
