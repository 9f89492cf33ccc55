#include "raster.h"

/* Enough to keep any device busy; how much work there is only the device knows. */
#define BLOCKS_MAX 2048

static uint32_t blocks_for(int64_t count, int64_t block) {
    const uint32_t blocks = gsc__gpu_blocks(count, block);
    return blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX;
}

gsc__gpu_sums gsc__gpu_sums_carve(const gsc__raster *raster, const gsc__gpu_layout *layout,
                                  void *base) {
    const size_t n = (size_t)layout->record_capacity;
    const size_t chunks = gsc__gpu_blocks(raster->gaussians, GSC__CHUNK);
    const bool fixed = (raster->flags & GSC_RASTER_DETERMINISTIC) != 0;
    gsc__carver carver = {.base = base};
    gsc__gpu_sums s = {0};
    s.sums = gsc__carve(&carver, n * GSC__SUMS, sizeof *s.sums);
    s.shares = gsc__carve(&carver, chunks * GSC__CAMERA_SHARES, sizeof *s.shares);
    if (fixed) s.fixed = gsc__carve(&carver, n * GSC__SUMS, sizeof *s.fixed);
    if (fixed && raster->channels > 3) {
        s.color_width = ((uint32_t)raster->channels + 3) / 4 * 4;
        s.color_sums = gsc__carve(&carver, n * s.color_width, sizeof *s.color_sums);
        s.color_fixed = gsc__carve(&carver, n * s.color_width, sizeof *s.color_fixed);
    }
    s.bytes = carver.at;
    return s;
}

/* row: its bytes, a multiple of 16. */
static gsc_status clear(const gsc__gpu_pass *pass, void *to, size_t row) {
    const gsc_k_clear_sums args = {pass->frame, to, (uint32_t)(row / 16)};
    const int64_t quads = (int64_t)pass->frame.record_capacity * args.quads;
    if (!to) return GSC_OK;
    return LAUNCH(clear_sums, pass->call, blocks_for(quads, GSC__CLEAR_BLOCK), args);
}

gsc_status gsc__gpu_sums_clear(const gsc__gpu_pass *pass, const gsc__gpu_sums *sums) {
    GSC__TRY(clear(pass, sums->sums, GSC__SUMS * sizeof *sums->sums));
    GSC__TRY(clear(pass, sums->fixed, GSC__SUMS * sizeof *sums->fixed));
    GSC__TRY(clear(pass, sums->color_sums, sums->color_width * sizeof *sums->color_sums));
    return clear(pass, sums->color_fixed, sums->color_width * sizeof *sums->color_fixed);
}

gsc_status gsc__gpu_sums_finish(const gsc__gpu_pass *pass, const gsc__gpu_sums *sums,
                                float *grad_colors) {
    const int64_t records = pass->frame.record_capacity;
    const gsc_k_finish_sums args = {
        .frame = pass->frame, .fixed = sums->fixed, .sums = sums->sums, .width = GSC__SUMS};
    GSC__TRY(
        LAUNCH(finish_sums, pass->call, blocks_for(records * GSC__SUMS, GSC__FINISH_BLOCK), args));
    if (!sums->color_sums || !grad_colors) return GSC_OK;
    const gsc_k_finish_sums colors = {.frame = pass->frame,
                                      .fixed = sums->color_fixed,
                                      .sums = sums->color_sums,
                                      .width = sums->color_width,
                                      .channels = (uint32_t)pass->raster->channels,
                                      .grad_colors = grad_colors};
    return LAUNCH(finish_colors, pass->call,
                  blocks_for(records * sums->color_width, GSC__FINISH_BLOCK), colors);
}

/* ----------------------------------------------------------------- statistics */

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
