#include "raster_state.h"

#include "math/camera_math.h"

#include <string.h>

#define STATE_MAGIC UINT64_C(0x315f5453435f5347) /* "GS_CST_1" */

/* The frame's part of state; base NULL: only its size. */
static size_t carve_frame(gsc__frame *frame, void *base) {
    const gsc__state_layout *layout = frame->layout;
    const size_t gaussians = (size_t)frame->raster->gaussians, pixels = (size_t)layout->pixels;
    gsc__carver carver = {.base = base};
    frame->header = gsc__carve(&carver, 1, sizeof *frame->header);
    frame->records = gsc__carve(&carver, gaussians, sizeof *frame->records);
    frame->order = gsc__carve(&carver, gaussians, sizeof *frame->order);
    frame->offsets = gsc__carve(&carver, (size_t)layout->tiles + 1, sizeof *frame->offsets);
    frame->final_t = gsc__carve(&carver, pixels, sizeof *frame->final_t);
    frame->walked = gsc__carve(&carver, pixels, sizeof *frame->walked);
    return carver.at;
}

void gsc__state_plan(const gsc__raster *raster, gsc__state_layout *layout) {
    gsc__frame frame = {.raster = raster, .layout = layout};
    layout->tiles_x = (raster->width + GSC__TILE - 1) / GSC__TILE;
    layout->tiles_y = (raster->height + GSC__TILE - 1) / GSC__TILE;
    layout->tiles = (int64_t)layout->tiles_x * layout->tiles_y;
    layout->pixels = (int64_t)raster->width * raster->height;
    layout->camera_bytes = carve_frame(&frame, NULL);
    layout->bytes = layout->camera_bytes * (size_t)raster->cameras;
    const uint64_t own[4] = {STATE_MAGIC, GSC_REAL_BITS, sizeof(gsc__record), layout->bytes};
    layout->hash = gsc__layout_hash(raster, own);
}

gsc__frame gsc__frame_open(const gsc__raster *raster, const gsc__state_layout *layout, void *state,
                           int32_t camera) {
    gsc__frame frame = {.raster = raster, .layout = layout, .camera = camera};
    (void)carve_frame(&frame, (unsigned char *)state + (size_t)camera * layout->camera_bytes);
    return frame;
}

void gsc__frame_begin(gsc__frame *frame) {
    memset(frame->header, 0, sizeof *frame->header);
    frame->header->magic = STATE_MAGIC;
    frame->header->layout = frame->layout->hash;
}

static bool walked_valid(const gsc__frame *frame) {
    const int32_t width = frame->raster->width;
    for (int32_t y = 0; y < frame->raster->height; ++y) {
        const uint64_t *row = frame->offsets + (int64_t)(y / GSC__TILE) * frame->layout->tiles_x;
        const uint32_t *walked = frame->walked + (int64_t)y * width;
        for (int32_t x = 0; x < width; ++x)
            if (walked[x] > row[x / GSC__TILE + 1] - row[x / GSC__TILE]) return false;
    }
    return true;
}

static bool offsets_valid(const gsc__frame *frame) {
    const gsc__state_header *header = frame->header;
    const uint64_t *offsets = frame->offsets;
    const int64_t tiles = frame->layout->tiles;
    uint64_t largest = 0;
    if (header->visible < 0 || header->visible > frame->raster->gaussians) return false;
    if (header->intersections < 0 || offsets[0] != 0 ||
        offsets[tiles] != (uint64_t)header->intersections)
        return false;
    for (int64_t t = 0; t < tiles; ++t) {
        const uint64_t length = offsets[t + 1] - offsets[t];
        if (offsets[t] > offsets[t + 1] || length > (uint64_t)header->visible) return false;
        if (length > largest) largest = length;
    }
    return (uint64_t)header->largest_tile == largest;
}

gsc_status gsc__frame_damaged(const char *function) {
    return gsc__fail(GSC_ERROR_STATE, "%s: state is damaged", function);
}

gsc_status gsc__frame_check(const gsc__frame *frame, bool blended, const char *function) {
    const gsc__state_header *header = frame->header;
    const uint64_t expected = frame->layout->hash;
    if (header->magic != STATE_MAGIC)
        return gsc__fail(GSC_ERROR_STATE, "%s: state was not written by raster_project", function);
    if (header->layout != expected)
        return gsc__fail(GSC_ERROR_STATE, "%s: state has layout %016llx, expected %016llx",
                         function, (unsigned long long)header->layout,
                         (unsigned long long)expected);
    if (blended && header->blended != 1)
        return gsc__fail(GSC_ERROR_STATE, "%s: state was not blended, call raster_blend first",
                         function);
    if (!offsets_valid(frame) || (blended && !walked_valid(frame)))
        return gsc__frame_damaged(function);
    return GSC_OK;
}

/* ------------------------------------------------------------------ cameras */

static gsc__camera_source source_of(const gsc__raster *raster, int64_t index) {
    gsc__camera_source source = raster->camera;
    source.view += 16 * index;
    if (source.projection) source.projection += 16 * index;
    if (source.intrinsics) source.intrinsics += 4 * index;
    if (source.position) source.position += raster->position_stride * index;
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
