#include "image_args.h"

#include "core/args.h"
#include "core/limits.h"
#include "raster_args.h"

#include <math.h>

/* What both descriptors have in common. */
typedef struct image_options {
    uint32_t flags;
    int32_t window;
    float sigma, c1, c2;
    uint32_t reserved;
    const DLTensor *image;
} image_options;

typedef struct image_size {
    int32_t batch, channels, height, width;
} image_size;

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

static gsc_status check_options(const gsc__checker *checker, const image_options *options,
                                gsc__window *window, gsc_real *c1, gsc_real *c2) {
    const char *function = checker->function;
    const int32_t size = options->window ? options->window : 11;
    GSC__TRY(gsc__check_flags(function, "flags", options->flags, GSC_SSIM_VALID));
    GSC__TRY(gsc__check_flags(function, "reserved", options->reserved, 0));
    if (size < 1 || size > GSC__MAX_WINDOW || size % 2 == 0) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: window is %d, expected an odd number from 1 to %d", function, size,
                         GSC__MAX_WINDOW);
    }
    GSC__TRY(gsc__check_not_negative(function, "sigma", options->sigma));
    GSC__TRY(gsc__check_not_negative(function, "c1", options->c1));
    GSC__TRY(gsc__check_not_negative(function, "c2", options->c2));
    gsc__gaussian_window(size, options->sigma == 0.0f ? 1.5 : (double)options->sigma, window);
    *c1 = options->c1 == 0.0f ? GSC_REAL(0.0001) : (gsc_real)options->c1;
    *c2 = options->c2 == 0.0f ? GSC_REAL(0.0009) : (gsc_real)options->c2;
    return GSC_OK;
}

static gsc_status check_size(const gsc__checker *checker, const image_options *options,
                             int32_t window, image_size *size) {
    const char *function = checker->function;
    const gsc__shape any = gsc__shape4(GSC__ANY('B'), GSC__ANY('C'), GSC__ANY('H'), GSC__ANY('W'));
    GSC__TRY(gsc__require(checker, "image", options->image));
    GSC__TRY(gsc__tensor_shape(checker, "image", options->image, GSC__REAL, &any, 1, NULL));
    const int64_t *shape = options->image->shape;
    char text[GSC__SHAPE_TEXT_SIZE];
    gsc__shape_text(shape, 4, text);
    if (shape[0] < 1 || shape[1] < 1 || shape[2] < 1 || shape[3] < 1) {
        return gsc__fail(GSC_ERROR_SHAPE, "%s: image is %s, expected at least [1, 1, 1, 1]",
                         function, text);
    }
    if (shape[2] > GSC__MAX_SIDE || shape[3] > GSC__MAX_SIDE ||
        shape[2] * shape[3] > GSC__MAX_PIXELS) {
        return gsc__fail(GSC_ERROR_OVERFLOW,
                         "%s: image is %s, expected sides of at most %d and at most %lld pixels",
                         function, text, GSC__MAX_SIDE, (long long)GSC__MAX_PIXELS);
    }
    if (shape[0] > GSC__MAX_PLANES || shape[1] > GSC__MAX_PLANES / shape[0]) {
        return gsc__fail(GSC_ERROR_OVERFLOW, "%s: image is %s, expected B x C of at most %d",
                         function, text, GSC__MAX_PLANES);
    }
    if ((options->flags & GSC_SSIM_VALID) && (shape[2] < window || shape[3] < window)) {
        return gsc__fail(GSC_ERROR_SHAPE,
                         "%s: image is %s, expected at least %d x %d pixels, the window of "
                         "GSC_SSIM_VALID",
                         function, text, window, window);
    }
    *size =
        (image_size){(int32_t)shape[0], (int32_t)shape[1], (int32_t)shape[2], (int32_t)shape[3]};
    return GSC_OK;
}

/* -------------------------------------------------------------------- images */

static gsc__shape full_shape(const image_size *size) {
    return gsc__shape4(size->batch, size->channels, size->height, size->width);
}

static gsc_status check_image(const gsc__checker *checker, const char *name, const DLTensor *tensor,
                              uint32_t dtypes, gsc__shape shape, bool output, gsc__image *image) {
    int64_t strides[GSC__MAX_DIMS];
    memset(image, 0, sizeof *image);
    GSC__TRY(gsc__tensor_strided(checker, name, tensor, dtypes, &shape, 1, NULL, output,
                                 &image->data, strides));
    if (!tensor) return GSC_OK;
    memcpy(image->strides, strides, sizeof image->strides);
    image->bytes = tensor->dtype.bits == 8;
    return GSC_OK;
}

/* [B, H, W] or [H, W], seen as [B, C, H, W] with one plane for all channels. */
static gsc_status check_mask(const gsc__checker *checker, const DLTensor *mask,
                             const image_size *size, gsc__image *image) {
    const gsc__shape shapes[] = {gsc__shape3(size->batch, size->height, size->width),
                                 gsc__shape2(size->height, size->width)};
    int64_t strides[GSC__MAX_DIMS];
    int32_t which = 0;
    memset(image, 0, sizeof *image);
    GSC__TRY(gsc__tensor_strided(checker, "mask", mask, GSC__REAL | GSC__BOOL | GSC__UINT8, shapes,
                                 2, &which, false, &image->data, strides));
    if (!mask) return GSC_OK;
    image->strides[0] = which == 0 ? strides[0] : 0;
    image->strides[2] = strides[which == 0 ? 1 : 0];
    image->strides[3] = strides[which == 0 ? 2 : 1];
    image->bytes = mask->dtype.bits == 8;
    return GSC_OK;
}

/* ---------------------------------------------------------------------- SSIM */

static gsc_status ssim_common(const gsc__checker *checker, const gsc_ssim_args *theirs,
                              gsc_ssim_args *args, gsc__ssim *out) {
    memset(out, 0, sizeof *out);
    GSC__TRY(gsc__args_copy(checker->function, "args", args, sizeof *args, theirs,
                            GSC__SIZE_THROUGH(gsc_ssim_args, grad_target)));
    const image_options options = {args->flags, args->window,   args->sigma, args->c1,
                                   args->c2,    args->reserved, args->image};
    image_size size;
    GSC__TRY(check_options(checker, &options, &out->window, &out->c1, &out->c2));
    GSC__TRY(check_size(checker, &options, out->window.size, &size));
    out->flags = args->flags;
    out->batch = size.batch;
    out->channels = size.channels;
    out->height = size.height;
    out->width = size.width;
    const gsc__shape shape = full_shape(&size);
    GSC__TRY(gsc__require(checker, "target", args->target));
    GSC__TRY(check_image(checker, "image", args->image, GSC__REAL, shape, false, &out->image));
    return check_image(checker, "target", args->target, GSC__REAL, shape, false, &out->target);
}

static gsc__shape map_shape(const gsc__ssim *ssim) {
    int32_t border = ssim->flags & GSC_SSIM_VALID ? ssim->window.size - 1 : 0;
    return gsc__shape4(ssim->batch, ssim->channels, ssim->height - border, ssim->width - border);
}

gsc_status gsc__ssim_forward_args(const gsc__checker *checker, const gsc_ssim_args *theirs,
                                  gsc__ssim *out) {
    gsc_ssim_args args;
    GSC__TRY(ssim_common(checker, theirs, &args, out));
    GSC__TRY(gsc__real_out(checker, "map", args.map, map_shape(out), &out->map));
    return gsc__scalar(checker, "mean", args.mean, &out->mean);
}

gsc_status gsc__ssim_backward_args(const gsc__checker *checker, const gsc_ssim_args *theirs,
                                   gsc__ssim *out) {
    gsc_ssim_args args;
    GSC__TRY(ssim_common(checker, theirs, &args, out));
    if (!args.grad_map == !args.grad_mean) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: %s given, expected either grad_map or grad_mean", checker->function,
                         args.grad_map ? "grad_map and grad_mean are" : "neither is");
    }
    const gsc__shape shape = gsc__shape4(out->batch, out->channels, out->height, out->width);
    gsc_real *grad_mean;
    GSC__TRY(check_image(checker, "grad_map", args.grad_map, GSC__REAL, map_shape(out), false,
                         &out->grad_map));
    GSC__TRY(gsc__scalar(checker, "grad_mean", args.grad_mean, &grad_mean));
    out->grad_mean = grad_mean;
    GSC__TRY(check_image(checker, "grad_image", args.grad_image, GSC__REAL, shape, true,
                         &out->grad_image));
    return check_image(checker, "grad_target", args.grad_target, GSC__REAL, shape, true,
                       &out->grad_target);
}

/* ---------------------------------------------------------------------- loss */

static gsc_status check_weights(const gsc__checker *checker, const gsc_image_loss_args *args,
                                gsc__image_loss *out) {
    const char *function = checker->function;
    GSC__TRY(gsc__check_finite(function, "l1_weight", args->l1_weight));
    GSC__TRY(gsc__check_finite(function, "l2_weight", args->l2_weight));
    GSC__TRY(gsc__check_finite(function, "ssim_weight", args->ssim_weight));
    GSC__TRY(gsc__check_finite(function, "grad_scale", args->grad_scale));
    out->l1_weight = (gsc_real)args->l1_weight;
    out->l2_weight = (gsc_real)args->l2_weight;
    out->ssim_weight = (gsc_real)args->ssim_weight;
    out->grad_scale = args->grad_scale == 0.0f ? GSC_REAL(1.0) : (gsc_real)args->grad_scale;
    return GSC_OK;
}

static gsc_status copy_loss_args(const gsc__checker *checker, const gsc_image_loss_args *theirs,
                                 gsc_image_loss_args *args, gsc__image_loss *out) {
    memset(out, 0, sizeof *out);
    return gsc__args_copy(checker->function, "args", args, sizeof *args, theirs,
                          GSC__SIZE_THROUGH(gsc_image_loss_args, grad_image));
}

/* All but image, target and gradient; image: its shape. */
static gsc_status loss_common(const gsc__checker *checker, const gsc_image_loss_args *args,
                              const DLTensor *image, gsc__image_loss *out) {
    const image_options options = {args->flags, args->window,   args->sigma, args->c1,
                                   args->c2,    args->reserved, image};
    image_size size;
    GSC__TRY(check_options(checker, &options, &out->window, &out->c1, &out->c2));
    GSC__TRY(check_weights(checker, args, out));
    GSC__TRY(check_size(checker, &options, out->window.size, &size));
    out->flags = args->flags;
    out->batch = size.batch;
    out->channels = size.channels;
    out->height = size.height;
    out->width = size.width;
    GSC__TRY(gsc__require(checker, "target", args->target));
    GSC__TRY(check_mask(checker, args->mask, &size, &out->mask));
    GSC__TRY(gsc__scalar(checker, "loss", args->loss, &out->loss));
    return gsc__real_out(checker, "parts", args->parts, gsc__shape1(3), &out->parts);
}

gsc_status gsc__image_loss_args(const gsc__checker *checker, const gsc_image_loss_args *theirs,
                                gsc__image_loss *out) {
    gsc_image_loss_args args;
    GSC__TRY(copy_loss_args(checker, theirs, &args, out));
    GSC__TRY(loss_common(checker, &args, args.image, out));
    const gsc__shape shape = gsc__shape4(out->batch, out->channels, out->height, out->width);
    GSC__TRY(check_image(checker, "image", args.image, GSC__REAL, shape, false, &out->image));
    GSC__TRY(check_image(checker, "target", args.target, GSC__REAL | GSC__UINT8, shape, false,
                         &out->target));
    return check_image(checker, "grad_image", args.grad_image, GSC__REAL, shape, true,
                       &out->grad_image);
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

gsc_status gsc__train_loss_args(const gsc__checker *checker, const gsc_image_loss_args *theirs,
                                const gsc__raster *raster, gsc__image_loss *out) {
    const gsc__shape shape = gsc__color_shape(raster);
    const int64_t dense[3] = {shape.dims[2] * shape.dims[3], shape.dims[3], 1};
    int64_t sizes[4] = {1, raster->channels, raster->height, raster->width};
    const DLTensor image = {.device = checker->device,
                            .ndim = 4,
                            .dtype = {kDLFloat, GSC_REAL_BITS, 1},
                            .shape = sizes};
    int64_t strides[GSC__MAX_DIMS];
    gsc_image_loss_args args;
    gsc_real *gradient;
    GSC__TRY(copy_loss_args(checker, theirs, &args, out));
    if (args.image) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: image is given, but it is the rasterizer's colour",
                         checker->function);
    }
    GSC__TRY(loss_common(checker, &args, &image, out));
    GSC__TRY(gsc__tensor_strided(checker, "target", args.target, GSC__REAL | GSC__UINT8, &shape, 1,
                                 NULL, false, &out->target.data, strides));
    GSC__TRY(gsc__real_out(checker, "grad_image", args.grad_image, shape, &gradient));
    color_strides(raster, strides + (args.target->ndim == 4 ? 1 : 0), out->target.strides);
    out->target.bytes = args.target->dtype.bits == 8;
    color_strides(raster, dense, out->image.strides);
    color_strides(raster, dense, out->grad_image.strides);
    out->grad_image.data = gradient;
    return GSC_OK;
}
