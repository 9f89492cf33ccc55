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
