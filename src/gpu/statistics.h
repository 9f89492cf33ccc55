/* What blending sums up per Gaussian: counters in place, sums in fixed point beside them. */
#ifndef GSC_GPU_STATISTICS_H
#define GSC_GPU_STATISTICS_H

#include "pass.h"

/* Memory for one camera's sums. */
size_t gsc__gpu_statistics_bytes(const gsc__gpu_layout *layout);
/* Clears sums and counters, and hands both to blending. */
gsc_status gsc__gpu_statistics_begin(const gsc__gpu_pass *pass, void *memory, gsc_k_blend *blend);
/* After the last band: sums to the outputs. */
gsc_status gsc__gpu_statistics_finish(const gsc__gpu_pass *pass, const gsc_k_blend *blend);

#endif
