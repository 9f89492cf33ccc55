#include "statistics.h"

static size_t carve_statistics(void *base, const gsc__gpu_layout *layout, float **scale,
                               uint64_t *fixed[3]) {
    gsc__carver carver = {.base = base};
    *scale = gsc__carve(&carver, 1, sizeof **scale);
    for (int i = 0; i < 3; ++i)
        fixed[i] = gsc__carve(&carver, (size_t)layout->gaussians, sizeof *fixed[i]);
    return carver.at;
}

size_t gsc__gpu_statistics_bytes(const gsc__gpu_layout *layout) {
    uint64_t *fixed[3];
    float *scale;
    return carve_statistics(NULL, layout, &scale, fixed);
}

static gsc_status clear_counter(const gsc__gpu_pass *pass, int32_t *counter) {
    if (!counter) return GSC_OK;
    return gsc__gpu_clear(pass->call, counter, (size_t)pass->raster->gaussians * sizeof *counter);
}

gsc_status gsc__gpu_statistics_begin(const gsc__gpu_pass *pass, void *memory, gsc_k_blend *blend) {
    const gsc__raster_outputs *outputs = pass->outputs;
    const int64_t at = pass->camera * pass->raster->gaussians;
    uint64_t *fixed[3];
    float *scale;
    const size_t bytes = carve_statistics(memory, &pass->layout, &scale, fixed);
    if (outputs->touched) blend->touched = outputs->touched + at;
    if (outputs->weight_count) blend->weight_count = outputs->weight_count + at;
    if (outputs->weight_sum) blend->weight_sum = fixed[0];
    if (outputs->weight_blend) blend->weight_blend = fixed[1];
    if (outputs->weight_distance) blend->weight_distance = fixed[2];
    blend->weight_scale = scale;
    GSC__TRY(gsc__gpu_clear(pass->call, memory, bytes));
    GSC__TRY(clear_counter(pass, blend->touched));
    GSC__TRY(clear_counter(pass, blend->weight_count));
    if (!blend->weight_sum) return GSC_OK;
    const gsc_k_weight_scale weights = {blend->pixel_weights, pass->layout.pixels, scale};
    return LAUNCH(weight_scale, pass->call, 1, weights);
}

gsc_status gsc__gpu_statistics_finish(const gsc__gpu_pass *pass, const gsc_k_blend *blend) {
    const gsc__raster_outputs *outputs = pass->outputs;
    const int64_t n = pass->raster->gaussians, at = pass->camera * n;
    const gsc_k_finish_statistics args = {
        .gaussians = n,
        .fixed_sum = blend->weight_sum,
        .fixed_blend = blend->weight_blend,
        .fixed_distance = blend->weight_distance,
        .weight_scale = blend->weight_scale,
        .weight_sum = outputs->weight_sum ? outputs->weight_sum + at : NULL,
        .weight_blend = outputs->weight_blend ? outputs->weight_blend + at : NULL,
        .weight_distance = outputs->weight_distance ? outputs->weight_distance + at : NULL};
    return LAUNCH(finish_statistics, pass->call, gsc__gpu_blocks(n, GSC__STATISTICS_BLOCK), args);
}
