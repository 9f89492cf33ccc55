/* The last part of backward: from sums per splat to gradients of Gaussians and camera. */
#ifndef GSC_CPU_PROJECT_BACKWARD_H
#define GSC_CPU_PROJECT_BACKWARD_H

#include "blend_backward.h"

#define gsc__unproject_add_slots GSC__ISA_NAME(gsc__unproject_add_slots)
#define gsc__unproject_frame GSC__ISA_NAME(gsc__unproject_frame)
#define gsc__unproject_partials_bytes GSC__ISA_NAME(gsc__unproject_partials_bytes)

/* A splat's sums over the whole frame, as in its slots. */
typedef struct gsc__splat_sums {
    gsc_real moments[GSC__SLOT_FEATURES];
    gsc_real rgb[3]; /* with 3 channels; other counts go straight to grads->colors */
    gsc_real depth, inv_depth;
} gsc__splat_sums;

/* Adds the band's slots to sums [N] and, with other than 3 channels, to grads->colors,
 * each splat's own in tile order: band after band that is one order for every choice
 * of bands. */
void gsc__unproject_add_slots(gsc__pool *pool, const gsc__raster *raster, int32_t index,
                              const gsc__raster_grads *grads, const gsc__bin_item *items,
                              int64_t visible, const gsc__band *band, const gsc_real *slots,
                              gsc__splat_sums *sums);

size_t gsc__unproject_partials_bytes(const gsc__raster *raster);

/* Adds the camera's part to every gradient of grads that is wanted, but background, and
 * makes its steps.
 * seen: [N] 1 for the visible; partials: scratch of gsc__unproject_partials_bytes. */
void gsc__unproject_frame(gsc__pool *pool, const gsc__raster *raster, int32_t index,
                          const gsc__raster_grads *grads, const gsc__frame *frame,
                          const uint8_t *seen, const gsc__splat_sums *sums, void *partials);

#endif
