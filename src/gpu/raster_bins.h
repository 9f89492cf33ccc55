/* Depth order and bin lists on the device: launches of sort.cu and bins.cu. */
#ifndef GSC_GPU_RASTER_BINS_H
#define GSC_GPU_RASTER_BINS_H

#include "raster_state.h"

/* The lists of one round of bins, in the caller's buffers. */
typedef struct gsc__gpu_bins {
    gsc__gpu_band *bands; /* [rounds] on the device */
    uint32_t rounds;      /* the most that the frame can need */
    uint32_t *bin_order;  /* [bins + 1] */
    uint32_t *lists;      /* [capacity] in intersections */
    uint32_t capacity;
    /* work space */
    int32_t *differences;                       /* [bins_y, bins_x + 1] */
    unsigned char *emission;                    /* ticket, then look-back states [blocks] */
    uint32_t *keys, *other_keys, *other_values; /* [capacity] */
    void *sort;                                 /* its scratch */
    void *rest;                                 /* the scratch behind all this */
} gsc__gpu_bins;

/* For lists of at most so many entries at once. */
size_t gsc__gpu_bins_scratch_bytes(const gsc__gpu_layout *layout, int64_t entries);
/* What render needs behind it for statistics. */
size_t gsc__gpu_statistics_bytes(const gsc__gpu_layout *layout);

size_t gsc__gpu_sort_scratch_bytes(const gsc__gpu_layout *layout);
/* frame->order by frame->depths. */
gsc_status gsc__gpu_sort_depths(gsc_context *context, const gsc__gpu_layout *layout,
                                const gsc__gpu_frame *frame, void *scratch, void *stream,
                                const char *function);

/* Lays out the scratch and cuts the frame into bands that the intersection buffer holds.
 * count: the offsets are not known yet, as they are when a frame was drawn before.
 * GSC_ERROR_BUFFER_TOO_SMALL where info says that a bin may not fit. */
gsc_status gsc__gpu_bins_plan(gsc_context *context, const gsc__gpu_layout *layout,
                              const gsc__gpu_frame *frame, const gsc__raster_buffers *buffers,
                              const gsc_raster_info *info, bool count, int64_t *overflow, bool add,
                              gsc__gpu_bins *bins, void *stream, const char *function);

/* Makes bin_order of one round. */
gsc_status gsc__gpu_bins_order(gsc_context *context, const gsc__gpu_layout *layout,
                               const gsc__gpu_frame *frame, const gsc__gpu_bins *bins,
                               uint32_t round, void *stream, const char *function);

/* Makes the lists and bin_order of one round. */
gsc_status gsc__gpu_bins_fill(gsc_context *context, const gsc__gpu_layout *layout,
                              const gsc__gpu_frame *frame, const gsc__gpu_bins *bins,
                              uint32_t round, void *stream, const char *function);

#endif
