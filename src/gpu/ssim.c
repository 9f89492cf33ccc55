/* Structural similarity, its map, mean and gradients on the device. */
#include "image_pass.h"

static gsc__gpu_image_pass ssim_pass(const gsc__call *call, const gsc__ssim *ssim) {
    gsc__gpu_image_pass pass = {.call = call,
                                .batch = ssim->batch,
                                .channels = ssim->channels,
                                .height = ssim->height,
                                .width = ssim->width,
                                .ssim = true,
                                .valid = (ssim->flags & GSC_SSIM_VALID) != 0,
                                .window = &ssim->window,
                                .c1 = ssim->c1,
                                .c2 = ssim->c2,
                                .image = ssim->image,
                                .target = ssim->target};
    pass.shares = gsc__gpu_image_shares_of(&pass);
    return pass;
}

gsc_status gsc__gpu_ssim_forward(const gsc__call *call, const gsc__ssim *ssim) {
    gsc__gpu_image_pass pass = ssim_pass(call, ssim);
    gsc__workspace workspace = {.call = *call};
    uint32_t blocks;
    void *memory;
    if (!ssim->map && !ssim->mean) return GSC_OK;
    pass.map = ssim->map;
    if (!ssim->mean) return gsc__gpu_image_pass_run(&pass);

    GSC__TRY(gsc__gpu_image_pass_blocks(&pass, &blocks));
    const size_t bytes = (size_t)blocks * GSC__IMAGE_SUMS * sizeof *pass.sums;
    GSC__TRY(gsc__workspace_take(&workspace, "scratch", bytes, &memory));
    pass.sums = memory;
    gsc_status status = gsc__gpu_image_pass_run(&pass);
    const gsc_k_image_total total = {
        .sums = pass.sums, .blocks = blocks, .shares = pass.shares, .mean = ssim->mean};
    if (status == GSC_OK) status = LAUNCH(image_total, call, 1, total);
    gsc__workspace_release(&workspace);
    return status;
}

/* SSIM is symmetric: the target's gradient is that of the image with the two exchanged. */
gsc_status gsc__gpu_ssim_backward(const gsc__call *call, const gsc__ssim *ssim) {
    gsc__gpu_image_pass pass = ssim_pass(call, ssim);
    pass.differentiate = true;
    pass.coefficients[2] = 1;
    pass.grad_mean = ssim->grad_mean;
    if (ssim->grad_map.data) {
        pass.weight = ssim->grad_map;
        pass.weight_origin = pass.valid ? ssim->window.size / 2 : 0;
        pass.shares.window = 1;
    }
    if (ssim->grad_image.data) {
        pass.grad_image = ssim->grad_image;
        GSC__TRY(gsc__gpu_image_pass_run(&pass));
    }
    if (!ssim->grad_target.data) return GSC_OK;
    pass.image = ssim->target;
    pass.target = ssim->image;
    pass.grad_image = ssim->grad_target;
    return gsc__gpu_image_pass_run(&pass);
}
