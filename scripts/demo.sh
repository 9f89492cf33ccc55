#!/bin/sh
# Renders demo.png: the scene of examples/demo_scene, or a trained one:
#
#   SCENE=point_cloud.ply [CAMERAS=cameras.json] [CAMERA=NAME] [SIZE=WxH] scripts/demo.sh
. "$(dirname "$0")/common.sh"

out=${OUT:-demo.png}
size=${SIZE:-1280x720}
# The demo renders on the CPU: a new build folder goes without the CUDA images.
gpu=
[ -e build/build.ninja ] || gpu=-Dgpu=disabled
sh scripts/build.sh build -Dtools=enabled $gpu tools/gsplat-c
if [ -z "${SCENE:-}" ]; then
    SCENE=build/demo_scene.ply
    CAMERAS=build/demo_cameras.json
    python3 -B examples/demo_scene/make_scene.py "$SCENE" "$CAMERAS"
fi
set -- "$SCENE" --size "$size" -o "$out"
[ -z "${CAMERAS:-}" ] || set -- "$@" --cameras "$CAMERAS"
[ -z "${CAMERA:-}" ] || set -- "$@" --camera "$CAMERA"
build/tools/gsplat-c render "$@"
case $out in
/*) say "$out" ;;
*) say "$root/$out" ;;
esac
