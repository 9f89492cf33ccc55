#!/bin/sh
# scripts/torch-matrix.sh [TORCH..]: installs the wheels of dist/ beside each torch of this script,
# or those named, in an environment of its own, runs the Python tests there on CPU tensors, and
# prints the table of docs/torch.md.  make wheel comes before.
#
# Needs uv (pip install uv), which finds Pythons in PATH and those of pyenv, or fetches them.  An
# environment takes up to 8 GB in $TMPDIR; all of them fetch about 15 GB.
. "$(dirname "$0")/common.sh"

# torch and the Python to run it with; "latest" is what uv picks.
matrix='1.13.1:3.10 2.0.1:3.9 2.2.2:3.10 2.4.1:3.11 2.7.1:3.12 2.9.1:3.13 latest:3.13'

command -v uv >/dev/null || die "uv is not installed: pip install uv"
wheel=$(ls dist/gsplat_c-*.whl 2>/dev/null) || die "no wheel in dist/: run make wheel"
[ "$(printf '%s\n' "$wheel" | wc -l)" -eq 1 ] || die "several wheels in dist/: run make wheel"
for bin in "$(pyenv root 2>/dev/null)"/versions/*/bin; do PATH=$PATH:$bin; done
find_golden_data >&2
unset GSPLAT_C_LIBRARY PYTHONPATH GSPLAT_C_COMPAT
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

# Tests away from the checkout, so that they import what is installed; without those of the tree.
tests=$work/checkout/bindings/python/tests
mkdir -p "$(dirname "$tests")"
cp -r bindings/python/tests "$tests"
cp -r examples "$work/checkout/examples"
rm "$tests/test_abi.py" "$tests/test_fit_views.py"

# install TORCH PYTHON: makes $work/environment.
install() {
    numpy=numpy
    case $1 in 1.* | 2.[012].*) numpy='numpy<2' ;; esac # compiled for numpy 1
    torch=torch==$1
    [ "$1" != latest ] || torch=torch
    export VIRTUAL_ENV="$work/environment"
    uv venv --quiet --clear --python "$2" "$VIRTUAL_ENV" &&
        uv pip install --quiet --no-cache pytest "$numpy" "$torch" &&
        uv pip install --quiet --no-cache --no-index --no-deps dist/*.whl
}

failed=
printf '| torch | Python | NumPy | tests |\n|---|---|---|---|\n'
for cell in $matrix; do
    version=${cell%:*}
    [ $# -eq 0 ] || case " $* " in *" $version "*) ;; *) continue ;; esac
    python=$work/environment/bin/python
    if install "$version" "${cell#*:}" && (cd "$work" && "$python" -m pytest -q \
        -p no:cacheprovider "$tests" >"$work/log" 2>&1); then
        versions=$("$python" -c 'import platform, numpy, torch
print(torch.__version__, "|", platform.python_version(), "|", numpy.__version__)')
        printf '| %s | %s |\n' "$versions" "$(sed -n '$s/,* *[0-9]* warnings*\| in [0-9.]*s.*//gp' "$work/log")"
    else
        tail -n 40 "$work/log" >&2 || true
        failed="$failed $version"
    fi
done
[ -z "$failed" ] || die "failed:$failed"
