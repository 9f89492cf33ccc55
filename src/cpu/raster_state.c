#include "raster_state.h"

#include "core/limits.h"

#include <string.h>

#define STATE_MAGIC UINT64_C(0x315f5453435f5347) /* "GS_CST_1" */

static size_t place(size_t *at, size_t bytes) {
    size_t here = *at;
    *at = gsc__aligned_bytes(here + bytes);
    return here;
}

void gsc__state_plan(const gsc__raster *raster, gsc__state_layout *layout) {
    size_t at = 0, gaussians = (size_t)raster->gaussians;
    layout->tiles_x = (raster->width + GSC__TILE - 1) / GSC__TILE;
    layout->tiles_y = (raster->height + GSC__TILE - 1) / GSC__TILE;
    layout->tiles = (int64_t)layout->tiles_x * layout->tiles_y;
    layout->pixels = (int64_t)raster->width * raster->height;
    (void)place(&at, sizeof(gsc__state_header));
    layout->records = place(&at, gaussians * sizeof(gsc__record));
    layout->order = place(&at, gaussians * sizeof(uint32_t));
    layout->offsets = place(&at, ((size_t)layout->tiles + 1) * sizeof(uint64_t));
    layout->final_t = place(&at, (size_t)layout->pixels * sizeof(gsc_real));
    layout->walked = place(&at, (size_t)layout->pixels * sizeof(uint32_t));
    layout->camera_bytes = at;
    layout->bytes = at * (size_t)raster->cameras;
    const uint64_t own[4] = {STATE_MAGIC, GSC_REAL_BITS, sizeof(gsc__record), layout->bytes};
    layout->hash = gsc__layout_hash(raster, own);
}

void gsc__frame_open(const gsc__state_layout *layout, void *state, int32_t camera,
                     gsc__frame *frame) {
    unsigned char *base = (unsigned char *)state + (size_t)camera * layout->camera_bytes;
    frame->layout = layout;
    frame->header = (gsc__state_header *)(void *)base;
    frame->records = (gsc__record *)(void *)(base + layout->records);
    frame->order = (uint32_t *)(void *)(base + layout->order);
    frame->offsets = (uint64_t *)(void *)(base + layout->offsets);
    frame->final_t = (gsc_real *)(void *)(base + layout->final_t);
    frame->walked = (uint32_t *)(void *)(base + layout->walked);
}

void gsc__frame_begin(gsc__frame *frame) {
    memset(frame->header, 0, sizeof *frame->header);
    frame->header->magic = STATE_MAGIC;
    frame->header->layout = frame->layout->hash;
}

static bool walked_valid(const gsc__frame *frame, const gsc__raster *raster) {
    const gsc__state_layout *layout = frame->layout;
    for (int32_t y = 0; y < raster->height; ++y) {
        const uint64_t *row = frame->offsets + (int64_t)(y / GSC__TILE) * layout->tiles_x;
        const uint32_t *walked = frame->walked + (int64_t)y * raster->width;
        for (int32_t x = 0; x < raster->width; ++x)
            if (walked[x] > row[x / GSC__TILE + 1] - row[x / GSC__TILE]) return false;
    }
    return true;
}

gsc_status gsc__frame_check(const gsc__frame *frame, const gsc__raster *raster, bool rendered,
                            const char *function) {
    const gsc__state_header *header = frame->header;
    const gsc__state_layout *layout = frame->layout;
    if (header->magic != STATE_MAGIC)
        return gsc__fail(GSC_ERROR_STATE, "%s: state was not written by raster_project", function);
    if (header->layout != layout->hash)
        return gsc__fail(GSC_ERROR_STATE, "%s: state has layout %016llx, expected %016llx",
                         function, (unsigned long long)header->layout,
                         (unsigned long long)layout->hash);
    if (rendered && header->rendered != 1)
        return gsc__fail(GSC_ERROR_STATE, "%s: state was not rendered", function);
    bool valid = header->visible >= 0 && header->visible <= raster->gaussians &&
                 header->intersections >= 0 && frame->offsets[0] == 0 &&
                 frame->offsets[layout->tiles] == (uint64_t)header->intersections;
    uint64_t visible = (uint64_t)(valid ? header->visible : 0);
    for (int64_t t = 0; valid && t < layout->tiles; ++t)
        valid = frame->offsets[t] <= frame->offsets[t + 1] &&
                frame->offsets[t + 1] - frame->offsets[t] <= visible;
    if (valid && rendered) valid = walked_valid(frame, raster);
    if (!valid) return gsc__fail(GSC_ERROR_STATE, "%s: state is damaged", function);
    return GSC_OK;
}
