/* Structural similarity of two images (Wang, Bovik, Sheikh and Simoncelli, "Image
 * quality assessment: from error visibility to structural similarity", 2004), its mean
 * and its gradient.
 *
 * A mix of L1, L2 and SSIM as a training loss: its value, its parts and its gradient
 * from one pass over the images. */
#ifndef GSC_CPU_IMAGE_OPS_H
#define GSC_CPU_IMAGE_OPS_H

#include "image_pass.h"

/* Number of elements of the map. */
static double map_size(const gsc__image_pair *pair) {
    const int32_t border = 2 * pair->border;
    return (double)pair->batch * pair->channels * (pair->height - border) * (pair->width - border);
}

static gsc_status gsc__cpu_ssim_forward(const gsc__call *call, const gsc__ssim *ssim) {
    gsc__image_pass pass = {.pair = ssim->pair, .ssim = true, .map = ssim->map};
    GSC__TRY(gsc__image_pass_run(call, &pass));
    if (ssim->mean) *ssim->mean = (gsc_real)(pass.sums[GSC__SUM_SSIM] / map_size(&ssim->pair));
    return GSC_OK;
}

/* SSIM is symmetric: the gradient with respect to the target alone is the one with respect to the
 * image with the two exchanged.  That saves the field that only a gradient with respect to both
 * needs. */
static gsc_status gsc__cpu_ssim_backward(const gsc__call *call, const gsc__ssim *ssim) {
    gsc__image_pass pass = {.pair = ssim->pair, .ssim = true, .grad_target = ssim->grad_target};
    if (!pass.pair.grad_image.data) {
        if (!pass.grad_target.data) return GSC_OK;
        pass.pair.image = ssim->pair.target;
        pass.pair.target = ssim->pair.image;
        pass.pair.grad_image = ssim->grad_target;
        pass.grad_target.data = NULL;
    }
    if (ssim->grad_map.data) {
        pass.weight = ssim->grad_map;
        pass.weight_origin = ssim->pair.border;
        pass.upstream[GSC__SUM_SSIM] = 1;
    } else {
        pass.upstream[GSC__SUM_SSIM] = (gsc_real)((double)*ssim->grad_mean / map_size(&ssim->pair));
    }
    return gsc__image_pass_run(call, &pass);
}

/* ---------------------------------------------------------- sum of the mask */

enum { MASK_ROWS = 64, MASK_COLUMNS = 256 };

typedef struct mask_task {
    const gsc__image_loss *loss;
    int64_t blocks; /* of MASK_ROWS rows in an image */
    double *sums;   /* [B * blocks][2] over all pixels, over those with a window */
} mask_task;

static double mask_row_sum(const gsc__image *mask, int64_t b, int32_t y, int32_t first,
                           int32_t last) {
    gsc_real row[MASK_COLUMNS];
    double sum = 0;
    for (int32_t x = first; x < last; x += MASK_COLUMNS) {
        const int n = last - x < MASK_COLUMNS ? last - x : MASK_COLUMNS;
        image_row_read(mask, 1, b, 0, y, x, n, row);
        sum += image_row_sum(row, n);
    }
    return sum;
}

static void sum_mask_rows(void *arg, int64_t begin, int64_t end, int thread) {
    const mask_task *task = arg;
    const gsc__image *mask = &task->loss->mask;
    const gsc__image_pair *pair = &task->loss->pair;
    const int32_t border = pair->border;
    (void)thread;
    for (int64_t i = begin; i < end; ++i) {
        const int32_t y0 = (int32_t)(i % task->blocks) * MASK_ROWS;
        double all = 0, inside = 0;
        for (int32_t y = y0; y < y0 + MASK_ROWS && y < pair->height; ++y) {
            const int64_t b = i / task->blocks;
            const double middle = mask_row_sum(mask, b, y, border, pair->width - border);
            all += middle + mask_row_sum(mask, b, y, 0, border) +
                   mask_row_sum(mask, b, y, pair->width - border, pair->width);
            if (y >= border && y < pair->height - border) inside += middle;
        }
        task->sums[2 * i] = all;
        task->sums[2 * i + 1] = inside;
    }
}

/* The sums of the weights of all pixels and of all windows, over every channel. */
static gsc_status weight_sums(const gsc__call *call, const gsc__image_loss *loss, double *pixels,
                              double *windows) {
    const gsc__image_pair *pair = &loss->pair;
    const double images = (double)pair->batch * pair->channels;
    *pixels = images * pair->height * pair->width;
    *windows = images * (pair->height - 2 * pair->border) * (pair->width - 2 * pair->border);
    if (!loss->mask.data || *pixels == 0) return GSC_OK;

    mask_task task = {.loss = loss, .blocks = (pair->height + MASK_ROWS - 1) / MASK_ROWS};
    const int64_t count = pair->batch * task.blocks;
    gsc__workspace workspace = {.call = *call};
    void *memory;
    GSC__TRY(
        gsc__workspace_take(&workspace, "scratch", (size_t)count * 2 * sizeof(double), &memory));
    task.sums = (double *)memory;
    gsc__parallel_for(gsc__cpu_pool(call->context), count, 1, sum_mask_rows, &task);
    *pixels = *windows = 0;
    for (int64_t i = 0; i < count; ++i) {
        *pixels += task.sums[2 * i] * pair->channels;
        *windows += task.sums[2 * i + 1] * pair->channels;
    }
    gsc__workspace_release(&workspace);
    return GSC_OK;
}

/* --------------------------------------------------------------------- loss */

/* The SSIM of a window that the mask excludes is computed, but not counted.  Without any weight
 * every mean is 0. */
static gsc_status gsc__cpu_image_loss(const gsc__call *call, const gsc__image_loss *loss) {
    double pixels, windows;
    GSC__TRY(weight_sums(call, loss, &pixels, &windows));
    const double per_pixel = pixels != 0 ? 1 / pixels : 0;
    const double per_window = windows != 0 ? 1 / windows : 0;
    const double scale = (double)loss->grad_scale;
    gsc__image_pass pass = {
        .pair = loss->pair,
        .ssim = loss->parts || loss->ssim_weight != 0,
        .pointwise = true,
        .weight = loss->mask,
        .upstream = {(gsc_real)(scale * (double)loss->l1_weight * per_pixel),
                     (gsc_real)(scale * (double)loss->l2_weight * per_pixel),
                     (gsc_real)(-scale * (double)loss->ssim_weight * per_window)}};
    GSC__TRY(gsc__image_pass_run(call, &pass));

    const double l1 = pass.sums[GSC__SUM_L1] * per_pixel;
    const double l2 = pass.sums[GSC__SUM_L2] * per_pixel;
    const double ssim = pass.sums[GSC__SUM_SSIM] * per_window;
    if (loss->loss)
        *loss->loss = (gsc_real)((double)loss->l1_weight * l1 + (double)loss->l2_weight * l2 +
                                 (double)loss->ssim_weight * (1 - ssim));
    if (loss->parts) {
        loss->parts[0] = (gsc_real)l1;
        loss->parts[1] = (gsc_real)l2;
        loss->parts[2] = (gsc_real)ssim;
    }
    return GSC_OK;
}

#endif
