/* Structural similarity of two images (Wang, Bovik, Sheikh and Simoncelli, "Image
 * quality assessment: from error visibility to structural similarity", 2004), its mean
 * and its gradient. */
#include "image_pass.h"

static gsc__image_pass ssim_pass(const gsc__ssim *ssim) {
    return (gsc__image_pass){.batch = ssim->batch,
                             .channels = ssim->channels,
                             .height = ssim->height,
                             .width = ssim->width,
                             .ssim = true,
                             .valid = (ssim->flags & GSC_SSIM_VALID) != 0,
                             .window = ssim->window,
                             .c1 = ssim->c1,
                             .c2 = ssim->c2,
                             .image = ssim->image,
                             .target = ssim->target};
}

/* Number of elements of the map. */
static double map_size(const gsc__ssim *ssim) {
    const int32_t border = ssim->flags & GSC_SSIM_VALID ? ssim->window.size - 1 : 0;
    return (double)ssim->batch * ssim->channels * (ssim->height - border) * (ssim->width - border);
}

static gsc_status gsc__cpu_ssim_forward(const gsc__call *call, const gsc__ssim *ssim) {
    gsc__image_pass pass = ssim_pass(ssim);
    pass.map = ssim->map;
    GSC__TRY(gsc__image_pass_run(call, &pass));
    if (ssim->mean) *ssim->mean = (gsc_real)(pass.sums[GSC__SUM_SSIM] / map_size(ssim));
    return GSC_OK;
}

/* SSIM is symmetric: the gradient with respect to the target alone is the one with respect to the
 * image with the two exchanged.  That saves the field that only a gradient with respect to both
 * needs. */
static gsc_status gsc__cpu_ssim_backward(const gsc__call *call, const gsc__ssim *ssim) {
    gsc__image_pass pass = ssim_pass(ssim);
    pass.grad_image = ssim->grad_image;
    pass.grad_target = ssim->grad_target;
    if (!pass.grad_image.data) {
        if (!pass.grad_target.data) return GSC_OK;
        pass.image = ssim->target;
        pass.target = ssim->image;
        pass.grad_image = ssim->grad_target;
        pass.grad_target.data = NULL;
    }
    if (ssim->grad_map.data) {
        pass.weight = ssim->grad_map;
        pass.weight_origin = pass.valid ? ssim->window.size / 2 : 0;
        pass.upstream[GSC__SUM_SSIM] = 1;
    } else {
        pass.upstream[GSC__SUM_SSIM] = (gsc_real)((double)*ssim->grad_mean / map_size(ssim));
    }
    return gsc__image_pass_run(call, &pass);
}
