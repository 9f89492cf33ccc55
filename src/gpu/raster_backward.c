#include "adam.h"
#include "raster_sums.h"
#include "tile_lists.h"

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

/* What is added to from the start; the others are stored by project_backward. */
static gsc_status clear_grads(gsc_context *context, const gsc__raster *raster,
                              const gsc__raster_grads *grads, void *stream) {
    const int64_t n = raster->gaussians, cameras = raster->cameras;
    const int64_t color_sets = raster->colors_stride ? cameras : 1;
    const int64_t backgrounds = raster->background_stride ? cameras : 1;
    if (raster->channels != 3)
        GSC__TRY(clear(context, grads->colors, n * raster->channels * color_sets, stream));
    GSC__TRY(clear(context, grads->view, 16 * cameras, stream));
    GSC__TRY(clear(context, grads->position, 3 * cameras, stream));
    return clear(context, grads->background, raster->channels * backgrounds, stream);
}

static const float *plane(const gsc__gpu_layout *layout, const float *gradient, int32_t index) {
    return gradient ? gradient + index * layout->pixels : NULL;
}

static gsc_k_blend_backward
blend_backward_args(const gsc__raster *raster, int32_t index, const gsc__raster_grads *grads,
                    const gsc__gpu_layout *layout, const gsc__gpu_frame *frame,
                    const gsc__gpu_tile_lists *lists, const gsc__gpu_sums *sums) {
    const int64_t colors = index * raster->colors_stride;
    gsc_k_blend_backward args = {
        .frame = *frame,
        .grid = layout->grid,
        .lists = lists->values,
        .capacity = lists->capacity,
        .colors = raster->colors ? raster->colors + colors : NULL,
        .channels = raster->channels,
        .pixel_last = (raster->flags & GSC_RASTER_PIXEL_LAST) != 0,
        .clamp_stops = !(raster->flags & GSC_RASTER_COMPAT_3DGS),
        .alpha_limit = raster->flags & GSC_RASTER_COMPAT_3DGS ? INFINITY : GSC__ALPHA_MAX,
        .grad_color =
            grads->color ? grads->color + index * raster->channels * layout->pixels : NULL,
        .grad_alpha = plane(layout, grads->alpha, index),
        .grad_depth = plane(layout, grads->depth, index),
        .grad_inv_depth = plane(layout, grads->inv_depth, index),
        .sums = sums->sums,
        .grad_colors = grads->colors ? grads->colors + colors : NULL,
        .fixed = sums->fixed,
        .color_sums = grads->colors ? sums->color_sums : NULL,
        .color_fixed = sums->color_fixed,
        .color_width = sums->color_width};
    return args;
}

/* How the sums come about: at once, or in two passes. */
enum { FAST, LARGEST, FIXED };

static enum gsc__gpu_kernel blend_backward_kernel(const gsc__raster *raster,
                                                  const gsc__raster_grads *grads, int pass) {
    static const enum gsc__gpu_kernel kernels[4][3] = {
        {GSC__KERNEL_blend_backward, GSC__KERNEL_blend_backward_largest,
         GSC__KERNEL_blend_backward_fixed},
        {GSC__KERNEL_blend_backward_depths, GSC__KERNEL_blend_backward_all_largest,
         GSC__KERNEL_blend_backward_all_fixed},
        {GSC__KERNEL_blend_backward_absolute, GSC__KERNEL_blend_backward_all_largest,
         GSC__KERNEL_blend_backward_all_fixed},
        {GSC__KERNEL_blend_backward_any, GSC__KERNEL_blend_backward_any_largest,
         GSC__KERNEL_blend_backward_any_fixed}};
    if (raster->channels != 3) return kernels[3][pass];
    if (grads->means2d_abs) return kernels[2][pass];
    return kernels[grads->depth || grads->inv_depth ? 1 : 0][pass];
}

static gsc_status blend_backward_bands(gsc_context *context, const gsc__raster *raster,
                                       const gsc__raster_grads *grads,
                                       const gsc__gpu_layout *layout, const gsc__gpu_frame *frame,
                                       gsc__gpu_tile_lists *lists, int pass,
                                       gsc_k_blend_backward *args, void *stream) {
    const uint32_t area = (1u << layout->grid.shift_x) * (1u << layout->grid.shift_y);
    const bool any = raster->channels != 3;
    const uint32_t blocks =
        any ? (uint32_t)layout->grid.tiles * (area / 256)
            : gsc__gpu_blend_blocks(layout, gsc__gpu_of(context)->device.multiprocessors);
    const enum gsc__gpu_kernel kernel = blend_backward_kernel(raster, grads, pass);
    for (uint32_t round = 0; round < lists->rounds; ++round) {
        if (lists->rounds > 1 || (!lists->stay && pass != FIXED))
            GSC__TRY(gsc__gpu_lists_fill(context, layout, frame, lists, round, stream, function));
        args->band = lists->bands + round;
        GSC__TRY(gsc__gpu_launch(context, kernel, blocks, any ? 256 : GSC__BLEND_BLOCK, args,
                                 sizeof *args, stream, function));
    }
    return GSC_OK;
}

static gsc_status blend_backward(gsc_context *context, const gsc__raster *raster,
                                 const gsc__raster_grads *grads, const gsc__gpu_layout *layout,
                                 const gsc__gpu_frame *frame, gsc__gpu_tile_lists *lists,
                                 const gsc__gpu_sums *sums, gsc_k_blend_backward *args,
                                 void *stream) {
    if (!sums->fixed)
        return blend_backward_bands(context, raster, grads, layout, frame, lists, FAST, args,
                                    stream);
    GSC__TRY(
        blend_backward_bands(context, raster, grads, layout, frame, lists, LARGEST, args, stream));
    GSC__TRY(
        blend_backward_bands(context, raster, grads, layout, frame, lists, FIXED, args, stream));
    return gsc__gpu_sums_finish(context, raster, frame, sums, args->grad_colors, stream, function);
}

/* The gradients that project_backward writes for camera `index`, in one list. */
static void list_gradients(const gsc__raster *raster, int32_t index, const gsc__raster_grads *grads,
                           gsc_k_project_backward *args) {
    const int64_t n = raster->gaussians;
    const bool store = !(raster->flags & GSC_RASTER_GRAD_ADD), first = store && index == 0;
    const bool colors = raster->channels == 3, own_colors = raster->colors_stride != 0;
    const uint32_t axes = (uint32_t)grads->means2d_axes;
    const uint32_t abs_axes = (uint32_t)grads->means2d_abs_axes;
    const uint32_t split = raster->sh_dc ? 1 : 0, degree = (uint32_t)raster->sh_degree;
    const uint32_t rows = 3 * (uint32_t)raster->sh_coefficients;
    const uint32_t used = 3 * ((degree + 1) * (degree + 1) - split);
    const gsc__gpu_gradient plain[GSC__GRADIENTS_MAX] = {
        {grads->means, 3, 3, GSC__RESULT_MEAN, first},
        {grads->opacities, 1, 1, GSC__RESULT_OPACITY, first},
        {grads->scales, 3, 3, GSC__RESULT_SCALE, first},
        {grads->rotations, 4, 4, GSC__RESULT_ROTATION, first},
        {grads->covariances, 6, 6, GSC__RESULT_COVARIANCE, first},
        {grads->colors && colors ? grads->colors + index * raster->colors_stride : NULL, 3, 3,
         GSC__RESULT_COLOR, own_colors ? store : first},
        {grads->means2d ? grads->means2d + index * n * axes : NULL, axes, 2, GSC__RESULT_MEAN2D,
         store},
        {grads->means2d_abs ? grads->means2d_abs + index * n * abs_axes : NULL, abs_axes, 2,
         GSC__RESULT_MEAN2D_ABS, store}};
    const gsc__gpu_gradient harmonics[2] = {
        {grads->sh, rows, used, GSC__RESULT_BASIS + split, first},
        {grads->sh_dc, 3, 3, GSC__RESULT_BASIS, first}};
    for (int i = 0; i < GSC__GRADIENTS_MAX; ++i)
        if (plain[i].to) args->gradient[args->gradients++] = plain[i];
    for (int i = 0; i < 2; ++i)
        if (harmonics[i].to && harmonics[i].width > 0 && (first || harmonics[i].used > 0))
            args->sh_gradient[args->sh_gradients++] = harmonics[i];
}

static gsc_status camera_grad(gsc_context *context, const gsc__raster *raster, int32_t index,
                              const gsc__raster_grads *grads, const gsc__gpu_frame *frame,
                              const double *shares, uint32_t blocks, void *stream) {
    const gsc_k_camera_grad args = {
        .camera = frame->camera,
        .shares = shares,
        .blocks = blocks,
        .row_major = (raster->flags & GSC_RASTER_VIEW_ROW_MAJOR) != 0,
        .own_position = raster->position != NULL,
        .grad_view = grads->view ? grads->view + 16 * (int64_t)index : NULL,
        .grad_position = grads->position ? grads->position + 3 * (int64_t)index : NULL};
    return LAUNCH(camera_grad, 1, GSC__CAMERA_GRAD_BLOCK, args);
}

/* The steps of grads, laid out as the gradients would be. */
static void list_steps(const gsc__raster *raster, const gsc__raster_steps *steps,
                       gsc_k_project_backward_step *args) {
    const uint32_t split = raster->sh_dc ? 1 : 0, degree = (uint32_t)raster->sh_degree;
    const uint32_t used = 3 * ((degree + 1) * (degree + 1) - split);
    const struct {
        uint32_t result, used;
        bool harmonics;
    } results[GSC__PARAMETERS] = {
        [GSC_PARAMETER_MEANS - 1] = {GSC__RESULT_MEAN, 3, false},
        [GSC_PARAMETER_OPACITIES - 1] = {GSC__RESULT_OPACITY, 1, false},
        [GSC_PARAMETER_SCALES - 1] = {GSC__RESULT_SCALE, 3, false},
        [GSC_PARAMETER_ROTATIONS - 1] = {GSC__RESULT_ROTATION, 4, false},
        [GSC_PARAMETER_COVARIANCES - 1] = {GSC__RESULT_COVARIANCE, 6, false},
        [GSC_PARAMETER_COLORS - 1] = {GSC__RESULT_COLOR, 3, false},
        [GSC_PARAMETER_SH - 1] = {GSC__RESULT_BASIS + split, used, true},
        [GSC_PARAMETER_SH_DC - 1] = {GSC__RESULT_BASIS, 3, true}};
    args->radii = steps->radii;
    args->radii_axes = steps->radii_axes;
    for (int i = 0; i < GSC__PARAMETERS; ++i) {
        const gsc__adam_group *group = &steps->groups[i];
        if (!group->parameter) continue;
        args->step[args->steps++] = (gsc__gpu_step){
            .parameter = group->parameter,
            .moment1 = group->moment1,
            .moment2 = group->moment2,
            .width = (uint32_t)group->row_size,
            .used = results[i].used,
            .result = results[i].result,
            .harmonics = results[i].harmonics,
            .vectors = group->row_size % 4 == 0 && gsc__gpu_is_aligned(group->parameter) &&
                       gsc__gpu_is_aligned(group->moment1) && gsc__gpu_is_aligned(group->moment2),
            .constants = gsc__gpu_adam_constants_of(group)};
    }
}

static gsc_status project_backward(gsc_context *context, const gsc__raster *raster, int32_t index,
                                   const gsc__raster_grads *grads, const gsc__gpu_frame *frame,
                                   const float *sums, double *shares, void *stream) {
    const uint32_t blocks = gsc__gpu_ceil_div(raster->gaussians, GSC__CHUNK);
    const bool camera = grads->view || grads->position;
    gsc_k_project_backward args = {.frame = *frame,
                                   .gaussians = raster->gaussians,
                                   .scale_modifier = raster->scale_modifier,
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
                                   .log_scales = (raster->flags & GSC_RASTER_LOG_SCALES) != 0,
                                   .logit_opacities =
                                       (raster->flags & GSC_RASTER_LOGIT_OPACITIES) != 0,
                                   .sums = sums,
                                   .shares = camera ? shares : NULL};
    list_gradients(raster, index, grads, &args);
    gsc_k_project_backward_step step = {.project_backward = args};
    if (grads->steps) list_steps(raster, grads->steps, &step);
    if (step.steps)
        GSC__TRY(LAUNCH(project_backward_step, blocks, GSC__PROJECT_BACKWARD_BLOCK, step));
    else if (args.gradients || args.sh_gradients || camera)
        GSC__TRY(LAUNCH(project_backward, blocks, GSC__PROJECT_BACKWARD_BLOCK, args));
    if (!camera) return GSC_OK;
    return camera_grad(context, raster, index, grads, frame, shares, blocks, stream);
}

static gsc_status background(gsc_context *context, const gsc__raster *raster, int32_t index,
                             const gsc__raster_grads *grads, const gsc__gpu_layout *layout,
                             const gsc__gpu_frame *frame, void *stream) {
    const gsc_k_background_grad args = {
        .final_t = frame->final_t,
        .grad_color = grads->color + index * raster->channels * layout->pixels,
        .pixels = layout->pixels,
        .channels = raster->channels,
        .pixel_last = (raster->flags & GSC_RASTER_PIXEL_LAST) != 0,
        .grad_background = grads->background + index * raster->background_stride};
    return LAUNCH(background_grad, (uint32_t)raster->channels, 1024, args);
}

/* Work space for lists that are made again: behind the sums if there is room, else *own. */
static gsc_status plan_lists(gsc_context *context, const gsc__raster_buffers *buffers,
                             const gsc__gpu_layout *layout, const gsc__gpu_frame *frame,
                             size_t taken, gsc__gpu_tile_lists *lists, void **own,
                             size_t *own_bytes, void *stream) {
    const size_t needed = gsc__gpu_lists_scratch_bytes(layout, lists->capacity);
    void *scratch = (unsigned char *)buffers->scratch + taken;
    if (needed > buffers->scratch_bytes - taken) {
        *own_bytes = needed;
        GSC__TRY(
            gsc__context_alloc(context, needed, "raster_backward: lists of bands", stream, own));
        scratch = *own;
    }
    gsc__gpu_lists_work_space(layout, scratch, lists);
    const gsc_k_plan_bands plan = gsc__gpu_plan_args(layout, frame, lists, NULL, false);
    return gsc__gpu_lists_plan(context, layout, frame, lists, &plan, false, stream, function);
}

static gsc_status blend_backward_frame(gsc_context *context, const gsc__raster *raster,
                                       int32_t index, const gsc__raster_buffers *buffers,
                                       const gsc_raster_info *info, const gsc__raster_grads *grads,
                                       const gsc__gpu_layout *layout, const gsc__gpu_frame *frame,
                                       const gsc__gpu_sums *sums, void *stream) {
    gsc__gpu_tile_lists lists;
    void *own = NULL;
    size_t own_bytes = 0;
    GSC__TRY(gsc__gpu_lists_begin(layout, index, frame, buffers, info, &lists, function));
    gsc_status status = GSC_OK;
    if (!lists.stay)
        status = plan_lists(context, buffers, layout, frame, sums->bytes, &lists, &own, &own_bytes,
                            stream);
    gsc_k_blend_backward args =
        blend_backward_args(raster, index, grads, layout, frame, &lists, sums);
    if (status == GSC_OK)
        status = gsc__gpu_background(context, raster, index, layout, buffers->state, stream,
                                     function, &args.background);
    if (status == GSC_OK)
        status = blend_backward(context, raster, grads, layout, frame, &lists, sums, &args, stream);
    gsc__context_release(context, own, own_bytes, stream);
    return status;
}

static gsc_status backward_frame(gsc_context *context, const gsc__raster *raster, int32_t index,
                                 const gsc__raster_buffers *buffers, const gsc_raster_info *info,
                                 const gsc__raster_grads *grads, const gsc__gpu_layout *layout,
                                 void *stream) {
    gsc__gpu_frame frame;
    gsc__gpu_frame_open(layout, buffers, index, &frame);
    const gsc__gpu_sums sums = gsc__gpu_sums_layout(raster, layout, buffers->scratch);
    if (sums.bytes > buffers->scratch_bytes)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "raster_backward: scratch has %zu bytes, expected at least %zu",
                         buffers->scratch_bytes, sums.bytes);
    GSC__TRY(gsc__gpu_sums_clear(context, &frame, &sums, stream, function));
    GSC__TRY(blend_backward_frame(context, raster, index, buffers, info, grads, layout, &frame,
                                  &sums, stream));
    GSC__TRY(
        project_backward(context, raster, index, grads, &frame, sums.sums, sums.shares, stream));
    if (!grads->background || !grads->color) return GSC_OK;
    return background(context, raster, index, grads, layout, &frame, stream);
}

gsc_status gsc__gpu_raster_backward(const gsc__raster_call *call, const gsc_raster_info *info,
                                    const gsc__raster_grads *grads) {
    gsc_context *context = call->call.context;
    const gsc__raster *raster = &call->raster;
    const gsc__raster_buffers *buffers = &call->buffers;
    void *stream = call->call.stream;
    gsc__gpu_layout layout;
    gsc__gpu_layout_plan(raster, info->visible, &layout);
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
