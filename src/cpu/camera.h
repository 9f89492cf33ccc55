/* One camera's numbers for projection. */
#ifndef GSC_CPU_CAMERA_H
#define GSC_CPU_CAMERA_H

#include "core/backend.h"
#include "math/splat_math.h"

/* Only what points need: the view and the planes. */
void gsc__camera_load_view(const gsc__raster *raster, int32_t index, gsc__camera *camera);
void gsc__camera_load(const gsc__raster *raster, int32_t index, gsc__camera *camera);

#endif
