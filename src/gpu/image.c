/* SSIM and the image loss on the device. */
#include "gpu.h"

#include <stdlib.h>

/* One pass over a pair of images on the device that yields any of: the SSIM map, weighted
 * sums of SSIM, |x - y| and (x - y)^2, and the gradient of a combination of these sums. */
typedef struct image_pass {
    const gsc__call *call;
    int32_t batch;
    bool ssim; /* wanted: map or sum of SSIM, or its gradient; else terms without a window only */
    uint32_t blocks;
    gsc_k_ssim args;
} image_pass;

static gsc__gpu_pixels pixels_of(const gsc__image *image) {
    gsc__gpu_pixels out = {.data = image->data, .bytes = image->bytes};
    memcpy(out.strides, image->strides, sizeof out.strides);
    const uintptr_t vector = image->bytes ? 4 : 16;
    out.vectors = image->strides[3] == 1 && (uintptr_t)image->data % vector == 0;
    for (int i = 0; i < 3; ++i)
        if (image->strides[i] % 4 != 0) out.vectors = 0;
    return out;
}

/* shares: 1 / number of pixels and 1 / number of windows of all planes. */
static image_pass pass_of(const gsc__call *call, const gsc__image_pair *pair) {
    const int32_t border = 2 * pair->border;
    const double planes = (double)pair->batch * pair->channels;
    const double pixels = planes * pair->height * pair->width;
    const double windows = planes * (pair->height - border) * (pair->width - border);
    image_pass pass = {.call = call,
                       .batch = pair->batch,
                       .args = {.channels = pair->channels,
                                .height = pair->height,
                                .width = pair->width,
                                .radius = pair->window.size / 2,
                                .border = pair->border,
                                .c1 = pair->c1,
                                .c2 = pair->c2,
                                .image = pixels_of(&pair->image),
                                .target = pixels_of(&pair->target),
                                .shares = {.pixel = pixels != 0 ? 1 / pixels : 0,
                                           .window = windows != 0 ? 1 / windows : 0},
                                .grad_image = pixels_of(&pair->grad_image)}};
    memcpy(pass.args.weights, pair->window.weights, sizeof pass.args.weights);
    return pass;
}

/* --------------------------------------------------------------------- tiles */

static int32_t divide_up(int32_t a, int32_t b) {
    return (int32_t)gsc__gpu_blocks(a, b);
}

/* Whether 32 bits hold all offsets within a plane and the margins of tiles around it. */
static bool is_small(const gsc_k_ssim *args, const gsc__gpu_pixels *image) {
    const int64_t limit = INT32_MAX / 2, rows = (int64_t)args->height + GSC__SSIM_BLOCK,
                  columns = (int64_t)args->width + GSC__SSIM_BLOCK;
    if (!image->data) return true;
    const int64_t row = llabs(image->strides[2]), column = llabs(image->strides[3]);
    return row <= limit / rows && column <= limit / columns;
}

/* Whether the kernels of the usual window apply. */
static bool is_usual(const gsc_k_ssim *args) {
    return args->radius == GSC__SSIM_RADIUS && is_small(args, &args->image) &&
           is_small(args, &args->target) && is_small(args, &args->weight) &&
           is_small(args, &args->grad_image);
}

/* Tiles are as wide as a block's columns allow, a multiple of four so that rows begin at vectors.
 * High tiles waste few rows on margins, but a large GPU needs enough blocks; a height that is not
 * a multiple of the rows of a step wastes the rest of the last step.  The plan does not depend on
 * the device, and so neither do results. */
static void plan_tiles(gsc_k_ssim *args, int64_t planes) {
    enum { PROCESSORS = 132, HIGHEST = 256 };
    const bool value = is_usual(args) && !args->differentiate;
    const int32_t block = value ? GSC__SSIM_BLOCK : GSC__SSIM_GRAD_BLOCK;
    const int64_t slots = PROCESSORS * (value ? GSC__SSIM_RESIDENT : GSC__SSIM_GRAD_RESIDENT);
    const int32_t reach = args->radius * (args->differentiate ? 2 : 1);
    const int32_t widest = (block - 2 * reach) / 4 * 4;
    args->tile_width = divide_up(divide_up(args->width, divide_up(args->width, widest)), 4) * 4;
    args->tile_columns = divide_up(args->width, args->tile_width);
    args->tile_height = 0;
    const int64_t strips = planes * args->tile_columns;
    int64_t shortest = INT64_MAX;
    for (int32_t steps = divide_up(2 * reach + 1, GSC__SSIM_ROWS);; ++steps) {
        const int32_t height = steps * GSC__SSIM_ROWS - 2 * reach;
        if (height > HIGHEST && args->tile_height > 0) break;
        const int32_t rows = divide_up(args->height, height);
        const int64_t rounds = (strips * rows + slots - 1) / slots;
        if (rounds * (steps + 1) < shortest) { /* the start of a tile costs about a step */
            shortest = rounds * (steps + 1);
            args->tile_height = height;
            args->tile_rows = rows;
        }
        if (height >= args->height) break;
    }
}

static int32_t chunks_of(const gsc_k_ssim *args) {
    return (int32_t)gsc__gpu_blocks((int64_t)args->height * args->width, GSC__POINTS_CHUNK);
}

/* Divides the work among blocks.  GSC_ERROR_OVERFLOW if there are more than a launch takes. */
static gsc_status plan_pass(image_pass *pass) {
    gsc_k_ssim *args = &pass->args;
    const int64_t planes = (int64_t)pass->batch * args->channels;
    if (pass->ssim) plan_tiles(args, planes);
    const int64_t count =
        planes * (pass->ssim ? (int64_t)args->tile_columns * args->tile_rows : chunks_of(args));
    if (count > INT32_MAX) {
        return gsc__fail(GSC_ERROR_OVERFLOW,
                         "%s: image is [%d, %d, %d, %d], which needs %lld blocks, expected at "
                         "most %d",
                         pass->call->function, pass->batch, args->channels, args->height,
                         args->width, (long long)count, INT32_MAX);
    }
    pass->blocks = (uint32_t)count;
    return GSC_OK;
}

/* ---------------------------------------------------------------------- pass */

static gsc_status run_points(const image_pass *pass) {
    const gsc_k_ssim *ssim = &pass->args;
    gsc_k_image_points args = {.channels = ssim->channels,
                               .height = ssim->height,
                               .width = ssim->width,
                               .chunks = chunks_of(ssim),
                               .quads = ssim->width % 4 == 0 && ssim->image.vectors &&
                                        ssim->target.vectors &&
                                        (!ssim->grad_image.data || ssim->grad_image.vectors),
                               .image = ssim->image,
                               .target = ssim->target,
                               .weight = ssim->weight,
                               .shares = ssim->shares,
                               .device_shares = ssim->device_shares,
                               .grad_image = ssim->grad_image,
                               .sums = ssim->sums};
    memcpy(args.coefficients, ssim->coefficients, sizeof args.coefficients);
    return LAUNCH(image_points, pass->call, pass->blocks, args);
}

/* After plan_pass. */
static gsc_status run_pass(const image_pass *pass) {
    if (!pass->ssim) return run_points(pass);
    if (!is_usual(&pass->args)) return LAUNCH(ssim_any, pass->call, pass->blocks, pass->args);
    if (pass->args.differentiate) return LAUNCH(ssim_grad, pass->call, pass->blocks, pass->args);
    return LAUNCH(ssim, pass->call, pass->blocks, pass->args);
}

/* ----------------------------------------------------------------------- SSIM */

gsc_status gsc__gpu_ssim_forward(const gsc__call *call, const gsc__ssim *ssim) {
    image_pass pass = pass_of(call, &ssim->pair);
    gsc__workspace workspace = {.call = *call};
    void *memory;
    if (!ssim->map && !ssim->mean) return GSC_OK;
    pass.ssim = true;
    pass.args.map = ssim->map;
    GSC__TRY(plan_pass(&pass));
    if (!ssim->mean) return run_pass(&pass);

    const size_t bytes = (size_t)pass.blocks * GSC__IMAGE_SUMS * sizeof *pass.args.sums;
    GSC__TRY(gsc__workspace_take(&workspace, "scratch", bytes, &memory));
    pass.args.sums = memory;
    gsc_status status = run_pass(&pass);
    const gsc_k_image_total total = {.sums = pass.args.sums,
                                     .blocks = pass.blocks,
                                     .shares = pass.args.shares,
                                     .mean = ssim->mean};
    if (status == GSC_OK) status = LAUNCH(image_total, call, 1, total);
    gsc__workspace_release(&workspace);
    return status;
}

/* The gradient of pair->image. */
static gsc_status ssim_grad(const gsc__call *call, const gsc__ssim *ssim,
                            const gsc__image_pair *pair) {
    image_pass pass = pass_of(call, pair);
    if (!pair->grad_image.data) return GSC_OK;
    pass.ssim = true;
    pass.args.differentiate = true;
    pass.args.coefficients[2] = 1;
    pass.args.grad_mean = ssim->grad_mean;
    if (ssim->grad_map.data) {
        pass.args.weight = pixels_of(&ssim->grad_map);
        pass.args.weight_origin = pair->border;
        pass.args.shares.window = 1;
    }
    GSC__TRY(plan_pass(&pass));
    return run_pass(&pass);
}

/* SSIM is symmetric: the target's gradient is that of the image with the two exchanged. */
gsc_status gsc__gpu_ssim_backward(const gsc__call *call, const gsc__ssim *ssim) {
    gsc__image_pair exchanged = ssim->pair;
    exchanged.image = ssim->pair.target;
    exchanged.target = ssim->pair.image;
    exchanged.grad_image = ssim->grad_target;
    GSC__TRY(ssim_grad(call, ssim, &ssim->pair));
    return ssim_grad(call, ssim, &exchanged);
}

/* ----------------------------------------------------------------------- loss */

static image_pass loss_pass(const gsc__call *call, const gsc__image_loss *loss) {
    const double scale = (double)loss->grad_scale;
    image_pass pass = pass_of(call, &loss->pair);
    pass.ssim = loss->parts || loss->ssim_weight != 0;
    pass.args.pointwise = true;
    pass.args.weight = pixels_of(&loss->mask);
    pass.args.coefficients[0] = scale * (double)loss->l1_weight;
    pass.args.coefficients[1] = scale * (double)loss->l2_weight;
    pass.args.coefficients[2] = -scale * (double)loss->ssim_weight;
    pass.args.differentiate = pass.args.grad_image.data && loss->ssim_weight != 0;
    return pass;
}

typedef struct loss_scratch {
    uint32_t mask_blocks;
    int32_t mask_chunks;           /* of a plane */
    double *sums;                  /* [blocks, GSC__IMAGE_SUMS] */
    gsc__gpu_image_totals *totals; /* [mask_blocks] */
    gsc__gpu_image_shares *shares; /* scalar */
} loss_scratch;

static gsc_status count_mask_blocks(const image_pass *pass, loss_scratch *scratch) {
    scratch->mask_chunks = (int32_t)gsc__gpu_blocks(pass->args.height, GSC__MASK_ROWS);
    const int64_t count = pass->args.weight.data ? (int64_t)pass->batch * scratch->mask_chunks : 0;
    if (count > INT32_MAX)
        return gsc__fail(GSC_ERROR_OVERFLOW,
                         "%s: mask of %d planes needs %lld blocks, expected at most %d",
                         pass->call->function, pass->batch, (long long)count, INT32_MAX);
    scratch->mask_blocks = (uint32_t)count;
    return GSC_OK;
}

static size_t carve_scratch(void *base, uint32_t blocks, loss_scratch *scratch) {
    gsc__carver carver = {.base = base};
    scratch->sums = gsc__carve(&carver, (size_t)blocks * GSC__IMAGE_SUMS, sizeof(double));
    scratch->totals = gsc__carve(&carver, scratch->mask_blocks, sizeof *scratch->totals);
    scratch->shares = gsc__carve(&carver, 1, sizeof *scratch->shares);
    return carver.at;
}

/* Sums the mask and writes the shares of a pixel and a window of weight 1. */
static gsc_status sum_mask(const image_pass *pass, const loss_scratch *scratch) {
    const gsc_k_mask_sums rows = {.mask = pass->args.weight,
                                  .height = pass->args.height,
                                  .width = pass->args.width,
                                  .chunks = scratch->mask_chunks,
                                  .border = pass->args.border,
                                  .sums = scratch->totals};
    const gsc_k_mask_total all = {.sums = scratch->totals,
                                  .count = scratch->mask_blocks,
                                  .channels = pass->args.channels,
                                  .shares = scratch->shares};
    GSC__TRY(LAUNCH(mask_sums, pass->call, scratch->mask_blocks, rows));
    return LAUNCH(mask_total, pass->call, 1, all);
}

static gsc_status run_loss(const gsc__image_loss *loss, image_pass *pass,
                           const loss_scratch *scratch) {
    pass->args.sums = scratch->sums;
    if (pass->args.weight.data) {
        GSC__TRY(sum_mask(pass, scratch));
        pass->args.device_shares = scratch->shares;
    }
    GSC__TRY(run_pass(pass));
    const gsc_k_image_total total = {.sums = pass->args.sums,
                                     .blocks = pass->blocks,
                                     .shares = pass->args.shares,
                                     .device_shares = pass->args.device_shares,
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
    image_pass pass = loss_pass(call, loss);
    loss_scratch scratch = {0};
    gsc__workspace workspace = {.call = *call};
    void *memory;
    GSC__TRY(plan_pass(&pass));
    GSC__TRY(count_mask_blocks(&pass, &scratch));
    const size_t bytes = carve_scratch(NULL, pass.blocks, &scratch);
    GSC__TRY(gsc__workspace_take(&workspace, "scratch", bytes, &memory));
    carve_scratch(memory, pass.blocks, &scratch);
    gsc_status status = run_loss(loss, &pass, &scratch);
    gsc__workspace_release(&workspace);
    return status;
}
