/* A mix of L1, L2 and SSIM as a training loss on the device. */
#include "image_pass.h"

#define LAUNCH(name, grid, block, args)                                                      \
    gsc__gpu_launch(context, GSC__KERNEL_##name, grid, block, &(args), sizeof(args), stream, \
                    function)

static const char function[] = "image_loss";

static gsc__gpu_image_pass loss_pass(const gsc__image_loss *loss) {
    const double scale = (double)loss->grad_scale;
    gsc__gpu_image_pass pass = {.batch = loss->batch,
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

/* Where everything lies in the scratch. */
typedef struct scratch_plan {
    uint32_t blocks, mask_blocks;
    int32_t mask_chunks; /* of a plane */
    size_t mask_sums, shares, bytes;
} scratch_plan;

static gsc_status plan_scratch(const gsc__gpu_image_pass *pass, scratch_plan *plan) {
    GSC__TRY(gsc__gpu_image_pass_blocks(pass, function, &plan->blocks));
    plan->mask_chunks = (pass->height + GSC__MASK_ROWS - 1) / GSC__MASK_ROWS;
    const int64_t count = pass->weight.data ? (int64_t)pass->batch * plan->mask_chunks : 0;
    if (count > INT32_MAX) {
        return gsc__fail(GSC_ERROR_OVERFLOW,
                         "%s: mask of %d planes needs %lld blocks, expected at most %d", function,
                         pass->batch, (long long)count, INT32_MAX);
    }
    plan->mask_blocks = (uint32_t)count;
    plan->mask_sums = (size_t)plan->blocks * GSC__IMAGE_SUMS * sizeof(double);
    plan->shares = plan->mask_sums + (size_t)count * sizeof(gsc__gpu_image_totals);
    plan->bytes = plan->shares + sizeof(gsc__gpu_image_shares);
    return GSC_OK;
}

/* Sums the mask and writes what a pixel is worth. */
static gsc_status sum_mask(gsc_context *context, const gsc__gpu_image_pass *pass,
                           const scratch_plan *plan, gsc__gpu_image_totals *sums,
                           gsc__gpu_image_shares *shares, void *stream) {
    const gsc_k_mask_sums rows = {.mask = gsc__gpu_pixels_of(&pass->weight),
                                  .height = pass->height,
                                  .width = pass->width,
                                  .chunks = plan->mask_chunks,
                                  .border = pass->valid ? pass->window->size / 2 : 0,
                                  .sums = sums};
    const gsc_k_mask_total all = {
        .sums = sums, .count = plan->mask_blocks, .channels = pass->channels, .shares = shares};
    GSC__TRY(LAUNCH(mask_sums, plan->mask_blocks, GSC__MASK_BLOCK, rows));
    return LAUNCH(mask_total, 1, GSC__MASK_TOTAL_BLOCK, all);
}

static gsc_status run_loss(gsc_context *context, const gsc__image_loss *loss,
                           gsc__gpu_image_pass *pass, const scratch_plan *plan, void *memory,
                           void *stream) {
    unsigned char *scratch = memory;
    pass->sums = memory;
    if (pass->weight.data) {
        gsc__gpu_image_shares *shares = (void *)(scratch + plan->shares);
        GSC__TRY(
            sum_mask(context, pass, plan, (void *)(scratch + plan->mask_sums), shares, stream));
        pass->device_shares = shares;
    }
    GSC__TRY(gsc__gpu_image_pass_run(context, pass, stream, function));
    const gsc_k_image_total total = {.sums = pass->sums,
                                     .blocks = plan->blocks,
                                     .shares = pass->shares,
                                     .device_shares = pass->device_shares,
                                     .l1_weight = (double)loss->l1_weight,
                                     .l2_weight = (double)loss->l2_weight,
                                     .ssim_weight = (double)loss->ssim_weight,
                                     .loss = loss->loss,
                                     .parts = loss->parts};
    if (!loss->loss && !loss->parts) return GSC_OK;
    return LAUNCH(image_total, 1, GSC__IMAGE_TOTAL_BLOCK, total);
}

/* The sums of the mask stay on the device: later kernels divide by them there. */
gsc_status gsc__gpu_image_loss(const gsc__call *call, const gsc__image_loss *loss) {
    gsc_context *context = call->context;
    void *stream = call->stream;
    gsc__gpu_image_pass pass = loss_pass(loss);
    scratch_plan plan;
    void *memory;
    GSC__TRY(plan_scratch(&pass, &plan));
    GSC__TRY(gsc__context_alloc(context, plan.bytes, "image_loss: scratch", stream, &memory));
    gsc_status status = run_loss(context, loss, &pass, &plan, memory, stream);
    gsc__context_release(context, memory, plan.bytes, stream);
    return status;
}
