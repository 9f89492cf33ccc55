/* One pass over a pair of images that yields any of: the SSIM map, weighted sums of SSIM, |x - y|
 * and (x - y)^2, and the gradient of a combination of these sums.  It works on tiles and keeps
 * nothing as large as the image. */
#ifndef GSC_IMAGE_PASS_H
#define GSC_IMAGE_PASS_H

#include "core/backend.h"

/* Indices of gsc__image_pass.sums and .upstream. */
enum { GSC__SUM_L1, GSC__SUM_L2, GSC__SUM_SSIM, GSC__SUM_COUNT };

typedef struct gsc__image_pass {
    int32_t batch, channels, height, width;
    bool ssim;      /* wanted: map or sum of SSIM, or its gradient */
    bool pointwise; /* wanted: the sums of |x - y| and (x - y)^2, or their gradients */
    bool valid;     /* SSIM only of windows inside the image */
    gsc__window window;
    gsc_real c1, c2;
    gsc__image image, target; /* [B, C, H, W]: x and y */
    gsc__image weight;        /* of each pixel or window; data NULL: 1 */
    int32_t weight_origin;    /* row and column of the image that weight starts at */
    gsc_real *map;            /* dense [B, C, H, W], or of the inside windows; NULL: not wanted */
    gsc_real upstream[GSC__SUM_COUNT]; /* derivative of the result with respect to each sum */
    gsc__image grad_image;             /* data NULL: no gradient wanted at all */
    gsc__image grad_target;            /* data NULL: not wanted; else SSIM's only */
    double sums[GSC__SUM_COUNT];       /* out */
} gsc__image_pass;

static gsc_status gsc__image_pass_run(const gsc__call *call, gsc__image_pass *pass);

#endif
