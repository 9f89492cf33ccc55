#include "sums.h"

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
    if (fixed && raster->channels != 3) {
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
    const gsc_k_finish_sums args = {pass->frame, sums->fixed, sums->sums, GSC__SUMS};
    GSC__TRY(
        LAUNCH(finish_sums, pass->call, blocks_for(records * GSC__SUMS, GSC__FINISH_BLOCK), args));
    if (!sums->color_sums || !grad_colors) return GSC_OK;
    const gsc_k_finish_colors colors = {.frame = pass->frame,
                                        .fixed = sums->color_fixed,
                                        .sums = sums->color_sums,
                                        .width = sums->color_width,
                                        .channels = (uint32_t)pass->raster->channels,
                                        .grad_colors = grad_colors};
    return LAUNCH(finish_colors, pass->call,
                  blocks_for(records * sums->color_width, GSC__FINISH_BLOCK), colors);
}
