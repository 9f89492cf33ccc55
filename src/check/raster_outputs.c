#include "raster_args.h"

#include "core/args.h"
#include "core/limits.h"

gsc__shape gsc__color_shape(const gsc__raster *raster) {
    const int64_t c = raster->cameras, d = raster->channels;
    const int64_t h = raster->height, w = raster->width;
    return gsc__per_camera(raster->flags & GSC_RASTER_PIXEL_LAST ? gsc__shape4(c, h, w, d)
                                                                 : gsc__shape4(c, d, h, w));
}

static gsc__shape pixel_shape(const gsc__raster *raster) {
    return gsc__per_camera(gsc__shape3(raster->cameras, raster->height, raster->width));
}

/* [C, N, axes] for one of two numbers of axes, or [C, N] for first_axes 0. */
static gsc_status per_axis(const gsc__checker *checker, const char *name, const DLTensor *tensor,
                           uint32_t dtype, const gsc__raster *raster, int32_t first_axes,
                           int32_t second_axes, void **data, int32_t *axes) {
    const int64_t c = raster->cameras, n = raster->gaussians;
    const gsc__shape shapes[] = {
        gsc__per_camera(first_axes ? gsc__shape3(c, n, first_axes) : gsc__shape2(c, n)),
        gsc__per_camera(gsc__shape3(c, n, second_axes))};
    int32_t which = 0;
    GSC__TRY(gsc__tensor_dense(checker, name, tensor, dtype, shapes, 2, &which, data));
    *axes = which == 0 ? first_axes : second_axes;
    return GSC_OK;
}

/* ------------------------------------------------------------------- outputs */

static gsc_status per_pixel_outputs(const gsc__checker *checker, const gsc__raster *raster,
                                    const gsc_raster_outputs *outputs, gsc__raster_outputs *out) {
    const gsc__shape pixels = pixel_shape(raster);
    GSC__TRY(gsc__real_out(checker, "outputs.color", outputs->color, gsc__color_shape(raster),
                           &out->color));
    GSC__TRY(gsc__real_out(checker, "outputs.alpha", outputs->alpha, pixels, &out->alpha));
    GSC__TRY(gsc__real_out(checker, "outputs.depth", outputs->depth, pixels, &out->depth));
    GSC__TRY(
        gsc__real_out(checker, "outputs.inv_depth", outputs->inv_depth, pixels, &out->inv_depth));
    return gsc__real_out(checker, "outputs.median_depth", outputs->median_depth, pixels,
                         &out->median_depth);
}

static gsc_status projected_outputs(const gsc__checker *checker, const gsc__raster *raster,
                                    const gsc_raster_outputs *outputs, gsc__raster_outputs *out) {
    const int64_t c = raster->cameras, n = raster->gaussians;
    const gsc__shape each = gsc__per_camera(gsc__shape2(c, n));
    void *radii;
    GSC__TRY(per_axis(checker, "outputs.radii", outputs->radii, GSC__INT32, raster, 0, 2, &radii,
                      &out->radii_axes));
    out->radii = radii;
    if (out->radii_axes == 0) out->radii_axes = 1;
    GSC__TRY(gsc__real_out(checker, "outputs.means2d", outputs->means2d,
                           gsc__per_camera(gsc__shape3(c, n, 2)), &out->means2d));
    GSC__TRY(gsc__real_out(checker, "outputs.depths", outputs->depths, each, &out->depths));
    GSC__TRY(gsc__real_out(checker, "outputs.conics", outputs->conics,
                           gsc__per_camera(gsc__shape3(c, n, 3)), &out->conics));
    return gsc__real_out(checker, "outputs.opacities", outputs->opacities, each, &out->opacities);
}

static gsc_status statistic_outputs(const gsc__checker *checker, const gsc__raster *raster,
                                    const gsc_raster_outputs *outputs, gsc__raster_outputs *out) {
    const gsc__shape each = gsc__per_camera(gsc__shape2(raster->cameras, raster->gaussians));
    GSC__TRY(gsc__int32_out(checker, "outputs.touched", outputs->touched, each, &out->touched));
    const char *weighted = outputs->weight_sum        ? "weight_sum"
                           : outputs->weight_count    ? "weight_count"
                           : outputs->weight_blend    ? "weight_blend"
                           : outputs->weight_distance ? "weight_distance"
                                                      : NULL;
    if (weighted && !raster->pixel_weights) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: outputs.%s is wanted, but pixel_weights is missing",
                         checker->function, weighted);
    }
    GSC__TRY(
        gsc__real_out(checker, "outputs.weight_sum", outputs->weight_sum, each, &out->weight_sum));
    GSC__TRY(gsc__int32_out(checker, "outputs.weight_count", outputs->weight_count, each,
                            &out->weight_count));
    GSC__TRY(gsc__real_out(checker, "outputs.weight_blend", outputs->weight_blend, each,
                           &out->weight_blend));
    return gsc__real_out(checker, "outputs.weight_distance", outputs->weight_distance, each,
                         &out->weight_distance);
}

gsc_status gsc__raster_outputs_args(const gsc__checker *checker, const gsc__raster *raster,
                                    const gsc_raster_outputs *theirs, bool color_required,
                                    gsc__raster_outputs *out) {
    gsc_raster_outputs outputs;
    memset(out, 0, sizeof *out);
    out->radii_axes = 1;
    if (!theirs && !color_required) return GSC_OK;
    GSC__TRY(gsc__args_copy(checker->function, "outputs", &outputs, sizeof outputs, theirs,
                            GSC__SIZE_THROUGH(gsc_raster_outputs, weight_distance)));
    if (color_required) GSC__TRY(gsc__require(checker, "outputs.color", outputs.color));
    GSC__TRY(per_pixel_outputs(checker, raster, &outputs, out));
    GSC__TRY(projected_outputs(checker, raster, &outputs, out));
    return statistic_outputs(checker, raster, &outputs, out);
}

/* ----------------------------------------------------------------- gradients */

/* A gradient by something that was not given. */
static gsc_status check_wanted(const gsc__checker *checker, const char *name, const DLTensor *grad,
                               const void *input) {
    if (!grad || input) return GSC_OK;
    return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: grads.%s is wanted, but %s is not given",
                     checker->function, name, name);
}

static gsc_status incoming_grads(const gsc__checker *checker, const gsc__raster *raster,
                                 const gsc_raster_grads *grads, gsc__raster_grads *out) {
    const gsc__shape pixels = pixel_shape(raster);
    GSC__TRY(
        gsc__real_in(checker, "grads.color", grads->color, gsc__color_shape(raster), &out->color));
    GSC__TRY(gsc__real_in(checker, "grads.alpha", grads->alpha, pixels, &out->alpha));
    GSC__TRY(gsc__real_in(checker, "grads.depth", grads->depth, pixels, &out->depth));
    return gsc__real_in(checker, "grads.inv_depth", grads->inv_depth, pixels, &out->inv_depth);
}

static gsc_status geometry_grads(const gsc__checker *checker, const gsc__raster *raster,
                                 const gsc_raster_grads *grads, gsc__raster_grads *out) {
    const int64_t n = raster->gaussians;
    const gsc__shape opacity_shapes[] = {gsc__shape1(n), gsc__shape2(n, 1)};
    void *data;
    GSC__TRY(gsc__real_out(checker, "grads.means", grads->means, gsc__shape2(n, 3), &out->means));
    GSC__TRY(gsc__tensor_dense(checker, "grads.opacities", grads->opacities, GSC__REAL,
                               opacity_shapes, 2, NULL, &data));
    out->opacities = data;
    GSC__TRY(check_wanted(checker, "scales", grads->scales, raster->scales));
    GSC__TRY(check_wanted(checker, "rotations", grads->rotations, raster->rotations));
    GSC__TRY(check_wanted(checker, "covariances", grads->covariances, raster->covariances));
    GSC__TRY(
        gsc__real_out(checker, "grads.scales", grads->scales, gsc__shape2(n, 3), &out->scales));
    GSC__TRY(gsc__real_out(checker, "grads.rotations", grads->rotations, gsc__shape2(n, 4),
                           &out->rotations));
    GSC__TRY(gsc__real_out(checker, "grads.covariances", grads->covariances, gsc__shape2(n, 6),
                           &out->covariances));
    GSC__TRY(per_axis(checker, "grads.means2d", grads->means2d, GSC__REAL, raster, 2, 3, &data,
                      &out->means2d_axes));
    out->means2d = data;
    GSC__TRY(per_axis(checker, "grads.means2d_abs", grads->means2d_abs, GSC__REAL, raster, 2, 3,
                      &data, &out->means2d_abs_axes));
    out->means2d_abs = data;
    return GSC_OK;
}

static gsc_status appearance_grads(const gsc__checker *checker, const gsc__raster *raster,
                                   const gsc_raster_grads *grads, gsc__raster_grads *out) {
    const int64_t c = raster->cameras, n = raster->gaussians, d = raster->channels;
    const gsc__shape each = gsc__per_camera(gsc__shape3(c, n, d));
    const gsc__shape shapes[] = {raster->colors_stride ? each : gsc__shape2(n, d), each};
    const int32_t choices = c == 1 || n == 0 ? 2 : 1; /* where both are the same memory */
    void *colors;
    GSC__TRY(check_wanted(checker, "colors", grads->colors, raster->colors));
    GSC__TRY(check_wanted(checker, "sh", grads->sh, raster->sh));
    GSC__TRY(check_wanted(checker, "sh_dc", grads->sh_dc, raster->sh_dc));
    GSC__TRY(gsc__tensor_dense(checker, "grads.colors", grads->colors, GSC__REAL, shapes, choices,
                               NULL, &colors));
    out->colors = colors;
    GSC__TRY(gsc__real_out(checker, "grads.sh", grads->sh,
                           gsc__shape3(n, raster->sh_coefficients, 3), &out->sh));
    return gsc__real_out(checker, "grads.sh_dc", grads->sh_dc, gsc__shape3(n, 1, 3), &out->sh_dc);
}

static gsc_status camera_grads(const gsc__checker *checker, const gsc__raster *raster,
                               const gsc_raster_grads *grads, gsc__raster_grads *out) {
    const int64_t c = raster->cameras, d = raster->channels;
    const gsc__shape background_shape =
        raster->background_stride ? gsc__per_camera(gsc__shape2(c, d)) : gsc__shape1(d);
    GSC__TRY(check_wanted(checker, "position", grads->position, raster->position));
    GSC__TRY(check_wanted(checker, "background", grads->background, raster->background));
    GSC__TRY(gsc__real_out(checker, "grads.view", grads->view,
                           gsc__per_camera(gsc__shape3(c, 4, 4)), &out->view));
    GSC__TRY(gsc__real_out(checker, "grads.position", grads->position,
                           gsc__per_camera(gsc__shape2(c, 3)), &out->position));
    return gsc__real_out(checker, "grads.background", grads->background, background_shape,
                         &out->background);
}

gsc_status gsc__raster_grads_args(const gsc__checker *checker, const gsc__raster *raster,
                                  const gsc_raster_grads *theirs, gsc__raster_grads *out) {
    gsc_raster_grads grads;
    memset(out, 0, sizeof *out);
    if (raster->flags & GSC_RASTER_FORWARD_ONLY)
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: flags have GSC_RASTER_FORWARD_ONLY, with which forward keeps nothing "
                         "for this call",
                         checker->function);
    GSC__TRY(gsc__args_copy(checker->function, "grads", &grads, sizeof grads, theirs,
                            GSC__SIZE_THROUGH(gsc_raster_grads, background)));
    GSC__TRY(incoming_grads(checker, raster, &grads, out));
    GSC__TRY(geometry_grads(checker, raster, &grads, out));
    GSC__TRY(appearance_grads(checker, raster, &grads, out));
    return camera_grads(checker, raster, &grads, out);
}

/* ------------------------------------------------------------------- buffers */

gsc_status gsc__raster_buffers_args(const gsc__checker *checker, const gsc_raster_buffers *theirs,
                                    const gsc__buffer_needs *needs, gsc__raster_buffers *out) {
    gsc_raster_buffers buffers;
    memset(out, 0, sizeof *out);
    GSC__TRY(gsc__args_copy(checker->function, "buffers", &buffers, sizeof buffers, theirs,
                            GSC__SIZE_THROUGH(gsc_raster_buffers, scratch)));
    GSC__TRY(gsc__require(checker, "state", buffers.state));
    GSC__TRY(gsc__tensor_bytes(checker, "state", buffers.state, needs->state, &out->state,
                               &out->state_bytes));
    if (needs->uses_intersections) {
        if (needs->intersections > 0)
            GSC__TRY(gsc__require(checker, "intersections", buffers.intersections));
        GSC__TRY(gsc__tensor_bytes(checker, "intersections", buffers.intersections,
                                   needs->intersections, &out->intersections,
                                   &out->intersections_bytes));
    }
    return gsc__tensor_bytes(checker, "scratch", buffers.scratch, needs->scratch, &out->scratch,
                             &out->scratch_bytes);
}

gsc_status gsc__raster_info_args(const gsc__checker *checker, const gsc_raster_info *theirs,
                                 gsc_raster_info *out) {
    GSC__TRY(gsc__args_copy(checker->function, "info", out, sizeof *out, theirs,
                            GSC__SIZE_THROUGH(gsc_raster_info, visible)));
    out->struct_size = sizeof *out;
    if (out->visible < 0 || out->visible > GSC__MAX_GAUSSIANS)
        return gsc__fail(out->visible < 0 ? GSC_ERROR_INVALID_ARGUMENT : GSC_ERROR_OVERFLOW,
                         "%s: info has %lld visible, expected 0 to %lld", checker->function,
                         (long long)out->visible, (long long)GSC__MAX_GAUSSIANS);
    if (out->intersections >= 0 && out->intersections <= GSC__MAX_INTERSECTIONS) return GSC_OK;
    return gsc__fail(out->intersections < 0 ? GSC_ERROR_INVALID_ARGUMENT : GSC_ERROR_OVERFLOW,
                     "%s: info has %lld intersections, expected 0 to %lld", checker->function,
                     (long long)out->intersections, (long long)GSC__MAX_INTERSECTIONS);
}
