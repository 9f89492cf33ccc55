/* Byte layout of the CUDA rasterizer's buffers.
 *
 * What cuda/kernels.h calls a frame lies in two buffers, with a part for each camera:
 *
 *   state          what depends on pixels, tiles and chunks of Gaussians, so that its size follows
 *                  from the arguments alone
 *   intersections  allocated when project has counted: the parts hold what there is of each
 *                  visible Gaussian, and behind all parts stand the lists of the tiles
 *
 * Each camera's lists have a slot as large as the largest frame needs, so that backward finds
 * them.  Where no backward follows, or the buffer is too small for all slots, the cameras share
 * one. */
#ifndef GSC_GPU_RASTER_STATE_H
#define GSC_GPU_RASTER_STATE_H

#include "core/workspace.h"
#include "gpu.h"

#define GSC__GPU_STATE_MAGIC UINT64_C(0x315f5547435f5347)

typedef struct gsc__gpu_layout {
    gsc__gpu_grid grid;
    int64_t gaussians, pixels;
    int64_t record_capacity; /* records of a camera */
    int32_t cameras;
    int32_t list_slots;                /* one for each camera, or a single one */
    bool keeps;                        /* something for a backward pass */
    uint32_t group_count, group_shift; /* groups of 2^group_shift chunks */
    /* offsets in a camera's part of state, and its size */
    size_t camera, background, seen, groups, offsets, firsts, final_t, walked, camera_bytes;
    size_t bytes; /* of state */
    /* offsets in a camera's part of intersections, and its size */
    size_t depths, order, unclamped, band, tile_order, part_bytes;
    size_t lists; /* offset of the lists in intersections */
    uint64_t hash;
} gsc__gpu_layout;

/* visible: the most Gaussians that a camera sees; 0: unknown, there is memory for all. */
void gsc__gpu_layout_plan(const gsc__raster *raster, int64_t visible, gsc__gpu_layout *layout);
/* Without intersections, as before project has counted, the frame has no records. */
void gsc__gpu_frame_open(const gsc__gpu_layout *layout, const gsc__raster_buffers *buffers,
                         int32_t camera, gsc__gpu_frame *frame);

/* Intersections whose lists fit into an intersection buffer of so many bytes. */
int64_t gsc__gpu_list_capacity(const gsc__gpu_layout *layout, size_t bytes);
/* Those of one frame, if every slot is there. */
int64_t gsc__gpu_slot_capacity(const gsc__gpu_layout *layout, size_t bytes);
/* Bytes of an intersection buffer whose slots hold frames of so many intersections. */
size_t gsc__gpu_lists_bytes(const gsc__gpu_layout *layout, int64_t intersections);

/* Blocks of the fast blending kernels, however many lists are long. */
uint32_t gsc__gpu_blend_blocks(const gsc__gpu_layout *layout, int multiprocessors);
/* Blocks of those for any number of channels. */
uint32_t gsc__gpu_blend_any_blocks(const gsc__gpu_layout *layout);
/* How many tiles the device blends at once.  A list longer than the frame's intersections divided
 * by this is more than one warp's share, and gets four times as many. */
uint32_t gsc__gpu_long_lists(const gsc__gpu_layout *layout, int multiprocessors);

#endif
