/* Depth order and tile lists on the device: launches of sort.cu and lists.cu. */
#ifndef GSC_GPU_TILE_LISTS_H
#define GSC_GPU_TILE_LISTS_H

#include "raster_state.h"

/* The lists of one round of tiles, in the caller's buffers. */
typedef struct gsc__gpu_tile_lists {
    gsc__gpu_band *bands; /* [rounds] on the device */
    uint32_t rounds;      /* the most that the frame can need */
    uint32_t *values;     /* [capacity] in intersections */
    uint32_t capacity;
    bool stay; /* until backward: all of them, and no other camera's in their place */
    /* work space */
    int32_t *differences; /* [tiles_y, tiles_x + 1], of several rounds */
    unsigned char *zeroed;
    size_t zeroed_bytes;
    bool is_zeroed;                          /* for the next sort of depths and fill */
    unsigned char *emission;                 /* next, then look-back states [blocks] */
    gsc__gpu_order_progress *order_progress; /* scalar */
    uint32_t *order_counts;                  /* [chunks of tiles, GSC__ORDER_CLASSES] */
    void *depth_sort, *sort;                 /* their scratch */
    uint32_t *depth_keys[2], *depth_values;  /* [room], dead when lists are made */
    void *keys, *other_keys;                 /* [capacity] */
    uint32_t *other_values;                  /* [capacity] */
} gsc__gpu_tile_lists;

/* For lists of at most so many intersections at once. */
size_t gsc__gpu_lists_scratch_bytes(const gsc__gpu_layout *layout, int64_t intersections);

/* Into how many rounds of bands a camera's frame goes and where its lists are, as the
 * intersection buffer and info say, so that forward and backward agree.
 * GSC_ERROR_BUFFER_TOO_SMALL where a tile may not fit. */
gsc_status gsc__gpu_lists_begin(const gsc__gpu_layout *layout, int32_t camera,
                                const gsc__gpu_frame *frame, const gsc__raster_buffers *buffers,
                                const gsc_raster_info *info, gsc__gpu_tile_lists *lists,
                                const char *function);
/* Lays out the work space, of which no more than gsc__gpu_lists_scratch_bytes are used. */
void gsc__gpu_lists_work_space(const gsc__gpu_layout *layout, void *scratch,
                               gsc__gpu_tile_lists *lists);
gsc_status gsc__gpu_lists_clear(gsc_context *context, gsc__gpu_tile_lists *lists, void *stream,
                                const char *function);

/* frame->order by frame->depths. */
gsc_status gsc__gpu_sort_depths(gsc_context *context, const gsc__gpu_frame *frame,
                                const gsc__gpu_tile_lists *lists, void *stream,
                                const char *function);

/* How the bands are planned: by records where there is one round, else by gsc__gpu_lists_plan. */
gsc_k_plan_bands gsc__gpu_plan_args(const gsc__gpu_layout *layout, const gsc__gpu_frame *frame,
                                    const gsc__gpu_tile_lists *lists, int64_t *overflow, bool add);
/* count: the offsets are not known yet, as they are when a frame was drawn before. */
gsc_status gsc__gpu_lists_plan(gsc_context *context, const gsc__gpu_layout *layout,
                               const gsc__gpu_frame *frame, const gsc__gpu_tile_lists *lists,
                               const gsc_k_plan_bands *plan, bool count, void *stream,
                               const char *function);

/* Makes the lists and the tiles' order of one round. */
gsc_status gsc__gpu_lists_fill(gsc_context *context, const gsc__gpu_layout *layout,
                               const gsc__gpu_frame *frame, gsc__gpu_tile_lists *lists,
                               uint32_t round, void *stream, const char *function);

#endif
