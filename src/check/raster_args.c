#include "raster_args.h"

#include "core/args.h"
#include "core/device.h"
#include "core/limits.h"

#include <math.h>

/* Every flag, from the first to the last of the enum. */
#define KNOWN_FLAGS (2u * GSC_RASTER_FORWARD_ONLY - 1u)

/* ------------------------------------------------------------------- scalars */

static gsc_status check_size(const gsc__checker *checker, const gsc_raster_args *args) {
    const char *function = checker->function;
    if (args->width < 1 || args->height < 1) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: width x height is %d x %d, expected at least 1 x 1", function,
                         args->width, args->height);
    }
    if (args->width > GSC__MAX_SIDE || args->height > GSC__MAX_SIDE) {
        return gsc__fail(GSC_ERROR_OVERFLOW,
                         "%s: width x height is %d x %d, expected sides of at most %d", function,
                         args->width, args->height, GSC__MAX_SIDE);
    }
    if ((int64_t)args->width * args->height > GSC__MAX_PIXELS) {
        return gsc__fail(GSC_ERROR_OVERFLOW,
                         "%s: width x height is %d x %d, expected at most %lld pixels", function,
                         args->width, args->height, (long long)GSC__MAX_PIXELS);
    }
    return GSC_OK;
}

static gsc_status check_planes(const gsc__checker *checker, const gsc_raster_args *args,
                               gsc__raster *out) {
    const char *function = checker->function;
    GSC__TRY(gsc__check_not_negative(function, "near_plane", args->near_plane));
    GSC__TRY(gsc__check_not_negative(function, "far_plane", args->far_plane));
    out->near_plane = args->near_plane == 0.0f ? GSC_REAL(0.2) : (gsc_real)args->near_plane;
    out->far_plane = args->far_plane == 0.0f ? (gsc_real)INFINITY : (gsc_real)args->far_plane;
    if (out->far_plane > out->near_plane) return GSC_OK;
    return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                     "%s: far_plane is %g, expected more than near_plane %g", function,
                     (double)out->far_plane, (double)out->near_plane);
}

static gsc_status check_tangents(const gsc__checker *checker, const gsc_raster_args *args,
                                 gsc__raster *out) {
    const char *function = checker->function;
    GSC__TRY(gsc__check_finite(function, "tan_fovx", args->tan_fovx));
    GSC__TRY(gsc__check_finite(function, "tan_fovy", args->tan_fovy));
    out->tan_fovx = (gsc_real)args->tan_fovx;
    out->tan_fovy = (gsc_real)args->tan_fovy;
    if (!args->projection || (args->tan_fovx > 0.0f && args->tan_fovy > 0.0f)) return GSC_OK;
    return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                     "%s: tan_fovx and tan_fovy are %g and %g, expected more than 0 with "
                     "projection",
                     function, (double)args->tan_fovx, (double)args->tan_fovy);
}

static gsc_status check_scalars(const gsc__checker *checker, const gsc_raster_args *args,
                                gsc__raster *out) {
    const char *function = checker->function;
    GSC__TRY(gsc__check_flags(function, "flags", args->flags, KNOWN_FLAGS));
    GSC__TRY(check_size(checker, args));
    GSC__TRY(gsc__check_not_negative(function, "scale_modifier", args->scale_modifier));
    GSC__TRY(check_tangents(checker, args, out));
    GSC__TRY(check_planes(checker, args, out));
    GSC__TRY(gsc__check_not_negative(function, "radius_clip", args->radius_clip));
    GSC__TRY(gsc__check_finite(function, "blur", args->blur));
    GSC__TRY(gsc__check_finite(function, "median_default", args->median_default));
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

/* A matrix whose strides are those of its transpose is stored the other way round. */
static bool stored_by_rows(const gsc_raster_args *args, bool transposed) {
    return ((args->flags & GSC_RASTER_VIEW_ROW_MAJOR) != 0) != transposed;
}

/* Column-major or row-major, [C, 4, 4] is how C becomes known. */
static gsc_status check_view(const gsc__checker *checker, const gsc_raster_args *args,
                             gsc__raster *out) {
    const DLTensor *view = args->view;
    const gsc__shape any = gsc__per_camera(gsc__shape3(GSC__ANY('C'), 4, 4));
    bool transposed;
    GSC__TRY(gsc__require(checker, "view", view));
    GSC__TRY(gsc__camera_matrices_in(checker, "view", view, any, &out->view, &transposed));
    out->view_by_rows = stored_by_rows(args, transposed);
    out->host_view = is_on_host(view);
    int64_t cameras = view->ndim == 3 ? view->shape[0] : 1;
    if (cameras < 1) {
        return gsc__fail(GSC_ERROR_SHAPE, "%s: view is [0, 4, 4], expected at least 1 camera",
                         checker->function);
    }
    if (cameras > GSC__MAX_CAMERAS) {
        return gsc__fail(GSC_ERROR_OVERFLOW, "%s: view has %lld cameras, expected at most %d",
                         checker->function, (long long)cameras, GSC__MAX_CAMERAS);
    }
    out->cameras = (int32_t)cameras;
    return GSC_OK;
}

/* Callers take it out of the inverse of a view, where it often is a column: a copy would cost
 * them more than it does to step over the rest. */
static gsc_status check_position(const gsc__checker *checker, const DLTensor *position,
                                 gsc__raster *out) {
    const gsc__shape shape = gsc__per_camera(gsc__shape2(out->cameras, 3));
    const gsc__checker where = gsc__host_too(checker, position);
    int64_t strides[GSC__MAX_DIMS];
    void *start;
    GSC__TRY(gsc__tensor_strided(&where, "position", position, GSC__REAL, &shape, 1, NULL, false,
                                 &start, strides));
    out->position = start;
    out->host_position = is_on_host(position);
    if (!position) return GSC_OK;
    const int32_t last = position->ndim - 1;
    out->position_step = strides[last];
    out->position_stride = last > 0 ? strides[0] : 0;
    return GSC_OK;
}

static gsc_status check_cameras(const gsc__checker *checker, const gsc_raster_args *args,
                                gsc__raster *out) {
    bool transposed;
    GSC__TRY(check_view(checker, args, out));
    const int64_t c = out->cameras;
    if (!args->projection == !args->intrinsics) {
        return gsc__fail(
            GSC_ERROR_INVALID_ARGUMENT, "%s: %s given, expected either projection or intrinsics",
            checker->function, args->projection ? "projection and intrinsics are" : "neither is");
    }
    GSC__TRY(gsc__camera_matrices_in(checker, "projection", args->projection,
                                     gsc__per_camera(gsc__shape3(c, 4, 4)), &out->projection,
                                     &transposed));
    out->projection_by_rows = stored_by_rows(args, transposed);
    GSC__TRY(gsc__camera_in(checker, "intrinsics", args->intrinsics,
                            gsc__per_camera(gsc__shape2(c, 4)), &out->intrinsics));
    out->host_projection = is_on_host(args->projection);
    out->host_intrinsics = is_on_host(args->intrinsics);
    return check_position(checker, args->position, out);
}

/* [channels] or [C, channels] */
static gsc_status check_background(const gsc__checker *checker, const DLTensor *background,
                                   gsc__raster *out) {
    const gsc__shape shapes[] = {gsc__shape1(out->channels),
                                 gsc__shape2(out->cameras, out->channels)};
    const gsc__checker where = gsc__host_too(checker, background);
    int32_t which = 0;
    void *data;
    GSC__TRY(
        gsc__tensor_dense(&where, "background", background, GSC__REAL, shapes, 2, &which, &data));
    out->background = data;
    out->host_background = is_on_host(background);
    out->background_stride = which == 1 ? out->channels : 0;
    return GSC_OK;
}

/* ----------------------------------------------------------------- Gaussians */

static gsc_status check_means(const gsc__checker *checker, const DLTensor *means,
                              gsc__raster *out) {
    GSC__TRY(gsc__require(checker, "means", means));
    GSC__TRY(gsc__real_in(checker, "means", means, gsc__shape2(GSC__ANY('N'), 3), &out->means));
    out->gaussians = means->shape[0];
    if (out->gaussians <= GSC__MAX_GAUSSIANS) return GSC_OK;
    return gsc__fail(GSC_ERROR_OVERFLOW, "%s: means has %lld Gaussians, expected at most %lld",
                     checker->function, (long long)out->gaussians, (long long)GSC__MAX_GAUSSIANS);
}

static gsc_status check_geometry(const gsc__checker *checker, const gsc_raster_args *args,
                                 gsc__raster *out) {
    const int64_t n = out->gaussians;
    const gsc__shape opacity_shapes[] = {gsc__shape1(n), gsc__shape2(n, 1)};
    void *opacities;
    GSC__TRY(gsc__require(checker, "opacities", args->opacities));
    GSC__TRY(gsc__tensor_dense(checker, "opacities", args->opacities, GSC__REAL, opacity_shapes, 2,
                               NULL, &opacities));
    out->opacities = opacities;
    if (args->covariances && (args->scales || args->rotations)) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: covariances and %s are given, expected either covariances or scales "
                         "and rotations",
                         checker->function, args->scales ? "scales" : "rotations");
    }
    if (args->covariances && (args->flags & GSC_RASTER_LOG_SCALES)) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: flags has GSC_RASTER_LOG_SCALES, but covariances are given",
                         checker->function);
    }
    if (!args->covariances) {
        GSC__TRY(gsc__require(checker, args->rotations ? "scales" : "scales (or covariances)",
                              args->scales));
        GSC__TRY(gsc__require(checker, "rotations", args->rotations));
    }
    GSC__TRY(gsc__real_in(checker, "scales", args->scales, gsc__shape2(n, 3), &out->scales));
    GSC__TRY(
        gsc__real_in(checker, "rotations", args->rotations, gsc__shape2(n, 4), &out->rotations));
    return gsc__real_in(checker, "covariances", args->covariances, gsc__shape2(n, 6),
                        &out->covariances);
}

static gsc_status check_harmonics(const gsc__checker *checker, const gsc_raster_args *args,
                                  gsc__raster *out) {
    const int64_t n = out->gaussians;
    if (args->sh_degree < 0 || args->sh_degree > GSC__MAX_SH_DEGREE) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: sh_degree is %d, expected 0 to %d",
                         checker->function, args->sh_degree, GSC__MAX_SH_DEGREE);
    }
    GSC__TRY(gsc__real_in(checker, "sh_dc", args->sh_dc, gsc__shape3(n, 1, 3), &out->sh_dc));
    GSC__TRY(gsc__real_in(checker, "sh", args->sh, gsc__shape3(n, GSC__ANY('K'), 3), &out->sh));
    out->channels = 3;
    out->sh_degree = args->sh_degree;
    out->sh_coefficients = args->sh ? args->sh->shape[1] : 0;
    int64_t needed = (int64_t)(args->sh_degree + 1) * (args->sh_degree + 1) - (args->sh_dc != NULL);
    if (out->sh_coefficients >= needed) return GSC_OK;
    if (!args->sh) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: sh_degree is %d with sh_dc alone, expected 0 or sh too",
                         checker->function, args->sh_degree);
    }
    char given[GSC__SHAPE_TEXT_SIZE];
    return gsc__fail(GSC_ERROR_SHAPE,
                     "%s: sh is %s, expected [%lld, K, 3] with K at least %lld "
                     "for degree %d%s",
                     checker->function, gsc__shape_text(args->sh->shape, 3, given), (long long)n,
                     (long long)needed, args->sh_degree, args->sh_dc ? " beside sh_dc" : "");
}

/* [N, channels] or [C, N, channels] */
static gsc_status check_colors(const gsc__checker *checker, const DLTensor *colors,
                               gsc__raster *out) {
    const int64_t n = out->gaussians;
    const gsc__shape shapes[] = {gsc__shape2(n, GSC__ANY('D')),
                                 gsc__shape3(out->cameras, n, GSC__ANY('D'))};
    int32_t which = 0;
    void *data;
    GSC__TRY(gsc__tensor_dense(checker, "colors", colors, GSC__REAL, shapes, 2, &which, &data));
    int64_t channels = colors->shape[which + 1];
    if (channels < 1) {
        return gsc__fail(GSC_ERROR_SHAPE, "%s: colors has 0 channels, expected 1 to %d",
                         checker->function, GSC__MAX_CHANNELS);
    }
    if (channels > GSC__MAX_CHANNELS) {
        return gsc__fail(GSC_ERROR_OVERFLOW, "%s: colors has %lld channels, expected 1 to %d",
                         checker->function, (long long)channels, GSC__MAX_CHANNELS);
    }
    out->colors = data;
    out->channels = (int32_t)channels;
    out->colors_stride = which == 1 ? n * channels : 0;
    return GSC_OK;
}

static gsc_status check_appearance(const gsc__checker *checker, const gsc_raster_args *args,
                                   gsc__raster *out) {
    if (args->colors && (args->sh || args->sh_dc)) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: colors and %s are given, expected either colors or sh",
                         checker->function, args->sh ? "sh" : "sh_dc");
    }
    if (args->colors) return check_colors(checker, args->colors, out);
    if (args->sh || args->sh_dc) return check_harmonics(checker, args, out);
    return gsc__require(checker, "colors (or sh)", NULL);
}

/* --------------------------------------------------------------- descriptors */

static gsc_status copy_args(const gsc__checker *checker, const gsc_raster_args *theirs,
                            gsc_raster_args *ours) {
    return gsc__args_copy(checker->function, "args", ours, sizeof *ours, theirs,
                          GSC__SIZE_THROUGH(gsc_raster_args, sh_dc));
}

gsc_status gsc__raster_args(const gsc__checker *checker, const gsc_raster_args *theirs,
                            gsc__raster *out) {
    gsc_raster_args args;
    memset(out, 0, sizeof *out);
    GSC__TRY(copy_args(checker, theirs, &args));
    GSC__TRY(check_scalars(checker, &args, out));
    GSC__TRY(check_cameras(checker, &args, out));
    GSC__TRY(check_means(checker, args.means, out));
    GSC__TRY(check_geometry(checker, &args, out));
    GSC__TRY(check_appearance(checker, &args, out));
    GSC__TRY(check_background(checker, args.background, out));
    return gsc__real_in(checker, "pixel_weights", args.pixel_weights,
                        gsc__per_camera(gsc__shape3(out->cameras, out->height, out->width)),
                        &out->pixel_weights);
}

gsc_status gsc__visible_args(const gsc__checker *checker, const gsc_raster_args *theirs,
                             const DLTensor *visible, gsc__raster *out, uint8_t **visible_out) {
    gsc_raster_args args;
    void *data;
    memset(out, 0, sizeof *out);
    GSC__TRY(copy_args(checker, theirs, &args));
    GSC__TRY(gsc__check_flags(checker->function, "flags", args.flags, KNOWN_FLAGS));
    GSC__TRY(check_planes(checker, &args, out));
    GSC__TRY(check_view(checker, &args, out));
    GSC__TRY(check_means(checker, args.means, out));
    out->flags = args.flags;
    const gsc__shape shape = gsc__per_camera(gsc__shape2(out->cameras, out->gaussians));
    GSC__TRY(gsc__require(checker, "visible", visible));
    GSC__TRY(gsc__tensor_dense(checker, "visible", visible, GSC__BOOL | GSC__UINT8, &shape, 1, NULL,
                               &data));
    *visible_out = data;
    return GSC_OK;
}
