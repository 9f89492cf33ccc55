#!/bin/sh
# scripts/abi-freeze.sh [FOLDER]: copies today's headers and version script into FOLDER/VERSION,
# abi/VERSION for a release.  Never overwrites a frozen version.
folder=${1:+$(realpath "$1")}
. "$(dirname "$0")/common.sh"

version=$(sed -n 's/^#define GSC_ABI_M[AI][JN]OR \([0-9]*\).*/\1/p' include/gsplat_c.h | paste -sd.)
folder=${folder:-abi}/$version
[ ! -e "$folder" ] || die "$folder is frozen already; a change needs a higher GSC_ABI_MINOR"
mkdir -p "$folder"
cp -R include src/libgsplat_c.map "$folder/"
say "froze $folder"
