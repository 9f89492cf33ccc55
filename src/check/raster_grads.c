#include "args.h"

/* Refuses a gradient with respect to something that was not given. */
static gsc_status check_wanted(const gsc__call *call, const gsc__raster *raster,
                               const gsc_raster_grads *grads) {
    const struct {
        const char *name;
        const DLTensor *grad;
        const void *input;
    } list[] = {
        {"scales", grads->scales, raster->scales},
        {"rotations", grads->rotations, raster->rotations},
        {"covariances", grads->covariances, raster->covariances},
        {"colors", grads->colors, raster->colors},
        {"sh", grads->sh, raster->sh},
        {"sh_dc", grads->sh_dc, raster->sh_dc},
        {"position", grads->position, raster->position},
        {"background", grads->background, raster->background},
    };
    for (size_t i = 0; i < sizeof list / sizeof list[0]; ++i) {
        if (!list[i].grad || list[i].input) continue;
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "grads.%s is wanted, but %s is not given", list[i].name, list[i].name);
    }
    return GSC_OK;
}

static gsc_status check_grads(const gsc__call *call, const gsc__raster *raster,
                              const gsc_raster_grads *given, gsc__raster_grads *out) {
    const int64_t c = raster->cameras, n = raster->gaussians, d = raster->channels;
    const gsc__shape color = gsc__color_shape(raster), pixels = gsc__pixel_shape(raster);
    const gsc__shape two = gsc__splat_shape(raster, 2), three = gsc__splat_shape(raster, 3);
    const gsc__shape each = gsc__splat_shape(raster, raster->channels);
    const gsc__shape view = gsc__per_camera(gsc__shape3(c, 4, 4));
    const gsc__shape position = gsc__per_camera(gsc__shape2(c, 3));
    const gsc__shape sh = gsc__shape3(n, raster->sh_coefficients, 3);
    const gsc__shape colors = raster->colors_stride ? each : gsc__shape2(n, d);
    const int32_t color_choices = c == 1 || n == 0 ? 2 : 1; /* where both are the same memory */
    const gsc__shape background =
        raster->background_stride ? gsc__per_camera(gsc__shape2(c, d)) : gsc__shape1(d);
    gsc__tensor means2d = {"grads.means2d", given->means2d, &out->means2d, .shapes = {two, three},
                           .choices = 2};
    gsc__tensor means2d_abs = {"grads.means2d_abs", given->means2d_abs, &out->means2d_abs,
                               .shapes = {two, three}, .choices = 2};
    gsc__tensor others[] = {
        {"grads.color", given->color, &out->color, .shapes = {color}},
        {"grads.alpha", given->alpha, &out->alpha, .shapes = {pixels}},
        {"grads.depth", given->depth, &out->depth, .shapes = {pixels}},
        {"grads.inv_depth", given->inv_depth, &out->inv_depth, .shapes = {pixels}},
        {"grads.means", given->means, &out->means, .shapes = {gsc__shape2(n, 3)}},
        {"grads.opacities", given->opacities, &out->opacities,
         .shapes = {gsc__shape1(n), gsc__shape2(n, 1)}, .choices = 2},
        {"grads.scales", given->scales, &out->scales, .shapes = {gsc__shape2(n, 3)}},
        {"grads.rotations", given->rotations, &out->rotations, .shapes = {gsc__shape2(n, 4)}},
        {"grads.covariances", given->covariances, &out->covariances, .shapes = {gsc__shape2(n, 6)}},
        {"grads.colors", given->colors, &out->colors, .shapes = {colors, each},
         .choices = color_choices},
        {"grads.sh", given->sh, &out->sh, .shapes = {sh}},
        {"grads.sh_dc", given->sh_dc, &out->sh_dc, .shapes = {gsc__shape3(n, 1, 3)}},
        {"grads.view", given->view, &out->view, .shapes = {view}},
        {"grads.position", given->position, &out->position, .shapes = {position}},
        {"grads.background", given->background, &out->background, .shapes = {background}},
    };
    GSC__TRY(gsc__tensor_check(call, &means2d));
    GSC__TRY(gsc__tensor_check(call, &means2d_abs));
    out->means2d_axes = 2 + means2d.which;
    out->means2d_abs_axes = 2 + means2d_abs.which;
    return gsc__tensors_check(call, others, sizeof others / sizeof others[0]);
}

gsc_status gsc__raster_grads_args(const gsc__call *call, const gsc__raster *raster,
                                  const gsc_raster_grads *theirs, gsc__raster_grads *out) {
    gsc_raster_grads grads;
    memset(out, 0, sizeof *out);
    if (raster->flags & GSC_RASTER_FORWARD_ONLY)
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@flags have GSC_RASTER_FORWARD_ONLY, with which forward keeps nothing "
                           "for this call");
    GSC__TRY(gsc__args_copy(call, "grads", &grads, sizeof grads, theirs,
                            GSC__SIZE_THROUGH(gsc_raster_grads, background)));
    GSC__TRY(check_wanted(call, raster, &grads));
    return check_grads(call, raster, &grads, out);
}
