/* SSIM and the image loss on the device. */
#include "gpu.h"

#include <stdlib.h>

/* One pass over a pair of images on the device that yields any of: the SSIM map, weighted
 * sums of SSIM, |x - y| and (x - y)^2, and the gradient of a combination of these sums. */
typedef struct image_pass {
    const gsc__call *call;
    gsc__image_pair pair;
    bool ssim;             /* wanted: map or sum of SSIM, or its gradient */
    bool differentiate;    /* the gradient has a part from SSIM */
    bool pointwise;        /* wanted: the sums of |x - y| and (x - y)^2, or their gradients */
    gsc__image weight;     /* of each pixel or window; data NULL: 1 */
    int32_t weight_origin; /* row and column of the image where weight begins */
    float *map;
    double coefficients[GSC__IMAGE_SUMS];       /* of the gradient, for each sum; times grad_mean */
    gsc__gpu_image_shares shares;               /* factors of the sums */
    const gsc__gpu_image_shares *device_shares; /* the same on the device, or NULL */
    const float *grad_mean;
    double *sums; /* out on the device: [blocks, GSC__IMAGE_SUMS] or NULL */
} image_pass;

/* --------------------------------------------------------------------- tiles */

typedef struct tile_plan {
    int32_t width, height, columns, rows;
} tile_plan;

static int32_t divide_up(int32_t a, int32_t b) {
    return (int32_t)gsc__gpu_blocks(a, b);
}

/* Whether 32 bits hold all offsets within a plane and the margins of tiles around it. */
static bool is_small(const image_pass *pass, const gsc__image *image) {
    const int64_t limit = INT32_MAX / 2, rows = (int64_t)pass->pair.height + GSC__SSIM_BLOCK,
                  columns = (int64_t)pass->pair.width + GSC__SSIM_BLOCK;
    if (!image->data) return true;
    const int64_t row = llabs(image->strides[2]), column = llabs(image->strides[3]);
    return row <= limit / rows && column <= limit / columns;
}

/* Whether the kernels of the usual window apply. */
static bool is_usual(const image_pass *pass) {
    return pass->pair.window.size / 2 == GSC__SSIM_RADIUS && is_small(pass, &pass->pair.image) &&
           is_small(pass, &pass->pair.target) && is_small(pass, &pass->weight) &&
           is_small(pass, &pass->pair.grad_image);
}

/* Tiles are as wide as a block's columns allow, a multiple of four so that rows begin at vectors.
 * High tiles waste few rows on margins, but a large GPU needs enough blocks; a height that is not
 * a multiple of the rows of a step wastes the rest of the last step.  The plan does not depend on
 * the device, and so neither do results. */
static tile_plan plan_tiles(const image_pass *pass) {
    enum { PROCESSORS = 132, HIGHEST = 256 };
    const bool value = is_usual(pass) && !pass->differentiate;
    const int32_t block = value ? GSC__SSIM_BLOCK : GSC__SSIM_GRAD_BLOCK;
    const int64_t slots = PROCESSORS * (value ? GSC__SSIM_RESIDENT : GSC__SSIM_GRAD_RESIDENT);
    const int32_t reach = pass->pair.window.size / 2 * (pass->differentiate ? 2 : 1);
    const int32_t widest = (block - 2 * reach) / 4 * 4;
    tile_plan plan = {.columns = divide_up(pass->pair.width, widest)};
    plan.width = divide_up(divide_up(pass->pair.width, plan.columns), 4) * 4;
    plan.columns = divide_up(pass->pair.width, plan.width);
    const int64_t strips = (int64_t)pass->pair.batch * pass->pair.channels * plan.columns;
    int64_t shortest = INT64_MAX;
    for (int32_t steps = divide_up(2 * reach + 1, GSC__SSIM_ROWS);; ++steps) {
        const int32_t height = steps * GSC__SSIM_ROWS - 2 * reach;
        if (height > HIGHEST && plan.height > 0) break;
        const int32_t rows = divide_up(pass->pair.height, height);
        const int64_t rounds = (strips * rows + slots - 1) / slots;
        if (rounds * (steps + 1) < shortest) { /* the start of a tile costs about a step */
            shortest = rounds * (steps + 1);
            plan.height = height;
            plan.rows = rows;
        }
        if (height >= pass->pair.height) break;
    }
    return plan;
}

static int32_t chunks_of(const image_pass *pass) {
    return (int32_t)gsc__gpu_blocks((int64_t)pass->pair.height * pass->pair.width,
                                    GSC__POINTS_CHUNK);
}

/* GSC_ERROR_OVERFLOW if there are more than a launch takes. */
static gsc_status pass_blocks(const image_pass *pass, uint32_t *blocks) {
    const tile_plan plan = plan_tiles(pass);
    const int64_t planes = (int64_t)pass->pair.batch * pass->pair.channels;
    const int64_t count =
        planes * (pass->ssim ? (int64_t)plan.columns * plan.rows : chunks_of(pass));
    if (count > INT32_MAX) {
        return gsc__fail(GSC_ERROR_OVERFLOW,
                         "%s: image is [%d, %d, %d, %d], which needs %lld blocks, expected at "
                         "most %d",
                         pass->call->function, pass->pair.batch, pass->pair.channels,
                         pass->pair.height, pass->pair.width, (long long)count, INT32_MAX);
    }
    *blocks = (uint32_t)count;
    return GSC_OK;
}

/* 1 / number of pixels and 1 / number of windows of all planes. */
static gsc__gpu_image_shares shares_of(const image_pass *pass) {
    const int32_t border = 2 * pass->pair.border;
    const double planes = (double)pass->pair.batch * pass->pair.channels;
    const double pixels = planes * pass->pair.height * pass->pair.width;
    const double windows = planes * (pass->pair.height - border) * (pass->pair.width - border);
    return (gsc__gpu_image_shares){pixels != 0 ? 1 / pixels : 0, windows != 0 ? 1 / windows : 0};
}

/* ---------------------------------------------------------------------- pass */

static gsc__gpu_pixels pixels_of(const gsc__image *image) {
    gsc__gpu_pixels out = {.data = image->data, .bytes = image->bytes};
    memcpy(out.strides, image->strides, sizeof out.strides);
    const uintptr_t vector = image->bytes ? 4 : 16;
    out.vectors = image->strides[3] == 1 && (uintptr_t)image->data % vector == 0;
    for (int i = 0; i < 3; ++i)
        if (image->strides[i] % 4 != 0) out.vectors = 0;
    return out;
}

static bool has_quads(const image_pass *pass) {
    return pass->pair.width % 4 == 0 && pixels_of(&pass->pair.image).vectors &&
           pixels_of(&pass->pair.target).vectors &&
           (!pass->pair.grad_image.data || pixels_of(&pass->pair.grad_image).vectors);
}

static gsc_status run_points(const image_pass *pass, uint32_t blocks) {
    gsc_k_image_points args = {.channels = pass->pair.channels,
                               .height = pass->pair.height,
                               .width = pass->pair.width,
                               .chunks = chunks_of(pass),
                               .quads = has_quads(pass),
                               .image = pixels_of(&pass->pair.image),
                               .target = pixels_of(&pass->pair.target),
                               .weight = pixels_of(&pass->weight),
                               .shares = pass->shares,
                               .device_shares = pass->device_shares,
                               .grad_image = pixels_of(&pass->pair.grad_image),
                               .sums = pass->sums};
    memcpy(args.coefficients, pass->coefficients, sizeof args.coefficients);
    return LAUNCH(image_points, pass->call, blocks, args);
}

static gsc_status run_pass(const image_pass *pass) {
    uint32_t blocks = 0;
    GSC__TRY(pass_blocks(pass, &blocks));
    if (!pass->ssim) return run_points(pass, blocks);
    const tile_plan plan = plan_tiles(pass);
    gsc_k_ssim args = {.channels = pass->pair.channels,
                       .height = pass->pair.height,
                       .width = pass->pair.width,
                       .tile_height = plan.height,
                       .tile_width = plan.width,
                       .tile_rows = plan.rows,
                       .tile_columns = plan.columns,
                       .radius = pass->pair.window.size / 2,
                       .border = pass->pair.border,
                       .pointwise = pass->pointwise,
                       .differentiate = pass->differentiate,
                       .c1 = pass->pair.c1,
                       .c2 = pass->pair.c2,
                       .image = pixels_of(&pass->pair.image),
                       .target = pixels_of(&pass->pair.target),
                       .weight = pixels_of(&pass->weight),
                       .weight_origin = pass->weight_origin,
                       .shares = pass->shares,
                       .device_shares = pass->device_shares,
                       .grad_mean = pass->grad_mean,
                       .map = pass->map,
                       .grad_image = pixels_of(&pass->pair.grad_image),
                       .sums = pass->sums};
    memcpy(args.weights, pass->pair.window.weights, sizeof args.weights);
    memcpy(args.coefficients, pass->coefficients, sizeof args.coefficients);
    if (!is_usual(pass)) return LAUNCH(ssim_any, pass->call, blocks, args);
    if (pass->differentiate) return LAUNCH(ssim_grad, pass->call, blocks, args);
    return LAUNCH(ssim, pass->call, blocks, args);
}

/* ----------------------------------------------------------------------- SSIM */

static image_pass ssim_pass(const gsc__call *call, const gsc__ssim *ssim) {
    image_pass pass = {.call = call, .pair = ssim->pair, .ssim = true};
    pass.shares = shares_of(&pass);
    return pass;
}

gsc_status gsc__gpu_ssim_forward(const gsc__call *call, const gsc__ssim *ssim) {
    image_pass pass = ssim_pass(call, ssim);
    gsc__workspace workspace = {.call = *call};
    uint32_t blocks;
    void *memory;
    if (!ssim->map && !ssim->mean) return GSC_OK;
    pass.map = ssim->map;
    if (!ssim->mean) return run_pass(&pass);

    GSC__TRY(pass_blocks(&pass, &blocks));
    const size_t bytes = (size_t)blocks * GSC__IMAGE_SUMS * sizeof *pass.sums;
    GSC__TRY(gsc__workspace_take(&workspace, "scratch", bytes, &memory));
    pass.sums = memory;
    gsc_status status = run_pass(&pass);
    const gsc_k_image_total total = {
        .sums = pass.sums, .blocks = blocks, .shares = pass.shares, .mean = ssim->mean};
    if (status == GSC_OK) status = LAUNCH(image_total, call, 1, total);
    gsc__workspace_release(&workspace);
    return status;
}

/* SSIM is symmetric: the target's gradient is that of the image with the two exchanged. */
gsc_status gsc__gpu_ssim_backward(const gsc__call *call, const gsc__ssim *ssim) {
    image_pass pass = ssim_pass(call, ssim);
    pass.differentiate = true;
    pass.coefficients[2] = 1;
    pass.grad_mean = ssim->grad_mean;
    if (ssim->grad_map.data) {
        pass.weight = ssim->grad_map;
        pass.weight_origin = pass.pair.border;
        pass.shares.window = 1;
    }
    if (pass.pair.grad_image.data) GSC__TRY(run_pass(&pass));
    if (!ssim->grad_target.data) return GSC_OK;
    pass.pair.image = ssim->pair.target;
    pass.pair.target = ssim->pair.image;
    pass.pair.grad_image = ssim->grad_target;
    return run_pass(&pass);
}

/* ----------------------------------------------------------------------- loss */

static image_pass loss_pass(const gsc__call *call, const gsc__image_loss *loss) {
    const double scale = (double)loss->grad_scale;
    image_pass pass = {.call = call,
                       .pair = loss->pair,
                       .ssim = loss->parts || loss->ssim_weight != 0,
                       .pointwise = true,
                       .weight = loss->mask,
                       .coefficients = {scale * (double)loss->l1_weight,
                                        scale * (double)loss->l2_weight,
                                        -scale * (double)loss->ssim_weight}};
    pass.differentiate = pass.pair.grad_image.data && loss->ssim_weight != 0;
    pass.shares = shares_of(&pass);
    return pass;
}

typedef struct loss_scratch {
    uint32_t blocks, mask_blocks;
    int32_t mask_chunks;           /* of a plane */
    double *sums;                  /* [blocks, GSC__IMAGE_SUMS] */
    gsc__gpu_image_totals *totals; /* [mask_blocks] */
    gsc__gpu_image_shares *shares; /* scalar */
} loss_scratch;

static gsc_status count_blocks(const image_pass *pass, loss_scratch *scratch) {
    GSC__TRY(pass_blocks(pass, &scratch->blocks));
    scratch->mask_chunks = (int32_t)gsc__gpu_blocks(pass->pair.height, GSC__MASK_ROWS);
    const int64_t count = pass->weight.data ? (int64_t)pass->pair.batch * scratch->mask_chunks : 0;
    if (count > INT32_MAX)
        return gsc__fail(GSC_ERROR_OVERFLOW,
                         "%s: mask of %d planes needs %lld blocks, expected at most %d",
                         pass->call->function, pass->pair.batch, (long long)count, INT32_MAX);
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
static gsc_status sum_mask(const image_pass *pass, const loss_scratch *scratch) {
    const gsc_k_mask_sums rows = {.mask = pixels_of(&pass->weight),
                                  .height = pass->pair.height,
                                  .width = pass->pair.width,
                                  .chunks = scratch->mask_chunks,
                                  .border = pass->pair.border,
                                  .sums = scratch->totals};
    const gsc_k_mask_total all = {.sums = scratch->totals,
                                  .count = scratch->mask_blocks,
                                  .channels = pass->pair.channels,
                                  .shares = scratch->shares};
    GSC__TRY(LAUNCH(mask_sums, pass->call, scratch->mask_blocks, rows));
    return LAUNCH(mask_total, pass->call, 1, all);
}

static gsc_status run_loss(const gsc__image_loss *loss, image_pass *pass,
                           const loss_scratch *scratch) {
    pass->sums = scratch->sums;
    if (pass->weight.data) {
        GSC__TRY(sum_mask(pass, scratch));
        pass->device_shares = scratch->shares;
    }
    GSC__TRY(run_pass(pass));
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
    image_pass pass = loss_pass(call, loss);
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
