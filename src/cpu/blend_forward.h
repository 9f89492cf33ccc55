/* Step 2 of the rasterizer: blends the tile lists of a band into the image. */
#ifndef GSC_CPU_BLEND_FORWARD_H
#define GSC_CPU_BLEND_FORWARD_H

#include "bins.h"

#define gsc__blend_scratch_bytes GSC__ISA_NAME(gsc__blend_scratch_bytes)
#define gsc__blend_band GSC__ISA_NAME(gsc__blend_band)

/* Sums of one list entry over its tile's pixels. */
typedef struct gsc__entry_statistics {
    gsc_real weight_sum, weight_blend, weight_distance;
    int32_t weight_count, touched;
} gsc__entry_statistics;

/* Bytes that one thread needs while it blends tiles, whatever outputs are wanted. */
size_t gsc__blend_scratch_bytes(const gsc__raster *raster);

/* Writes the band's pixels of every output and of the frame's final_t and walked.
 * statistics: [slots of the band], added to; NULL: not wanted.  scratch: that of
 * gsc__blend_scratch_bytes for each thread.  False if a list holds what is no visible
 * Gaussian. */
bool gsc__blend_band(gsc__pool *pool, const gsc__raster *raster, int32_t index,
                     const gsc__raster_outputs *outputs, const gsc__frame *frame,
                     const gsc__band *band, gsc__entry_statistics *statistics, void *scratch);

#endif
