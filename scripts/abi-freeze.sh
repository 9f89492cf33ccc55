#!/bin/sh
# Copies today's headers and version script into abi/VERSION, for a release.  What is
# there already is never overwritten.
. "$(dirname "$0")/common.sh"

version=$(sed -n 's/^#define GSC_ABI_M[AI][JN]OR *//p' include/gsplat_c.h | paste -sd.)
folder=abi/$version
[ ! -e "$folder" ] || die "$folder is frozen already; a change needs a higher GSC_ABI_MINOR"
mkdir -p "$folder/include/gsplat_c"
cp include/gsplat_c.h "$folder/include/"
cp include/gsplat_c/dlpack.h "$folder/include/gsplat_c/"
cp src/libgsplat_c.map "$folder/"
say "froze $folder"
