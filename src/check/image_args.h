/* From the public descriptors of SSIM and the image loss to what a backend takes. */
#ifndef GSC_IMAGE_ARGS_H
#define GSC_IMAGE_ARGS_H

#include "core/backend.h"
#include "tensor.h"

/* The fields of the other direction are not looked at. */
gsc_status gsc__ssim_forward_args(const gsc__call *call, const gsc_ssim_args *theirs,
                                  gsc__ssim *out);
gsc_status gsc__ssim_backward_args(const gsc__call *call, const gsc_ssim_args *theirs,
                                   gsc__ssim *out);
gsc_status gsc__image_loss_args(const gsc__call *call, const gsc_image_loss_args *theirs,
                                gsc__image_loss *out);

/* Of a training step, whose image is the rasterizer's colour; that is without data. */
gsc_status gsc__train_loss_args(const gsc__call *call, const gsc_image_loss_args *theirs,
                                const gsc__raster *raster, gsc__image_loss *out);

/* exp(-x^2 / (2 sigma^2)) at the integers from -(size - 1) / 2 on, divided by their sum. */
void gsc__gaussian_window(int32_t size, double sigma, gsc__window *window);

#endif
