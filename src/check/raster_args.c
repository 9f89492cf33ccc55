#include "args.h"

#include "core/context.h"

#include <math.h>

/* Every flag, from the first to the last of the enum. */
#define KNOWN_FLAGS (2u * GSC_RASTER_COMPAT_MIP - 1u)

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

#define NUMBER(name, ...) GSC__NUMBER(gsc_raster_args, gsc__raster, name, __VA_ARGS__)
#define LENS(name, ...) GSC__NUMBER(gsc_raster_args, gsc__camera_source, name, __VA_ARGS__)
static const gsc__number planes[] = {LENS(near_plane, 0.2, GSC__NOT_NEGATIVE),
                                     LENS(far_plane, INFINITY, GSC__NOT_NEGATIVE)};
static const gsc__number blur = LENS(blur, 0.3, GSC__NEGATIVE_IS_ZERO);
static const gsc__number numbers[] = {NUMBER(scale_modifier, 1.0, GSC__NOT_NEGATIVE),
                                      NUMBER(radius_clip, -1.0, GSC__NOT_NEGATIVE),
                                      NUMBER(median_default, 0.0, 0)};
static const gsc__number tangents[] = {
    {.name = "tan_fovx", .from = offsetof(gsc_raster_args, tan_fovx)},
    {.name = "tan_fovy", .from = offsetof(gsc_raster_args, tan_fovy), .to = sizeof(gsc_real)}};

static gsc_status check_planes(const gsc__call *call, const gsc_raster_args *args,
                               gsc__camera_source *out) {
    GSC__TRY(gsc__numbers_check(call, planes, GSC__COUNT(planes), args, out));
    if (out->far_plane > out->near_plane) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                       "@far_plane is %g, expected more than near_plane %g", (double)out->far_plane,
                       (double)out->near_plane);
}

static gsc_status check_flags(const gsc__call *call, uint32_t flags) {
    const uint32_t needed = GSC_RASTER_COMPAT_3DGS | GSC_RASTER_ANTIALIAS;
    GSC__TRY(gsc__check_flags(call, "flags", flags, KNOWN_FLAGS));
    if (!(flags & GSC_RASTER_COMPAT_MIP) || (flags & needed) == needed) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                       "@flags have GSC_RASTER_COMPAT_MIP, expected GSC_RASTER_COMPAT_3DGS and "
                       "GSC_RASTER_ANTIALIAS with it");
}

static gsc_status check_scalars(const gsc__call *call, const gsc_raster_args *args,
                                gsc__raster *out) {
    gsc__camera_source *camera = &out->camera;
    GSC__TRY(check_flags(call, args->flags));
    GSC__TRY(check_size(call, args));
    GSC__TRY(gsc__numbers_check(call, numbers, GSC__COUNT(numbers), args, out));
    GSC__TRY(gsc__numbers_check(call, tangents, GSC__COUNT(tangents), args, camera->tan_fov));
    GSC__TRY(gsc__numbers_check(call, &blur, 1, args, camera));
    GSC__TRY(check_planes(call, args, &out->camera));
    out->flags = args->flags;
    out->width = camera->width = args->width;
    out->height = camera->height = args->height;
    camera->compat = (args->flags & GSC_RASTER_COMPAT_3DGS) != 0;
    camera->antialias = (args->flags & GSC_RASTER_ANTIALIAS) != 0;
    camera->mip = (args->flags & GSC_RASTER_COMPAT_MIP) != 0;
    if (!args->projection || (args->tan_fovx > 0.0f && args->tan_fovy > 0.0f)) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                       "@tan_fovx and @tan_fovy are %g and %g, expected more than 0 with "
                       "projection",
                       (double)args->tan_fovx, (double)args->tan_fovy);
}

/* ------------------------------------------------------------------- choices */

/* What excludes or needs one another. */
static gsc_status check_choices(const gsc__call *call, const gsc_raster_args *args) {
    const char *wrong = NULL;
    if (!args->projection == !args->intrinsics)
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@%s given, expected either projection or intrinsics",
                           args->projection ? "projection and intrinsics are" : "neither is");
    if (args->covariances && (args->scales || args->rotations))
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@covariances and @%s are given, expected either covariances or scales "
                           "and rotations",
                           args->scales ? "scales" : "rotations");
    if (args->covariances && (args->flags & GSC_RASTER_LOG_SCALES))
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@flags has GSC_RASTER_LOG_SCALES, but covariances are given");
    if (args->colors && (args->sh || args->sh_dc))
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@colors and @%s are given, expected either colors or sh",
                           args->sh ? "sh" : "sh_dc");
    if (!args->colors && !args->sh && !args->sh_dc) wrong = "colors (or sh)";
    if (!args->covariances && !args->rotations) wrong = "rotations";
    if (!args->covariances && !args->scales)
        wrong = args->rotations ? "scales" : "scales (or covariances)";
    return wrong ? gsc__require(call, wrong, NULL) : GSC_OK;
}

/* ------------------------------------------------------------------- cameras */

static bool is_on_host(const DLTensor *tensor) {
    return tensor && gsc__device_is_host(tensor->device);
}

static const gsc__limit limits[] = {{'C', "cameras", 1, GSC__MAX_CAMERAS},
                                    {'D', "channels", 1, GSC__MAX_CHANNELS},
                                    {'N', "Gaussians", 0, GSC__MAX_GAUSSIANS},
                                    {0}};
#define TENSOR(name, ...) GSC__FIELD(gsc_raster_args, gsc__raster, name, __VA_ARGS__)
#define CAMERA(name, ...) GSC__FIELD(gsc_raster_args, gsc__camera_source, name, __VA_ARGS__)
enum { MATRIX = GSC__HOST_TOO | GSC__STRIDED };
static const gsc__field view = CAMERA(view, "(C)44", MATRIX | GSC__REQUIRED);
static const gsc__field projection = CAMERA(projection, "(C)44", MATRIX);
/* Often a column of an inverse view, hence with any strides. */
static const gsc__field position = CAMERA(position, "(C)3", MATRIX);
static const gsc__field intrinsics = CAMERA(intrinsics, "(C)4", GSC__HOST_TOO);
static const gsc__field means = TENSOR(means, "N3", GSC__REQUIRED);
static const gsc__field others[] = {
    TENSOR(opacities, "N|N1", GSC__REQUIRED),
    TENSOR(scales, "N3"),
    TENSOR(rotations, "N4"),
    TENSOR(covariances, "N6"),
    TENSOR(colors, "ND|CND"),
    TENSOR(sh, "NK3"),
    TENSOR(sh_dc, "N13"),
    TENSOR(background, "D|CD", GSC__HOST_TOO),
    TENSOR(pixel_weights, "(C)HW"),
};

/* Matrices are dense or the transposed view of dense ones: callers keep the other order that way,
 * and a copy in their framework would cost more than all checks of a call. */
static gsc_status check_matrices(const gsc__call *call, gsc__sizes *sizes, const gsc__field *field,
                                 const gsc_raster_args *args, const gsc_real **data,
                                 bool *by_rows) {
    const DLTensor *given = gsc__pointer_at(args, field->from);
    gsc__found found;
    GSC__TRY(gsc__tensor_check(call, sizes, field, given, &found));
    *data = found.data;
    *by_rows = (args->flags & GSC_RASTER_VIEW_ROW_MAJOR) != 0;
    if (!given) return GSC_OK;
    const int64_t *strides = found.strides;
    const int32_t rows = given->ndim - 2, columns = given->ndim - 1;
    const bool transposed = strides[rows] == 1 && strides[columns] == 4;
    const bool dense = strides[rows] == 4 && strides[columns] == 1;
    const bool apart = rows == 0 || given->shape[0] == 1 || strides[0] == 16;
    *by_rows = *by_rows != transposed;
    if (apart && (dense || transposed)) return GSC_OK;
    char text[GSC__SHAPE_TEXT_SIZE];
    return gsc__refuse(call, GSC_ERROR_LAYOUT,
                       "@%s has strides %s, expected dense matrices, by rows or by columns",
                       field->name, gsc__shape_text(strides, given->ndim, text));
}

/* A matrix in the other order, which is easily passed, has its translation in the last row.  NaN
 * passes: it culls what it reaches. */
static gsc_status check_last_rows(const gsc__call *call, const DLTensor *given,
                                  const gsc__raster *raster) {
    if (call->shapes_only || !gsc__device_is_host(given->device)) return GSC_OK;
    for (int32_t c = 0; c < raster->cameras; ++c) {
        const gsc_real *matrix = raster->camera.view + 16 * (size_t)c;
        gsc_real row[4];
        for (int i = 0; i < 4; ++i)
            row[i] = matrix[raster->camera.view_by_rows ? 12 + i : 4 * i + 3];
        if (!(fabs((double)row[0]) > 1e-3 || fabs((double)row[1]) > 1e-3 ||
              fabs((double)row[2]) > 1e-3))
            continue;
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@view has a last row of %g %g %g %g in camera %d, expected 0 0 0 1: is "
                           "it %s? Then %s GSC_RASTER_VIEW_ROW_MAJOR",
                           (double)row[0], (double)row[1], (double)row[2], (double)row[3], c,
                           raster->camera.view_by_rows ? "column-major" : "row-major",
                           raster->flags & GSC_RASTER_VIEW_ROW_MAJOR ? "do not set" : "set");
    }
    return GSC_OK;
}

static gsc_status check_position(const gsc__call *call, gsc__sizes *sizes, const DLTensor *given,
                                 gsc__raster *out) {
    gsc__found found;
    GSC__TRY(gsc__tensor_check(call, sizes, &position, given, &found));
    out->camera.position = found.data;
    if (!given) return GSC_OK;
    const int32_t last = given->ndim - 1;
    out->camera.position_step = found.strides[last];
    out->position_stride = last > 0 ? found.strides[0] : 0;
    return GSC_OK;
}

static gsc_status check_harmonics(const gsc__call *call, const gsc_raster_args *args,
                                  gsc__raster *out) {
    GSC__TRY(gsc__check_range(call, "sh_degree", args->sh_degree, 0, GSC__MAX_SH_DEGREE));
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
                       gsc__shape_text(args->sh->shape, 3, given), (long long)out->gaussians,
                       (long long)needed, args->sh_degree, args->sh_dc ? " beside sh_dc" : "");
}

/* What gsc_mark_visible reads, too. */
static gsc_status check_view(const gsc__call *call, gsc__sizes *sizes, const gsc_raster_args *args,
                             gsc__raster *out) {
    GSC__TRY(
        check_matrices(call, sizes, &view, args, &out->camera.view, &out->camera.view_by_rows));
    GSC__TRY(gsc__fields_check(call, sizes, &means, 1, args, out));
    out->host_view = is_on_host(args->view);
    out->cameras = (int32_t)gsc__size(sizes, 'C');
    out->gaussians = gsc__size(sizes, 'N');
    return check_last_rows(call, args->view, out);
}

/* --------------------------------------------------------------- descriptors */

gsc_status gsc__raster_args(const gsc__call *call, const gsc_raster_args *theirs,
                            gsc__raster *out) {
    gsc__sizes sizes = {.limits = limits};
    gsc_raster_args args;
    memset(out, 0, sizeof *out);
    GSC__TRY(GSC__ARGS_COPY(call, "args", &args, theirs, sh_dc));
    GSC__TRY(check_scalars(call, &args, out));
    GSC__TRY(check_choices(call, &args));
    GSC__TRY(check_view(call, &sizes, &args, out));
    GSC__TRY(check_matrices(call, &sizes, &projection, &args, &out->camera.projection,
                            &out->camera.projection_by_rows));
    GSC__TRY(gsc__fields_check(call, &sizes, &intrinsics, 1, &args, &out->camera));
    GSC__TRY(check_position(call, &sizes, args.position, out));
    if (!args.colors) gsc__size_set(&sizes, 'D', 3);
    gsc__size_set(&sizes, 'H', out->height);
    gsc__size_set(&sizes, 'W', out->width);
    GSC__TRY(gsc__fields_check(call, &sizes, others, GSC__COUNT(others), &args, out));
    out->channels = (int32_t)gsc__size(&sizes, 'D');
    if (!args.colors) GSC__TRY(check_harmonics(call, &args, out));
    /* Of any length where there are no Gaussians: it says that each camera has its own. */
    if (args.colors && args.colors->ndim == 3)
        out->colors_stride = (out->gaussians ? out->gaussians : 1) * out->channels;
    if (args.background && args.background->ndim == 2) out->background_stride = out->channels;
    out->host_projection = is_on_host(args.projection);
    out->host_intrinsics = is_on_host(args.intrinsics);
    out->host_position = is_on_host(args.position);
    out->host_background = is_on_host(args.background);
    return GSC_OK;
}

gsc_status gsc__visible_args(const gsc__call *call, const gsc_raster_args *theirs,
                             const DLTensor *visible, gsc__raster *out, uint8_t **visible_out) {
    static const gsc__field marks = {
        .name = "visible", .shapes = "(C)N", .kind = GSC__BOOL | GSC__UINT8 | GSC__REQUIRED};
    gsc__found found;
    gsc__sizes sizes = {.limits = limits};
    gsc_raster_args args;
    memset(out, 0, sizeof *out);
    GSC__TRY(GSC__ARGS_COPY(call, "args", &args, theirs, sh_dc));
    GSC__TRY(gsc__check_flags(call, "flags", args.flags, KNOWN_FLAGS));
    GSC__TRY(check_planes(call, &args, &out->camera));
    GSC__TRY(check_view(call, &sizes, &args, out));
    out->flags = args.flags;
    GSC__TRY(gsc__tensor_check(call, &sizes, &marks, visible, &found));
    *visible_out = found.data;
    return GSC_OK;
}

void gsc__raster_sizes_of(const gsc__raster *raster, gsc__sizes *sizes) {
    const bool last = (raster->flags & GSC_RASTER_PIXEL_LAST) != 0;
    const int64_t c = raster->cameras, d = raster->channels, h = raster->height, w = raster->width;
    gsc__size_set(sizes, 'C', c);
    gsc__size_set(sizes, 'D', d);
    gsc__size_set(sizes, 'H', h);
    gsc__size_set(sizes, 'W', w);
    gsc__size_set(sizes, 'N', raster->gaussians);
    gsc__size_set(sizes, 'K', raster->sh_coefficients);
    gsc__size_set(sizes, 'X', last ? h : d);
    gsc__size_set(sizes, 'Y', last ? w : h);
    gsc__size_set(sizes, 'Z', last ? d : w);
    gsc__size_set(sizes, 'E', raster->colors_stride || c == 1 ? c : GSC__NO_DIMENSION);
    gsc__size_set(sizes, 'B', raster->background_stride ? c : GSC__NO_DIMENSION);
}
