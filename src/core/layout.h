/* What two calls of the rasterizer must have in common for one to use the other's state. */
#ifndef GSC_LAYOUT_H
#define GSC_LAYOUT_H

#include "core/backend.h"

/* A hash of those arguments that state depends on, and of the backend's own four values, the
 * magic number first.  It detects mistakes, not attacks: the value decides only which calls are
 * refused, and every index that is read from a state is checked. */
uint64_t gsc__layout_hash(const gsc__raster *raster, const uint64_t own[4]);

#endif
