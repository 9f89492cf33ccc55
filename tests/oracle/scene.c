#include "scene.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *checked_calloc(size_t count, size_t size) {
    void *data = calloc(count ? count : 1, size);
    if (!data) {
        fprintf(stderr, "no memory for %zu elements\n", count);
        exit(EXIT_FAILURE);
    }
    return data;
}

double *reals_alloc(size_t count) {
    return (double *)checked_calloc(count, sizeof(double));
}

int32_t *ints_alloc(size_t count) {
    return (int32_t *)checked_calloc(count, sizeof(int32_t));
}

size_t scene_pixels(const scene *s) {
    return (size_t)s->cameras * (size_t)s->height * (size_t)s->width;
}

size_t scene_splats(const scene *s) {
    return (size_t)s->cameras * (size_t)s->gaussians;
}

void scene_store(scene *s) {
    for (int i = 0; i < s->gaussians; i++) {
        double *opacity = &s->opacities[i];
        if (s->flags & GSC_RASTER_LOGIT_OPACITIES) *opacity = log(*opacity / (1 - *opacity));
        for (int k = 0; k < 3 && s->flags & GSC_RASTER_LOG_SCALES; k++)
            s->scales[3 * i + k] = log(s->scales[3 * i + k]);
    }
}

void scene_free(scene *s) {
    free(s->view);
    free(s->projection);
    free(s->intrinsics);
    free(s->position);
    free(s->background);
    free(s->pixel_weights);
    free(s->means);
    free(s->opacities);
    free(s->scales);
    free(s->rotations);
    free(s->covariances);
    free(s->colors);
    free(s->sh);
    *s = (scene){0};
}

void frame_alloc(frame *f, const scene *s, int radii_axes) {
    size_t pixels = scene_pixels(s), splats = scene_splats(s);
    *f = (frame){0};
    f->color = reals_alloc(pixels * (size_t)s->channels);
    f->alpha = reals_alloc(pixels);
    f->depth = reals_alloc(pixels);
    f->inv_depth = reals_alloc(pixels);
    f->median_depth = reals_alloc(pixels);
    f->radii = ints_alloc(splats * (size_t)radii_axes);
    f->radii_axes = radii_axes;
    f->means2d = reals_alloc(splats * 2);
    f->depths = reals_alloc(splats);
    f->conics = reals_alloc(splats * 3);
    f->opacities = reals_alloc(splats);
    f->touched = ints_alloc(splats);
    if (!s->pixel_weights) return;
    f->weight_sum = reals_alloc(splats);
    f->weight_count = ints_alloc(splats);
    f->weight_blend = reals_alloc(splats);
    f->weight_distance = reals_alloc(splats);
}

void frame_free(frame *f) {
    free(f->color);
    free(f->alpha);
    free(f->depth);
    free(f->inv_depth);
    free(f->median_depth);
    free(f->radii);
    free(f->means2d);
    free(f->depths);
    free(f->conics);
    free(f->opacities);
    free(f->touched);
    free(f->weight_sum);
    free(f->weight_count);
    free(f->weight_blend);
    free(f->weight_distance);
    *f = (frame){0};
}

void gradients_alloc(gradients *g, const scene *s) {
    size_t n = (size_t)s->gaussians, cameras = (size_t)s->cameras;
    *g = (gradients){0};
    g->means = reals_alloc(n * 3);
    g->opacities = reals_alloc(n);
    if (s->scales) g->scales = reals_alloc(n * 3);
    if (s->rotations) g->rotations = reals_alloc(n * 4);
    if (s->covariances) g->covariances = reals_alloc(n * 6);
    if (s->colors) g->colors = reals_alloc((size_t)s->colors_rows * n * (size_t)s->channels);
    if (s->sh) g->sh = reals_alloc(n * (size_t)s->sh_coefficients * 3);
    g->means2d = reals_alloc(cameras * n * 2);
    g->means2d_abs = reals_alloc(cameras * n * 2);
    g->view = reals_alloc(cameras * 16);
    if (s->position) g->position = reals_alloc(cameras * 3);
    if (s->background) {
        g->background = reals_alloc((size_t)s->background_rows * (size_t)s->channels);
    }
}

static void clear(double *values, size_t count) {
    if (values) memset(values, 0, count * sizeof *values);
}

void gradients_clear(gradients *g, const scene *s) {
    size_t n = (size_t)s->gaussians, cameras = (size_t)s->cameras, channels = (size_t)s->channels;
    clear(g->means, n * 3);
    clear(g->opacities, n);
    clear(g->scales, n * 3);
    clear(g->rotations, n * 4);
    clear(g->covariances, n * 6);
    clear(g->colors, (size_t)s->colors_rows * n * channels);
    clear(g->sh, n * (size_t)s->sh_coefficients * 3);
    clear(g->view, cameras * 16);
    clear(g->position, cameras * 3);
    clear(g->background, (size_t)s->background_rows * channels);
}

void gradients_free(gradients *g) {
    free(g->grad_color);
    free(g->grad_alpha);
    free(g->grad_depth);
    free(g->grad_inv_depth);
    free(g->means);
    free(g->opacities);
    free(g->scales);
    free(g->rotations);
    free(g->covariances);
    free(g->colors);
    free(g->sh);
    free(g->means2d);
    free(g->means2d_abs);
    free(g->view);
    free(g->position);
    free(g->background);
    *g = (gradients){0};
}

bool all_finite(const double *values, size_t count) {
    for (size_t i = 0; values && i < count; i++) {
        if (!isfinite(values[i])) return false;
    }
    return true;
}
