/* Step 2 of the rasterizer: blends the lists of a band into the image. */
#ifndef GSC_CPU_BLEND_FORWARD_H
#define GSC_CPU_BLEND_FORWARD_H

#include "tile_lists.h"

/* Sums of one intersection over its tile's pixels. */
typedef struct gsc__blend_statistics {
    gsc_real weight_sum, weight_blend, weight_distance;
    int32_t weight_count, touched;
} gsc__blend_statistics;

/* Bytes that one thread needs to blend tiles, whatever outputs are wanted. */
static size_t gsc__blend_scratch_bytes(const gsc__raster *raster);

/* Writes the band's pixels of every output and of the frame's final_t and walked.
 * statistics: [intersections of the band] by slot, added to; NULL: not wanted.  scratch:
 * gsc__blend_scratch_bytes for each thread.  False if a list names something other than a
 * visible Gaussian. */
static bool gsc__blend_band(gsc__pool *pool, const gsc__raster_outputs *outputs,
                            const gsc__frame *frame, const gsc__band *band,
                            gsc__blend_statistics *statistics, void *scratch);

#endif
