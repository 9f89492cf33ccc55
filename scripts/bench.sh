#!/bin/sh
# Builds into build/ and runs `gsplat-c bench` with the arguments given.
. "$(dirname "$0")/common.sh"

sh scripts/build.sh build -Dtools=enabled -Dgpu=auto tools/gsplat-c
exec build/tools/gsplat-c bench "$@"
