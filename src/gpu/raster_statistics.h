/* What blending sums up per Gaussian: counters in place, sums in fixed point beside them. */
#ifndef GSC_GPU_RASTER_STATISTICS_H
#define GSC_GPU_RASTER_STATISTICS_H

#include "raster_state.h"

/* Memory for one camera's sums. */
size_t gsc__gpu_statistics_bytes(const gsc__gpu_layout *layout);
/* Clears them and the counters, and hands both to blending. */
gsc_status gsc__gpu_statistics_begin(gsc_context *context, const gsc__raster *raster, int32_t index,
                                     const gsc__raster_outputs *outputs, void *memory,
                                     const gsc__gpu_layout *layout, gsc_k_blend *blend,
                                     void *stream);
/* After the last band: sums to the outputs. */
gsc_status gsc__gpu_statistics_finish(gsc_context *context, const gsc__raster *raster,
                                      int32_t index, const gsc__raster_outputs *outputs,
                                      const gsc_k_blend *blend, void *stream);

#endif
