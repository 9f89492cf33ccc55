/* Backward blending: from the gradients of a band's pixels to sums per list entry. */
#ifndef GSC_CPU_BLEND_BACKWARD_H
#define GSC_CPU_BLEND_BACKWARD_H

#include "bins.h"

#define gsc__unblend_scratch_bytes GSC__ISA_NAME(gsc__unblend_scratch_bytes)
#define gsc__unblend_slot_size GSC__ISA_NAME(gsc__unblend_slot_size)
#define gsc__unblend_band GSC__ISA_NAME(gsc__unblend_band)

/* What a list entry's slot holds, in order: sums over its pixels of w, w u, w v, w u^2,
 * w u v, w v^2, |w dx term|, |w dy term|, then for each feature the sum of alpha T g.
 * Here w = alpha dL/dalpha, (u, v) the whitened offset from the mean, g the gradient
 * of the pixel by the feature; the features are the channels, depth and inverse depth
 * (the last two only if their gradient was given). */
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
int32_t gsc__unblend_slot_size(const gsc__raster *raster, const gsc__raster_grads *grads);

size_t gsc__unblend_scratch_bytes(const gsc__raster *raster);

/* Adds to slots [slots of the band, slot size], which the caller has zeroed.  scratch:
 * that of gsc__unblend_scratch_bytes for each thread.  False if the state is damaged. */
bool gsc__unblend_band(gsc__pool *pool, const gsc__raster *raster, int32_t index,
                       const gsc__raster_grads *grads, const gsc__frame *frame,
                       const gsc__band *band, gsc_real *slots, void *scratch);

#endif
