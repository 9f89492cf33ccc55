/* The steps of the rasterizer on CUDA: layout of its buffers, one camera's pass, lists, sums. */
#ifndef GSC_GPU_RASTER_H
#define GSC_GPU_RASTER_H

#include "gpu.h"

/* -------------------------------------------------------------------- buffers */

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

#define GSC__GPU_STATE_MAGIC UINT64_C(0x315f5547435f5347)

typedef struct gsc__gpu_layout {
    gsc__gpu_grid grid;
    int64_t gaussians, pixels;
    int64_t record_capacity; /* records of a camera */
    int32_t cameras;
    int32_t list_slots;                /* one for each camera, or a single one */
    bool keeps;                        /* something for a backward pass */
    uint32_t group_count, group_shift; /* groups of 2^group_shift chunks */
    size_t background_bytes;           /* behind the camera */
    size_t camera_bytes, bytes;        /* of a camera's part of state, and of state */
    size_t part_bytes, lists; /* of a camera's part of intersections; offset of the lists there */
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

/* Blocks of the blending kernels, however many lists are long. */
uint32_t gsc__gpu_blend_blocks(const gsc__gpu_layout *layout, int multiprocessors);
/* How many tiles the device blends at once.  A list longer than the frame's intersections divided
 * by this is more than one warp's share, and gets four times as many. */
uint32_t gsc__gpu_long_lists(const gsc__gpu_layout *layout, int multiprocessors);

/* ----------------------------------------------------------------------- pass */

/* The lists of one round of tiles, in the caller's buffers. */
typedef struct gsc__gpu_tile_lists {
    gsc__gpu_band *bands; /* [rounds] on the device */
    uint32_t rounds;      /* the most that the frame can need */
    uint32_t *values;     /* [capacity] in intersections: record numbers */
    uint32_t capacity;
    bool stay; /* until backward: all of them, in memory that no other camera uses */
    /* work space */
    int32_t *differences; /* [tiles_y, tiles_x + 1], if there are several rounds */
    unsigned char *zeroed;
    size_t zeroed_bytes;
    bool is_zeroed;                          /* for the next sort of depths and fill */
    uint64_t *emit_states;                   /* [1 + blocks] next block, look-back of each */
    gsc__gpu_order_progress *order_progress; /* scalar */
    uint32_t *order_counts;                  /* [chunks of tiles, GSC__ORDER_CLASSES] */
    void *depth_sort, *sort;                 /* scratch of the two sorts */
    uint32_t *depth_keys[2], *depth_values;  /* [record_capacity], dead when lists are made */
    void *keys, *other_keys;                 /* [capacity] */
    uint32_t *other_values;                  /* [capacity] */
} gsc__gpu_tile_lists;

typedef struct gsc__gpu_pass {
    const gsc__call *call;
    const gsc__raster *raster;
    const gsc__raster_buffers *buffers;
    const gsc__raster_outputs *outputs;
    const gsc__raster_grads *grads; /* of backward */
    const gsc_raster_info *info;    /* what is known or expected of the frames */
    gsc__gpu_layout layout;
    int multiprocessors;
    int32_t camera; /* its number */
    gsc__gpu_frame frame;
    gsc__gpu_tile_lists lists;
} gsc__gpu_pass;

/* Before the first camera.  info NULL: nothing is known of the frames. */
gsc__gpu_pass gsc__gpu_pass_begin(const gsc__raster_call *call, const gsc_raster_info *info);
/* Goes on to a camera. */
void gsc__gpu_pass_open(gsc__gpu_pass *pass, int32_t camera);

/* The camera's background: the caller's, or for one on the host a copy in the state; NULL without
 * one. */
gsc_status gsc__gpu_background(const gsc__gpu_pass *pass, const float **background);
/* The camera as kernels take it. */
void gsc__gpu_camera_source_of(const gsc__raster *raster, int32_t camera,
                               gsc__gpu_camera_source *out);
/* The camera's colours, or NULL. */
static inline const float *gsc__gpu_colors(const gsc__gpu_pass *pass) {
    const gsc__raster *raster = pass->raster;
    return raster->colors ? raster->colors + pass->camera * raster->colors_stride : NULL;
}

/* ------------------------------------------------- depth order and tile lists */

/* For lists of at most so many intersections at once. */
size_t gsc__gpu_lists_scratch_bytes(const gsc__gpu_layout *layout, int64_t intersections);

/* Sets pass->lists: how many rounds of bands the frame takes and where its lists are.  Both follow
 * from the intersection buffer and pass->info, so that forward and backward agree.
 * GSC_ERROR_BUFFER_TOO_SMALL where a tile may not fit. */
gsc_status gsc__gpu_lists_begin(gsc__gpu_pass *pass);
/* Lays out the work space, which takes at most gsc__gpu_lists_scratch_bytes. */
void gsc__gpu_lists_work_space(gsc__gpu_pass *pass, void *scratch);
gsc_status gsc__gpu_lists_clear(gsc__gpu_pass *pass);

/* frame.order by frame.depths. */
gsc_status gsc__gpu_sort_depths(const gsc__gpu_pass *pass);

/* Plans the bands of a frame; the records kernel does so where there is one round, else
 * gsc__gpu_lists_plan. */
gsc_k_plan_bands gsc__gpu_plan_args(const gsc__gpu_pass *pass, int64_t *overflow);
/* count: the offsets are not known yet; backward finds forward's. */
gsc_status gsc__gpu_lists_plan(const gsc__gpu_pass *pass, const gsc_k_plan_bands *plan, bool count);

/* Makes the lists of one round, and the order of its tiles. */
gsc_status gsc__gpu_lists_fill(gsc__gpu_pass *pass, uint32_t round);

/* ----------------------------------------------------------------------- sums */

/* The sums of backward, between pixels and Gaussians: fast ones, or with GSC_RASTER_DETERMINISTIC
 * reproducible ones, see cuda/sums.cuh. */

typedef struct gsc__gpu_sums {
    float *sums;    /* [record_capacity, GSC__SUMS] of the records */
    double *shares; /* [chunks, GSC__CAMERA_SHARES] of the camera's gradient */
    /* reproducible, else NULL */
    uint64_t *fixed; /* [record_capacity, GSC__SUMS] */
    /* and of colours in more than three channels, else NULL */
    float *color_sums;     /* [record_capacity, color_width] */
    uint64_t *color_fixed; /* [record_capacity, color_width] */
    uint32_t color_width;
    size_t bytes;
} gsc__gpu_sums;

/* In the memory from base on; base NULL: only bytes is of use. */
gsc__gpu_sums gsc__gpu_sums_carve(const gsc__raster *raster, const gsc__gpu_layout *layout,
                                  void *base);
/* Clears those of the visible Gaussians. */
gsc_status gsc__gpu_sums_clear(const gsc__gpu_pass *pass, const gsc__gpu_sums *sums);
/* After both passes over the pixels: makes reproducible sums floats, and adds those of colours to
 * grad_colors [N, channels], which may be NULL. */
gsc_status gsc__gpu_sums_finish(const gsc__gpu_pass *pass, const gsc__gpu_sums *sums,
                                float *grad_colors);

/* What blending sums up per Gaussian: counters in place, sums in fixed point beside them. */

/* Memory for one camera's sums. */
size_t gsc__gpu_statistics_bytes(const gsc__gpu_layout *layout);
/* Clears sums and counters, and hands both to blending. */
gsc_status gsc__gpu_statistics_begin(const gsc__gpu_pass *pass, void *memory, gsc_k_blend *blend);
/* After the last band: sums to the outputs. */
gsc_status gsc__gpu_statistics_finish(const gsc__gpu_pass *pass, const gsc_k_blend *blend);

#endif
