#include "raster_state.h"

#include <string.h>

/* Tiles of 32x16 pixels, or 16x16 where Gaussians outnumber pixels and so are small: within
 * a few percent of the best choice for every scene measured, see docs/performance.md.  In
 * compat they are the original's tiles: blending asks for the ellipse alone, so that it is
 * the lists that keep a splat out of tiles that the original does not draw it in. */
static int32_t shift_x_of(const gsc__raster *raster) {
    if (raster->flags & GSC_RASTER_COMPAT_3DGS) return 4;
    return raster->gaussians > (int64_t)raster->width * raster->height ? 4 : 5;
}
#define SHIFT_Y 4

void *gsc__gpu_take(gsc__gpu_cut *cut, size_t bytes) {
    void *here = cut->base ? cut->base + cut->at : NULL;
    cut->at += gsc__aligned_bytes(bytes);
    return here;
}

/* Of a group: so that records, which reads both for a chunk, finds about as many words of groups
 * before it as of marks in its group. */
static uint32_t group_shift_of(size_t chunks) {
    uint32_t shift = 5;
    while (chunks >> shift > (size_t)(GSC__CHUNK / 32) << shift) ++shift;
    return shift;
}

static void plan_state(const gsc__raster *raster, gsc__gpu_layout *layout) {
    const size_t chunks = gsc__gpu_ceil_div(raster->gaussians, GSC__CHUNK);
    layout->group_shift = group_shift_of(chunks);
    layout->group_count = gsc__gpu_ceil_div((int64_t)chunks, INT64_C(1) << layout->group_shift);
    gsc__gpu_cut cut = {NULL, 0};
    gsc__gpu_take(&cut, sizeof(gsc__gpu_header));
    layout->camera = cut.at;
    gsc__gpu_take(&cut, sizeof(gsc__camera));
    layout->background = cut.at;
    gsc__gpu_take(&cut, (size_t)raster->channels * sizeof(float));
    layout->seen = cut.at;
    gsc__gpu_take(&cut, chunks * (GSC__CHUNK / 32) * sizeof(uint32_t));
    layout->groups = cut.at;
    gsc__gpu_take(&cut, layout->group_count * sizeof(uint32_t));
    layout->offsets = cut.at;
    gsc__gpu_take(&cut, ((size_t)layout->grid.tiles + 1) * sizeof(uint64_t));
    layout->firsts = cut.at;
    gsc__gpu_take(&cut, layout->keeps ? (chunks + 1) * sizeof(uint32_t) : 0);
    layout->final_t = cut.at;
    gsc__gpu_take(&cut, layout->keeps ? (size_t)layout->pixels * sizeof(float) : 0);
    layout->walked = cut.at;
    gsc__gpu_take(&cut, layout->keeps ? (size_t)layout->pixels * sizeof(uint32_t) : 0);
    layout->camera_bytes = cut.at;
    layout->bytes = cut.at * (size_t)raster->cameras;
}

static void plan_records(const gsc__raster *raster, int64_t visible, gsc__gpu_layout *layout) {
    gsc__gpu_cut cut = {NULL, 0};
    layout->record_capacity =
        visible > 0 && visible < raster->gaussians ? visible : raster->gaussians;
    const size_t room = (size_t)layout->record_capacity;
    gsc__gpu_take(&cut, room * sizeof(gsc__gpu_record));
    layout->depths = cut.at;
    gsc__gpu_take(&cut, room * sizeof(float));
    layout->order = cut.at;
    gsc__gpu_take(&cut, room * sizeof(uint32_t));
    layout->unclamped = cut.at;
    gsc__gpu_take(&cut, layout->keeps ? room : 0);
    layout->band = cut.at;
    gsc__gpu_take(&cut, sizeof(gsc__gpu_band));
    layout->tile_order = cut.at;
    gsc__gpu_take(&cut, ((size_t)layout->grid.tiles + 1) * sizeof(uint32_t));
    layout->part_bytes = cut.at;
    layout->lists = cut.at * (size_t)raster->cameras;
}

void gsc__gpu_layout_plan(const gsc__raster *raster, int64_t visible, gsc__gpu_layout *layout) {
    gsc__gpu_grid *grid = &layout->grid;
    grid->width = raster->width;
    grid->height = raster->height;
    grid->shift_x = shift_x_of(raster);
    grid->shift_y = SHIFT_Y;
    grid->tiles_x = (raster->width + (1 << grid->shift_x) - 1) >> grid->shift_x;
    grid->tiles_y = (raster->height + (1 << SHIFT_Y) - 1) >> SHIFT_Y;
    grid->tiles = grid->tiles_x * grid->tiles_y;
    layout->gaussians = raster->gaussians;
    layout->cameras = raster->cameras;
    layout->pixels = (int64_t)raster->width * raster->height;
    layout->keeps = !(raster->flags & GSC_RASTER_FORWARD_ONLY);
    layout->list_slots = layout->keeps ? raster->cameras : 1;
    plan_state(raster, layout);
    plan_records(raster, visible, layout);
    const uint64_t own[4] = {GSC__GPU_STATE_MAGIC, sizeof(gsc__gpu_record),
                             (uint64_t)layout->grid.shift_x << 8 | (uint64_t)layout->grid.shift_y,
                             layout->bytes};
    layout->hash = gsc__layout_hash(raster, own);
}

void gsc__gpu_frame_open(const gsc__gpu_layout *layout, const gsc__raster_buffers *buffers,
                         int32_t camera, gsc__gpu_frame *frame) {
    unsigned char *base = (unsigned char *)buffers->state + (size_t)camera * layout->camera_bytes;
    memset(frame, 0, sizeof *frame);
    frame->gaussians = (uint32_t)layout->gaussians;
    frame->header = (gsc__gpu_header *)(void *)base;
    frame->camera = (gsc__camera *)(void *)(base + layout->camera);
    frame->seen = (uint32_t *)(void *)(base + layout->seen);
    frame->groups = (uint32_t *)(void *)(base + layout->groups);
    frame->group_shift = layout->group_shift;
    frame->offsets = (uint64_t *)(void *)(base + layout->offsets);
    if (layout->keeps) {
        frame->firsts = (uint32_t *)(void *)(base + layout->firsts);
        frame->final_t = (float *)(void *)(base + layout->final_t);
        frame->walked = (uint32_t *)(void *)(base + layout->walked);
    }
    if (!buffers->intersections) return;
    base = (unsigned char *)buffers->intersections + (size_t)camera * layout->part_bytes;
    frame->record_capacity = (uint32_t)layout->record_capacity;
    frame->records = (gsc__gpu_record *)(void *)base;
    frame->depths = (float *)(void *)(base + layout->depths);
    frame->order = (uint32_t *)(void *)(base + layout->order);
    if (layout->keeps) frame->unclamped = base + layout->unclamped;
    frame->band = (gsc__gpu_band *)(void *)(base + layout->band);
    frame->tile_order = (uint32_t *)(void *)(base + layout->tile_order);
}

gsc_status gsc__gpu_background(gsc_context *context, const gsc__raster *raster, int32_t index,
                               const gsc__gpu_layout *layout, void *state, void *stream,
                               const char *function, const float **background) {
    *background = raster->background;
    if (!raster->background) return GSC_OK;
    *background += index * raster->background_stride;
    if (!raster->host_background) return GSC_OK;
    float *copy = (float *)(void *)((unsigned char *)state + (size_t)index * layout->camera_bytes +
                                    layout->background);
    GSC__TRY(
        gsc__gpu_write(context, copy, *background, (size_t)raster->channels, stream, function));
    *background = copy;
    return GSC_OK;
}

void gsc__gpu_camera_source_of(const gsc__raster *raster, int32_t index,
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
        const float *from = parts[i].tensor + parts[i].stride * index;
        *parts[i].by_value = parts[i].host;
        if (!parts[i].host) {
            *parts[i].device = from;
            continue;
        }
        for (int64_t k = 0; k < parts[i].size; ++k) parts[i].values[k] = from[k * parts[i].step];
    }
}
