#include "raster_bins.h"

#include <math.h>
#include <string.h>

#define LAUNCH(name, grid, block, args)                                                      \
    gsc__gpu_launch(context, GSC__KERNEL_##name, grid, block, &(args), sizeof(args), stream, \
                    function)

static const char function[] = "raster_backward";

static gsc_status clear(gsc_context *context, float *gradient, int64_t count, void *stream) {
    if (!gradient || count == 0) return GSC_OK;
    return gsc__gpu_memset(context, gradient, 0, (size_t)count * sizeof(float), stream, function);
}

static gsc_status clear_grads(gsc_context *context, const gsc__raster *raster,
                              const gsc__raster_grads *grads, void *stream) {
    const int64_t n = raster->gaussians, cameras = raster->cameras;
    const int64_t color_sets = raster->colors_stride ? cameras : 1;
    const int64_t backgrounds = raster->background_stride ? cameras : 1;
    const struct {
        float *gradient;
        int64_t count;
    } all[] = {{grads->means, 3 * n},
               {grads->opacities, n},
               {grads->scales, 3 * n},
               {grads->rotations, 4 * n},
               {grads->covariances, 6 * n},
               {grads->colors, n * raster->channels * color_sets},
               {grads->sh, 3 * raster->sh_coefficients * n},
               {grads->sh_dc, 3 * n},
               {grads->means2d, cameras * n * grads->means2d_axes},
               {grads->means2d_abs, cameras * n * grads->means2d_abs_axes},
               {grads->view, 16 * cameras},
               {grads->position, 3 * cameras},
               {grads->background, raster->channels * backgrounds}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i)
        GSC__TRY(clear(context, all[i].gradient, all[i].count, stream));
    return GSC_OK;
}

static const float *plane(const gsc__gpu_layout *layout, const float *gradient, int32_t index) {
    return gradient ? gradient + index * layout->pixels : NULL;
}

static gsc_k_unblend unblend_args(const gsc__raster *raster, int32_t index,
                                  const gsc__raster_grads *grads, const gsc__gpu_layout *layout,
                                  const gsc__gpu_frame *frame, const gsc__gpu_bins *bins,
                                  float *sums) {
    const int64_t colors = index * raster->colors_stride;
    gsc_k_unblend args = {
        .frame = *frame,
        .grid = layout->grid,
        .bin_order = bins->bin_order,
        .lists = bins->lists,
        .colors = raster->colors ? raster->colors + colors : NULL,
        .channels = raster->channels,
        .pixel_last = (raster->flags & GSC_RASTER_PIXEL_LAST) != 0,
        .clamp_stops = !(raster->flags & GSC_RASTER_COMPAT_3DGS),
        .alpha_limit = raster->flags & GSC_RASTER_COMPAT_3DGS ? INFINITY : GSC__ALPHA_MAX,
        .by_color = grads->color ? grads->color + index * raster->channels * layout->pixels : NULL,
        .by_alpha = plane(layout, grads->alpha, index),
        .by_depth = plane(layout, grads->depth, index),
        .by_inv_depth = plane(layout, grads->inv_depth, index),
        .sums = sums,
        .by_colors = grads->colors ? grads->colors + colors : NULL};
    return args;
}

static gsc_status unblend_bands(gsc_context *context, const gsc__raster *raster,
                                const gsc__raster_grads *grads, const gsc__gpu_layout *layout,
                                const gsc__gpu_frame *frame, const gsc__gpu_bins *bins,
                                gsc_k_unblend *args, void *stream) {
    const uint32_t area = (1u << layout->grid.shift_x) * (1u << layout->grid.shift_y);
    const uint32_t bin_count = (uint32_t)layout->grid.bins;
    const uint32_t blocks =
        gsc__gpu_blend_blocks(layout, gsc__gpu_of(context)->device.multiprocessors);
    for (uint32_t round = 0; round < bins->rounds; ++round) {
        /* One camera whose lists all fit: those of forward are still there. */
        if (raster->cameras == 1 && bins->rounds == 1)
            GSC__TRY(gsc__gpu_bins_order(context, layout, frame, bins, round, stream, function));
        else
            GSC__TRY(gsc__gpu_bins_fill(context, layout, frame, bins, round, stream, function));
        args->band = bins->bands + round;
        if (raster->channels != 3)
            GSC__TRY(LAUNCH(unblend_any, bin_count * (area / 256), 256, *args));
        else if (grads->means2d_abs)
            GSC__TRY(LAUNCH(unblend_absolute, blocks, GSC__BLEND_BLOCK, *args));
        else if (grads->depth || grads->inv_depth)
            GSC__TRY(LAUNCH(unblend_depths, blocks, GSC__BLEND_BLOCK, *args));
        else
            GSC__TRY(LAUNCH(unblend, blocks, GSC__BLEND_BLOCK, *args));
    }
    return GSC_OK;
}

static gsc_status unproject(gsc_context *context, const gsc__raster *raster, int32_t index,
                            const gsc__raster_grads *grads, const gsc__gpu_layout *layout,
                            const gsc__gpu_frame *frame, const float *sums, double *shares,
                            void *stream) {
    const int64_t n = raster->gaussians;
    const uint32_t blocks = gsc__gpu_pieces(layout->room, GSC__UNPROJECT_BLOCK);
    const bool camera = grads->view || grads->position;
    const gsc_k_unproject args = {
        .frame = *frame,
        .grid = layout->grid,
        .scale_modifier = raster->scale_modifier,
        .channels = raster->channels,
        .sh_degree = raster->sh_degree,
        .sh_coefficients = (int32_t)raster->sh_coefficients,
        .ndc = (raster->flags & GSC_RASTER_GRAD2D_NDC) != 0,
        .means = raster->means,
        .opacities = raster->opacities,
        .scales = raster->scales,
        .rotations = raster->rotations,
        .covariances = raster->covariances,
        .sh = raster->sh,
        .sh_dc = raster->sh_dc,
        .has_sh = !raster->colors,
        .overwrite = index == 0 && !(raster->flags & GSC_RASTER_GRAD_ADD),
        .sums = sums,
        .by_means = grads->means,
        .by_opacities = grads->opacities,
        .by_scales = grads->scales,
        .by_rotations = grads->rotations,
        .by_covariances = grads->covariances,
        .by_colors = grads->colors && raster->channels == 3
                         ? grads->colors + index * raster->colors_stride
                         : NULL,
        .by_sh = grads->sh,
        .by_sh_dc = grads->sh_dc,
        .by_means2d = grads->means2d ? grads->means2d + index * n * grads->means2d_axes : NULL,
        .by_means2d_abs =
            grads->means2d_abs ? grads->means2d_abs + index * n * grads->means2d_abs_axes : NULL,
        .means2d_axes = grads->means2d_axes,
        .means2d_abs_axes = grads->means2d_abs_axes,
        .shares = camera ? shares : NULL};
    GSC__TRY(LAUNCH(unproject, blocks, GSC__UNPROJECT_BLOCK, args));
    if (!camera) return GSC_OK;
    const gsc_k_camera_grad sum = {
        .camera = frame->camera,
        .shares = shares,
        .blocks = blocks,
        .row_major = (raster->flags & GSC_RASTER_VIEW_ROW_MAJOR) != 0,
        .own_position = raster->position != NULL,
        .by_view = grads->view ? grads->view + 16 * (int64_t)index : NULL,
        .by_position = grads->position ? grads->position + 3 * (int64_t)index : NULL};
    return LAUNCH(camera_grad, 1, 32, sum);
}

static gsc_status background(gsc_context *context, const gsc__raster *raster, int32_t index,
                             const gsc__raster_grads *grads, const gsc__gpu_layout *layout,
                             const gsc__gpu_frame *frame, void *stream) {
    const gsc_k_background_grad args = {
        .final_t = frame->final_t,
        .by_color = grads->color + index * raster->channels * layout->pixels,
        .pixels = layout->pixels,
        .channels = raster->channels,
        .pixel_last = (raster->flags & GSC_RASTER_PIXEL_LAST) != 0,
        .by_background = grads->background + index * raster->background_stride};
    return LAUNCH(background_grad, (uint32_t)raster->channels, 1024, args);
}

static gsc_status backward_frame(gsc_context *context, const gsc__raster *raster, int32_t index,
                                 const gsc__raster_buffers *buffers, const gsc_raster_info *info,
                                 const gsc__raster_grads *grads, const gsc__gpu_layout *layout,
                                 void *stream) {
    const size_t sums_bytes = (size_t)layout->room * GSC__SUMS * sizeof(float);
    gsc__gpu_frame frame;
    gsc__gpu_bins bins;
    gsc__gpu_frame_open(layout, buffers, index, &frame);
    /* The sums stand before the lists' work space, which takes what is left. */
    gsc__gpu_cut cut = {buffers->scratch, 0};
    float *sums = gsc__gpu_take(&cut, sums_bytes);
    double *shares =
        gsc__gpu_take(&cut, (size_t)gsc__gpu_pieces(layout->room, GSC__UNPROJECT_BLOCK) *
                                GSC__CAMERA_SHARES * sizeof(double));
    if (cut.at > buffers->scratch_bytes)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "raster_backward: scratch has %zu bytes, expected at least %zu",
                         buffers->scratch_bytes, cut.at);
    gsc__raster_buffers rest = *buffers;
    rest.scratch = (unsigned char *)buffers->scratch + cut.at;
    rest.scratch_bytes -= cut.at;
    GSC__TRY(gsc__gpu_memset(context, sums, 0, sums_bytes, stream, function));
    GSC__TRY(gsc__gpu_bins_plan(context, layout, &frame, &rest, info, false, NULL, false, &bins,
                                stream, function));
    gsc_k_unblend args = unblend_args(raster, index, grads, layout, &frame, &bins, sums);
    GSC__TRY(gsc__gpu_background(context, raster, index, layout, buffers->state, stream, function,
                                 &args.background));
    GSC__TRY(unblend_bands(context, raster, grads, layout, &frame, &bins, &args, stream));
    GSC__TRY(unproject(context, raster, index, grads, layout, &frame, sums, shares, stream));
    if (!grads->background || !grads->color) return GSC_OK;
    return background(context, raster, index, grads, layout, &frame, stream);
}

gsc_status gsc__gpu_raster_backward(gsc_context *context, const gsc__raster *raster,
                                    const gsc__raster_buffers *buffers, const gsc_raster_info *info,
                                    const gsc__raster_grads *grads, void *stream) {
    gsc__gpu_layout layout;
    gsc__gpu_layout_plan(raster, info->visible, &layout);
    if (raster->flags & GSC_RASTER_DETERMINISTIC)
        return gsc__fail(GSC_ERROR_UNSUPPORTED,
                         "raster_backward: GSC_RASTER_DETERMINISTIC is not supported on CUDA "
                         "devices yet");
    if (info->layout != layout.hash)
        return gsc__fail(GSC_ERROR_STATE,
                         "raster_backward: info has layout %016llx, these args make %016llx",
                         (unsigned long long)info->layout, (unsigned long long)layout.hash);
    if (buffers->intersections_bytes < layout.lists)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "raster_backward: intersections has %zu bytes, the visible Gaussians "
                         "alone take %zu",
                         buffers->intersections_bytes, layout.lists);
    if (!(raster->flags & GSC_RASTER_GRAD_ADD))
        GSC__TRY(clear_grads(context, raster, grads, stream));
    for (int32_t c = 0; c < raster->cameras; ++c)
        GSC__TRY(backward_frame(context, raster, c, buffers, info, grads, &layout, stream));
    return GSC_OK;
}
