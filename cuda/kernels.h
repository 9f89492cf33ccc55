/* Argument structs of the kernels, shared with their launchers: plain C and CUDA.
 *
 * Every kernel is extern "C", named gsc_<name>, and takes one const __grid_constant__
 * struct gsc_k_<name>.  Pointers are device pointers.  Kernels read sizes that
 * only the device knows from the frame's header, so no launch waits for them: grids are sized
 * by upper bounds, and blocks without work return at once. */
#ifndef GSC_KERNELS_H
#define GSC_KERNELS_H

#include "../src/math/camera_math.h"
#include "adam_kernels.h"

/* One block writes host values to device memory, few enough for the 4 KiB of parameters. */
#define GSC__WRITE_BLOCK 256
#define GSC__WRITE_FLOATS 960
typedef struct gsc_k_write {
    float *to; /* [count] */
    uint32_t count;
    float values[GSC__WRITE_FLOATS];
} gsc_k_write;

/* -------------------------------------------------------------------- a frame */

/* A visible Gaussian: 48 bytes, read as three float4. */
typedef struct gsc__gpu_record {
    float mean[2];
    float r00, r01, r11; /* whitening factor, see gsc__whiten */
    float log2_opacity;
    float rgb[3];     /* of up to three channels, the others are 0; see gsc__draws */
    uint32_t columns; /* pixels in its ellipse's box: first | last << 16 */
    uint32_t rows;
    uint32_t gaussian; /* index */
} gsc__gpu_record;

/* What project counts and later steps read instead of waiting for the host. */
typedef struct gsc__gpu_header {
    uint64_t magic, layout;
    uint64_t intersections; /* of the frame */
    uint32_t visible;
    uint32_t outside; /* prefiltered points outside the planes */
} gsc__gpu_header;

/* Memory of a visible Gaussian: record, depth, place in the order, unclamped. */
#define GSC__RECORD_BYTES 57

/* A block of project takes a chunk of Gaussians, and neighbouring chunks form a group.  Few words
 * then tell where a chunk's visible Gaussians begin among the records: the sums of the groups
 * before, and the marks of the chunks before it in its own group. */
#define GSC__CHUNK 256

/* Tiles [begin, end) whose lists are in memory at once; begin == end: nothing to do. */
typedef struct gsc__gpu_band {
    uint32_t begin, end;
    uint32_t intersections;
    uint32_t unused; /* 16 bytes are one load */
} gsc__gpu_band;

/* One camera's part of state and of intersections.  Pointers that only a backward pass reads are
 * NULL where none follows. */
typedef struct gsc__gpu_frame {
    gsc__gpu_header *header;
    gsc__camera *camera;
    uint32_t *seen;           /* [chunks, GSC__CHUNK / 32] a bit per Gaussian: visible */
    uint32_t *groups;         /* [groups] visible Gaussians of each group of chunks */
    uint32_t group_shift;     /* 2^group_shift chunks are a group */
    uint32_t *firsts;         /* [chunks + 1] visible Gaussians of the chunks before, or NULL */
    uint64_t *offsets;        /* [tiles + 1] of the tiles' lists */
    float *final_t;           /* [H, W] or NULL */
    uint32_t *walked;         /* [H, W] intersections of its list that a pixel visited, or NULL */
    uint32_t gaussians;       /* N */
    uint32_t record_capacity; /* records that there is memory for */
    gsc__gpu_record *records; /* [record_capacity] the visible ones, in index order */
    float *depths;            /* [record_capacity] */
    uint32_t *order;          /* [record_capacity] records by depth, equal depths by index */
    uint8_t *unclamped;   /* [record_capacity] or NULL: a bit per SH channel above its clamp at 0 */
    gsc__gpu_band *band;  /* the whole frame, if it is one band */
    uint32_t *tile_order; /* [tiles + 1] see gsc_k_order_tiles */
} gsc__gpu_frame;

/* Tiles of 2^shift_x by 2^shift_y pixels, both multiples of 16: list i belongs to tile
 * (i % tiles_x, i / tiles_x). */
typedef struct gsc__gpu_grid {
    int32_t width, height;
    int32_t shift_x, shift_y;
    int32_t tiles_x, tiles_y, tiles;
} gsc__gpu_grid;

/* One thread cuts the frame into bands of at most `capacity` intersections.  A single round takes
 * the whole frame or nothing, and reads no offsets. */
typedef struct gsc_k_plan_bands {
    gsc__gpu_frame frame;
    gsc__gpu_grid grid;
    uint32_t capacity, rounds;
    gsc__gpu_band *bands; /* [rounds] */
    int64_t *overflow;    /* scalar or NULL: bytes needed if the frame is not blended, else 0 */
    int64_t record_bytes; /* of the intersections, before the lists */
    int32_t cameras, list_slots; /* each for the lists of the largest frame */
    bool add;                    /* not the first camera: keep the largest overflow */
} gsc_k_plan_bands;

/* -------------------------------------------------------------------- project */

/* A camera's tensors: pointers of `source` to the device, or NULL for values that came from the
 * host, which are in the arrays. */
typedef struct gsc__gpu_camera_source {
    gsc__camera_source source;
    float view[16], projection[16], intrinsics[4], position[3];
    bool host_view, host_projection, host_intrinsics, host_position;
} gsc__gpu_camera_source;

/* The first block begins a frame: its camera, its header and empty groups.  The others clear. */
#define GSC__BEGIN_BLOCK 128
#define GSC__CLEAR_BLOCKS 128
typedef struct gsc_k_begin {
    gsc__gpu_camera_source source;
    gsc__camera *camera;
    gsc__gpu_header *header;
    uint32_t *groups; /* [group_count] */
    uint32_t group_count;
    uint32_t *clear; /* [clear_count, 4] zeroed */
    uint32_t clear_count;
    uint64_t magic, layout;
} gsc_k_begin;

/* Arguments of two kernels.  project, a thread per Gaussian and a block per chunk, finds which ones
 * are visible and how many tiles they reach.  records, a block per record_chunks chunks, writes
 * the records of the visible ones and where they begin; one thread plans a frame of one round. */
#define GSC__RECORD_BLOCK 128
#define GSC__RECORD_CHUNKS 4
typedef struct gsc_k_project {
    gsc__gpu_frame frame;
    gsc__gpu_grid grid;
    int64_t gaussians;
    float scale_modifier, radius_clip;
    int32_t channels, sh_degree, sh_coefficients, prefiltered;
    int32_t log_scales, logit_opacities; /* what is stored */
    const float *means;                  /* [N, 3] */
    const float *opacities;              /* [N] */
    const float *scales;                 /* [N, 3] or NULL */
    const float *rotations;              /* [N, 4] */
    const float *covariances;            /* [N, 6] */
    const float *colors;                 /* [N, channels] or NULL */
    const float *sh;                     /* [N, sh_coefficients, 3] */
    const float *sh_dc;                  /* [N, 3] or NULL */
    uint32_t record_chunks;              /* of a block, at most GSC__RECORD_CHUNKS */
    gsc_k_plan_bands plan;               /* records plans if rounds is 1 */
    gsc__gpu_header *report;             /* on the host, or NULL: records copies the header to
                                            it, the magic number last */
    /* outputs of this camera, or NULL */
    int32_t *radii; /* [N, radii_axes] */
    int32_t radii_axes;
    bool more_outputs;    /* any of these */
    float *means2d;       /* [N, 2] */
    float *out_depths;    /* [N] */
    float *conics;        /* [N, 3] */
    float *out_opacities; /* [N] */
} gsc_k_project;

/* Which Gaussians are between the near and far planes, a thread each. */
#define GSC__MARK_BLOCK 256
typedef struct gsc_k_mark_visible {
    gsc__gpu_camera_source source;
    int64_t gaussians;
    const float *means; /* [N, 3] */
    uint8_t *visible;   /* [N] */
} gsc_k_mark_visible;

/* ----------------------------------------------------------------------- tiles */

/* Arguments of two kernels, for a frame of several bands, which needs its offsets before its lists.
 * count_tiles marks the tiles that each record reaches by +1 and -1 along the rows of tiles, and
 * one block of sum_tiles sums the marks to offsets.  A block takes GSC__COUNT_CHUNK records.
 * It marks in shared memory if there are at most GSC__COUNT_SHARED tiles, so that crowded tiles do
 * not serialise the device. */
#define GSC__COUNT_BLOCK 128
#define GSC__COUNT_CHUNK 2048
#define GSC__COUNT_SHARED 16384
#define GSC__SUM_BLOCK 1024
typedef struct gsc_k_count_tiles {
    gsc__gpu_frame frame;
    gsc__gpu_grid grid;
    int32_t *differences; /* [tiles_y, tiles_x + 1], zeroed */
} gsc_k_count_tiles;

/* Words that many blocks write, each in a cache line of its own. */
typedef struct gsc__gpu_order_progress {
    uint32_t next, line0[31];
    uint32_t found, line1[31]; /* blocks whose keys are done, see gsc_k_find_tiles */
} gsc__gpu_order_progress;

/* Orders the band's tiles by falling list length, roughly, so that long lists start first.  Behind
 * them it writes how many lists are longer than the band's intersections divided by long_lists:
 * at most long_lists.  Two blocks for each chunk of GSC__ORDER_BLOCK tiles. */
#define GSC__ORDER_BLOCK 512
#define GSC__ORDER_CLASSES 128 /* of lengths */
typedef struct gsc_k_order_tiles {
    gsc__gpu_frame frame;
    gsc__gpu_grid grid;
    const gsc__gpu_band *band;
    uint32_t long_lists;
    uint32_t chunks;                   /* of all tiles */
    gsc__gpu_order_progress *progress; /* zeroed */
    uint32_t *counts;                  /* [chunks, GSC__ORDER_CLASSES] zeroed: a count + 1 */
} gsc_k_order_tiles;

/* For a frame of one band: a thread per GSC__FIND_KEYS keys finds the tiles that begin among them.
 * The blocks that start last order the tiles, so the grid is that of the keys plus that of
 * gsc_k_order_tiles. */
#define GSC__FIND_BLOCK GSC__ORDER_BLOCK
#define GSC__FIND_KEYS 8
typedef struct gsc_k_find_tiles {
    gsc_k_order_tiles order;
    const void *keys; /* [capacity] sorted, 16 or 32 bits */
    bool narrow;      /* 16 */
} gsc_k_find_tiles;

/* A thread per record in depth order writes the record's intersections with the band, behind those
 * of the records before it. */
#define GSC__EMIT_BLOCK 128
typedef struct gsc_k_emit {
    gsc__gpu_frame frame;
    gsc__gpu_grid grid;
    const gsc__gpu_band *band;
    uint32_t *next;   /* zeroed: the next block's number */
    uint64_t *blocks; /* [blocks] look-back, zeroed */
    void *keys;       /* [capacity] tiles, counted from the band's first, 16 or 32 bits */
    bool narrow;      /* 16 */
    uint32_t *values; /* [capacity] records */
} gsc_k_emit;

/* ---------------------------------------------------------------------- blend */

/* A warp owns 16x8 pixels, or 8x4 in tiles of long lists.  Records hold up to three channels; more
 * are blended in groups, each of which walks the lists once. */
#define GSC__BLEND_BLOCK 64
#define GSC__BLEND_RESIDENT 32 /* warps that a multiprocessor holds, about */
#define GSC__BLEND_CHANNELS 16 /* of a group */
typedef struct gsc_k_blend {
    gsc__gpu_frame frame;
    gsc__gpu_grid grid;
    const gsc__gpu_band *band;
    const uint32_t *lists; /* [capacity] */
    uint32_t capacity;
    const float *background;   /* [channels] or NULL */
    const float *colors;       /* [N, channels], more than three */
    int32_t channels, channel; /* channel: the first of the group */
    int32_t pixel_last;
    float median_default;
    float *color; /* [channels, H, W] or [H, W, channels] */
    float *alpha; /* [H, W] or NULL, as those below */
    float *depth;
    float *inv_depth;
    float *median_depth;
    const float *pixel_weights; /* [H, W] */
    bool statistics;            /* any of these: of this camera [N], zeroed; the 64-bit ones in
                                   fixed point */
    int32_t *touched, *weight_count;
    uint64_t *weight_sum, *weight_blend, *weight_distance;
    const float *weight_scale; /* scalar: the factor of weight_sum's values */
} gsc_k_blend;

#define GSC__BLEND_SCALE 4294967296.0f /* 2^32: alpha T is below 1 */
#define GSC__DISTANCE_SCALE 1048576.0f /* 2^20 */

#define GSC__SCALE_BLOCK 1024
typedef struct gsc_k_weight_scale {
    const float *pixel_weights; /* [pixels] */
    int64_t pixels;
    float *scale;
} gsc_k_weight_scale;

/* Converts statistics from fixed point to float; NULL outputs are not wanted. */
#define GSC__STATISTICS_BLOCK 256
typedef struct gsc_k_finish_statistics {
    int64_t gaussians;
    const uint64_t *fixed_sum, *fixed_blend, *fixed_distance; /* [N] */
    const float *weight_scale;
    float *weight_sum, *weight_blend, *weight_distance; /* [N] */
} gsc_k_finish_statistics;

/* blend_backward adds to GSC__SUMS floats of each record: w, w u, w v, w u^2, w u v, w v^2, red,
 * green, blue, depth, |x|, |y|. */
#define GSC__SUMS 12
typedef struct gsc_k_blend_backward {
    gsc__gpu_frame frame;
    gsc__gpu_grid grid;
    const gsc__gpu_band *band;
    const uint32_t *lists; /* [capacity] */
    uint32_t capacity;
    const float *background;   /* [channels] or NULL */
    const float *colors;       /* [N, channels], more than three */
    int32_t channels, channel; /* channel: the first of the group */
    int32_t pixel_last;
    bool whole;              /* this group's moments are those of all channels */
    bool moments;            /* false: only the colours' gradients are wanted of this group */
    float alpha_limit;       /* an alpha above it has no gradient */
    const float *grad_color; /* [channels, H, W] or [H, W, channels], or NULL */
    const float *grad_alpha; /* [H, W] or NULL, as those below */
    const float *grad_depth;
    const float *grad_inv_depth;
    float *sums;        /* [record_capacity, GSC__SUMS] of the records */
    float *grad_colors; /* [N, channels] of the Gaussians, more than three; or NULL */
    /* reproducible: see sums.cuh */
    uint64_t *fixed;       /* [record_capacity, GSC__SUMS] */
    float *color_sums;     /* [record_capacity, color_width] in place of grad_colors, or NULL */
    uint64_t *color_fixed; /* [record_capacity, color_width] */
    uint32_t color_width;  /* channels, rounded up to a multiple of 4 */
} gsc_k_blend_backward;

/* Arguments of two kernels, after both passes.  finish_sums converts reproducible sums to floats,
 * finish_colors adds those of colours to the gradients of the records' Gaussians. */
#define GSC__FINISH_BLOCK 256
typedef struct gsc_k_finish_sums {
    gsc__gpu_frame frame;
    const uint64_t *fixed; /* [records, width] */
    float *sums;           /* [records, width] finish_sums: in and out */
    uint32_t width, channels;
    float *grad_colors; /* [N, channels] */
} gsc_k_finish_sums;

/* Clears the sums of the records. */
#define GSC__CLEAR_BLOCK 256
typedef struct gsc_k_clear_sums {
    gsc__gpu_frame frame;
    void *to; /* [records, quads] of 16 bytes */
    uint32_t quads;
} gsc_k_clear_sums;

/* A block per chunk makes the gradients of its Gaussians and its share of the camera's.  A gradient
 * that is overwritten is written for every Gaussian, any other is added to for the visible ones. */
#define GSC__PROJECT_BACKWARD_BLOCK 128
#define GSC__CAMERA_SHARES 15 /* 3x4 view, 3 position */

/* Where a Gaussian's gradients stand in its row of results, in floats. */
enum gsc__gpu_result {
    GSC__RESULT_BASIS = 0,       /* [25] of spherical harmonics */
    GSC__RESULT_ROTATION = 28,   /* [4] */
    GSC__RESULT_SCALE = 32,      /* [3] */
    GSC__RESULT_COVARIANCE = 28, /* [6] in place of these two */
    GSC__RESULT_OPACITY = 35,
    GSC__RESULT_MEAN = 36,       /* [3] */
    GSC__RESULT_COLOR = 40,      /* [3] */
    GSC__RESULT_MEAN2D = 44,     /* [2], and a zero */
    GSC__RESULT_MEAN2D_ABS = 48, /* [2], and a zero */
    GSC__RESULT_SIZE = 52
};

/* A wanted gradient: [N, width], or of SH coefficients [N, width / 3, 3] from `result` on. */
typedef struct gsc__gpu_gradient {
    float *to;
    uint32_t width;
    uint32_t used; /* values of a row that are not always zero */
    uint32_t result;
    bool overwrite; /* instead of adding */
} gsc__gpu_gradient;

#define GSC__GRADIENTS_MAX 8
typedef struct gsc_k_project_backward {
    gsc__gpu_frame frame;
    int64_t gaussians;
    float scale_modifier;
    int32_t sh_degree, sh_coefficients;
    const float *means, *opacities, *scales, *rotations, *covariances, *sh, *sh_dc;
    const float *sums; /* [record_capacity, GSC__SUMS] */
    bool has_sh, ndc;
    bool log_scales, logit_opacities; /* what is stored, and so differentiated */
    uint32_t gradients, sh_gradients;
    gsc__gpu_gradient gradient[GSC__GRADIENTS_MAX], sh_gradient[2];
    double *shares; /* [blocks, GSC__CAMERA_SHARES] or NULL */
} gsc_k_project_backward;

/* A parameter that Adam steps, laid out as its gradient would be. */
typedef struct gsc__gpu_step {
    float *parameter, *moment1, *moment2; /* [N, width] */
    uint32_t width, used, result;         /* as in gsc__gpu_gradient */
    bool harmonics;                       /* result belongs to the basis */
    bool vectors;                         /* rows consist of whole 16-byte vectors */
    gsc__adam_constants constants;
} gsc__gpu_step;

/* The same, and then steps of Adam for the visible Gaussians' parameters. */
#define GSC__STEPS_MAX 8
typedef struct gsc_k_project_backward_step {
    gsc_k_project_backward project_backward;
    const int32_t *radii; /* [N, radii_axes] a row is stepped where one is not 0; NULL: all are */
    int32_t radii_axes;
    uint32_t steps;
    gsc__gpu_step step[GSC__STEPS_MAX];
} gsc_k_project_backward_step;

/* One block adds the shares, in a fixed order, to the gradients of view and position. */
#define GSC__CAMERA_GRAD_BLOCK (64 * GSC__CAMERA_SHARES)
typedef struct gsc_k_camera_grad {
    const gsc__camera *camera;
    const double *shares; /* [blocks, GSC__CAMERA_SHARES] */
    uint32_t blocks;
    int32_t row_major, own_position;
    float *grad_view;     /* [16] or NULL */
    float *grad_position; /* [3] or NULL */
} gsc_k_camera_grad;

/* A block per channel. */
#define GSC__BACKGROUND_GRAD_BLOCK 1024
typedef struct gsc_k_background_grad {
    const float *final_t;    /* [pixels] */
    const float *grad_color; /* [channels, pixels] or [pixels, channels] */
    int64_t pixels;
    int32_t channels, pixel_last;
    float *grad_background; /* [channels], added to */
} gsc_k_background_grad;

#endif
