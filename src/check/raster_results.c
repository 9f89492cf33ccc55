/* Outputs and gradients of the rasterizer. */

#include "args.h"

#define OUTPUT(name, ...) GSC__FIELD(gsc_raster_outputs, gsc__raster_outputs, name, __VA_ARGS__)
#define WEIGHT(name, ...) OUTPUT(name, __VA_ARGS__, offsetof(gsc__raster, pixel_weights))
static const gsc__field output_fields[] = {
    OUTPUT(color, "(C)XYZ"),
    OUTPUT(alpha, "(C)HW"),
    OUTPUT(depth, "(C)HW"),
    OUTPUT(inv_depth, "(C)HW"),
    OUTPUT(median_depth, "(C)HW"),
    OUTPUT(radii, "(C)N|(C)N2", GSC__INT32),
    OUTPUT(means2d, "(C)N2"),
    OUTPUT(depths, "(C)N"),
    OUTPUT(conics, "(C)N3"),
    OUTPUT(opacities, "(C)N"),
    OUTPUT(touched, "(C)N", GSC__INT32),
    WEIGHT(weight_sum, "(C)N", GSC__REAL),
    WEIGHT(weight_count, "(C)N", GSC__INT32),
    WEIGHT(weight_blend, "(C)N", GSC__REAL),
    WEIGHT(weight_distance, "(C)N", GSC__REAL),
};

#define GRAD(name, ...) GSC__FIELD(gsc_raster_grads, gsc__raster_grads, name, __VA_ARGS__)
/* Of an input that may be missing. */
#define OF(name, ...) GRAD(name, __VA_ARGS__, 0, offsetof(gsc__raster, name))
static const gsc__field grad_fields[] = {
    GRAD(color, "(C)XYZ"),
    GRAD(alpha, "(C)HW"),
    GRAD(depth, "(C)HW"),
    GRAD(inv_depth, "(C)HW"),
    OF(means, "N3"),
    OF(opacities, "N|N1"),
    OF(scales, "N3"),
    OF(rotations, "N4"),
    OF(covariances, "N6"),
    OF(colors, "(E)ND"),
    OF(sh, "NK3"),
    OF(sh_dc, "N13"),
    GRAD(means2d, "(C)N2|(C)N3"),
    GRAD(means2d_abs, "(C)N2|(C)N3"),
    GRAD(view, "(C)44"),
    GRAD(position, "(C)3", 0, offsetof(gsc__raster, camera.position)),
    OF(background, "(B)D"),
};
enum { FIRST_PARAMETER = 4 };

const gsc__field *gsc__parameter_field(int32_t parameter) {
    return &grad_fields[FIRST_PARAMETER + parameter - 1];
}

static gsc_status check_fields(const gsc__call *call, const gsc__raster *raster,
                               const gsc__field *fields, size_t count, const void *descriptor,
                               void *result) {
    gsc__sizes sizes = {0};
    for (size_t i = 0; i < count; ++i) {
        const size_t input = fields[i].needs;
        const bool weights = input == offsetof(gsc__raster, pixel_weights);
        if (!gsc__pointer_at(descriptor, fields[i].from) || !input ||
            gsc__pointer_at(raster, input))
            continue;
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "@%s is wanted, but %s is not given",
                           fields[i].name, weights ? "pixel_weights" : fields[i].name);
    }
    gsc__raster_sizes_of(raster, &sizes);
    return gsc__fields_check(call, &sizes, fields, count, descriptor, result);
}

/* Elements that the tensor has for each splat. */
static int32_t axes_of(const gsc__raster *raster, const DLTensor *tensor, int32_t standard) {
    if (!tensor || raster->gaussians == 0) return standard;
    return (int32_t)(gsc__elements(tensor) / raster->gaussians / raster->cameras);
}

gsc_status gsc__raster_outputs_args(const gsc__call *call, const gsc__raster *raster,
                                    const gsc_raster_outputs *theirs, bool color_required,
                                    gsc__raster_outputs *out) {
    const gsc__call part = gsc__call_of_part(call, "outputs.");
    gsc_raster_outputs outputs;
    memset(out, 0, sizeof *out);
    out->radii_axes = 1;
    if (!theirs && !color_required) return GSC_OK;
    GSC__TRY(GSC__ARGS_COPY(&part, NULL, &outputs, theirs, weight_distance));
    if (color_required) GSC__TRY(gsc__require(&part, "color", outputs.color));
    GSC__TRY(check_fields(&part, raster, output_fields, GSC__COUNT(output_fields), &outputs, out));
    out->radii_axes = axes_of(raster, outputs.radii, 1);
    return GSC_OK;
}

gsc_status gsc__check_backward(const gsc__call *call, const gsc__raster *raster) {
    if (!(raster->flags & GSC_RASTER_FORWARD_ONLY)) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                       "@flags have GSC_RASTER_FORWARD_ONLY, with which forward keeps nothing "
                       "for this call");
}

gsc_status gsc__raster_grads_args(const gsc__call *call, const gsc__raster *raster,
                                  const gsc_raster_grads *theirs, gsc__raster_grads *out) {
    const gsc__call part = gsc__call_of_part(call, "grads.");
    gsc_raster_grads grads;
    memset(out, 0, sizeof *out);
    GSC__TRY(gsc__check_backward(call, raster));
    GSC__TRY(GSC__ARGS_COPY(&part, NULL, &grads, theirs, background));
    GSC__TRY(check_fields(&part, raster, grad_fields, GSC__COUNT(grad_fields), &grads, out));
    out->means2d_axes = axes_of(raster, grads.means2d, 2);
    out->means2d_abs_axes = axes_of(raster, grads.means2d_abs, 2);
    return GSC_OK;
}
