/* The backward step. */
#include "raster.h"

#include <math.h>

static gsc_status clear(const gsc__call *call, float *gradient, int64_t count) {
    if (!gradient) return GSC_OK;
    return gsc__gpu_clear(call, gradient, (size_t)count * sizeof *gradient);
}

/* What kernels only add to; project_backward stores the others. */
static gsc_status clear_grads(const gsc__raster_call *call, const gsc__raster_grads *grads) {
    const gsc__raster *raster = &call->raster;
    const int64_t n = raster->gaussians, cameras = raster->cameras;
    const int64_t color_sets = raster->colors_stride ? cameras : 1;
    const int64_t backgrounds = raster->background_stride ? cameras : 1;
    if (raster->channels > 3)
        GSC__TRY(clear(&call->call, grads->colors, n * raster->channels * color_sets));
    GSC__TRY(clear(&call->call, grads->view, 16 * cameras));
    GSC__TRY(clear(&call->call, grads->position, 3 * cameras));
    return clear(&call->call, grads->background, raster->channels * backgrounds);
}

/* ------------------------------------------------------------ blend backward */

static const float *plane(const gsc__gpu_pass *pass, const float *gradient) {
    return gradient ? gradient + pass->camera * pass->layout.pixels : NULL;
}

static const float *color_grad(const gsc__gpu_pass *pass) {
    const float *color = pass->grads->color;
    return color ? color + pass->camera * pass->raster->channels * pass->layout.pixels : NULL;
}

static gsc_k_blend_backward blend_backward_args(const gsc__gpu_pass *pass,
                                                const gsc__gpu_sums *sums) {
    const gsc__raster *raster = pass->raster;
    const gsc__raster_grads *grads = pass->grads;
    return (gsc_k_blend_backward){
        .frame = pass->frame,
        .grid = pass->layout.grid,
        .lists = pass->lists.values,
        .capacity = pass->lists.capacity,
        .colors = gsc__gpu_colors(pass),
        .channels = raster->channels,
        .pixel_last = (raster->flags & GSC_RASTER_PIXEL_LAST) != 0,
        .alpha_limit = raster->flags & GSC_RASTER_COMPAT_3DGS ? INFINITY : GSC__ALPHA_MAX,
        .grad_color = color_grad(pass),
        .grad_alpha = plane(pass, grads->alpha),
        .grad_depth = plane(pass, grads->depth),
        .grad_inv_depth = plane(pass, grads->inv_depth),
        .sums = sums->sums,
        .grad_colors = grads->colors ? grads->colors + pass->camera * raster->colors_stride : NULL,
        .fixed = sums->fixed,
        .color_sums = grads->colors ? sums->color_sums : NULL,
        .color_fixed = sums->color_fixed,
        .color_width = sums->color_width};
}

/* Sums are made at once, or reproducibly in two passes over the pixels. */
enum sum_mode { FAST, LARGEST, FIXED };

static enum gsc__gpu_kernel blend_backward_kernel(const gsc__gpu_pass *pass, enum sum_mode mode) {
    static const enum gsc__gpu_kernel kernels[4][3] = {
        {GSC__KERNEL_blend_backward, GSC__KERNEL_blend_backward_largest,
         GSC__KERNEL_blend_backward_fixed},
        {GSC__KERNEL_blend_backward_depths, GSC__KERNEL_blend_backward_all_largest,
         GSC__KERNEL_blend_backward_all_fixed},
        {GSC__KERNEL_blend_backward_absolute, GSC__KERNEL_blend_backward_all_largest,
         GSC__KERNEL_blend_backward_all_fixed},
        {GSC__KERNEL_blend_backward_many, GSC__KERNEL_blend_backward_many_largest,
         GSC__KERNEL_blend_backward_many_fixed}};
    if (pass->raster->channels > 3) return kernels[3][mode];
    if (pass->grads->means2d_abs) return kernels[2][mode];
    return kernels[pass->grads->depth || pass->grads->inv_depth ? 1 : 0][mode];
}

/* Each group of channels adds its share to the sums.  Absolute gradients do not add up: if they are
 * wanted of several groups, the first makes the moments of all channels. */
static gsc_status blend_backward_groups(const gsc__gpu_pass *pass, enum gsc__gpu_kernel kernel,
                                        const gsc_k_blend_backward *args) {
    const uint32_t blocks = gsc__gpu_blend_blocks(&pass->layout, pass->multiprocessors);
    gsc_k_blend_backward group = *args;
    group.whole = pass->grads->means2d_abs && group.channels > GSC__BLEND_CHANNELS;
    group.moments = true;
    GSC__TRY(gsc__gpu_launch(pass->call, kernel, blocks, &group));
    group.moments = !group.whole;
    group.whole = false;
    group.grad_alpha = group.grad_depth = group.grad_inv_depth = NULL;
    for (int32_t c = GSC__BLEND_CHANNELS; c < group.channels && group.grad_color;
         c += GSC__BLEND_CHANNELS) {
        group.channel = c;
        GSC__TRY(gsc__gpu_launch(pass->call, kernel, blocks, &group));
    }
    return GSC_OK;
}

static gsc_status blend_backward_bands(gsc__gpu_pass *pass, enum sum_mode mode,
                                       gsc_k_blend_backward *args) {
    const enum gsc__gpu_kernel kernel = blend_backward_kernel(pass, mode);
    for (uint32_t round = 0; round < pass->lists.rounds; ++round) {
        if (pass->lists.rounds > 1 || (!pass->lists.stay && mode != FIXED))
            GSC__TRY(gsc__gpu_lists_fill(pass, round));
        args->band = pass->lists.bands + round;
        GSC__TRY(blend_backward_groups(pass, kernel, args));
    }
    return GSC_OK;
}

static gsc_status sum_pixels(gsc__gpu_pass *pass, const gsc__gpu_sums *sums) {
    gsc_k_blend_backward args = blend_backward_args(pass, sums);
    GSC__TRY(gsc__gpu_background(pass, &args.background));
    if (!sums->fixed) return blend_backward_bands(pass, FAST, &args);
    GSC__TRY(blend_backward_bands(pass, LARGEST, &args));
    GSC__TRY(blend_backward_bands(pass, FIXED, &args));
    return gsc__gpu_sums_finish(pass, sums, args.grad_colors);
}

/* Makes the lists again, with work space behind the sums if it fits there. */
static gsc_status sum_pixels_of_new_lists(gsc__gpu_pass *pass, const gsc__gpu_sums *sums) {
    gsc__workspace workspace = {.call = *pass->call};
    const size_t needed = gsc__gpu_lists_scratch_bytes(&pass->layout, pass->lists.capacity);
    void *scratch = (unsigned char *)pass->buffers->scratch + sums->bytes;
    if (needed > pass->buffers->scratch_bytes - sums->bytes)
        GSC__TRY(gsc__workspace_take(&workspace, "lists of bands", needed, &scratch));
    gsc__gpu_lists_work_space(pass, scratch);
    const gsc_k_plan_bands plan = gsc__gpu_plan_args(pass, NULL);
    gsc_status status = gsc__gpu_lists_plan(pass, &plan, false);
    if (status == GSC_OK) status = sum_pixels(pass, sums);
    gsc__workspace_release(&workspace);
    return status;
}

/* ---------------------------------------------------------- project backward */

/* What project_backward makes: gradients of the parameters, by GSC_PARAMETER_* - 1, of which the
 * harmonics are the last, and of means2d. */
enum { SH = GSC_PARAMETER_SH - 1, MEANS2D = GSC__PARAMETERS, MEANS2D_ABS, RESULTS };

static void find_results(const gsc__gpu_pass *pass, gsc__gpu_gradient results[RESULTS]) {
    const gsc__raster *raster = pass->raster;
    const gsc__raster_grads *grads = pass->grads;
    const int64_t index = pass->camera, n = raster->gaussians;
    const bool store = !(raster->flags & GSC_RASTER_GRAD_ADD), first = store && index == 0;
    const bool own_colors = raster->colors_stride != 0;
    const uint32_t channels = (uint32_t)raster->channels;
    const uint32_t axes = (uint32_t)grads->means2d_axes;
    const uint32_t abs_axes = (uint32_t)grads->means2d_abs_axes;
    const uint32_t side = (uint32_t)raster->sh_degree + 1, split = raster->sh_dc ? 1 : 0;
    const gsc__gpu_gradient all[RESULTS] = {
        [GSC_PARAMETER_MEANS - 1] = {grads->means, 3, 3, GSC__RESULT_MEAN, first},
        [GSC_PARAMETER_OPACITIES - 1] = {grads->opacities, 1, 1, GSC__RESULT_OPACITY, first},
        [GSC_PARAMETER_SCALES - 1] = {grads->scales, 3, 3, GSC__RESULT_SCALE, first},
        [GSC_PARAMETER_ROTATIONS - 1] = {grads->rotations, 4, 4, GSC__RESULT_ROTATION, first},
        [GSC_PARAMETER_COVARIANCES - 1] = {grads->covariances, 6, 6, GSC__RESULT_COVARIANCE, first},
        [GSC_PARAMETER_COLORS -
            1] = {grads->colors && channels <= 3 ? grads->colors + index * raster->colors_stride
                                                 : NULL,
                  channels, channels, GSC__RESULT_COLOR, own_colors ? store : first},
        [SH] = {grads->sh, 3 * (uint32_t)raster->sh_coefficients, 3 * (side * side - split),
                GSC__RESULT_BASIS + split, first},
        [GSC_PARAMETER_SH_DC - 1] = {grads->sh_dc, 3, 3, GSC__RESULT_BASIS, first},
        [MEANS2D] = {grads->means2d ? grads->means2d + index * n * axes : NULL, axes, 2,
                     GSC__RESULT_MEAN2D, store},
        [MEANS2D_ABS] = {grads->means2d_abs ? grads->means2d_abs + index * n * abs_axes : NULL,
                         abs_axes, 2, GSC__RESULT_MEAN2D_ABS, store}};
    memcpy(results, all, sizeof all);
}

static void list_gradients(const gsc__gpu_gradient results[RESULTS], gsc_k_project_backward *args) {
    for (int i = 0; i < RESULTS; ++i) {
        const gsc__gpu_gradient *result = &results[i];
        if (!result->to) continue;
        if (i < SH || i >= MEANS2D)
            args->gradient[args->gradients++] = *result;
        else if (result->width > 0 && (result->overwrite || result->used > 0))
            args->sh_gradient[args->sh_gradients++] = *result;
    }
}

/* The steps of Adam, laid out as the gradients would be. */
static void list_steps(const gsc__raster_steps *steps, const gsc__gpu_gradient results[RESULTS],
                       gsc_k_project_backward_step *args) {
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
            .harmonics = i >= SH,
            .vectors = group->row_size % 4 == 0 && gsc__gpu_is_aligned(group->parameter) &&
                       gsc__gpu_is_aligned(group->moment1) && gsc__gpu_is_aligned(group->moment2),
            .constants = gsc__adam_constants_of(group)};
    }
}

static gsc_status project_backward(const gsc__gpu_pass *pass, const gsc__gpu_sums *sums) {
    const gsc__raster *raster = pass->raster;
    const gsc__raster_grads *grads = pass->grads;
    const uint32_t blocks = gsc__gpu_blocks(raster->gaussians, GSC__CHUNK);
    const bool camera = grads->view || grads->position;
    gsc_k_project_backward args = {.frame = pass->frame,
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
                                   .sums = sums->sums,
                                   .shares = camera ? sums->shares : NULL};
    gsc__gpu_gradient results[RESULTS];
    find_results(pass, results);
    list_gradients(results, &args);
    gsc_k_project_backward_step step = {.project_backward = args};
    if (grads->steps) list_steps(grads->steps, results, &step);
    if (step.steps) return LAUNCH(project_backward_step, pass->call, blocks, step);
    if (!args.gradients && !args.sh_gradients && !camera) return GSC_OK;
    return LAUNCH(project_backward, pass->call, blocks, args);
}

static gsc_status camera_grad(const gsc__gpu_pass *pass, const gsc__gpu_sums *sums) {
    const gsc__raster *raster = pass->raster;
    const gsc__raster_grads *grads = pass->grads;
    const gsc_k_camera_grad args = {
        .camera = pass->frame.camera,
        .shares = sums->shares,
        .blocks = gsc__gpu_blocks(raster->gaussians, GSC__CHUNK),
        .row_major = (raster->flags & GSC_RASTER_VIEW_ROW_MAJOR) != 0,
        .own_position = raster->camera.position != NULL,
        .grad_view = grads->view ? grads->view + 16 * (int64_t)pass->camera : NULL,
        .grad_position = grads->position ? grads->position + 3 * (int64_t)pass->camera : NULL};
    if (!grads->view && !grads->position) return GSC_OK;
    return LAUNCH(camera_grad, pass->call, 1, args);
}

static gsc_status background_grad(const gsc__gpu_pass *pass) {
    const gsc__raster *raster = pass->raster;
    const gsc__raster_grads *grads = pass->grads;
    if (!grads->background || !grads->color) return GSC_OK;
    const gsc_k_background_grad args = {
        .final_t = pass->frame.final_t,
        .grad_color = color_grad(pass),
        .pixels = pass->layout.pixels,
        .channels = raster->channels,
        .pixel_last = (raster->flags & GSC_RASTER_PIXEL_LAST) != 0,
        .grad_background = grads->background + pass->camera * raster->background_stride};
    return LAUNCH(background_grad, pass->call, (uint32_t)raster->channels, args);
}

/* ------------------------------------------------------------------ backward */

static gsc_status backward_frame(gsc__gpu_pass *pass) {
    const gsc__raster_buffers *buffers = pass->buffers;
    const gsc__gpu_sums sums = gsc__gpu_sums_carve(pass->raster, &pass->layout, buffers->scratch);
    if (sums.bytes > buffers->scratch_bytes)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "%s: scratch has %zu bytes, expected at least %zu", pass->call->function,
                         buffers->scratch_bytes, sums.bytes);
    GSC__TRY(gsc__gpu_sums_clear(pass, &sums));
    GSC__TRY(gsc__gpu_lists_begin(pass));
    GSC__TRY(pass->lists.stay ? sum_pixels(pass, &sums) : sum_pixels_of_new_lists(pass, &sums));
    GSC__TRY(project_backward(pass, &sums));
    GSC__TRY(camera_grad(pass, &sums));
    return background_grad(pass);
}

gsc_status gsc__gpu_raster_backward(const gsc__raster_call *call, const gsc_raster_info *info,
                                    const gsc__raster_grads *grads) {
    gsc__gpu_pass pass = gsc__gpu_pass_begin(call, info);
    pass.grads = grads;
    if (info->layout != pass.layout.hash)
        return gsc__fail(GSC_ERROR_STATE, "%s: info has layout %016llx, expected %016llx",
                         call->call.function, (unsigned long long)info->layout,
                         (unsigned long long)pass.layout.hash);
    if (call->buffers.intersections_bytes < pass.layout.lists)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "%s: intersections has %zu bytes, the visible Gaussians alone take %zu",
                         call->call.function, call->buffers.intersections_bytes, pass.layout.lists);
    if (!(call->raster.flags & GSC_RASTER_GRAD_ADD)) GSC__TRY(clear_grads(call, grads));
    for (int32_t c = 0; c < call->raster.cameras; ++c) {
        gsc__gpu_pass_open(&pass, c);
        GSC__TRY(backward_frame(&pass));
    }
    return GSC_OK;
}
