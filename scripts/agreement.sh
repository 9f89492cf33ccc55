#!/bin/sh
# scripts/agreement.sh COMMAND..: whether a build for another processor or system agrees with
# one for this machine, made in build-native/.  COMMAND runs the other build's tests/agreement.
. "$(dirname "$0")/common.sh"

[ $# -ge 1 ] || die "usage: scripts/agreement.sh COMMAND.."
sh scripts/build.sh build-native -Dtests=enabled -Dtools=disabled -Dgpu=disabled tests/agreement
build-native/tests/agreement write build-native/agreement.bin
say "against this machine's build:"
"$@" compare build-native/agreement.bin
