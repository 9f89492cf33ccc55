#!/bin/sh
# scripts/build.sh FOLDER [-MESON-OPTION..] [TARGET..]: builds all, or the targets.
. "$(dirname "$0")/common.sh"

folder=${1:-build}
[ $# -eq 0 ] || shift
options=
targets=
for argument; do
    case $argument in
    -*) options="$options $argument" ;;
    *) targets="$targets $argument" ;;
    esac
done

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# shellcheck disable=SC2086 # options and targets are lists of words
if ! configure "$folder" $options >"$log" 2>&1; then
    cat "$log" >&2
    die "meson could not configure $folder"
fi
quiet=
if [ ! -t 1 ] && ninja --help 2>&1 | grep -q -e --quiet; then
    quiet=--quiet
fi
# shellcheck disable=SC2086
ninja -C "$folder" $quiet $targets
