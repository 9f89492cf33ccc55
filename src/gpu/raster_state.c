#include "raster.h"

/* Tiles of 32x16 pixels, or 16x16 where Gaussians outnumber pixels and so are small: within a few
 * percent of the best choice for every scene measured, see docs/lab/cuda.md.  In compat they are
 * the original's tiles: blending only tests the ellipse, so the lists have to keep a splat out of
 * tiles that the original does not draw it in. */
static int32_t shift_x_of(const gsc__raster *raster) {
    if (raster->flags & GSC_RASTER_COMPAT_3DGS) return 4;
    return raster->gaussians > (int64_t)raster->width * raster->height ? 4 : 5;
}
#define SHIFT_Y 4

static void plan_grid(const gsc__raster *raster, gsc__gpu_grid *grid) {
    grid->width = raster->width;
    grid->height = raster->height;
    grid->shift_x = shift_x_of(raster);
    grid->shift_y = SHIFT_Y;
    grid->tiles_x = (raster->width + (1 << grid->shift_x) - 1) >> grid->shift_x;
    grid->tiles_y = (raster->height + (1 << SHIFT_Y) - 1) >> SHIFT_Y;
    grid->tiles = grid->tiles_x * grid->tiles_y;
}

/* So large that the records kernel, which reads both for a chunk, finds about as many words of
 * groups before its own as of marks in its own. */
static uint32_t group_shift_of(size_t chunks) {
    uint32_t shift = 5;
    while (chunks >> shift > (size_t)(GSC__CHUNK / 32) << shift) ++shift;
    return shift;
}

/* A camera's part of state; base NULL: only its size. */
static size_t carve_state(const gsc__gpu_layout *layout, void *base, gsc__gpu_frame *frame) {
    const size_t chunks = gsc__gpu_blocks(layout->gaussians, GSC__CHUNK);
    const size_t pixels = (size_t)layout->pixels, tiles = (size_t)layout->grid.tiles;
    gsc__carver carver = {.base = base};
    frame->header = gsc__carve(&carver, 1, sizeof *frame->header);
    frame->camera = gsc__carve(&carver, 1, sizeof *frame->camera + layout->background_bytes);
    frame->seen = gsc__carve(&carver, chunks * (GSC__CHUNK / 32), sizeof *frame->seen);
    frame->groups = gsc__carve(&carver, layout->group_count, sizeof *frame->groups);
    frame->offsets = gsc__carve(&carver, tiles + 1, sizeof *frame->offsets);
    if (!layout->keeps) return carver.at;
    frame->firsts = gsc__carve(&carver, chunks + 1, sizeof *frame->firsts);
    frame->final_t = gsc__carve(&carver, pixels, sizeof *frame->final_t);
    frame->walked = gsc__carve(&carver, pixels, sizeof *frame->walked);
    return carver.at;
}

/* The same of intersections, without the lists. */
static size_t carve_records(const gsc__gpu_layout *layout, void *base, gsc__gpu_frame *frame) {
    const size_t records = (size_t)layout->record_capacity, tiles = (size_t)layout->grid.tiles;
    gsc__carver carver = {.base = base};
    frame->records = gsc__carve(&carver, records, sizeof *frame->records);
    frame->depths = gsc__carve(&carver, records, sizeof *frame->depths);
    frame->order = gsc__carve(&carver, records, sizeof *frame->order);
    if (layout->keeps) frame->unclamped = gsc__carve(&carver, records, sizeof *frame->unclamped);
    frame->band = gsc__carve(&carver, 1, sizeof *frame->band);
    frame->tile_order = gsc__carve(&carver, tiles + 1, sizeof *frame->tile_order);
    return carver.at;
}

void gsc__gpu_layout_plan(const gsc__raster *raster, int64_t visible, gsc__gpu_layout *layout) {
    const int64_t chunks = gsc__gpu_blocks(raster->gaussians, GSC__CHUNK);
    gsc__gpu_frame frame;
    plan_grid(raster, &layout->grid);
    layout->gaussians = raster->gaussians;
    layout->cameras = raster->cameras;
    layout->pixels = (int64_t)raster->width * raster->height;
    layout->keeps = !(raster->flags & GSC_RASTER_FORWARD_ONLY);
    layout->list_slots = layout->keeps ? raster->cameras : 1;
    layout->record_capacity =
        visible > 0 && visible < raster->gaussians ? visible : raster->gaussians;
    layout->background_bytes = (size_t)raster->channels * sizeof(float);
    layout->group_shift = group_shift_of((size_t)chunks);
    layout->group_count = gsc__gpu_blocks(chunks, INT64_C(1) << layout->group_shift);
    layout->camera_bytes = carve_state(layout, NULL, &frame);
    layout->bytes = layout->camera_bytes * (size_t)layout->cameras;
    layout->part_bytes = carve_records(layout, NULL, &frame);
    layout->lists = layout->part_bytes * (size_t)layout->cameras;
    const uint64_t own[4] = {GSC__GPU_STATE_MAGIC, sizeof(gsc__gpu_record),
                             (uint64_t)layout->grid.shift_x << 8 | (uint64_t)layout->grid.shift_y,
                             layout->bytes};
    layout->hash = gsc__layout_hash(raster, own);
}

void gsc__gpu_frame_open(const gsc__gpu_layout *layout, const gsc__raster_buffers *buffers,
                         int32_t camera, gsc__gpu_frame *frame) {
    unsigned char *state = buffers->state, *intersections = buffers->intersections;
    const size_t index = (size_t)camera;
    *frame = (gsc__gpu_frame){.gaussians = (uint32_t)layout->gaussians,
                              .group_shift = layout->group_shift};
    carve_state(layout, state + index * layout->camera_bytes, frame);
    if (!intersections) return;
    frame->record_capacity = (uint32_t)layout->record_capacity;
    carve_records(layout, intersections + index * layout->part_bytes, frame);
}

/* --------------------------------------------------------------------- lists */

/* Of slots, if there are several: each then begins at the buffers' alignment. */
#define SLOT_ALIGNMENT (GSC__BUFFER_ALIGNMENT / (int64_t)sizeof(uint32_t))

int64_t gsc__gpu_list_capacity(const gsc__gpu_layout *layout, size_t bytes) {
    return bytes > layout->lists ? (int64_t)((bytes - layout->lists) / sizeof(uint32_t)) : 0;
}

int64_t gsc__gpu_slot_capacity(const gsc__gpu_layout *layout, size_t bytes) {
    const int64_t capacity = gsc__gpu_list_capacity(layout, bytes);
    if (layout->list_slots == 1) return capacity;
    return capacity / layout->list_slots / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
}

size_t gsc__gpu_lists_bytes(const gsc__gpu_layout *layout, int64_t intersections) {
    if (layout->list_slots > 1)
        intersections = (intersections + SLOT_ALIGNMENT - 1) / SLOT_ALIGNMENT * SLOT_ALIGNMENT;
    return layout->lists + (size_t)layout->list_slots * (size_t)intersections * sizeof(uint32_t);
}

/* ------------------------------------------------------------------ blending */

/* Warps of a tile: 16x8 pixels each. */
static int64_t tile_warps(const gsc__gpu_layout *layout) {
    return (INT64_C(1) << (layout->grid.shift_x + layout->grid.shift_y)) / 128;
}

uint32_t gsc__gpu_long_lists(const gsc__gpu_layout *layout, int multiprocessors) {
    return (uint32_t)(multiprocessors * GSC__BLEND_RESIDENT / tile_warps(layout)) + 1;
}

uint32_t gsc__gpu_blend_blocks(const gsc__gpu_layout *layout, int multiprocessors) {
    const int64_t tiles = layout->grid.tiles;
    const int64_t lists = gsc__gpu_long_lists(layout, multiprocessors);
    const int64_t finer = 3 * (lists < tiles ? lists : tiles);
    return gsc__gpu_blocks((tiles + finer) * tile_warps(layout), GSC__BLEND_BLOCK / 32);
}

/* ----------------------------------------------------------------------- pass */

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
    float *copy = (float *)(void *)(pass->frame.camera + 1); /* see carve_state */
    GSC__TRY(gsc__gpu_write(pass->call, copy, *background, (size_t)raster->channels));
    *background = copy;
    return GSC_OK;
}

void gsc__gpu_camera_source_of(const gsc__raster *raster, int32_t camera,
                               gsc__gpu_camera_source *out) {
    memset(out, 0, sizeof *out);
    gsc__camera_source *source = &out->source;
    *source = raster->camera;
    const struct {
        bool host;
        int64_t size, stride, step;
        const float **tensor;
        float *values;
        bool *by_value;
    } parts[] = {{raster->host_view, 16, 16, 1, &source->view, out->view, &out->host_view},
                 {raster->host_projection, 16, 16, 1, &source->projection, out->projection,
                  &out->host_projection},
                 {raster->host_intrinsics, 4, 4, 1, &source->intrinsics, out->intrinsics,
                  &out->host_intrinsics},
                 {raster->host_position, 3, raster->position_stride, source->position_step,
                  &source->position, out->position, &out->host_position}};
    if (raster->host_position) source->position_step = 1;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; ++i) {
        if (!*parts[i].tensor) continue;
        *parts[i].tensor += parts[i].stride * camera;
        *parts[i].by_value = parts[i].host;
        if (!parts[i].host) continue;
        for (int64_t k = 0; k < parts[i].size; ++k)
            parts[i].values[k] = (*parts[i].tensor)[k * parts[i].step];
        *parts[i].tensor = NULL;
    }
}
