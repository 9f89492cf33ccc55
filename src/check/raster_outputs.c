#include "args.h"

static gsc_status check_weighted(const gsc__call *call, const gsc__raster *raster,
                                 const gsc_raster_outputs *outputs) {
    const char *weighted = outputs->weight_sum        ? "weight_sum"
                           : outputs->weight_count    ? "weight_count"
                           : outputs->weight_blend    ? "weight_blend"
                           : outputs->weight_distance ? "weight_distance"
                                                      : NULL;
    if (!weighted || raster->pixel_weights) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                       "outputs.%s is wanted, but pixel_weights is missing", weighted);
}

static gsc_status check_outputs(const gsc__call *call, const gsc__raster *raster,
                                const gsc_raster_outputs *given, gsc__raster_outputs *out) {
    const gsc__shape color = gsc__color_shape(raster), pixels = gsc__pixel_shape(raster);
    const gsc__shape one = gsc__splat_shape(raster, 0), two = gsc__splat_shape(raster, 2);
    const gsc__shape three = gsc__splat_shape(raster, 3);
    gsc__tensor radii = {"outputs.radii", given->radii,         &out->radii,
                         GSC__INT32,      .shapes = {one, two}, .choices = 2};
    gsc__tensor others[] = {
        {"outputs.color", given->color, &out->color, .shapes = {color}},
        {"outputs.alpha", given->alpha, &out->alpha, .shapes = {pixels}},
        {"outputs.depth", given->depth, &out->depth, .shapes = {pixels}},
        {"outputs.inv_depth", given->inv_depth, &out->inv_depth, .shapes = {pixels}},
        {"outputs.median_depth", given->median_depth, &out->median_depth, .shapes = {pixels}},
        {"outputs.means2d", given->means2d, &out->means2d, .shapes = {two}},
        {"outputs.depths", given->depths, &out->depths, .shapes = {one}},
        {"outputs.conics", given->conics, &out->conics, .shapes = {three}},
        {"outputs.opacities", given->opacities, &out->opacities, .shapes = {one}},
        {"outputs.touched", given->touched, &out->touched, GSC__INT32, .shapes = {one}},
        {"outputs.weight_sum", given->weight_sum, &out->weight_sum, .shapes = {one}},
        {"outputs.weight_count", given->weight_count, &out->weight_count, GSC__INT32,
         .shapes = {one}},
        {"outputs.weight_blend", given->weight_blend, &out->weight_blend, .shapes = {one}},
        {"outputs.weight_distance", given->weight_distance, &out->weight_distance, .shapes = {one}},
    };
    GSC__TRY(gsc__tensor_check(call, &radii));
    out->radii_axes = 1 + radii.which;
    return gsc__tensors_check(call, others, sizeof others / sizeof others[0]);
}

gsc_status gsc__raster_outputs_args(const gsc__call *call, const gsc__raster *raster,
                                    const gsc_raster_outputs *theirs, bool color_required,
                                    gsc__raster_outputs *out) {
    gsc_raster_outputs outputs;
    memset(out, 0, sizeof *out);
    out->radii_axes = 1;
    if (!theirs && !color_required) return GSC_OK;
    GSC__TRY(gsc__args_copy(call, "outputs", &outputs, sizeof outputs, theirs,
                            GSC__SIZE_THROUGH(gsc_raster_outputs, weight_distance)));
    if (color_required) GSC__TRY(gsc__require(call, "outputs.color", outputs.color));
    GSC__TRY(check_weighted(call, raster, &outputs));
    return check_outputs(call, raster, &outputs, out);
}
