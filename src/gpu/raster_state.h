/* Byte layout of the CUDA rasterizer's buffers.
 *
 * What cuda/kernels.h calls a frame stands in two of them, per camera: in state, whose
 * size comes from the arguments alone, what has to do with pixels, bins and pieces of
 * Gaussians; at the beginning of intersections, which are allocated when project has
 * counted, what there is of each visible Gaussian.  The lists of the bins stand behind
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
    int64_t room; /* records of a camera */
    int32_t cameras;
    int32_t rooms;                                    /* for lists: of each camera, or one */
    uint32_t group_count, group_shift;                /* groups of 2^group_shift pieces */
    size_t camera, background, seen, groups, offsets; /* bytes, in state */
    size_t firsts, final_t, walked;
    size_t camera_bytes, bytes;
    size_t depths, order, gates, band, bin_order; /* bytes, in a camera's part of intersections */
    bool keeps;                                   /* something for a backward pass */
    size_t part_bytes, lists;                     /* of such a part; where the lists begin */
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

/* Takes aligned pieces off a buffer; with base NULL only `at` counts. */
typedef struct gsc__gpu_cut {
    unsigned char *base;
    size_t at;
} gsc__gpu_cut;
void *gsc__gpu_take(gsc__gpu_cut *cut, size_t bytes);

/* List entries that an intersection buffer of so many bytes holds behind the records. */
static inline int64_t gsc__gpu_list_entries(const gsc__gpu_layout *layout, size_t bytes) {
    return bytes > layout->lists ? (int64_t)((bytes - layout->lists) / sizeof(uint32_t)) : 0;
}

/* Those of a frame, if there are all rooms; where several are, each is aligned. */
#define GSC__ROOM_ENTRIES (GSC__BUFFER_ALIGNMENT / (int64_t)sizeof(uint32_t))
static inline int64_t gsc__gpu_room_entries(const gsc__gpu_layout *layout, size_t bytes) {
    const int64_t entries = gsc__gpu_list_entries(layout, bytes);
    if (layout->rooms == 1) return entries;
    return entries / layout->rooms / GSC__ROOM_ENTRIES * GSC__ROOM_ENTRIES;
}

/* Bytes of an intersection buffer whose rooms hold frames of so many entries. */
static inline size_t gsc__gpu_rooms_bytes(const gsc__gpu_layout *layout, int64_t entries) {
    if (layout->rooms > 1)
        entries = (entries + GSC__ROOM_ENTRIES - 1) / GSC__ROOM_ENTRIES * GSC__ROOM_ENTRIES;
    return layout->lists + (size_t)layout->rooms * (size_t)entries * sizeof(uint32_t);
}

static inline uint32_t gsc__gpu_pieces(int64_t count, int64_t piece) {
    return (uint32_t)((count + piece - 1) / piece);
}

/* Warps of the fast blending kernels for a bin: 16x8 pixels each. */
static inline int64_t gsc__gpu_bin_warps(const gsc__gpu_layout *layout) {
    return (INT64_C(1) << (layout->grid.shift_x + layout->grid.shift_y)) / 128;
}

/* How many bins the device blends at once.  A list longer than the frame's entries divided
 * by this is more than one warp's share, and gets four times as many. */
static inline uint32_t gsc__gpu_long_lists(const gsc__gpu_layout *layout, int multiprocessors) {
    return (uint32_t)(multiprocessors * GSC__BLEND_RESIDENT / gsc__gpu_bin_warps(layout)) + 1;
}

/* Blocks of the fast blending kernels, however many lists are long. */
static inline uint32_t gsc__gpu_blend_blocks(const gsc__gpu_layout *layout, int multiprocessors) {
    const int64_t bins = layout->grid.bins;
    const int64_t lists = gsc__gpu_long_lists(layout, multiprocessors);
    const int64_t finer = 3 * (lists < bins ? lists : bins);
    return gsc__gpu_pieces((bins + finer) * gsc__gpu_bin_warps(layout), GSC__BLEND_BLOCK / 32);
}

#endif
