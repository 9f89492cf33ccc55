#include "camera.h"

#include "math/camera_math.h"

static gsc__camera_source source_of(const gsc__raster *raster, int64_t index) {
    gsc__camera_source source = {
        .view = raster->view + 16 * index,
        .projection = raster->projection ? raster->projection + 16 * index : NULL,
        .intrinsics = raster->intrinsics ? raster->intrinsics + 4 * index : NULL,
        .position = raster->position ? raster->position + raster->position_stride * index : NULL,
        .position_step = raster->position_step,
        .tan_fov = {raster->tan_fovx, raster->tan_fovy},
        .near_plane = raster->near_plane,
        .far_plane = raster->far_plane,
        .blur = raster->blur,
        .width = raster->width,
        .height = raster->height,
        .view_by_rows = raster->view_by_rows,
        .projection_by_rows = raster->projection_by_rows,
        .compat = (raster->flags & GSC_RASTER_COMPAT_3DGS) != 0,
        .antialias = (raster->flags & GSC_RASTER_ANTIALIAS) != 0,
    };
    return source;
}

void gsc__camera_load_view(const gsc__raster *raster, int32_t index, gsc__camera *camera) {
    const gsc__camera_source source = source_of(raster, index);
    gsc__camera_make_view(&source, camera);
}

void gsc__camera_load(const gsc__raster *raster, int32_t index, gsc__camera *camera) {
    const gsc__camera_source source = source_of(raster, index);
    gsc__camera_make(&source, camera);
}
