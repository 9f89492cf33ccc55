#include "library.h"

#include "expect.h"
#include "math/real.h"
#include "random_scene.h"
#include "reference.h"
#include "tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

gsc_context *library_context(int threads) {
    GSC_INIT(gsc_context_desc, desc);
    desc.abi_version = GSC_ABI_VERSION;
    desc.device.device_type = kDLCPU;
    desc.cpu_threads = threads;
    gsc_context *context = NULL;
    if (gsc_context_create(&desc, &context) != GSC_OK) {
        fprintf(stderr, "no CPU context: %s\n", gsc_last_error());
        exit(EXIT_FAILURE);
    }
    return context;
}

static void round_all(double *values, size_t count) {
    for (size_t i = 0; values && i < count; i++) values[i] = (double)(gsc_real)values[i];
}

void library_round(scene *s) {
    size_t n = (size_t)s->gaussians, cameras = (size_t)s->cameras, channels = (size_t)s->channels;
    round_all(s->view, 16 * cameras);
    round_all(s->projection, 16 * cameras);
    round_all(s->intrinsics, 4 * cameras);
    round_all(s->position, 3 * cameras);
    round_all(s->background, (size_t)s->background_rows * channels);
    round_all(s->pixel_weights, scene_pixels(s));
    round_all(s->means, 3 * n);
    round_all(s->opacities, n);
    round_all(s->scales, 3 * n);
    round_all(s->rotations, 4 * n);
    round_all(s->covariances, 6 * n);
    round_all(s->colors, (size_t)s->colors_rows * n * channels);
    round_all(s->sh, n * (size_t)s->sh_coefficients * 3);
}

/* What the tensors of one call have in common. */
typedef struct shapes {
    int64_t c; /* cameras, or -1 to leave the dimension out */
    int64_t background_rows, colors_rows, n, h, w, channels, k;
} shapes;

static shapes shapes_of(const scene *s, const library_options *options) {
    bool drop = options && options->drop_camera && s->cameras == 1;
    shapes d = {.c = drop ? -1 : s->cameras,
                .n = s->gaussians,
                .h = s->height,
                .w = s->width,
                .channels = s->channels,
                .k = s->sh_coefficients};
    d.background_rows =
        s->background_rows == 1 && (s->cameras > 1 || drop) ? -1 : s->background_rows;
    d.colors_rows = s->colors_rows == 1 && (s->cameras > 1 || drop) ? -1 : s->colors_rows;
    return d;
}

/* Splits sh [N, K, 3] into the first coefficient and the rest, or joins them again. */
static void cut_sh(const scene *s, double *sh, double *dc, double *rest, bool join) {
    size_t row = (size_t)s->sh_coefficients * 3;
    for (size_t i = 0; i < (size_t)s->gaussians; i++) {
        for (size_t k = 0; k < row; k++) {
            double *part = k < 3 ? &dc[3 * i + k] : &rest[(row - 3) * i + k - 3];
            if (join) {
                sh[row * i + k] = *part;
            } else {
                *part = sh[row * i + k];
            }
        }
    }
}

static void set_sh(const scene *s, const shapes *d, tensors *set, gsc_raster_args *args) {
    const int64_t whole[] = {d->n, d->k, 3}, first[] = {d->n, 1, 3}, others[] = {d->n, d->k - 1, 3};
    if (!s->sh || !s->sh_split) {
        args->sh = tensors_input(set, s->sh, 3, whole);
        return;
    }
    size_t n = (size_t)s->gaussians, k = (size_t)s->sh_coefficients;
    double *dc = reals_alloc(3 * n), *rest = reals_alloc(3 * n * (k - 1));
    cut_sh(s, s->sh, dc, rest, false);
    args->sh_dc = tensors_input(set, dc, 3, first);
    if (k > 1) args->sh = tensors_input(set, rest, 3, others);
    free(dc);
    free(rest);
}

static void set_args(const scene *s, const shapes *d, tensors *set, gsc_raster_args *args) {
    args->flags = s->flags;
    args->width = s->width;
    args->height = s->height;
    args->sh_degree = s->sh ? s->sh_degree : 0;
    args->scale_modifier = s->scale_modifier;
    args->tan_fovx = s->tan_fovx;
    args->tan_fovy = s->tan_fovy;
    args->near_plane = s->near_plane;
    args->far_plane = s->far_plane;
    args->radius_clip = s->radius_clip;
    args->blur = s->blur;
    args->median_default = s->median_default;
    const int64_t matrices[] = {d->c, 4, 4}, fours[] = {d->c, 4}, threes[] = {d->c, 3};
    args->view = tensors_input(set, s->view, 3, matrices);
    args->projection = tensors_input(set, s->projection, 3, matrices);
    args->intrinsics = tensors_input(set, s->intrinsics, 2, fours);
    args->position = tensors_input(set, s->position, 2, threes);
    const int64_t background[] = {d->background_rows, d->channels};
    const int64_t pixels[] = {d->c, d->h, d->w};
    args->background = tensors_input(set, s->background, 2, background);
    args->pixel_weights = tensors_input(set, s->pixel_weights, 3, pixels);
    const int64_t n3[] = {d->n, 3}, n4[] = {d->n, 4}, n6[] = {d->n, 6}, n1[] = {d->n, 1};
    args->means = tensors_input(set, s->means, 2, n3);
    args->opacities = tensors_input(set, s->opacities, d->c < 0 ? 1 : 2, n1);
    args->scales = tensors_input(set, s->scales, 2, n3);
    args->rotations = tensors_input(set, s->rotations, 2, n4);
    args->covariances = tensors_input(set, s->covariances, 2, n6);
    const int64_t colors[] = {d->colors_rows, d->n, d->channels};
    args->colors = tensors_input(set, s->colors, 3, colors);
    set_sh(s, d, set, args);
}

static void set_outputs(const scene *s, const shapes *d, tensors *set, const frame *f,
                        gsc_raster_outputs *out) {
    const int64_t first[] = {d->c, d->channels, d->h, d->w};
    const int64_t last[] = {d->c, d->h, d->w, d->channels};
    bool pixel_last = (s->flags & GSC_RASTER_PIXEL_LAST) != 0;
    const int64_t pixels[] = {d->c, d->h, d->w}, splats[] = {d->c, d->n};
    const int64_t twos[] = {d->c, d->n, 2}, threes[] = {d->c, d->n, 3};
    out->color = tensors_output(set, f->color, 4, pixel_last ? last : first);
    out->alpha = tensors_output(set, f->alpha, 3, pixels);
    out->depth = tensors_output(set, f->depth, 3, pixels);
    out->inv_depth = tensors_output(set, f->inv_depth, 3, pixels);
    out->median_depth = tensors_output(set, f->median_depth, 3, pixels);
    out->radii = tensors_output_ints(set, f->radii, f->radii_axes == 2 ? 3 : 2, twos);
    out->means2d = tensors_output(set, f->means2d, 3, twos);
    out->depths = tensors_output(set, f->depths, 2, splats);
    out->conics = tensors_output(set, f->conics, 3, threes);
    out->opacities = tensors_output(set, f->opacities, 2, splats);
    out->touched = tensors_output_ints(set, f->touched, 2, splats);
    out->weight_sum = tensors_output(set, f->weight_sum, 2, splats);
    out->weight_count = tensors_output_ints(set, f->weight_count, 2, splats);
    out->weight_blend = tensors_output(set, f->weight_blend, 2, splats);
    out->weight_distance = tensors_output(set, f->weight_distance, 2, splats);
}

static void read_outputs(const gsc_raster_outputs *out, frame *f) {
    tensors_read(out->color, f->color);
    tensors_read(out->alpha, f->alpha);
    tensors_read(out->depth, f->depth);
    tensors_read(out->inv_depth, f->inv_depth);
    tensors_read(out->median_depth, f->median_depth);
    tensors_read_ints(out->radii, f->radii);
    tensors_read(out->means2d, f->means2d);
    tensors_read(out->depths, f->depths);
    tensors_read(out->conics, f->conics);
    tensors_read(out->opacities, f->opacities);
    tensors_read_ints(out->touched, f->touched);
    tensors_read(out->weight_sum, f->weight_sum);
    tensors_read_ints(out->weight_count, f->weight_count);
    tensors_read(out->weight_blend, f->weight_blend);
    tensors_read(out->weight_distance, f->weight_distance);
}

static gsc_status two_steps(gsc_context *context, const gsc_raster_args *args,
                            const gsc_raster_outputs *out, size_t intersections, tensors *set,
                            gsc_raster_info *info) {
    gsc_status status = gsc_raster_sizes(context, args, info);
    if (status != GSC_OK) return status;
    GSC_INIT(gsc_raster_buffers, buffers);
    buffers.state = tensors_bytes(set, info->state_bytes);
    status = gsc_raster_project(context, args, &buffers, out, info, NULL);
    if (status != GSC_OK) return status;
    size_t bytes = intersections ? intersections : info->intersections_bytes;
    buffers.intersections = tensors_bytes(set, bytes);
    buffers.scratch = tensors_bytes(set, info->forward_scratch_bytes);
    return gsc_raster_blend(context, args, &buffers, out, info, NULL, NULL);
}

static gsc_status finish(gsc_status status, const tensors *set) {
    if (status != GSC_OK) return status;
    return tensors_guarded(set) ? GSC_OK : GSC_ERROR_INTERNAL;
}

gsc_status library_forward(gsc_context *context, const scene *s, const library_options *options,
                           frame *f, gsc_raster_info *info) {
    tensors set = {0};
    shapes d = shapes_of(s, options);
    GSC_INIT(gsc_raster_args, args);
    GSC_INIT(gsc_raster_outputs, out);
    GSC_INIT(gsc_raster_info, own_info);
    set_args(s, &d, &set, &args);
    set_outputs(s, &d, &set, f, &out);
    gsc_status status;
    if (options && options->two_steps) {
        status = two_steps(context, &args, &out, options->intersections, &set, &own_info);
        if (info) *info = own_info;
    } else {
        status = gsc_rasterize(context, &args, &out, NULL, NULL);
    }
    status = finish(status, &set);
    if (status == GSC_OK) read_outputs(&out, f);
    tensors_free(&set);
    return status;
}

static void set_upstream(const scene *s, const shapes *d, tensors *set, const gradients *g,
                         gsc_raster_grads *grads) {
    const int64_t first[] = {d->c, d->channels, d->h, d->w};
    const int64_t last[] = {d->c, d->h, d->w, d->channels};
    const int64_t pixels[] = {d->c, d->h, d->w};
    grads->color =
        tensors_input(set, g->grad_color, 4, s->flags & GSC_RASTER_PIXEL_LAST ? last : first);
    grads->alpha = tensors_input(set, g->grad_alpha, 3, pixels);
    grads->depth = tensors_input(set, g->grad_depth, 3, pixels);
    grads->inv_depth = tensors_input(set, g->grad_inv_depth, 3, pixels);
}

static void set_grads(const scene *s, const shapes *d, tensors *set, const gradients *g,
                      gsc_raster_grads *grads) {
    const int64_t n3[] = {d->n, 3}, n4[] = {d->n, 4}, n6[] = {d->n, 6}, n1[] = {d->n, 1};
    const int64_t twos[] = {d->c, d->n, 2}, matrices[] = {d->c, 4, 4}, threes[] = {d->c, 3};
    const int64_t background[] = {d->background_rows, d->channels};
    const int64_t colors[] = {d->colors_rows, d->n, d->channels};
    grads->means = tensors_output(set, g->means, 2, n3);
    grads->opacities = tensors_output(set, g->opacities, d->c < 0 ? 1 : 2, n1);
    grads->scales = tensors_output(set, g->scales, 2, n3);
    grads->rotations = tensors_output(set, g->rotations, 2, n4);
    grads->covariances = tensors_output(set, g->covariances, 2, n6);
    grads->colors = tensors_output(set, g->colors, 3, colors);
    grads->means2d = tensors_output(set, g->means2d, 3, twos);
    grads->means2d_abs = tensors_output(set, g->means2d_abs, 3, twos);
    grads->view = tensors_output(set, g->view, 3, matrices);
    grads->position = tensors_output(set, g->position, 2, threes);
    grads->background = tensors_output(set, g->background, 2, background);
    if (!g->sh) return;
    const int64_t whole[] = {d->n, d->k, 3}, dc[] = {d->n, 1, 3}, others[] = {d->n, d->k - 1, 3};
    if (s->sh_split) grads->sh_dc = tensors_output(set, g->sh, 3, dc);
    if (!s->sh_split || d->k > 1) {
        grads->sh = tensors_output(set, g->sh, 3, s->sh_split ? others : whole);
    }
}

static void read_grads(const scene *s, const gsc_raster_grads *grads, gradients *g) {
    tensors_read(grads->means, g->means);
    tensors_read(grads->opacities, g->opacities);
    tensors_read(grads->scales, g->scales);
    tensors_read(grads->rotations, g->rotations);
    tensors_read(grads->covariances, g->covariances);
    tensors_read(grads->colors, g->colors);
    tensors_read(grads->means2d, g->means2d);
    tensors_read(grads->means2d_abs, g->means2d_abs);
    tensors_read(grads->view, g->view);
    tensors_read(grads->position, g->position);
    tensors_read(grads->background, g->background);
    if (!grads->sh_dc) {
        tensors_read(grads->sh, g->sh);
        return;
    }
    size_t n = (size_t)s->gaussians, k = (size_t)s->sh_coefficients;
    double *dc = reals_alloc(3 * n), *rest = reals_alloc(3 * n * (k - 1));
    tensors_read(grads->sh_dc, dc);
    tensors_read(grads->sh, rest);
    cut_sh(s, g->sh, dc, rest, true);
    free(dc);
    free(rest);
}

gsc_status library_backward(gsc_context *context, const scene *s, const library_options *options,
                            gradients *g) {
    tensors set = {0};
    shapes d = shapes_of(s, options);
    GSC_INIT(gsc_raster_args, args);
    GSC_INIT(gsc_raster_outputs, out);
    GSC_INIT(gsc_raster_grads, grads);
    double *color = reals_alloc(scene_pixels(s) * (size_t)s->channels);
    const frame only_color = {.color = color};
    set_args(s, &d, &set, &args);
    set_outputs(s, &d, &set, &only_color, &out);
    set_upstream(s, &d, &set, g, &grads);
    set_grads(s, &d, &set, g, &grads);
    gsc_raster_saved *saved = NULL;
    gsc_status status = gsc_rasterize(context, &args, &out, &saved, NULL);
    if (status == GSC_OK) status = gsc_rasterize_backward(context, &args, saved, &grads, NULL);
    gsc_raster_saved_free(saved, NULL);
    status = finish(status, &set);
    if (status == GSC_OK) read_grads(s, &grads, g);
    tensors_free(&set);
    free(color);
    return status;
}

void library_expect_frame(gsc_context *context, const scene *s, frame *f) {
    frame_alloc(f, s, 1);
    expect_ok(library_forward(context, s, NULL, f, NULL));
}

void library_expect_gradients(gsc_context *context, const scene *s, gradients *g) {
    gradients_alloc(g, s);
    random_upstream(s, g, 1);
    expect_ok(library_backward(context, s, NULL, g));
}

void library_args(const scene *s, const library_options *options, tensors *set,
                  gsc_raster_args *args) {
    shapes d = shapes_of(s, options);
    set_args(s, &d, set, args);
}

void library_outputs(const scene *s, const library_options *options, tensors *set, const frame *f,
                     gsc_raster_outputs *out) {
    shapes d = shapes_of(s, options);
    set_outputs(s, &d, set, f, out);
}

void library_grads(const scene *s, const library_options *options, tensors *set, const gradients *g,
                   gsc_raster_grads *grads) {
    shapes d = shapes_of(s, options);
    set_upstream(s, &d, set, g, grads);
    set_grads(s, &d, set, g, grads);
}

static void mute(const scene *s, gradients *g, size_t pixel) {
    size_t area = (size_t)s->height * (size_t)s->width, channels = (size_t)s->channels;
    size_t camera = pixel / area, inside = pixel % area;
    for (size_t c = 0; g->grad_color && c < channels; c++) {
        bool last = (s->flags & GSC_RASTER_PIXEL_LAST) != 0;
        size_t first = (camera * channels + c) * area + inside;
        g->grad_color[last ? pixel * channels + c : first] = 0;
    }
    if (g->grad_alpha) g->grad_alpha[pixel] = 0;
    if (g->grad_depth) g->grad_depth[pixel] = 0;
    if (g->grad_inv_depth) g->grad_inv_depth[pixel] = 0;
}

/* One sample more or less changes alpha or depth far more than rounding does. */
int library_mute_flips(gsc_context *context, const scene *s, gradients *g) {
    size_t pixels = scene_pixels(s);
    frame got = {.color = reals_alloc(pixels * (size_t)s->channels)};
    frame wanted = {.alpha = reals_alloc(pixels), .depth = reals_alloc(pixels)};
    got.alpha = reals_alloc(pixels);
    got.depth = reals_alloc(pixels);
    int flips = 0;
    gsc_status status = library_forward(context, s, NULL, &got, NULL);
    reference_rasterize(s, &wanted);
    for (size_t p = 0; status == GSC_OK && p < pixels; p++) {
        if (fabs(got.alpha[p] - wanted.alpha[p]) < 3e-5 &&
            fabs(got.depth[p] - wanted.depth[p]) < 1e-4 * (1 + wanted.depth[p])) {
            continue;
        }
        mute(s, g, p);
        flips++;
    }
    frame_free(&got);
    frame_free(&wanted);
    return flips;
}
