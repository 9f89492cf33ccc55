# Sourced by the other scripts: goes to the repository root and prefers the tools
# that setup.sh put into .venv.
set -eu
cd "$(dirname "$0")/.."
root=$(pwd)
if [ -d "$root/.venv/bin" ]; then
    PATH="$root/.venv/bin:$PATH"
    export PATH
fi

say() { printf '%s\n' "$*"; }
die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# A Rust that the crates can be tested with: the feature cudarc asks for the most.
have_cargo() {
    command -v cargo >/dev/null && command -v rustc >/dev/null || return 1
    rustc --version | awk '{ split($2, v, "."); exit !(v[1] > 1 || v[2] >= 88) }'
}

# configure DIR [MESON OPTION..]: makes or reconfigures a build folder.
configure() {
    folder=$1
    shift
    if [ -e "$folder/build.ninja" ]; then
        meson configure "$folder" "$@"
    else
        meson setup "$folder" "$@"
    fi
}
