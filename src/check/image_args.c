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

static gsc_status check_options(const gsc__call *call, const gsc_ssim_args *args, gsc__ssim *out) {
    const int32_t size = args->window ? args->window : 11;
    GSC__TRY(gsc__check_flags(call, "flags", args->flags, GSC_SSIM_VALID));
    GSC__TRY(gsc__check_flags(call, "reserved", args->reserved, 0));
    if (size < 1 || size > GSC__MAX_WINDOW || size % 2 == 0) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@window is %d, expected an odd number from 1 to %d", size,
                           GSC__MAX_WINDOW);
    }
    GSC__TRY(gsc__check_not_negative(call, "sigma", args->sigma));
    GSC__TRY(gsc__check_not_negative(call, "c1", args->c1));
    GSC__TRY(gsc__check_not_negative(call, "c2", args->c2));
    gsc__gaussian_window(size, args->sigma == 0.0f ? 1.5 : (double)args->sigma, &out->window);
    out->flags = args->flags;
    out->c1 = args->c1 == 0.0f ? GSC_REAL(0.0001) : (gsc_real)args->c1;
    out->c2 = args->c2 == 0.0f ? GSC_REAL(0.0009) : (gsc_real)args->c2;
    return GSC_OK;
}

static gsc_status check_size(const gsc__call *call, const DLTensor *given, gsc__ssim *out) {
    const int32_t window = out->window.size;
    gsc__tensor image = {
        .name = "image",
        .given = given,
        .shapes = {gsc__shape4(GSC__ANY('B'), GSC__ANY('C'), GSC__ANY('H'), GSC__ANY('W'))},
        .required = true,
        .shape_only = true};
    GSC__TRY(gsc__tensor_check(call, &image));
    const int64_t *shape = given->shape;
    char text[GSC__SHAPE_TEXT_SIZE];
    gsc__shape_text(shape, 4, text);
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
    if ((out->flags & GSC_SSIM_VALID) && (shape[2] < window || shape[3] < window)) {
        return gsc__refuse(call, GSC_ERROR_SHAPE,
                           "@image is %s, expected at least %d x %d pixels, the window of "
                           "GSC_SSIM_VALID",
                           text, window, window);
    }
    out->batch = (int32_t)shape[0];
    out->channels = (int32_t)shape[1];
    out->height = (int32_t)shape[2];
    out->width = (int32_t)shape[3];
    return GSC_OK;
}

/* -------------------------------------------------------------------- images */

static gsc_status check_image(const gsc__call *call, gsc__tensor *tensor, gsc__image *image) {
    tensor->strided = true;
    GSC__TRY(gsc__tensor_check(call, tensor));
    memset(image, 0, sizeof *image);
    if (!tensor->given) return GSC_OK;
    image->data = tensor->data;
    memcpy(image->strides, tensor->strides, sizeof image->strides);
    image->bytes = tensor->given->dtype.bits == 8;
    return GSC_OK;
}

static gsc_status image_in(const gsc__call *call, const char *name, const DLTensor *given,
                           uint32_t dtypes, gsc__shape shape, gsc__image *image) {
    gsc__tensor tensor = {.name = name, .given = given, .dtypes = dtypes, .shapes = {shape}};
    return check_image(call, &tensor, image);
}

static gsc_status image_out(const gsc__call *call, const char *name, const DLTensor *given,
                            gsc__shape shape, gsc__image *image) {
    gsc__tensor tensor = {.name = name, .given = given, .shapes = {shape}, .output = true};
    return check_image(call, &tensor, image);
}

/* [B, H, W] or [H, W], seen as [B, C, H, W] with one plane for all channels. */
static gsc_status check_mask(const gsc__call *call, const DLTensor *mask, const gsc__ssim *size,
                             gsc__image *image) {
    gsc__tensor tensor = {.name = "mask",
                          .given = mask,
                          .dtypes = GSC__REAL | GSC__BOOL | GSC__UINT8,
                          .shapes = {gsc__shape3(size->batch, size->height, size->width),
                                     gsc__shape2(size->height, size->width)},
                          .choices = 2};
    GSC__TRY(check_image(call, &tensor, image));
    if (!mask) return GSC_OK;
    const int64_t *plane = tensor.strides + (tensor.which == 0 ? 1 : 0);
    image->strides[0] = tensor.which == 0 ? tensor.strides[0] : 0;
    image->strides[1] = 0;
    image->strides[2] = plane[0];
    image->strides[3] = plane[1];
    return GSC_OK;
}

/* ---------------------------------------------------------------------- SSIM */

static gsc_status ssim_common(const gsc__call *call, const gsc_ssim_args *theirs,
                              gsc_ssim_args *args, gsc__ssim *out) {
    memset(out, 0, sizeof *out);
    GSC__TRY(gsc__args_copy(call, "args", args, sizeof *args, theirs,
                            GSC__SIZE_THROUGH(gsc_ssim_args, grad_target)));
    GSC__TRY(check_options(call, args, out));
    GSC__TRY(check_size(call, args->image, out));
    const gsc__shape shape = gsc__shape4(out->batch, out->channels, out->height, out->width);
    GSC__TRY(gsc__require(call, "target", args->target));
    GSC__TRY(image_in(call, "image", args->image, GSC__REAL, shape, &out->image));
    return image_in(call, "target", args->target, GSC__REAL, shape, &out->target);
}

static gsc__shape map_shape(const gsc__ssim *ssim) {
    int32_t border = ssim->flags & GSC_SSIM_VALID ? ssim->window.size - 1 : 0;
    return gsc__shape4(ssim->batch, ssim->channels, ssim->height - border, ssim->width - border);
}

gsc_status gsc__ssim_forward_args(const gsc__call *call, const gsc_ssim_args *theirs,
                                  gsc__ssim *out) {
    gsc_ssim_args args;
    GSC__TRY(ssim_common(call, theirs, &args, out));
    GSC__TRY(gsc__real_out(call, "map", args.map, map_shape(out), &out->map));
    return gsc__scalar(call, "mean", args.mean, &out->mean);
}

gsc_status gsc__ssim_backward_args(const gsc__call *call, const gsc_ssim_args *theirs,
                                   gsc__ssim *out) {
    gsc_ssim_args args;
    GSC__TRY(ssim_common(call, theirs, &args, out));
    if (!args.grad_map == !args.grad_mean) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@%s given, expected either grad_map or grad_mean",
                           args.grad_map ? "grad_map and grad_mean are" : "neither is");
    }
    const gsc__shape shape = gsc__shape4(out->batch, out->channels, out->height, out->width);
    gsc_real *grad_mean;
    GSC__TRY(image_in(call, "grad_map", args.grad_map, GSC__REAL, map_shape(out), &out->grad_map));
    GSC__TRY(gsc__scalar(call, "grad_mean", args.grad_mean, &grad_mean));
    out->grad_mean = grad_mean;
    GSC__TRY(image_out(call, "grad_image", args.grad_image, shape, &out->grad_image));
    return image_out(call, "grad_target", args.grad_target, shape, &out->grad_target);
}

/* ---------------------------------------------------------------------- loss */

static gsc_status check_weights(const gsc__call *call, const gsc_image_loss_args *args,
                                gsc__image_loss *out) {
    GSC__TRY(gsc__check_finite(call, "l1_weight", args->l1_weight));
    GSC__TRY(gsc__check_finite(call, "l2_weight", args->l2_weight));
    GSC__TRY(gsc__check_finite(call, "ssim_weight", args->ssim_weight));
    GSC__TRY(gsc__check_finite(call, "grad_scale", args->grad_scale));
    out->l1_weight = (gsc_real)args->l1_weight;
    out->l2_weight = (gsc_real)args->l2_weight;
    out->ssim_weight = (gsc_real)args->ssim_weight;
    out->grad_scale = args->grad_scale == 0.0f ? GSC_REAL(1.0) : (gsc_real)args->grad_scale;
    return GSC_OK;
}

static gsc_status copy_loss_args(const gsc__call *call, const gsc_image_loss_args *theirs,
                                 gsc_image_loss_args *args, gsc__image_loss *out) {
    memset(out, 0, sizeof *out);
    return gsc__args_copy(call, "args", args, sizeof *args, theirs,
                          GSC__SIZE_THROUGH(gsc_image_loss_args, grad_image));
}

/* All but image, target and gradient; image: its shape.  Options and size are checked as those of
 * SSIM. */
static gsc_status loss_common(const gsc__call *call, const gsc_image_loss_args *args,
                              const DLTensor *image, gsc__image_loss *out) {
    const gsc_ssim_args options = {.flags = args->flags,
                                   .window = args->window,
                                   .sigma = args->sigma,
                                   .c1 = args->c1,
                                   .c2 = args->c2,
                                   .reserved = args->reserved};
    gsc__ssim ssim = {0};
    GSC__TRY(check_options(call, &options, &ssim));
    GSC__TRY(check_weights(call, args, out));
    GSC__TRY(check_size(call, image, &ssim));
    out->flags = ssim.flags;
    out->window = ssim.window;
    out->c1 = ssim.c1;
    out->c2 = ssim.c2;
    out->batch = ssim.batch;
    out->channels = ssim.channels;
    out->height = ssim.height;
    out->width = ssim.width;
    GSC__TRY(gsc__require(call, "target", args->target));
    GSC__TRY(check_mask(call, args->mask, &ssim, &out->mask));
    GSC__TRY(gsc__scalar(call, "loss", args->loss, &out->loss));
    return gsc__real_out(call, "parts", args->parts, gsc__shape1(3), &out->parts);
}

gsc_status gsc__image_loss_args(const gsc__call *call, const gsc_image_loss_args *theirs,
                                gsc__image_loss *out) {
    gsc_image_loss_args args;
    GSC__TRY(copy_loss_args(call, theirs, &args, out));
    GSC__TRY(loss_common(call, &args, args.image, out));
    const gsc__shape shape = gsc__shape4(out->batch, out->channels, out->height, out->width);
    GSC__TRY(image_in(call, "image", args.image, GSC__REAL, shape, &out->image));
    GSC__TRY(image_in(call, "target", args.target, GSC__REAL | GSC__UINT8, shape, &out->target));
    return image_out(call, "grad_image", args.grad_image, shape, &out->grad_image);
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

gsc_status gsc__train_loss_args(const gsc__call *call, const gsc_image_loss_args *theirs,
                                const gsc__raster *raster, gsc__image_loss *out) {
    const gsc__shape shape = gsc__color_shape(raster);
    const int64_t dense[3] = {shape.dims[2] * shape.dims[3], shape.dims[3], 1};
    int64_t sizes[4] = {1, raster->channels, raster->height, raster->width};
    int64_t strides[4];
    const DLTensor image = {.device = call->context->device,
                            .ndim = 4,
                            .dtype = {kDLFloat, GSC_REAL_BITS, 1},
                            .shape = sizes};
    gsc_image_loss_args args;
    gsc_real *gradient;
    GSC__TRY(copy_loss_args(call, theirs, &args, out));
    if (args.image) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@image is given, but it is the rasterizer's colour");
    }
    GSC__TRY(loss_common(call, &args, &image, out));
    GSC__TRY(image_in(call, "target", args.target, GSC__REAL | GSC__UINT8, shape, &out->target));
    GSC__TRY(gsc__real_out(call, "grad_image", args.grad_image, shape, &gradient));
    memcpy(strides, out->target.strides, sizeof strides);
    color_strides(raster, strides + (args.target->ndim == 4 ? 1 : 0), out->target.strides);
    color_strides(raster, dense, out->image.strides);
    color_strides(raster, dense, out->grad_image.strides);
    out->grad_image.data = gradient;
    return GSC_OK;
}
