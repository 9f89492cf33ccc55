#include "raster_args.h"

#include "core/args.h"

static gsc_status per_pixel_outputs(const gsc__call *call, const gsc__raster *raster,
                                    const gsc_raster_outputs *outputs, gsc__raster_outputs *out) {
    const gsc__shape pixels = gsc__pixel_shape(raster);
    GSC__TRY(gsc__real_out(call, "outputs.color", outputs->color, gsc__color_shape(raster),
                           &out->color));
    GSC__TRY(gsc__real_out(call, "outputs.alpha", outputs->alpha, pixels, &out->alpha));
    GSC__TRY(gsc__real_out(call, "outputs.depth", outputs->depth, pixels, &out->depth));
    GSC__TRY(gsc__real_out(call, "outputs.inv_depth", outputs->inv_depth, pixels, &out->inv_depth));
    return gsc__real_out(call, "outputs.median_depth", outputs->median_depth, pixels,
                         &out->median_depth);
}

static gsc_status projected_outputs(const gsc__call *call, const gsc__raster *raster,
                                    const gsc_raster_outputs *outputs, gsc__raster_outputs *out) {
    const gsc__shape one = gsc__splat_shape(raster, 0), two = gsc__splat_shape(raster, 2);
    gsc__tensor radii = {.name = "outputs.radii",
                         .given = outputs->radii,
                         .dtypes = GSC__INT32,
                         .shapes = {one, two},
                         .choices = 2};
    GSC__TRY(gsc__tensor_check(call, &radii));
    out->radii = radii.data;
    out->radii_axes = 1 + radii.which;
    GSC__TRY(gsc__real_out(call, "outputs.means2d", outputs->means2d, two, &out->means2d));
    GSC__TRY(gsc__real_out(call, "outputs.depths", outputs->depths, one, &out->depths));
    GSC__TRY(gsc__real_out(call, "outputs.conics", outputs->conics, gsc__splat_shape(raster, 3),
                           &out->conics));
    return gsc__real_out(call, "outputs.opacities", outputs->opacities, one, &out->opacities);
}

static gsc_status statistic_outputs(const gsc__call *call, const gsc__raster *raster,
                                    const gsc_raster_outputs *outputs, gsc__raster_outputs *out) {
    const gsc__shape each = gsc__splat_shape(raster, 0);
    GSC__TRY(gsc__int32_out(call, "outputs.touched", outputs->touched, each, &out->touched));
    const char *weighted = outputs->weight_sum        ? "weight_sum"
                           : outputs->weight_count    ? "weight_count"
                           : outputs->weight_blend    ? "weight_blend"
                           : outputs->weight_distance ? "weight_distance"
                                                      : NULL;
    if (weighted && !raster->pixel_weights) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: outputs.%s is wanted, but pixel_weights is missing", call->function,
                         weighted);
    }
    GSC__TRY(
        gsc__real_out(call, "outputs.weight_sum", outputs->weight_sum, each, &out->weight_sum));
    GSC__TRY(gsc__int32_out(call, "outputs.weight_count", outputs->weight_count, each,
                            &out->weight_count));
    GSC__TRY(gsc__real_out(call, "outputs.weight_blend", outputs->weight_blend, each,
                           &out->weight_blend));
    return gsc__real_out(call, "outputs.weight_distance", outputs->weight_distance, each,
                         &out->weight_distance);
}

gsc_status gsc__raster_outputs_args(const gsc__call *call, const gsc__raster *raster,
                                    const gsc_raster_outputs *theirs, bool color_required,
                                    gsc__raster_outputs *out) {
    gsc_raster_outputs outputs;
    memset(out, 0, sizeof *out);
    out->radii_axes = 1;
    if (!theirs && !color_required) return GSC_OK;
    GSC__TRY(gsc__args_copy(call->function, "outputs", &outputs, sizeof outputs, theirs,
                            GSC__SIZE_THROUGH(gsc_raster_outputs, weight_distance)));
    if (color_required) GSC__TRY(gsc__require(call, "outputs.color", outputs.color));
    GSC__TRY(per_pixel_outputs(call, raster, &outputs, out));
    GSC__TRY(projected_outputs(call, raster, &outputs, out));
    return statistic_outputs(call, raster, &outputs, out);
}
