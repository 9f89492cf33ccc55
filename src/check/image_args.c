#include "args.h"

#include "core/context.h"

#include <math.h>

/* ------------------------------------------------------------------- options */

/* In double, so that the weights are the nearest to the true ones in either precision. */
void gsc__gaussian_window(int32_t size, double sigma, gsc__window *window) {
    double weights[GSC__MAX_WINDOW];
    double sum = 0.0;
    for (int32_t i = 0; i < size; ++i) {
        double x = i - (size - 1) / 2;
        weights[i] = exp(-x * x / (2.0 * sigma * sigma));
        sum += weights[i];
    }
    memset(window, 0, sizeof *window);
    window->size = size;
    for (int32_t i = 0; i < size; ++i) window->weights[i] = (gsc_real)(weights[i] / sum);
}

static const gsc__number sigma = {"sigma", offsetof(gsc_ssim_args, sigma), 0, 1.5,
                                  GSC__NOT_NEGATIVE | GSC__TO_DOUBLE};
#define CONSTANT(name, standard) \
    GSC__NUMBER(gsc_ssim_args, gsc__image_pair, name, standard, GSC__NOT_NEGATIVE)
static const gsc__number constants[] = {CONSTANT(c1, 0.0001), CONSTANT(c2, 0.0009)};
#define WEIGHT(name, standard) GSC__NUMBER(gsc_image_loss_args, gsc__image_loss, name, standard, 0)
static const gsc__number weights[] = {WEIGHT(l1_weight, 0.0), WEIGHT(l2_weight, 0.0),
                                      WEIGHT(ssim_weight, 0.0), WEIGHT(grad_scale, 1.0)};

static gsc_status check_options(const gsc__call *call, const gsc_ssim_args *args,
                                gsc__image_pair *out) {
    const int32_t size = args->window ? args->window : 11;
    double wide;
    GSC__TRY(gsc__check_flags(call, "flags", args->flags, GSC_SSIM_VALID));
    GSC__TRY(gsc__check_flags(call, "reserved", args->reserved, 0));
    if (size < 1 || size > GSC__MAX_WINDOW || size % 2 == 0) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@window is %d, expected an odd number from 1 to %d", size,
                           GSC__MAX_WINDOW);
    }
    GSC__TRY(gsc__numbers_check(call, &sigma, 1, args, &wide));
    GSC__TRY(gsc__numbers_check(call, constants, GSC__COUNT(constants), args, out));
    gsc__gaussian_window(size, wide, &out->window);
    out->border = args->flags & GSC_SSIM_VALID ? size / 2 : 0;
    return GSC_OK;
}

/* -------------------------------------------------------------------- images */

static gsc_status check_size(const gsc__call *call, gsc__sizes *sizes, const DLTensor *given,
                             gsc__image_pair *out) {
    const int32_t window = out->window.size;
    static const gsc__field image = {
        .name = "image", .shapes = "(B)CHW", .kind = GSC__REQUIRED | GSC__SHAPE_ONLY};
    gsc__found found;
    GSC__TRY(gsc__tensor_check(call, sizes, &image, given, &found));
    const int64_t shape[4] = {gsc__size(sizes, 'B'), gsc__size(sizes, 'C'), gsc__size(sizes, 'H'),
                              gsc__size(sizes, 'W')};
    char text[GSC__SHAPE_TEXT_SIZE];
    gsc__shape_text(given->shape, given->ndim, text);
    if (shape[0] < 1 || shape[1] < 1 || shape[2] < 1 || shape[3] < 1) {
        return gsc__refuse(call, GSC_ERROR_SHAPE, "@image is %s, expected at least [1, 1, 1, 1]",
                           text);
    }
    if (shape[2] > GSC__MAX_SIDE || shape[3] > GSC__MAX_SIDE ||
        shape[2] * shape[3] > GSC__MAX_PIXELS) {
        return gsc__refuse(call, GSC_ERROR_OVERFLOW,
                           "@image is %s, expected sides of at most %d and at most %lld pixels",
                           text, GSC__MAX_SIDE, (long long)GSC__MAX_PIXELS);
    }
    if (shape[0] > GSC__MAX_PLANES || shape[1] > GSC__MAX_PLANES / shape[0]) {
        return gsc__refuse(call, GSC_ERROR_OVERFLOW, "@image is %s, expected B x C of at most %d",
                           text, GSC__MAX_PLANES);
    }
    if (out->border > 0 && (shape[2] < window || shape[3] < window)) {
        return gsc__refuse(call, GSC_ERROR_SHAPE,
                           "@image is %s, expected at least %d x %d pixels, the window of "
                           "GSC_SSIM_VALID",
                           text, window, window);
    }
    out->batch = (int32_t)shape[0];
    out->channels = (int32_t)shape[1];
    out->height = (int32_t)shape[2];
    out->width = (int32_t)shape[3];
    gsc__size_set(sizes, 'X', out->width - 2 * out->border);
    gsc__size_set(sizes, 'Y', out->height - 2 * out->border);
    return GSC_OK;
}

/* ---------------------------------------------------------------------- SSIM */

#define SSIM(name, ...) GSC__FIELD(gsc_ssim_args, gsc__ssim, name, __VA_ARGS__)
#define SSIM_PAIR(name, ...) GSC__FIELD(gsc_ssim_args, gsc__image_pair, name, __VA_ARGS__)
enum { IMAGE_OUT = GSC__IMAGE | GSC__SEPARATE };
static const gsc__field ssim_images[] = {SSIM_PAIR(image, "(B)CHW", GSC__IMAGE),
                                         SSIM_PAIR(target, "(B)CHW", GSC__IMAGE | GSC__REQUIRED)};
static const gsc__field ssim_forward[] = {SSIM(map, "(B)CYX"), SSIM(mean, "|1")};
static const gsc__field ssim_backward[] = {SSIM(grad_map, "(B)CYX", GSC__IMAGE),
                                           SSIM(grad_mean, "|1"),
                                           SSIM(grad_target, "(B)CHW", IMAGE_OUT)};
static const gsc__field ssim_grad_image = SSIM_PAIR(grad_image, "(B)CHW", IMAGE_OUT);

static gsc_status ssim_common(const gsc__call *call, const gsc_ssim_args *theirs,
                              gsc_ssim_args *args, gsc__sizes *sizes, gsc__ssim *out) {
    gsc__image_pair *pair = &out->pair;
    memset(out, 0, sizeof *out);
    GSC__TRY(GSC__ARGS_COPY(call, "args", args, theirs, grad_target));
    GSC__TRY(check_options(call, args, pair));
    GSC__TRY(check_size(call, sizes, args->image, pair));
    return gsc__fields_check(call, sizes, ssim_images, GSC__COUNT(ssim_images), args, pair);
}

gsc_status gsc__ssim_forward_args(const gsc__call *call, const gsc_ssim_args *theirs,
                                  gsc__ssim *out) {
    gsc__sizes sizes = {0};
    gsc_ssim_args args;
    GSC__TRY(ssim_common(call, theirs, &args, &sizes, out));
    return gsc__fields_check(call, &sizes, ssim_forward, GSC__COUNT(ssim_forward), &args, out);
}

gsc_status gsc__ssim_backward_args(const gsc__call *call, const gsc_ssim_args *theirs,
                                   gsc__ssim *out) {
    gsc__sizes sizes = {0};
    gsc_ssim_args args;
    GSC__TRY(ssim_common(call, theirs, &args, &sizes, out));
    if (!args.grad_map == !args.grad_mean) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@%s given, expected either grad_map or grad_mean",
                           args.grad_map ? "grad_map and grad_mean are" : "neither is");
    }
    GSC__TRY(gsc__fields_check(call, &sizes, &ssim_grad_image, 1, &args, &out->pair));
    return gsc__fields_check(call, &sizes, ssim_backward, GSC__COUNT(ssim_backward), &args, out);
}

/* ---------------------------------------------------------------------- loss */

#define LOSS(name, ...) GSC__FIELD(gsc_image_loss_args, gsc__image_loss, name, __VA_ARGS__)
static const gsc__field mask =
    LOSS(mask, "BHW|HW", GSC__IMAGE | GSC__REAL | GSC__BOOL | GSC__UINT8);
static const gsc__field loss_results[] = {LOSS(loss, "|1"), LOSS(parts, "3")};
#define LOSS_PAIR(name, ...) GSC__FIELD(gsc_image_loss_args, gsc__image_pair, name, __VA_ARGS__)
static const gsc__field loss_images[] = {
    LOSS_PAIR(image, "(B)CHW", GSC__IMAGE),
    LOSS_PAIR(target, "(B)CHW", GSC__IMAGE | GSC__REAL | GSC__UINT8),
    LOSS_PAIR(grad_image, "(B)CHW", IMAGE_OUT),
};

/* All but image, target and gradient; image: its shape.  Options and size are checked as those of
 * SSIM. */
static gsc_status loss_common(const gsc__call *call, const gsc_image_loss_args *args,
                              const DLTensor *image, gsc__sizes *sizes, gsc__image_loss *out) {
    const gsc_ssim_args options = {.flags = args->flags,
                                   .window = args->window,
                                   .sigma = args->sigma,
                                   .c1 = args->c1,
                                   .c2 = args->c2,
                                   .reserved = args->reserved};
    GSC__TRY(check_options(call, &options, &out->pair));
    GSC__TRY(gsc__numbers_check(call, weights, GSC__COUNT(weights), args, out));
    GSC__TRY(check_size(call, sizes, image, &out->pair));
    GSC__TRY(gsc__require(call, "target", args->target));
    GSC__TRY(gsc__fields_check(call, sizes, &mask, 1, args, out));
    if (args->mask) { /* as [B, C, H, W] with one plane for all channels */
        out->mask.strides[0] = out->mask.strides[1];
        out->mask.strides[1] = 0;
    }
    return gsc__fields_check(call, sizes, loss_results, GSC__COUNT(loss_results), args, out);
}

gsc_status gsc__image_loss_args(const gsc__call *call, const gsc_image_loss_args *theirs,
                                gsc__image_loss *out) {
    gsc__sizes sizes = {0};
    gsc_image_loss_args args;
    memset(out, 0, sizeof *out);
    GSC__TRY(GSC__ARGS_COPY(call, "args", &args, theirs, grad_image));
    GSC__TRY(loss_common(call, &args, args.image, &sizes, out));
    return gsc__fields_check(call, &sizes, loss_images, GSC__COUNT(loss_images), &args, &out->pair);
}

/* Strides of channel, row and column, of one camera's [channels, H, W] or [H, W, channels],
 * as of [1, channels, H, W]. */
static void color_strides(const gsc__raster *raster, const int64_t strides[3], int64_t out[4]) {
    const int last = raster->flags & GSC_RASTER_PIXEL_LAST ? 1 : 0;
    out[0] = 0;
    out[1] = strides[last ? 2 : 0];
    out[2] = strides[1 - last];
    out[3] = strides[2 - last];
}

static const gsc__field train_images[] = {
    LOSS_PAIR(target, "(C)XYZ", GSC__IMAGE | GSC__REAL | GSC__UINT8),
    LOSS_PAIR(grad_image, "(C)XYZ"),
};

gsc_status gsc__train_loss_args(const gsc__call *call, const gsc_image_loss_args *theirs,
                                const gsc__raster *raster, gsc__image_loss *out) {
    int64_t shape[4] = {1, raster->channels, raster->height, raster->width};
    int64_t strides[4];
    const DLTensor image = {.device = call->context->device,
                            .ndim = 4,
                            .dtype = {kDLFloat, GSC_REAL_BITS, 1},
                            .shape = shape};
    gsc__sizes image_sizes = {0}, sizes = {0};
    gsc__image_pair *pair = &out->pair;
    gsc_image_loss_args args;
    gsc__raster_sizes_of(raster, &sizes);
    const int64_t columns = gsc__size(&sizes, 'Z'), rows = gsc__size(&sizes, 'Y');
    const int64_t dense[3] = {rows * columns, columns, 1};
    memset(out, 0, sizeof *out);
    GSC__TRY(GSC__ARGS_COPY(call, "args", &args, theirs, grad_image));
    if (args.image) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@image is given, but it is the rasterizer's colour");
    }
    GSC__TRY(loss_common(call, &args, &image, &image_sizes, out));
    GSC__TRY(gsc__fields_check(call, &sizes, train_images, GSC__COUNT(train_images), &args, pair));
    memcpy(strides, pair->target.strides, sizeof strides);
    color_strides(raster, strides + 1, pair->target.strides);
    color_strides(raster, dense, pair->image.strides);
    color_strides(raster, dense, pair->grad_image.strides);
    return GSC_OK;
}
