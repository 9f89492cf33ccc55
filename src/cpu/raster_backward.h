/* How much scratch backward needs. */
#ifndef GSC_CPU_RASTER_BACKWARD_H
#define GSC_CPU_RASTER_BACKWARD_H

#include "raster_state.h"

/* For frames of at most so many intersections, whose longest list has largest_tile.  Less works
 * too, in smaller bands, down to that of the longest list. */
static size_t gsc__backward_scratch_bytes(const gsc__raster *raster,
                                          const gsc__state_layout *layout, int threads,
                                          int64_t intersections, int64_t largest_tile);

#endif
