#include "pass.h"

gsc__gpu_pass gsc__gpu_pass_begin(const gsc__raster_call *call, const gsc_raster_info *info) {
    gsc__gpu_pass pass = {.call = &call->call,
                          .raster = &call->raster,
                          .buffers = &call->buffers,
                          .outputs = &call->outputs,
                          .info = info,
                          .multiprocessors =
                              gsc__gpu_of(call->call.context)->device.multiprocessors};
    gsc__gpu_layout_plan(pass.raster, info ? info->visible : 0, &pass.layout);
    return pass;
}

void gsc__gpu_pass_open(gsc__gpu_pass *pass, int32_t camera) {
    pass->camera = camera;
    gsc__gpu_frame_open(&pass->layout, pass->buffers, camera, &pass->frame);
}

gsc_status gsc__gpu_background(const gsc__gpu_pass *pass, const float **background) {
    const gsc__raster *raster = pass->raster;
    *background = raster->background;
    if (!raster->background) return GSC_OK;
    *background += pass->camera * raster->background_stride;
    if (!raster->host_background) return GSC_OK;
    unsigned char *part = (unsigned char *)pass->frame.header; /* the state's part begins with it */
    float *copy = (float *)(void *)(part + pass->layout.background);
    GSC__TRY(gsc__gpu_write(pass->call, copy, *background, (size_t)raster->channels));
    *background = copy;
    return GSC_OK;
}

void gsc__gpu_camera_source_of(const gsc__raster *raster, int32_t camera,
                               gsc__gpu_camera_source *out) {
    memset(out, 0, sizeof *out);
    gsc__camera_source *source = &out->source;
    source->tan_fov[0] = raster->tan_fovx;
    source->tan_fov[1] = raster->tan_fovy;
    source->near_plane = raster->near_plane;
    source->far_plane = raster->far_plane;
    source->blur = raster->blur;
    source->width = raster->width;
    source->height = raster->height;
    source->view_by_rows = raster->view_by_rows;
    source->projection_by_rows = raster->projection_by_rows;
    source->compat = (raster->flags & GSC_RASTER_COMPAT_3DGS) != 0;
    source->antialias = (raster->flags & GSC_RASTER_ANTIALIAS) != 0;
    const struct {
        const float *tensor;
        bool host;
        int64_t size, stride, step;
        const float **device;
        float *values;
        bool *by_value;
    } parts[] = {
        {raster->view, raster->host_view, 16, 16, 1, &source->view, out->view, &out->host_view},
        {raster->projection, raster->host_projection, 16, 16, 1, &source->projection,
         out->projection, &out->host_projection},
        {raster->intrinsics, raster->host_intrinsics, 4, 4, 1, &source->intrinsics, out->intrinsics,
         &out->host_intrinsics},
        {raster->position, raster->host_position, 3, raster->position_stride, raster->position_step,
         &source->position, out->position, &out->host_position}};
    source->position_step = raster->host_position ? 1 : raster->position_step;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; ++i) {
        if (!parts[i].tensor) continue;
        const float *from = parts[i].tensor + parts[i].stride * camera;
        *parts[i].by_value = parts[i].host;
        if (!parts[i].host) {
            *parts[i].device = from;
            continue;
        }
        for (int64_t k = 0; k < parts[i].size; ++k) parts[i].values[k] = from[k * parts[i].step];
    }
}
