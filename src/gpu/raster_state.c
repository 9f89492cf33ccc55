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

static void plan_state(gsc__gpu_layout *layout, int32_t channels) {
    const size_t chunks = gsc__gpu_blocks(layout->gaussians, GSC__CHUNK);
    const size_t kept_chunks = layout->keeps ? chunks + 1 : 0;
    const size_t kept_pixels = layout->keeps ? (size_t)layout->pixels : 0;
    gsc__carver carver = {0};
    layout->group_shift = group_shift_of(chunks);
    layout->group_count = gsc__gpu_blocks((int64_t)chunks, INT64_C(1) << layout->group_shift);
    gsc__carve_at(&carver, 1, sizeof(gsc__gpu_header));
    layout->camera = gsc__carve_at(&carver, 1, sizeof(gsc__camera));
    layout->background = gsc__carve_at(&carver, (size_t)channels, sizeof(float));
    layout->seen = gsc__carve_at(&carver, chunks * (GSC__CHUNK / 32), sizeof(uint32_t));
    layout->groups = gsc__carve_at(&carver, layout->group_count, sizeof(uint32_t));
    layout->offsets = gsc__carve_at(&carver, (size_t)layout->grid.tiles + 1, sizeof(uint64_t));
    layout->firsts = gsc__carve_at(&carver, kept_chunks, sizeof(uint32_t));
    layout->final_t = gsc__carve_at(&carver, kept_pixels, sizeof(float));
    layout->walked = gsc__carve_at(&carver, kept_pixels, sizeof(uint32_t));
    layout->camera_bytes = carver.at;
    layout->bytes = carver.at * (size_t)layout->cameras;
}

static void plan_records(gsc__gpu_layout *layout) {
    const size_t records = (size_t)layout->record_capacity;
    gsc__carver carver = {0};
    gsc__carve_at(&carver, records, sizeof(gsc__gpu_record));
    layout->depths = gsc__carve_at(&carver, records, sizeof(float));
    layout->order = gsc__carve_at(&carver, records, sizeof(uint32_t));
    layout->unclamped = gsc__carve_at(&carver, layout->keeps ? records : 0, sizeof(uint8_t));
    layout->band = gsc__carve_at(&carver, 1, sizeof(gsc__gpu_band));
    layout->tile_order = gsc__carve_at(&carver, (size_t)layout->grid.tiles + 1, sizeof(uint32_t));
    layout->part_bytes = carver.at;
    layout->lists = carver.at * (size_t)layout->cameras;
}

void gsc__gpu_layout_plan(const gsc__raster *raster, int64_t visible, gsc__gpu_layout *layout) {
    plan_grid(raster, &layout->grid);
    layout->gaussians = raster->gaussians;
    layout->cameras = raster->cameras;
    layout->pixels = (int64_t)raster->width * raster->height;
    layout->keeps = !(raster->flags & GSC_RASTER_FORWARD_ONLY);
    layout->list_slots = layout->keeps ? raster->cameras : 1;
    layout->record_capacity =
        visible > 0 && visible < raster->gaussians ? visible : raster->gaussians;
    plan_state(layout, raster->channels);
    plan_records(layout);
    const uint64_t own[4] = {GSC__GPU_STATE_MAGIC, sizeof(gsc__gpu_record),
                             (uint64_t)layout->grid.shift_x << 8 | (uint64_t)layout->grid.shift_y,
                             layout->bytes};
    layout->hash = gsc__layout_hash(raster, own);
}

void gsc__gpu_frame_open(const gsc__gpu_layout *layout, const gsc__raster_buffers *buffers,
                         int32_t camera, gsc__gpu_frame *frame) {
    unsigned char *base = (unsigned char *)buffers->state + (size_t)camera * layout->camera_bytes;
    *frame = (gsc__gpu_frame){.gaussians = (uint32_t)layout->gaussians,
                              .header = (void *)base,
                              .camera = (void *)(base + layout->camera),
                              .seen = (void *)(base + layout->seen),
                              .groups = (void *)(base + layout->groups),
                              .group_shift = layout->group_shift,
                              .offsets = (void *)(base + layout->offsets)};
    if (layout->keeps) {
        frame->firsts = (void *)(base + layout->firsts);
        frame->final_t = (void *)(base + layout->final_t);
        frame->walked = (void *)(base + layout->walked);
    }
    if (!buffers->intersections) return;
    base = (unsigned char *)buffers->intersections + (size_t)camera * layout->part_bytes;
    frame->record_capacity = (uint32_t)layout->record_capacity;
    frame->records = (void *)base;
    frame->depths = (void *)(base + layout->depths);
    frame->order = (void *)(base + layout->order);
    if (layout->keeps) frame->unclamped = base + layout->unclamped;
    frame->band = (void *)(base + layout->band);
    frame->tile_order = (void *)(base + layout->tile_order);
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
