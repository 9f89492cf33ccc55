#!/bin/sh
# The API reference, as HTML in build-docs/, from the comments of the public headers.
# Fails if an item of them is not described.
. "$(dirname "$0")/common.sh"

command -v doxygen >/dev/null || die "doxygen is not installed"
rm -rf build-docs
mkdir build-docs
GSC_VERSION=$(sed -n "s/^  version: '\(.*\)',/\1/p" meson.build)
GSC_DOCS_OUT=build-docs
export GSC_VERSION GSC_DOCS_OUT
doxygen docs/Doxyfile
say "$root/build-docs/index.html"
