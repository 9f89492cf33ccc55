#!/bin/sh
# Installs the wheels of dist/ beside one torch after the other, each in an environment of
# its own, and runs the tests of the Python package there, those of the drop-in modules
# first of all, on the CPU.
#
#   scripts/torch-matrix.sh                    every torch; writes the table into docs/torch.md
#   scripts/torch-matrix.sh 1.13-debian 2.4.1  these only; prints the table
#
# make wheel comes before.  Pythons are those on PATH, of pyenv or of uv; a torch whose
# Python is missing is a row that says so, and an error.  An environment takes up to 8 GB in
# $TMPDIR and goes before the next one is made.  Needs a network.
#
# Rows of tests that passed are kept in dist/torch-matrix: a run that was cut off goes on
# where it was, as long as the wheels and the tests are the same.  Without that folder all
# are run again, which takes a quarter of an hour.
. "$(dirname "$0")/common.sh"

# torch and the Python to run it with; "latest" is what pip picks.
matrix='1.13-debian:3.11 2.0.1:3.9 2.2.2:3.10 2.4.1:3.11 2.7.1:3.12 2.9.1:3.13 latest:3.13'
# Tests of the source tree, which an installed package does not have.
not_here='test_abi.py test_fit_views.py'

wheel=$(ls dist/gsplat_c-*.whl 2>/dev/null) || die "no wheel in dist/: run make wheel"
[ "$(printf '%s\n' "$wheel" | wc -l)" -eq 1 ] || die "several wheels in dist/: run make wheel"
hash=$(sha256sum "$wheel" | cut -d ' ' -f 1)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# Tests away from the checkout, so that they import what is installed.
tests=$work/checkout/bindings/python/tests
mkdir -p "$(dirname "$tests")"
cp -r bindings/python/tests "$tests"
cp -r examples "$work/checkout/examples" # which some of them run
for name in $not_here; do rm "$tests/$name"; done
find_golden_data
# What rows hold for: the files that decide about them.
key=$(find dist/*.whl "$tests" -type f -exec sha256sum {} + | sed "s|$work||" | LC_ALL=C sort |
    sha256sum | cut -c 1-16)
passed=$root/dist/torch-matrix/$key
mkdir -p "$passed"
unset GSPLAT_C_LIBRARY PYTHONPATH GSPLAT_C_COMPAT

# find_python X.Y: the path of one that can make environments.
find_python() {
    for python in "python$1" "$(pyenv root 2>/dev/null)/versions/$1".*/bin/python \
        "$(uv python find "$1" 2>/dev/null)" /usr/bin/python3; do
        if "$python" -c "import ensurepip, sys, venv
sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; then
            command -v "$python"
            return
        fi
    done
    return 1
}

pip_install() {
    "$environment/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check "$@"
}

# Debian's torch without installing it into the system: its packages, unpacked.
unpack_debian_torch() {
    mkdir "$work/debian"
    packages=$(apt-get install --simulate --quiet --no-install-recommends python3-torch |
        sed -n 's/^Inst \([^ ]*\).*/\1/p')
    if [ -z "$packages" ]; then
        say "apt-get has no python3-torch to fetch, or it is installed"
        return 1
    fi
    (
        cd "$work/debian"
        # shellcheck disable=SC2086 # a list of words
        apt-get download --quiet $packages
        for package in *.deb; do
            dpkg --extract "$package" .
            rm "$package"
        done
    ) >"$work/log" 2>&1 || return 1
    libraries=$(cd "$work/debian" && find "$PWD/usr/lib" "$PWD/lib" -name 'lib*.so.*' \
        -exec dirname {} + | sort -u | paste -s -d :)
    printf '%s\n' "$work/debian/usr/lib/python3/dist-packages" >"$(site_packages)/debian.pth"
    LD_LIBRARY_PATH=$libraries
    export LD_LIBRARY_PATH
}

site_packages() {
    "$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
}

# install TORCH: into $environment; torch before 2.3 is compiled for numpy 1.
install() {
    case $1 in
    1.* | 2.[012].*) numpy='numpy<2' ;;
    *) numpy=numpy ;;
    esac
    case $1 in
    *-debian) unpack_debian_torch && pip_install pytest "$numpy" ;;
    latest) pip_install pytest "$numpy" torch ;;
    *) pip_install pytest "$numpy" "torch==$1" ;;
    esac && pip_install --no-index --no-deps dist/*.whl
}

# row TORCH PYTHON: makes the environment, runs the tests, prints a row of the table.
row() {
    environment=$work/environment
    python=$(find_python "$2") || {
        printf '| %s | %s | no such Python here |\n' "$1" "$2"
        return 1
    }
    say "torch $1, Python $2" >&2
    "$python" -m venv "$environment"
    if ! install "$1" >"$work/pip" 2>&1; then
        cat "$work/pip" >&2
        printf '| %s | %s | could not be installed |\n' "$1" "$2"
        return 1
    fi
    versions=$("$environment/bin/python" -c 'import platform, numpy, torch
print(torch.__version__, "|", platform.python_version(), "|", numpy.__version__)') || {
        printf '| %s | %s | torch cannot be imported |\n' "$1" "$2"
        return 1
    }
    say "  $(du -sh "$work" | cut -f 1) on disk" >&2
    code=0
    (cd "$work" && "$environment/bin/python" -m pytest -q -p no:cacheprovider "$tests") \
        >"$work/tests" 2>&1 || code=1
    [ $code -eq 0 ] || cat "$work/tests" >&2
    result=$(sed -n -e '$s/, [0-9]* warnings\{0,1\}//' -e '$s/ in [0-9.]*s.*//p' "$work/tests")
    case $1 in *-debian) versions="${versions%% *} of Debian ${versions#* }" ;; esac
    printf '| %s | %s |\n' "$versions" "$result"
    return $code
}

table() {
    printf '| torch | Python | NumPy | tests |\n|---|---|---|---|\n'
    cat "$work/rows"
    printf '\nThe wheel: `%s`, SHA-256\n`%s`.\n' "$(basename "$wheel")" "$hash"
}

write_page() {
    table >"$work/table"
    awk -v table="$work/table" '
        /^<!-- torch-matrix:/ { print; while ((getline line < table) > 0) print line; skip = 1 }
        /^<!-- \/torch-matrix/ { skip = 0 }
        !skip' docs/torch.md >"$work/torch.md"
    cat "$work/torch.md" >docs/torch.md
}

failed=
for cell in $matrix; do
    version=${cell%:*}
    [ $# -eq 0 ] || case " $* " in *" $version "*) ;; *) continue ;; esac
    if [ -s "$passed/$version" ]; then
        say "torch $version: passed before" >&2
        cat "$passed/$version" >>"$work/rows"
        continue
    fi
    if (row "$version" "${cell#*:}") >"$work/row"; then
        cp "$work/row" "$passed/$version"
    else
        failed="$failed $version"
    fi
    cat "$work/row" >>"$work/rows"
    rm -rf "$work/environment" "$work/debian"
done
[ -s "$work/rows" ] || die "which torch? one of: $matrix"
table
if [ $# -eq 0 ]; then
    write_page
fi
[ -z "$failed" ] || die "failed:$failed"
