/* The sums of backward, between pixels and Gaussians: fast ones, or with
 * GSC_RASTER_DETERMINISTIC such as come out the same every time, see cuda/sums.cuh. */
#ifndef GSC_GPU_RASTER_SUMS_H
#define GSC_GPU_RASTER_SUMS_H

#include "raster_state.h"

typedef struct gsc__gpu_sums {
    float *sums;    /* [room, GSC__SUMS] of the records */
    double *shares; /* [chunks, GSC__CAMERA_SHARES] of the camera's gradient */
    /* NULL without the flag */
    uint64_t *fixed; /* [room, GSC__SUMS] */
    /* of colours in other than 3 channels, NULL where there are none */
    float *color_sums;     /* [room, color_width] */
    uint64_t *color_fixed; /* [room, color_width] */
    uint32_t color_width;
    size_t bytes;
} gsc__gpu_sums;

/* In the memory from base on; with NULL only bytes counts. */
gsc__gpu_sums gsc__gpu_sums_layout(const gsc__raster *raster, const gsc__gpu_layout *layout,
                                   void *base);
/* Zeroes those of the visible Gaussians. */
gsc_status gsc__gpu_sums_clear(gsc_context *context, const gsc__gpu_frame *frame,
                               const gsc__gpu_sums *sums, void *stream, const char *function);
/* After both passes: sums to floats, those of colours added to grad_colors [N, channels],
 * which may be NULL. */
gsc_status gsc__gpu_sums_finish(gsc_context *context, const gsc__raster *raster,
                                const gsc__gpu_frame *frame, const gsc__gpu_sums *sums,
                                float *grad_colors, void *stream, const char *function);

#endif
