/* A mix of L1, L2 and SSIM as a training loss on the device. */
#include "image_pass.h"

static gsc__gpu_image_pass loss_pass(const gsc__call *call, const gsc__image_loss *loss) {
    const double scale = (double)loss->grad_scale;
    gsc__gpu_image_pass pass = {.call = call,
                                .batch = loss->batch,
                                .channels = loss->channels,
                                .height = loss->height,
                                .width = loss->width,
                                .ssim = loss->parts || loss->ssim_weight != 0,
                                .pointwise = true,
                                .valid = (loss->flags & GSC_SSIM_VALID) != 0,
                                .window = &loss->window,
                                .c1 = loss->c1,
                                .c2 = loss->c2,
                                .image = loss->image,
                                .target = loss->target,
                                .weight = loss->mask,
                                .coefficients = {scale * (double)loss->l1_weight,
                                                 scale * (double)loss->l2_weight,
                                                 -scale * (double)loss->ssim_weight},
                                .grad_image = loss->grad_image};
    pass.differentiate = pass.grad_image.data && loss->ssim_weight != 0;
    pass.shares = gsc__gpu_image_shares_of(&pass);
    return pass;
}

typedef struct loss_scratch {
    uint32_t blocks, mask_blocks;
    int32_t mask_chunks;           /* of a plane */
    double *sums;                  /* [blocks, GSC__IMAGE_SUMS] */
    gsc__gpu_image_totals *totals; /* [mask_blocks] */
    gsc__gpu_image_shares *shares; /* scalar */
} loss_scratch;

static gsc_status count_blocks(const gsc__gpu_image_pass *pass, loss_scratch *scratch) {
    GSC__TRY(gsc__gpu_image_pass_blocks(pass, &scratch->blocks));
    scratch->mask_chunks = (int32_t)gsc__gpu_blocks(pass->height, GSC__MASK_ROWS);
    const int64_t count = pass->weight.data ? (int64_t)pass->batch * scratch->mask_chunks : 0;
    if (count > INT32_MAX)
        return gsc__fail(GSC_ERROR_OVERFLOW,
                         "%s: mask of %d planes needs %lld blocks, expected at most %d",
                         pass->call->function, pass->batch, (long long)count, INT32_MAX);
    scratch->mask_blocks = (uint32_t)count;
    return GSC_OK;
}

static size_t carve_scratch(void *base, loss_scratch *scratch) {
    gsc__carver carver = {.base = base};
    scratch->sums = gsc__carve(&carver, (size_t)scratch->blocks * GSC__IMAGE_SUMS, sizeof(double));
    scratch->totals = gsc__carve(&carver, scratch->mask_blocks, sizeof *scratch->totals);
    scratch->shares = gsc__carve(&carver, 1, sizeof *scratch->shares);
    return carver.at;
}

/* Sums the mask and writes the shares of a pixel and a window of weight 1. */
static gsc_status sum_mask(const gsc__gpu_image_pass *pass, const loss_scratch *scratch) {
    const gsc_k_mask_sums rows = {.mask = gsc__gpu_pixels_of(&pass->weight),
                                  .height = pass->height,
                                  .width = pass->width,
                                  .chunks = scratch->mask_chunks,
                                  .border = pass->valid ? pass->window->size / 2 : 0,
                                  .sums = scratch->totals};
    const gsc_k_mask_total all = {.sums = scratch->totals,
                                  .count = scratch->mask_blocks,
                                  .channels = pass->channels,
                                  .shares = scratch->shares};
    GSC__TRY(LAUNCH(mask_sums, pass->call, scratch->mask_blocks, rows));
    return LAUNCH(mask_total, pass->call, 1, all);
}

static gsc_status run_loss(const gsc__image_loss *loss, gsc__gpu_image_pass *pass,
                           const loss_scratch *scratch) {
    pass->sums = scratch->sums;
    if (pass->weight.data) {
        GSC__TRY(sum_mask(pass, scratch));
        pass->device_shares = scratch->shares;
    }
    GSC__TRY(gsc__gpu_image_pass_run(pass));
    const gsc_k_image_total total = {.sums = pass->sums,
                                     .blocks = scratch->blocks,
                                     .shares = pass->shares,
                                     .device_shares = pass->device_shares,
                                     .l1_weight = (double)loss->l1_weight,
                                     .l2_weight = (double)loss->l2_weight,
                                     .ssim_weight = (double)loss->ssim_weight,
                                     .loss = loss->loss,
                                     .parts = loss->parts};
    if (!loss->loss && !loss->parts) return GSC_OK;
    return LAUNCH(image_total, pass->call, 1, total);
}

/* The sums of the mask stay on the device: later kernels divide by them there. */
gsc_status gsc__gpu_image_loss(const gsc__call *call, const gsc__image_loss *loss) {
    gsc__gpu_image_pass pass = loss_pass(call, loss);
    loss_scratch scratch = {0};
    gsc__workspace workspace = {.call = *call};
    void *memory;
    GSC__TRY(count_blocks(&pass, &scratch));
    GSC__TRY(gsc__workspace_take(&workspace, "scratch", carve_scratch(NULL, &scratch), &memory));
    carve_scratch(memory, &scratch);
    gsc_status status = run_loss(loss, &pass, &scratch);
    gsc__workspace_release(&workspace);
    return status;
}
