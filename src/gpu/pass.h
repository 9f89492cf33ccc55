/* What the steps of one camera's forward or backward pass share. */
#ifndef GSC_GPU_PASS_H
#define GSC_GPU_PASS_H

#include "raster_state.h"

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

#endif
