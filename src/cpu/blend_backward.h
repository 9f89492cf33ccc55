/* Backward blending: from the gradients of a band's pixels to sums for each intersection. */
#ifndef GSC_CPU_BLEND_BACKWARD_H
#define GSC_CPU_BLEND_BACKWARD_H

#include "tile_lists.h"

/* What an intersection's slot holds, in order: sums over its pixels of w, w u, w v, w u^2, w u v,
 * w v^2, |w dx term|, |w dy term|, then for each feature the sum of alpha T g.  Here
 * w = alpha dL/dalpha, (u, v) is the whitened offset from the mean, and g the gradient with
 * respect to the pixel's feature.  The features are the channels, depth and inverse depth (the
 * last two only if their gradient was given). */
enum {
    GSC__SLOT_W,
    GSC__SLOT_U,
    GSC__SLOT_V,
    GSC__SLOT_UU,
    GSC__SLOT_UV,
    GSC__SLOT_VV,
    GSC__SLOT_ABS_X,
    GSC__SLOT_ABS_Y,
    GSC__SLOT_FEATURES
};
static int32_t gsc__slot_size(const gsc__raster *raster, const gsc__raster_grads *grads);

/* Bytes that one thread needs. */
static size_t gsc__blend_backward_scratch_bytes(const gsc__raster *raster);

/* Adds to slots [intersections of the band, slot size], which the caller has zeroed.  scratch:
 * gsc__blend_backward_scratch_bytes for each thread.  False if the state is damaged. */
static bool gsc__blend_backward_band(gsc__pool *pool, const gsc__raster_grads *grads,
                                     const gsc__frame *frame, const gsc__band *band,
                                     gsc_real *slots, void *scratch);

#endif
