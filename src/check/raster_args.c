#include "args.h"

#include "core/context.h"

#include <math.h>

/* Every flag, from the first to the last of the enum. */
#define KNOWN_FLAGS (2u * GSC_RASTER_FORWARD_ONLY - 1u)

/* ------------------------------------------------------------------- scalars */

static gsc_status check_size(const gsc__call *call, const gsc_raster_args *args) {
    const int32_t max_side = call->context->backend->max_side;
    if (args->width < 1 || args->height < 1) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@width x height is %d x %d, expected at least 1 x 1", args->width,
                           args->height);
    }
    if (args->width > max_side || args->height > max_side) {
        return gsc__refuse(call, GSC_ERROR_OVERFLOW,
                           "@width x height is %d x %d, expected sides of at most %d", args->width,
                           args->height, max_side);
    }
    if ((int64_t)args->width * args->height > GSC__MAX_PIXELS) {
        return gsc__refuse(call, GSC_ERROR_OVERFLOW,
                           "@width x height is %d x %d, expected at most %lld pixels", args->width,
                           args->height, (long long)GSC__MAX_PIXELS);
    }
    return GSC_OK;
}

static gsc_status check_planes(const gsc__call *call, const gsc_raster_args *args,
                               gsc__raster *out) {
    GSC__TRY(gsc__check_not_negative(call, "near_plane", args->near_plane));
    GSC__TRY(gsc__check_not_negative(call, "far_plane", args->far_plane));
    out->near_plane = args->near_plane == 0.0f ? GSC_REAL(0.2) : (gsc_real)args->near_plane;
    out->far_plane = args->far_plane == 0.0f ? (gsc_real)INFINITY : (gsc_real)args->far_plane;
    if (out->far_plane > out->near_plane) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                       "@far_plane is %g, expected more than near_plane %g", (double)out->far_plane,
                       (double)out->near_plane);
}

static gsc_status check_tangents(const gsc__call *call, const gsc_raster_args *args,
                                 gsc__raster *out) {
    GSC__TRY(gsc__check_finite(call, "tan_fovx", args->tan_fovx));
    GSC__TRY(gsc__check_finite(call, "tan_fovy", args->tan_fovy));
    out->tan_fovx = (gsc_real)args->tan_fovx;
    out->tan_fovy = (gsc_real)args->tan_fovy;
    if (!args->projection || (args->tan_fovx > 0.0f && args->tan_fovy > 0.0f)) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                       "@tan_fovx and @tan_fovy are %g and %g, expected more than 0 with "
                       "projection",
                       (double)args->tan_fovx, (double)args->tan_fovy);
}

static gsc_status check_scalars(const gsc__call *call, const gsc_raster_args *args,
                                gsc__raster *out) {
    GSC__TRY(gsc__check_flags(call, "flags", args->flags, KNOWN_FLAGS));
    GSC__TRY(check_size(call, args));
    GSC__TRY(gsc__check_not_negative(call, "scale_modifier", args->scale_modifier));
    GSC__TRY(check_tangents(call, args, out));
    GSC__TRY(check_planes(call, args, out));
    GSC__TRY(gsc__check_not_negative(call, "radius_clip", args->radius_clip));
    GSC__TRY(gsc__check_finite(call, "blur", args->blur));
    GSC__TRY(gsc__check_finite(call, "median_default", args->median_default));
    out->flags = args->flags;
    out->width = args->width;
    out->height = args->height;
    out->scale_modifier =
        args->scale_modifier == 0.0f ? GSC_REAL(1.0) : (gsc_real)args->scale_modifier;
    out->radius_clip = args->radius_clip == 0.0f ? GSC_REAL(-1.0) : (gsc_real)args->radius_clip;
    out->blur = args->blur == 0.0f ? GSC_REAL(0.3) : (gsc_real)args->blur;
    if (args->blur < 0.0f) out->blur = GSC_REAL(0.0);
    out->median_default = (gsc_real)args->median_default;
    return GSC_OK;
}

/* ------------------------------------------------------------------- cameras */

static bool is_on_host(const DLTensor *tensor) {
    return tensor && gsc__device_is_host(tensor->device);
}

/* Matrices [C, 4, 4] or [4, 4], dense or the transposed view of dense ones: callers keep the other
 * order that way, and a copy in their framework would cost more than all checks of a call. */
static gsc_status check_matrices(const gsc__call *call, const gsc_raster_args *args,
                                 gsc__tensor *tensor, bool *by_rows) {
    const DLTensor *given = tensor->given;
    const int64_t *strides = tensor->strides;
    tensor->host_too = tensor->strided = true;
    GSC__TRY(gsc__tensor_check(call, tensor));
    *by_rows = (args->flags & GSC_RASTER_VIEW_ROW_MAJOR) != 0;
    if (!given || (given->ndim == 3 && given->shape[0] == 0)) return GSC_OK;
    const int32_t rows = given->ndim - 2, columns = given->ndim - 1;
    const bool transposed = strides[rows] == 1 && strides[columns] == 4;
    const bool dense = strides[rows] == 4 && strides[columns] == 1;
    const bool apart = rows == 0 || given->shape[0] == 1 || strides[0] == 16;
    *by_rows = *by_rows != transposed;
    if (apart && (dense || transposed)) return GSC_OK;
    char text[GSC__SHAPE_TEXT_SIZE];
    return gsc__refuse(call, GSC_ERROR_LAYOUT,
                       "@%s has strides %s, expected dense matrices, by rows or by columns",
                       tensor->name, gsc__shape_text(strides, given->ndim, text));
}

/* Says how many cameras there are. */
static gsc_status check_view(const gsc__call *call, const gsc_raster_args *args, gsc__raster *out) {
    gsc__tensor view = {.name = "view",
                        .given = args->view,
                        .shapes = {gsc__per_camera(gsc__shape3(GSC__ANY('C'), 4, 4))},
                        .required = true};
    GSC__TRY(check_matrices(call, args, &view, &out->view_by_rows));
    out->view = view.data;
    out->host_view = is_on_host(args->view);
    const int64_t cameras = args->view->ndim == 3 ? args->view->shape[0] : 1;
    if (cameras < 1) {
        return gsc__refuse(call, GSC_ERROR_SHAPE, "@view is [0, 4, 4], expected at least 1 camera");
    }
    if (cameras > GSC__MAX_CAMERAS) {
        return gsc__refuse(call, GSC_ERROR_OVERFLOW, "@view has %lld cameras, expected at most %d",
                           (long long)cameras, GSC__MAX_CAMERAS);
    }
    out->cameras = (int32_t)cameras;
    return GSC_OK;
}

static gsc_status check_projection(const gsc__call *call, const gsc_raster_args *args,
                                   gsc__raster *out) {
    gsc__tensor projection = {.name = "projection",
                              .given = args->projection,
                              .shapes = {gsc__per_camera(gsc__shape3(out->cameras, 4, 4))}};
    gsc__tensor intrinsics = {.name = "intrinsics",
                              .given = args->intrinsics,
                              .shapes = {gsc__per_camera(gsc__shape2(out->cameras, 4))},
                              .host_too = true};
    if (!args->projection == !args->intrinsics) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@%s given, expected either projection or intrinsics",
                           args->projection ? "projection and intrinsics are" : "neither is");
    }
    GSC__TRY(check_matrices(call, args, &projection, &out->projection_by_rows));
    GSC__TRY(gsc__tensor_check(call, &intrinsics));
    out->projection = projection.data;
    out->intrinsics = intrinsics.data;
    out->host_projection = is_on_host(args->projection);
    out->host_intrinsics = is_on_host(args->intrinsics);
    return GSC_OK;
}

/* Often a column of an inverse view, hence with any strides. */
static gsc_status check_position(const gsc__call *call, const DLTensor *given, gsc__raster *out) {
    gsc__tensor position = {.name = "position",
                            .given = given,
                            .shapes = {gsc__per_camera(gsc__shape2(out->cameras, 3))},
                            .host_too = true,
                            .strided = true};
    GSC__TRY(gsc__tensor_check(call, &position));
    if (!given) return GSC_OK;
    const int32_t last = given->ndim - 1;
    out->position = position.data;
    out->host_position = is_on_host(given);
    out->position_step = position.strides[last];
    out->position_stride = last > 0 ? position.strides[0] : 0;
    return GSC_OK;
}

/* [channels] or [C, channels] */
static gsc_status check_background(const gsc__call *call, const DLTensor *given, gsc__raster *out) {
    gsc__tensor background = {
        .name = "background",
        .given = given,
        .shapes = {gsc__shape1(out->channels), gsc__shape2(out->cameras, out->channels)},
        .choices = 2,
        .host_too = true};
    GSC__TRY(gsc__tensor_check(call, &background));
    out->background = background.data;
    out->host_background = is_on_host(given);
    out->background_stride = background.which == 1 ? out->channels : 0;
    return GSC_OK;
}

/* ----------------------------------------------------------------- Gaussians */

static gsc_status check_means(const gsc__call *call, const DLTensor *means, gsc__raster *out) {
    GSC__TRY(gsc__require(call, "means", means));
    GSC__TRY(gsc__real_in(call, "means", means, gsc__shape2(GSC__ANY('N'), 3), &out->means));
    out->gaussians = means->shape[0];
    if (out->gaussians <= GSC__MAX_GAUSSIANS) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_OVERFLOW, "@means has %lld Gaussians, expected at most %lld",
                       (long long)out->gaussians, (long long)GSC__MAX_GAUSSIANS);
}

static gsc_status check_geometry(const gsc__call *call, const gsc_raster_args *args,
                                 gsc__raster *out) {
    const int64_t n = out->gaussians;
    gsc__tensor opacities = {.name = "opacities",
                             .given = args->opacities,
                             .shapes = {gsc__shape1(n), gsc__shape2(n, 1)},
                             .choices = 2,
                             .required = true};
    GSC__TRY(gsc__tensor_check(call, &opacities));
    out->opacities = opacities.data;
    if (args->covariances && (args->scales || args->rotations)) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@covariances and @%s are given, expected either covariances or scales "
                           "and rotations",
                           args->scales ? "scales" : "rotations");
    }
    if (args->covariances && (args->flags & GSC_RASTER_LOG_SCALES)) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@flags has GSC_RASTER_LOG_SCALES, but covariances are given");
    }
    if (!args->covariances) {
        GSC__TRY(gsc__require(call, args->rotations ? "scales" : "scales (or covariances)",
                              args->scales));
        GSC__TRY(gsc__require(call, "rotations", args->rotations));
    }
    GSC__TRY(gsc__real_in(call, "scales", args->scales, gsc__shape2(n, 3), &out->scales));
    GSC__TRY(gsc__real_in(call, "rotations", args->rotations, gsc__shape2(n, 4), &out->rotations));
    return gsc__real_in(call, "covariances", args->covariances, gsc__shape2(n, 6),
                        &out->covariances);
}

static gsc_status check_harmonics(const gsc__call *call, const gsc_raster_args *args,
                                  gsc__raster *out) {
    const int64_t n = out->gaussians;
    if (args->sh_degree < 0 || args->sh_degree > GSC__MAX_SH_DEGREE) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "@sh_degree is %d, expected 0 to %d",
                           args->sh_degree, GSC__MAX_SH_DEGREE);
    }
    GSC__TRY(gsc__real_in(call, "sh_dc", args->sh_dc, gsc__shape3(n, 1, 3), &out->sh_dc));
    GSC__TRY(gsc__real_in(call, "sh", args->sh, gsc__shape3(n, GSC__ANY('K'), 3), &out->sh));
    out->channels = 3;
    out->sh_degree = args->sh_degree;
    out->sh_coefficients = args->sh ? args->sh->shape[1] : 0;
    int64_t needed = (int64_t)(args->sh_degree + 1) * (args->sh_degree + 1) - (args->sh_dc != NULL);
    if (out->sh_coefficients >= needed) return GSC_OK;
    if (!args->sh) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@sh_degree is %d with sh_dc alone, expected 0 or sh too",
                           args->sh_degree);
    }
    char given[GSC__SHAPE_TEXT_SIZE];
    return gsc__refuse(call, GSC_ERROR_SHAPE,
                       "@sh is %s, expected [%lld, K, 3] with K at least %lld "
                       "for degree %d%s",
                       gsc__shape_text(args->sh->shape, 3, given), (long long)n, (long long)needed,
                       args->sh_degree, args->sh_dc ? " beside sh_dc" : "");
}

/* [N, channels] or [C, N, channels] */
static gsc_status check_colors(const gsc__call *call, const DLTensor *given, gsc__raster *out) {
    const int64_t n = out->gaussians;
    gsc__tensor colors = {
        .name = "colors",
        .given = given,
        .shapes = {gsc__shape2(n, GSC__ANY('D')), gsc__shape3(out->cameras, n, GSC__ANY('D'))},
        .choices = 2};
    GSC__TRY(gsc__tensor_check(call, &colors));
    const int64_t channels = given->shape[colors.which + 1];
    if (channels < 1) {
        return gsc__refuse(call, GSC_ERROR_SHAPE, "@colors has 0 channels, expected 1 to %d",
                           GSC__MAX_CHANNELS);
    }
    if (channels > GSC__MAX_CHANNELS) {
        return gsc__refuse(call, GSC_ERROR_OVERFLOW, "@colors has %lld channels, expected 1 to %d",
                           (long long)channels, GSC__MAX_CHANNELS);
    }
    out->colors = colors.data;
    out->channels = (int32_t)channels;
    out->colors_stride = colors.which == 1 ? n * channels : 0;
    return GSC_OK;
}

static gsc_status check_appearance(const gsc__call *call, const gsc_raster_args *args,
                                   gsc__raster *out) {
    if (args->colors && (args->sh || args->sh_dc)) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@colors and @%s are given, expected either colors or sh",
                           args->sh ? "sh" : "sh_dc");
    }
    if (args->colors) return check_colors(call, args->colors, out);
    if (args->sh || args->sh_dc) return check_harmonics(call, args, out);
    return gsc__require(call, "colors (or sh)", NULL);
}

/* --------------------------------------------------------------- descriptors */

static gsc_status copy_args(const gsc__call *call, const gsc_raster_args *theirs,
                            gsc_raster_args *ours) {
    return gsc__args_copy(call, "args", ours, sizeof *ours, theirs,
                          GSC__SIZE_THROUGH(gsc_raster_args, sh_dc));
}

gsc_status gsc__raster_args(const gsc__call *call, const gsc_raster_args *theirs,
                            gsc__raster *out) {
    gsc_raster_args args;
    memset(out, 0, sizeof *out);
    GSC__TRY(copy_args(call, theirs, &args));
    GSC__TRY(check_scalars(call, &args, out));
    GSC__TRY(check_view(call, &args, out));
    GSC__TRY(check_projection(call, &args, out));
    GSC__TRY(check_position(call, args.position, out));
    GSC__TRY(check_means(call, args.means, out));
    GSC__TRY(check_geometry(call, &args, out));
    GSC__TRY(check_appearance(call, &args, out));
    GSC__TRY(check_background(call, args.background, out));
    return gsc__real_in(call, "pixel_weights", args.pixel_weights, gsc__pixel_shape(out),
                        &out->pixel_weights);
}

gsc_status gsc__visible_args(const gsc__call *call, const gsc_raster_args *theirs,
                             const DLTensor *visible, gsc__raster *out, uint8_t **visible_out) {
    gsc_raster_args args;
    memset(out, 0, sizeof *out);
    GSC__TRY(copy_args(call, theirs, &args));
    GSC__TRY(gsc__check_flags(call, "flags", args.flags, KNOWN_FLAGS));
    GSC__TRY(check_planes(call, &args, out));
    GSC__TRY(check_view(call, &args, out));
    GSC__TRY(check_means(call, args.means, out));
    out->flags = args.flags;
    gsc__tensor marks = {.name = "visible",
                         .given = visible,
                         .dtypes = GSC__BOOL | GSC__UINT8,
                         .shapes = {gsc__splat_shape(out, 0)},
                         .required = true};
    GSC__TRY(gsc__tensor_check(call, &marks));
    *visible_out = marks.data;
    return GSC_OK;
}

/* -------------------------------------------------------------------- shapes */

gsc__shape gsc__color_shape(const gsc__raster *raster) {
    const int64_t c = raster->cameras, d = raster->channels;
    const int64_t h = raster->height, w = raster->width;
    return gsc__per_camera(raster->flags & GSC_RASTER_PIXEL_LAST ? gsc__shape4(c, h, w, d)
                                                                 : gsc__shape4(c, d, h, w));
}

gsc__shape gsc__pixel_shape(const gsc__raster *raster) {
    return gsc__per_camera(gsc__shape3(raster->cameras, raster->height, raster->width));
}

gsc__shape gsc__splat_shape(const gsc__raster *raster, int32_t axes) {
    const int64_t c = raster->cameras, n = raster->gaussians;
    return gsc__per_camera(axes ? gsc__shape3(c, n, axes) : gsc__shape2(c, n));
}
