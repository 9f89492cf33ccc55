/* Byte layout of the CUDA rasterizer's buffers.
 *
 * What cuda/kernels.h calls a frame stands in two of them, per camera: in state, whose
 * size comes from the arguments alone, what has to do with pixels, tiles and chunks of
 * Gaussians; at the beginning of intersections, which are allocated when project has
 * counted, what there is of each visible Gaussian.  The lists of the tiles stand behind
 * that: each camera's in a room of its own as large as the largest frame needs, so that
 * backward finds them again.  Where there will be no backward, or the buffer has no room
 * for all, the cameras take turns in one room. */
#ifndef GSC_GPU_RASTER_STATE_H
#define GSC_GPU_RASTER_STATE_H

#include "../../cuda/kernels.h"
#include "core/limits.h"
#include "gpu.h"

typedef struct gsc__gpu_layout {
    gsc__gpu_grid grid;
    int64_t gaussians, pixels;
    int64_t record_capacity; /* records of a camera */
    int32_t cameras;
    int32_t list_slots;                               /* for lists: of each camera, or one */
    uint32_t group_count, group_shift;                /* groups of 2^group_shift chunks */
    size_t camera, background, seen, groups, offsets; /* bytes, in state */
    size_t firsts, final_t, walked;
    size_t camera_bytes, bytes;
    size_t depths, order, unclamped, band,
        tile_order;           /* bytes, in a camera's part of intersections */
    bool keeps;               /* something for a backward pass */
    size_t part_bytes, lists; /* of such a part; where the lists begin */
    uint64_t hash;
} gsc__gpu_layout;

/* visible: the most Gaussians that a camera sees; 0: not known, there is room for all. */
void gsc__gpu_layout_plan(const gsc__raster *raster, int64_t visible, gsc__gpu_layout *layout);
/* Where a camera's background is: the caller's, or for one on the host a copy in the
 * state.  NULL without one. */
gsc_status gsc__gpu_background(gsc_context *context, const gsc__raster *raster, int32_t index,
                               const gsc__gpu_layout *layout, void *state, void *stream,
                               const char *function, const float **background);
/* Without intersections, as before project has counted, there is no room for records. */
void gsc__gpu_frame_open(const gsc__gpu_layout *layout, const gsc__raster_buffers *buffers,
                         int32_t camera, gsc__gpu_frame *frame);

/* Camera `index` as kernels take it. */
void gsc__gpu_camera_source_of(const gsc__raster *raster, int32_t index,
                               gsc__gpu_camera_source *out);

#define GSC__GPU_STATE_MAGIC UINT64_C(0x315f5547435f5347)

/* Takes aligned chunks off a buffer; with base NULL only `at` counts. */
typedef struct gsc__gpu_cut {
    unsigned char *base;
    size_t at;
} gsc__gpu_cut;
void *gsc__gpu_take(gsc__gpu_cut *cut, size_t bytes);

/* List intersections that an intersection buffer of so many bytes holds behind the records. */
static inline int64_t gsc__gpu_list_capacity(const gsc__gpu_layout *layout, size_t bytes) {
    return bytes > layout->lists ? (int64_t)((bytes - layout->lists) / sizeof(uint32_t)) : 0;
}

/* Those of a frame, if there are all rooms; where several are, each is aligned. */
#define GSC__SLOT_ALIGNMENT (GSC__BUFFER_ALIGNMENT / (int64_t)sizeof(uint32_t))
static inline int64_t gsc__gpu_slot_capacity(const gsc__gpu_layout *layout, size_t bytes) {
    const int64_t intersections = gsc__gpu_list_capacity(layout, bytes);
    if (layout->list_slots == 1) return intersections;
    return intersections / layout->list_slots / GSC__SLOT_ALIGNMENT * GSC__SLOT_ALIGNMENT;
}

/* Bytes of an intersection buffer whose rooms hold frames of so many intersections. */
static inline size_t gsc__gpu_lists_bytes(const gsc__gpu_layout *layout, int64_t intersections) {
    if (layout->list_slots > 1)
        intersections =
            (intersections + GSC__SLOT_ALIGNMENT - 1) / GSC__SLOT_ALIGNMENT * GSC__SLOT_ALIGNMENT;
    return layout->lists + (size_t)layout->list_slots * (size_t)intersections * sizeof(uint32_t);
}

static inline uint32_t gsc__gpu_ceil_div(int64_t count, int64_t chunk) {
    return (uint32_t)((count + chunk - 1) / chunk);
}

/* Warps of the fast blending kernels for a tile: 16x8 pixels each. */
static inline int64_t gsc__gpu_tile_warps(const gsc__gpu_layout *layout) {
    return (INT64_C(1) << (layout->grid.shift_x + layout->grid.shift_y)) / 128;
}

/* How many tiles the device blends at once.  A list longer than the frame's intersections divided
 * by this is more than one warp's share, and gets four times as many. */
static inline uint32_t gsc__gpu_long_lists(const gsc__gpu_layout *layout, int multiprocessors) {
    return (uint32_t)(multiprocessors * GSC__BLEND_RESIDENT / gsc__gpu_tile_warps(layout)) + 1;
}

/* Blocks of the fast blending kernels, however many lists are long. */
static inline uint32_t gsc__gpu_blend_blocks(const gsc__gpu_layout *layout, int multiprocessors) {
    const int64_t tiles = layout->grid.tiles;
    const int64_t lists = gsc__gpu_long_lists(layout, multiprocessors);
    const int64_t finer = 3 * (lists < tiles ? lists : tiles);
    return gsc__gpu_ceil_div((tiles + finer) * gsc__gpu_tile_warps(layout), GSC__BLEND_BLOCK / 32);
}

#endif
