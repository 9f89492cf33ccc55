/* The last part of backward: from sums for each splat to gradients of Gaussians and camera. */
#ifndef GSC_CPU_PROJECT_BACKWARD_H
#define GSC_CPU_PROJECT_BACKWARD_H

#include "blend_backward.h"

/* A splat's sums over the whole frame, as in its slots. */
typedef struct gsc__splat_sums {
    gsc_real moments[GSC__SLOT_FEATURES];
    gsc_real rgb[3]; /* with 3 channels; any other number goes straight to grads->colors */
    gsc_real depth, inv_depth;
} gsc__splat_sums;

/* Adds the band's slots to sums [N] and, with other than 3 channels, to grads->colors.  A splat's
 * slots are added in tile order, which is the same however the frame is cut into bands. */
static void gsc__add_slots(gsc__pool *pool, const gsc__raster_grads *grads, const gsc__frame *frame,
                           const gsc__listed_splat *splats, const gsc__band *band,
                           const gsc_real *slots, gsc__splat_sums *sums);

static size_t gsc__project_backward_scratch_bytes(const gsc__raster *raster);

/* Adds the camera's part to every gradient that is wanted, except background, and makes the
 * steps of grads.  seen: [N] 1 for the visible; scratch:
 * gsc__project_backward_scratch_bytes. */
static void gsc__project_backward_frame(gsc__pool *pool, const gsc__raster_grads *grads,
                                        const gsc__frame *frame, const uint8_t *seen,
                                        const gsc__splat_sums *sums, void *scratch);

#endif
