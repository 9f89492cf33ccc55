/* Byte layout of the CUDA rasterizer's buffers.
 *
 * state holds, per camera, what cuda/kernels.h calls a frame.  intersections holds the
 * lists of the bins.  Sizes come from the arguments alone. */
#ifndef GSC_GPU_RASTER_STATE_H
#define GSC_GPU_RASTER_STATE_H

#include "../../cuda/kernels.h"
#include "gpu.h"

typedef struct gsc__gpu_layout {
    gsc__gpu_grid grid;
    int64_t gaussians, pixels;
    size_t camera, background, records, depths, counts, gates, order, offsets, final_t,
        walked; /* bytes */
    size_t camera_bytes, bytes;
    uint64_t hash;
} gsc__gpu_layout;

void gsc__gpu_layout_plan(const gsc__raster *raster, gsc__gpu_layout *layout);
/* Where a camera's background is: the caller's, or for one on the host a copy in the
 * state.  NULL without one. */
gsc_status gsc__gpu_background(gsc_context *context, const gsc__raster *raster, int32_t index,
                               const gsc__gpu_layout *layout, void *state, void *stream,
                               const char *function, const float **background);
void gsc__gpu_frame_open(const gsc__gpu_layout *layout, void *state, int32_t camera,
                         gsc__gpu_frame *frame);

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

static inline uint32_t gsc__gpu_pieces(int64_t count, int64_t piece) {
    return (uint32_t)((count + piece - 1) / piece);
}

/* Blocks of the fast blending kernels, whose warps take 16x8 pixels each. */
static inline uint32_t gsc__gpu_blend_blocks(const gsc__gpu_layout *layout) {
    const int64_t warps_per_bin =
        (INT64_C(1) << (layout->grid.shift_x + layout->grid.shift_y)) / 128;
    return gsc__gpu_pieces(layout->grid.bins * warps_per_bin, GSC__BLEND_BLOCK / 32);
}

#endif
