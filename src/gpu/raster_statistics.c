#include "raster_statistics.h"

#define LAUNCH(name, grid, block, args)                                                      \
    gsc__gpu_launch(context, GSC__KERNEL_##name, grid, block, &(args), sizeof(args), stream, \
                    function)

static const char function[] = "raster_blend";

static size_t statistics_layout(const gsc__gpu_layout *layout, void *base, float **scale,
                                uint64_t *fixed[3]) {
    gsc__gpu_cut cut = {base, 0};
    *scale = gsc__gpu_take(&cut, sizeof(float));
    for (int i = 0; i < 3; ++i)
        fixed[i] = gsc__gpu_take(&cut, (size_t)layout->gaussians * sizeof(uint64_t));
    return cut.at;
}

size_t gsc__gpu_statistics_bytes(const gsc__gpu_layout *layout) {
    uint64_t *fixed[3];
    float *scale;
    return statistics_layout(layout, NULL, &scale, fixed);
}

gsc_status gsc__gpu_statistics_begin(gsc_context *context, const gsc__raster *raster, int32_t index,
                                     const gsc__raster_outputs *outputs, void *memory,
                                     const gsc__gpu_layout *layout, gsc_k_blend *blend,
                                     void *stream) {
    const size_t n = (size_t)raster->gaussians;
    uint64_t *fixed[3];
    float *scale;
    const size_t bytes = statistics_layout(layout, memory, &scale, fixed);
    GSC__TRY(gsc__gpu_memset(context, memory, 0, bytes, stream, function));
    const int64_t at = index * raster->gaussians;
    if (outputs->touched) blend->touched = outputs->touched + at;
    if (outputs->weight_count) blend->weight_count = outputs->weight_count + at;
    if (outputs->weight_sum) blend->weight_sum = fixed[0];
    if (outputs->weight_blend) blend->weight_blend = fixed[1];
    if (outputs->weight_distance) blend->weight_distance = fixed[2];
    blend->weight_scale = scale;
    if (blend->touched)
        GSC__TRY(
            gsc__gpu_memset(context, blend->touched, 0, n * sizeof(int32_t), stream, function));
    if (blend->weight_count)
        GSC__TRY(gsc__gpu_memset(context, blend->weight_count, 0, n * sizeof(int32_t), stream,
                                 function));
    if (!blend->weight_sum) return GSC_OK;
    const gsc_k_weight_scale weights = {blend->pixel_weights, layout->pixels, scale};
    return LAUNCH(weight_scale, 1, 1024, weights);
}

gsc_status gsc__gpu_statistics_finish(gsc_context *context, const gsc__raster *raster,
                                      int32_t index, const gsc__raster_outputs *outputs,
                                      const gsc_k_blend *blend, void *stream) {
    const int64_t at = index * raster->gaussians;
    const gsc_k_finish_statistics args = {
        .gaussians = raster->gaussians,
        .fixed_sum = blend->weight_sum,
        .fixed_blend = blend->weight_blend,
        .fixed_distance = blend->weight_distance,
        .weight_scale = blend->weight_scale,
        .weight_sum = outputs->weight_sum ? outputs->weight_sum + at : NULL,
        .weight_blend = outputs->weight_blend ? outputs->weight_blend + at : NULL,
        .weight_distance = outputs->weight_distance ? outputs->weight_distance + at : NULL};
    return LAUNCH(finish_statistics, gsc__gpu_ceil_div(raster->gaussians, 256), 256, args);
}
