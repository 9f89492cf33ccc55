#include "image_pass.h"

#include <stdlib.h>

/* --------------------------------------------------------------------- tiles */

typedef struct tile_plan {
    int32_t width, height, columns, rows;
} tile_plan;

static int32_t divide_up(int32_t a, int32_t b) {
    return (int32_t)gsc__gpu_blocks(a, b);
}

/* Whether 32 bits hold all offsets within a plane and the margins of tiles around it. */
static bool is_small(const gsc__gpu_image_pass *pass, const gsc__image *image) {
    const int64_t limit = INT32_MAX / 2, rows = (int64_t)pass->height + GSC__SSIM_BLOCK,
                  columns = (int64_t)pass->width + GSC__SSIM_BLOCK;
    if (!image->data) return true;
    const int64_t row = llabs(image->strides[2]), column = llabs(image->strides[3]);
    return row <= limit / rows && column <= limit / columns;
}

/* Whether the kernels of the usual window apply. */
static bool is_usual(const gsc__gpu_image_pass *pass) {
    return pass->window->size / 2 == GSC__SSIM_RADIUS && is_small(pass, &pass->image) &&
           is_small(pass, &pass->target) && is_small(pass, &pass->weight) &&
           is_small(pass, &pass->grad_image);
}

/* Tiles are as wide as a block's columns allow, a multiple of four so that rows begin at vectors.
 * High tiles waste few rows on margins, but a large GPU needs enough blocks; a height that is not
 * a multiple of the rows of a step wastes the rest of the last step.  The plan does not depend on
 * the device, and so neither do results. */
static tile_plan plan_tiles(const gsc__gpu_image_pass *pass) {
    enum { PROCESSORS = 132, HIGHEST = 256 };
    const bool value = is_usual(pass) && !pass->differentiate;
    const int32_t block = value ? GSC__SSIM_BLOCK : GSC__SSIM_GRAD_BLOCK;
    const int64_t slots = PROCESSORS * (value ? GSC__SSIM_RESIDENT : GSC__SSIM_GRAD_RESIDENT);
    const int32_t reach = pass->window->size / 2 * (pass->differentiate ? 2 : 1);
    const int32_t widest = (block - 2 * reach) / 4 * 4;
    tile_plan plan = {.columns = divide_up(pass->width, widest)};
    plan.width = divide_up(divide_up(pass->width, plan.columns), 4) * 4;
    plan.columns = divide_up(pass->width, plan.width);
    const int64_t strips = (int64_t)pass->batch * pass->channels * plan.columns;
    int64_t shortest = INT64_MAX;
    for (int32_t steps = divide_up(2 * reach + 1, GSC__SSIM_ROWS);; ++steps) {
        const int32_t height = steps * GSC__SSIM_ROWS - 2 * reach;
        if (height > HIGHEST && plan.height > 0) break;
        const int32_t rows = divide_up(pass->height, height);
        const int64_t rounds = (strips * rows + slots - 1) / slots;
        if (rounds * (steps + 1) < shortest) { /* the start of a tile costs about a step */
            shortest = rounds * (steps + 1);
            plan.height = height;
            plan.rows = rows;
        }
        if (height >= pass->height) break;
    }
    return plan;
}

static int32_t chunks_of(const gsc__gpu_image_pass *pass) {
    return (int32_t)gsc__gpu_blocks((int64_t)pass->height * pass->width, GSC__POINTS_CHUNK);
}

gsc_status gsc__gpu_image_pass_blocks(const gsc__gpu_image_pass *pass, uint32_t *blocks) {
    const tile_plan plan = plan_tiles(pass);
    const int64_t planes = (int64_t)pass->batch * pass->channels;
    const int64_t count =
        planes * (pass->ssim ? (int64_t)plan.columns * plan.rows : chunks_of(pass));
    if (count > INT32_MAX) {
        return gsc__fail(GSC_ERROR_OVERFLOW,
                         "%s: image is [%d, %d, %d, %d], which needs %lld blocks, expected at "
                         "most %d",
                         pass->call->function, pass->batch, pass->channels, pass->height,
                         pass->width, (long long)count, INT32_MAX);
    }
    *blocks = (uint32_t)count;
    return GSC_OK;
}

gsc__gpu_image_shares gsc__gpu_image_shares_of(const gsc__gpu_image_pass *pass) {
    const int32_t border = pass->valid ? pass->window->size - 1 : 0;
    const double planes = (double)pass->batch * pass->channels;
    const double pixels = planes * pass->height * pass->width;
    const double windows = planes * (pass->height - border) * (pass->width - border);
    return (gsc__gpu_image_shares){pixels != 0 ? 1 / pixels : 0, windows != 0 ? 1 / windows : 0};
}

/* ---------------------------------------------------------------------- pass */

gsc__gpu_pixels gsc__gpu_pixels_of(const gsc__image *image) {
    gsc__gpu_pixels out = {.data = image->data, .bytes = image->bytes};
    memcpy(out.strides, image->strides, sizeof out.strides);
    const uintptr_t vector = image->bytes ? 4 : 16;
    out.vectors = image->strides[3] == 1 && (uintptr_t)image->data % vector == 0;
    for (int i = 0; i < 3; ++i)
        if (image->strides[i] % 4 != 0) out.vectors = 0;
    return out;
}

static bool has_quads(const gsc__gpu_image_pass *pass) {
    return pass->width % 4 == 0 && gsc__gpu_pixels_of(&pass->image).vectors &&
           gsc__gpu_pixels_of(&pass->target).vectors &&
           (!pass->grad_image.data || gsc__gpu_pixels_of(&pass->grad_image).vectors);
}

static gsc_status run_points(const gsc__gpu_image_pass *pass, uint32_t blocks) {
    gsc_k_image_points args = {.channels = pass->channels,
                               .height = pass->height,
                               .width = pass->width,
                               .chunks = chunks_of(pass),
                               .quads = has_quads(pass),
                               .image = gsc__gpu_pixels_of(&pass->image),
                               .target = gsc__gpu_pixels_of(&pass->target),
                               .weight = gsc__gpu_pixels_of(&pass->weight),
                               .shares = pass->shares,
                               .device_shares = pass->device_shares,
                               .grad_image = gsc__gpu_pixels_of(&pass->grad_image),
                               .sums = pass->sums};
    memcpy(args.coefficients, pass->coefficients, sizeof args.coefficients);
    return LAUNCH(image_points, pass->call, blocks, args);
}

gsc_status gsc__gpu_image_pass_run(const gsc__gpu_image_pass *pass) {
    uint32_t blocks = 0;
    GSC__TRY(gsc__gpu_image_pass_blocks(pass, &blocks));
    if (!pass->ssim) return run_points(pass, blocks);
    const tile_plan plan = plan_tiles(pass);
    gsc_k_ssim args = {.channels = pass->channels,
                       .height = pass->height,
                       .width = pass->width,
                       .tile_height = plan.height,
                       .tile_width = plan.width,
                       .tile_rows = plan.rows,
                       .tile_columns = plan.columns,
                       .radius = pass->window->size / 2,
                       .border = pass->valid ? pass->window->size / 2 : 0,
                       .pointwise = pass->pointwise,
                       .differentiate = pass->differentiate,
                       .c1 = pass->c1,
                       .c2 = pass->c2,
                       .image = gsc__gpu_pixels_of(&pass->image),
                       .target = gsc__gpu_pixels_of(&pass->target),
                       .weight = gsc__gpu_pixels_of(&pass->weight),
                       .weight_origin = pass->weight_origin,
                       .shares = pass->shares,
                       .device_shares = pass->device_shares,
                       .grad_mean = pass->grad_mean,
                       .map = pass->map,
                       .grad_image = gsc__gpu_pixels_of(&pass->grad_image),
                       .sums = pass->sums};
    memcpy(args.weights, pass->window->weights, sizeof args.weights);
    memcpy(args.coefficients, pass->coefficients, sizeof args.coefficients);
    if (!is_usual(pass)) return LAUNCH(ssim_any, pass->call, blocks, args);
    if (pass->differentiate) return LAUNCH(ssim_grad, pass->call, blocks, args);
    return LAUNCH(ssim, pass->call, blocks, args);
}
