/* Scratch that backward asks for, which the sizes of a plan include. */
#ifndef GSC_CPU_RASTER_SCRATCH_H
#define GSC_CPU_RASTER_SCRATCH_H

#include "raster_state.h"

#define gsc__backward_scratch_bytes GSC__ISA_NAME(gsc__backward_scratch_bytes)

/* For frames of at most so many intersections, the fullest tile of which has
 * largest_tile.  Less works too, in smaller bands, down to that tile. */
size_t gsc__backward_scratch_bytes(const gsc__raster *raster, const gsc__state_layout *layout,
                                   int threads, int64_t intersections, int64_t largest_tile);

#endif
