#include "raster_args.h"

#include "core/args.h"

/* A gradient with respect to something that was not given. */
static gsc_status check_wanted(const gsc__call *call, const char *name, const DLTensor *grad,
                               const void *input) {
    if (!grad || input) return GSC_OK;
    return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: grads.%s is wanted, but %s is not given",
                     call->function, name, name);
}

static gsc_status incoming_grads(const gsc__call *call, const gsc__raster *raster,
                                 const gsc_raster_grads *grads, gsc__raster_grads *out) {
    const gsc__shape pixels = gsc__pixel_shape(raster);
    GSC__TRY(
        gsc__real_in(call, "grads.color", grads->color, gsc__color_shape(raster), &out->color));
    GSC__TRY(gsc__real_in(call, "grads.alpha", grads->alpha, pixels, &out->alpha));
    GSC__TRY(gsc__real_in(call, "grads.depth", grads->depth, pixels, &out->depth));
    return gsc__real_in(call, "grads.inv_depth", grads->inv_depth, pixels, &out->inv_depth);
}

/* [C, N, 2] or [C, N, 3] */
static gsc_status means2d_grad(const gsc__call *call, const char *name, const DLTensor *given,
                               const gsc__raster *raster, gsc_real **data, int32_t *axes) {
    gsc__tensor tensor = {.name = name,
                          .given = given,
                          .shapes = {gsc__splat_shape(raster, 2), gsc__splat_shape(raster, 3)},
                          .choices = 2};
    GSC__TRY(gsc__tensor_check(call, &tensor));
    *data = tensor.data;
    *axes = 2 + tensor.which;
    return GSC_OK;
}

static gsc_status geometry_grads(const gsc__call *call, const gsc__raster *raster,
                                 const gsc_raster_grads *grads, gsc__raster_grads *out) {
    const int64_t n = raster->gaussians;
    gsc__tensor opacities = {.name = "grads.opacities",
                             .given = grads->opacities,
                             .shapes = {gsc__shape1(n), gsc__shape2(n, 1)},
                             .choices = 2};
    GSC__TRY(gsc__real_out(call, "grads.means", grads->means, gsc__shape2(n, 3), &out->means));
    GSC__TRY(gsc__tensor_check(call, &opacities));
    out->opacities = opacities.data;
    GSC__TRY(check_wanted(call, "scales", grads->scales, raster->scales));
    GSC__TRY(check_wanted(call, "rotations", grads->rotations, raster->rotations));
    GSC__TRY(check_wanted(call, "covariances", grads->covariances, raster->covariances));
    GSC__TRY(gsc__real_out(call, "grads.scales", grads->scales, gsc__shape2(n, 3), &out->scales));
    GSC__TRY(gsc__real_out(call, "grads.rotations", grads->rotations, gsc__shape2(n, 4),
                           &out->rotations));
    GSC__TRY(gsc__real_out(call, "grads.covariances", grads->covariances, gsc__shape2(n, 6),
                           &out->covariances));
    GSC__TRY(means2d_grad(call, "grads.means2d", grads->means2d, raster, &out->means2d,
                          &out->means2d_axes));
    return means2d_grad(call, "grads.means2d_abs", grads->means2d_abs, raster, &out->means2d_abs,
                        &out->means2d_abs_axes);
}

static gsc_status appearance_grads(const gsc__call *call, const gsc__raster *raster,
                                   const gsc_raster_grads *grads, gsc__raster_grads *out) {
    const int64_t n = raster->gaussians, d = raster->channels;
    const gsc__shape each = gsc__splat_shape(raster, raster->channels);
    gsc__tensor colors = {
        .name = "grads.colors",
        .given = grads->colors,
        .shapes = {raster->colors_stride ? each : gsc__shape2(n, d), each},
        .choices = raster->cameras == 1 || n == 0 ? 2 : 1 /* where both are the same memory */};
    GSC__TRY(check_wanted(call, "colors", grads->colors, raster->colors));
    GSC__TRY(check_wanted(call, "sh", grads->sh, raster->sh));
    GSC__TRY(check_wanted(call, "sh_dc", grads->sh_dc, raster->sh_dc));
    GSC__TRY(gsc__tensor_check(call, &colors));
    out->colors = colors.data;
    GSC__TRY(gsc__real_out(call, "grads.sh", grads->sh, gsc__shape3(n, raster->sh_coefficients, 3),
                           &out->sh));
    return gsc__real_out(call, "grads.sh_dc", grads->sh_dc, gsc__shape3(n, 1, 3), &out->sh_dc);
}

static gsc_status camera_grads(const gsc__call *call, const gsc__raster *raster,
                               const gsc_raster_grads *grads, gsc__raster_grads *out) {
    const int64_t c = raster->cameras, d = raster->channels;
    const gsc__shape background_shape =
        raster->background_stride ? gsc__per_camera(gsc__shape2(c, d)) : gsc__shape1(d);
    GSC__TRY(check_wanted(call, "position", grads->position, raster->position));
    GSC__TRY(check_wanted(call, "background", grads->background, raster->background));
    GSC__TRY(gsc__real_out(call, "grads.view", grads->view, gsc__per_camera(gsc__shape3(c, 4, 4)),
                           &out->view));
    GSC__TRY(gsc__real_out(call, "grads.position", grads->position,
                           gsc__per_camera(gsc__shape2(c, 3)), &out->position));
    return gsc__real_out(call, "grads.background", grads->background, background_shape,
                         &out->background);
}

gsc_status gsc__raster_grads_args(const gsc__call *call, const gsc__raster *raster,
                                  const gsc_raster_grads *theirs, gsc__raster_grads *out) {
    gsc_raster_grads grads;
    memset(out, 0, sizeof *out);
    if (raster->flags & GSC_RASTER_FORWARD_ONLY)
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: flags have GSC_RASTER_FORWARD_ONLY, with which forward keeps nothing "
                         "for this call",
                         call->function);
    GSC__TRY(gsc__args_copy(call->function, "grads", &grads, sizeof grads, theirs,
                            GSC__SIZE_THROUGH(gsc_raster_grads, background)));
    GSC__TRY(incoming_grads(call, raster, &grads, out));
    GSC__TRY(geometry_grads(call, raster, &grads, out));
    GSC__TRY(appearance_grads(call, raster, &grads, out));
    return camera_grads(call, raster, &grads, out);
}
