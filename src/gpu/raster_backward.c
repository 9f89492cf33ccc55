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

/* Floats of a Gaussian's coefficients in sh, of the degree in use. */
static uint32_t used_harmonics(const gsc__raster *raster) {
    const uint32_t side = (uint32_t)raster->sh_degree + 1;
    return 3 * (side * side - (raster->sh_dc ? 1 : 0));
}

/* The gradients that project_backward writes, in one list. */
static void list_gradients(const gsc__gpu_pass *pass, gsc_k_project_backward *args) {
    const gsc__raster *raster = pass->raster;
    const gsc__raster_grads *grads = pass->grads;
    const int64_t index = pass->camera, n = raster->gaussians;
    const bool store = !(raster->flags & GSC_RASTER_GRAD_ADD), first = store && index == 0;
    const bool own_colors = raster->colors_stride != 0;
    const uint32_t channels = (uint32_t)raster->channels;
    const uint32_t axes = (uint32_t)grads->means2d_axes;
    const uint32_t abs_axes = (uint32_t)grads->means2d_abs_axes;
    const uint32_t split = raster->sh_dc ? 1 : 0, used = used_harmonics(raster);
    const uint32_t rows = 3 * (uint32_t)raster->sh_coefficients;
    const gsc__gpu_gradient plain[GSC__GRADIENTS_MAX] = {
        {grads->means, 3, 3, GSC__RESULT_MEAN, first},
        {grads->opacities, 1, 1, GSC__RESULT_OPACITY, first},
        {grads->scales, 3, 3, GSC__RESULT_SCALE, first},
        {grads->rotations, 4, 4, GSC__RESULT_ROTATION, first},
        {grads->covariances, 6, 6, GSC__RESULT_COVARIANCE, first},
        {grads->colors && channels <= 3 ? grads->colors + index * raster->colors_stride : NULL,
         channels, channels, GSC__RESULT_COLOR, own_colors ? store : first},
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

/* The steps of Adam, laid out as the gradients would be. */
static void list_steps(const gsc__gpu_pass *pass, gsc_k_project_backward_step *args) {
    const gsc__raster *raster = pass->raster;
    const gsc__raster_steps *steps = pass->grads->steps;
    const uint32_t split = raster->sh_dc ? 1 : 0, used = used_harmonics(raster);
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
    list_gradients(pass, &args);
    gsc_k_project_backward_step step = {.project_backward = args};
    if (grads->steps) list_steps(pass, &step);
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
