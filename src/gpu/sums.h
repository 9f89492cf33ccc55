/* The sums of backward, between pixels and Gaussians: fast ones, or with GSC_RASTER_DETERMINISTIC
 * reproducible ones, see cuda/sums.cuh. */
#ifndef GSC_GPU_SUMS_H
#define GSC_GPU_SUMS_H

#include "pass.h"

typedef struct gsc__gpu_sums {
    float *sums;    /* [record_capacity, GSC__SUMS] of the records */
    double *shares; /* [chunks, GSC__CAMERA_SHARES] of the camera's gradient */
    /* reproducible, else NULL */
    uint64_t *fixed; /* [record_capacity, GSC__SUMS] */
    /* and of colours in other than 3 channels, else NULL */
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

#endif
