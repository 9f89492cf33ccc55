#include "raster_sums.h"

#define LAUNCH(name, grid, block, args)                                                      \
    gsc__gpu_launch(context, GSC__KERNEL_##name, grid, block, &(args), sizeof(args), stream, \
                    function)

/* Blocks enough to keep any device busy; how much each has to do the device knows. */
#define BLOCKS_MAX 2048

static uint32_t blocks_for(int64_t count, int64_t block) {
    const uint32_t blocks = gsc__gpu_ceil_div(count, block);
    return blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX;
}

gsc__gpu_sums gsc__gpu_sums_layout(const gsc__raster *raster, const gsc__gpu_layout *layout,
                                   void *base) {
    const size_t n = (size_t)layout->record_capacity;
    const size_t chunks = gsc__gpu_ceil_div(raster->gaussians, GSC__CHUNK);
    const bool fixed = (raster->flags & GSC_RASTER_DETERMINISTIC) != 0;
    gsc__gpu_cut cut = {base, 0};
    gsc__gpu_sums s = {0};
    s.sums = gsc__gpu_take(&cut, n * GSC__SUMS * sizeof *s.sums);
    s.shares = gsc__gpu_take(&cut, chunks * GSC__CAMERA_SHARES * sizeof *s.shares);
    if (fixed) s.fixed = gsc__gpu_take(&cut, n * GSC__SUMS * sizeof *s.fixed);
    if (fixed && raster->channels != 3) {
        s.color_width = ((uint32_t)raster->channels + 3) / 4 * 4;
        s.color_sums = gsc__gpu_take(&cut, n * s.color_width * sizeof *s.color_sums);
        s.color_fixed = gsc__gpu_take(&cut, n * s.color_width * sizeof *s.color_fixed);
    }
    s.bytes = cut.at;
    return s;
}

/* row: bytes of one, a multiple of 16. */
static gsc_status clear(gsc_context *context, const gsc__gpu_frame *frame, void *to, size_t row,
                        void *stream, const char *function) {
    const gsc_k_clear_sums args = {*frame, to, (uint32_t)(row / 16)};
    if (!to) return GSC_OK;
    return LAUNCH(clear_sums,
                  blocks_for((int64_t)frame->record_capacity * args.quads, GSC__CLEAR_BLOCK),
                  GSC__CLEAR_BLOCK, args);
}

gsc_status gsc__gpu_sums_clear(gsc_context *context, const gsc__gpu_frame *frame,
                               const gsc__gpu_sums *sums, void *stream, const char *function) {
    const struct {
        void *to;
        size_t row;
    } all[] = {{sums->sums, GSC__SUMS * sizeof *sums->sums},
               {sums->fixed, GSC__SUMS * sizeof *sums->fixed},
               {sums->color_sums, sums->color_width * sizeof *sums->color_sums},
               {sums->color_fixed, sums->color_width * sizeof *sums->color_fixed}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i)
        GSC__TRY(clear(context, frame, all[i].to, all[i].row, stream, function));
    return GSC_OK;
}

gsc_status gsc__gpu_sums_finish(gsc_context *context, const gsc__raster *raster,
                                const gsc__gpu_frame *frame, const gsc__gpu_sums *sums,
                                float *grad_colors, void *stream, const char *function) {
    const gsc_k_finish_sums args = {*frame, sums->fixed, sums->sums, GSC__SUMS};
    GSC__TRY(LAUNCH(finish_sums,
                    blocks_for((int64_t)frame->record_capacity * GSC__SUMS, GSC__FINISH_BLOCK),
                    GSC__FINISH_BLOCK, args));
    if (!sums->color_sums || !grad_colors) return GSC_OK;
    const gsc_k_finish_colors colors = {.frame = *frame,
                                        .fixed = sums->color_fixed,
                                        .sums = sums->color_sums,
                                        .width = sums->color_width,
                                        .channels = (uint32_t)raster->channels,
                                        .grad_colors = grad_colors};
    return LAUNCH(
        finish_colors,
        blocks_for((int64_t)frame->record_capacity * sums->color_width, GSC__FINISH_BLOCK),
        GSC__FINISH_BLOCK, colors);
}
