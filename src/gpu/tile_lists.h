/* Depth order and tile lists on the device: launches of sort.cu, tile_lists.cu, tile_order.cu. */
#ifndef GSC_GPU_TILE_LISTS_H
#define GSC_GPU_TILE_LISTS_H

#include "pass.h"

/* For lists of at most so many intersections at once. */
size_t gsc__gpu_lists_scratch_bytes(const gsc__gpu_layout *layout, int64_t intersections);

/* Sets pass->lists: how many rounds of bands the frame takes and where its lists are.  Both follow
 * from the intersection buffer and pass->info, so that forward and backward agree.
 * GSC_ERROR_BUFFER_TOO_SMALL where a tile may not fit. */
gsc_status gsc__gpu_lists_begin(gsc__gpu_pass *pass);
/* Lays out the work space, which takes at most gsc__gpu_lists_scratch_bytes. */
void gsc__gpu_lists_work_space(gsc__gpu_pass *pass, void *scratch);
gsc_status gsc__gpu_lists_clear(gsc__gpu_pass *pass);

/* frame.order by frame.depths. */
gsc_status gsc__gpu_sort_depths(const gsc__gpu_pass *pass);

/* Plans the bands of a frame; the records kernel does so where there is one round, else
 * gsc__gpu_lists_plan. */
gsc_k_plan_bands gsc__gpu_plan_args(const gsc__gpu_pass *pass, int64_t *overflow);
/* count: the offsets are not known yet; backward finds forward's. */
gsc_status gsc__gpu_lists_plan(const gsc__gpu_pass *pass, const gsc_k_plan_bands *plan, bool count);

/* Makes the lists of one round, and the order of its tiles. */
gsc_status gsc__gpu_lists_fill(gsc__gpu_pass *pass, uint32_t round);

#endif
