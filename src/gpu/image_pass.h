/* One pass over a pair of images on the device that yields any of: the SSIM map, weighted
 * sums of SSIM, |x - y| and (x - y)^2, and the gradient of a combination of these sums. */
#ifndef GSC_GPU_IMAGE_PASS_H
#define GSC_GPU_IMAGE_PASS_H

#include "gpu.h"

typedef struct gsc__gpu_image_pass {
    const gsc__call *call;
    int32_t batch, channels, height, width;
    bool ssim;          /* wanted: map or sum of SSIM, or its gradient */
    bool differentiate; /* the gradient has a part from SSIM */
    bool pointwise;     /* wanted: the sums of |x - y| and (x - y)^2, or their gradients */
    bool valid;         /* SSIM only of windows inside the image */
    const gsc__window *window;
    float c1, c2;
    gsc__image image, target;
    gsc__image weight;     /* of each pixel or window; data NULL: 1 */
    int32_t weight_origin; /* row and column of the image where weight begins */
    float *map;
    double coefficients[GSC__IMAGE_SUMS];       /* of the gradient, for each sum; times grad_mean */
    gsc__gpu_image_shares shares;               /* factors of the sums */
    const gsc__gpu_image_shares *device_shares; /* the same on the device, or NULL */
    const float *grad_mean;
    gsc__image grad_image; /* data NULL: not wanted */
    double *sums;          /* out on the device: [blocks, GSC__IMAGE_SUMS] or NULL */
} gsc__gpu_image_pass;

/* 1 / number of pixels and 1 / number of windows of all planes. */
gsc__gpu_image_shares gsc__gpu_image_shares_of(const gsc__gpu_image_pass *pass);
/* GSC_ERROR_OVERFLOW if there are more than a launch takes. */
gsc_status gsc__gpu_image_pass_blocks(const gsc__gpu_image_pass *pass, uint32_t *blocks);
gsc_status gsc__gpu_image_pass_run(const gsc__gpu_image_pass *pass);
gsc__gpu_pixels gsc__gpu_pixels_of(const gsc__image *image);

#endif
