#!/bin/sh
# scripts/unpack.sh ARCHITECTURE FOLDER PACKAGE..: unpacks Debian packages of another
# architecture into a folder, for a cross compiler and an emulator.  Nothing of the system
# changes: apt-get works on lists of its own, in FOLDER/apt.  Dependencies are to be named.
. "$(dirname "$0")/common.sh"

[ $# -ge 3 ] || die "usage: scripts/unpack.sh ARCHITECTURE FOLDER PACKAGE.."
architecture=$1
mkdir -p "$2/apt/lists/partial" "$2/apt/archives"
folder=$(cd "$2" && pwd)
shift 2
wanted="$architecture $*"
[ "$(cat "$folder/apt/unpacked" 2>/dev/null || true)" != "$wanted" ] || exit 0

: >"$folder/apt/status"
log=$folder/apt/log
apt_get() {
    (cd "$folder/apt/archives" && apt-get -q -o APT::Architecture="$architecture" \
        -o APT::Architectures="$architecture" -o APT::Sandbox::User= \
        -o Dir::State::Lists="$folder/apt/lists" -o Dir::State::Status="$folder/apt/status" \
        -o Dir::Cache="$folder/apt" "$@") >"$log" 2>&1 || {
        cat "$log" >&2
        die "apt-get failed; what is needed for $architecture: $packages"
    }
}
packages=$*
rm -f "$folder"/apt/archives/*.deb
say "fetching for $architecture: $packages"
apt_get update
# shellcheck disable=SC2086 # a list of words
apt_get download $packages
# One folder for libraries, as on every system of these years.
mkdir -p "$folder/usr/lib"
ln -sfn usr/lib "$folder/lib"
for package in "$folder"/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$folder"
done
rm -rf "$folder/apt/lists"
printf '%s\n' "$wanted" >"$folder/apt/unpacked"
