/* Golden rasterizer cases in the library's terms. */
#include "golden.h"

#include <stdlib.h>
#include <string.h>

static bool is_gsplat(const golden_case *c) {
    return strcmp(golden_string(c, "op"), "gsplat.rasterization") == 0;
}

static bool is_variant(const golden_case *c, const char *variant) {
    return strcmp(golden_string(c, "variant"), variant) == 0;
}

/* One array [n, coefficients, 3] of the coefficient of degree 0 and the others. */
static double *join_sh(const double *dc, const double *rest, int n, int coefficients) {
    size_t row = (size_t)coefficients * 3;
    double *sh = reals_alloc((size_t)n * row);
    for (size_t i = 0; i < (size_t)n; i++) {
        memcpy(sh + i * row, dc + i * 3, 3 * sizeof *sh);
        memcpy(sh + i * row + 3, rest + i * (row - 3), (row - 3) * sizeof *sh);
    }
    return sh;
}

static void compat_scene(const golden_case *c, scene *s) {
    s->flags = GSC_RASTER_COMPAT_3DGS | GSC_RASTER_GRAD2D_NDC;
    if (golden_flag(c, "antialiasing")) s->flags |= GSC_RASTER_ANTIALIAS;
    s->width = (int)golden_number(c, "image_width", 0);
    s->height = (int)golden_number(c, "image_height", 0);
    s->channels = 3;
    s->cameras = 1;
    s->scale_modifier = (float)golden_number(c, "scale_modifier", 1);
    s->tan_fovx = (float)golden_number(c, "tanfovx", 0);
    s->tan_fovy = (float)golden_number(c, "tanfovy", 0);
    s->median_default = is_variant(c, "WD") ? 15.0f : 0.0f;
    s->gaussians = (int)golden_find(c, "in_means3D")->shape[0];
    s->view = golden_reals(c, "in_viewmatrix");
    s->projection = golden_reals(c, "in_projmatrix");
    s->position = golden_reals(c, "in_campos");
    s->background = golden_reals(c, "in_bg");
    s->pixel_weights = golden_reals(c, "in_pixel_weights");
    s->means = golden_reals(c, "in_means3D");
    s->opacities = golden_reals(c, "in_opacities");
    s->scales = golden_reals(c, "in_scales");
    s->rotations = golden_reals(c, "in_rotations");
    s->covariances = golden_reals(c, "in_cov3D_precomp");
    s->colors = golden_reals(c, "in_colors_precomp");
    const golden_array *shs = golden_find(c, "in_shs");
    if (!shs) return;
    s->sh = golden_reals(c, "in_shs");
    s->sh_coefficients = (int)shs->shape[1];
    double *dc = golden_reals(c, "in_dc");
    if (!dc) return;
    double *rest = s->sh;
    s->sh_coefficients++;
    s->sh_split = true;
    s->sh = join_sh(dc, rest, s->gaussians, s->sh_coefficients);
    free(rest);
    free(dc);
}

static double *intrinsics_of(const golden_case *c, int cameras) {
    double *k = golden_reals(c, "in_Ks"), *intrinsics = reals_alloc((size_t)cameras * 4);
    for (int i = 0; i < cameras; i++) {
        const double *m = k + 9 * i;
        const double row[4] = {m[0], m[4], m[2], m[5]};
        memcpy(intrinsics + 4 * i, row, sizeof row);
    }
    free(k);
    return intrinsics;
}

static void gsplat_scene(const golden_case *c, scene *s) {
    s->flags = GSC_RASTER_VIEW_ROW_MAJOR | GSC_RASTER_PIXEL_LAST;
    if (strcmp(golden_string(c, "rasterize_mode"), "antialiased") == 0) {
        s->flags |= GSC_RASTER_ANTIALIAS;
    }
    s->width = (int)golden_number(c, "width", 0);
    s->height = (int)golden_number(c, "height", 0);
    s->near_plane = (float)golden_number(c, "near_plane", 0);
    s->far_plane = (float)golden_number(c, "far_plane", 0);
    s->radius_clip = (float)golden_number(c, "radius_clip", 0);
    s->blur = (float)golden_number(c, "eps2d", 0);
    s->cameras = (int)golden_find(c, "in_viewmats")->shape[0];
    s->gaussians = (int)golden_find(c, "in_means")->shape[0];
    s->view = golden_reals(c, "in_viewmats");
    s->intrinsics = intrinsics_of(c, s->cameras);
    s->background = golden_reals(c, "in_backgrounds");
    s->means = golden_reals(c, "in_means");
    s->opacities = golden_reals(c, "in_opacities");
    s->scales = golden_reals(c, "in_scales");
    s->rotations = golden_reals(c, "in_quats");
    const golden_array *colors = golden_find(c, "in_colors");
    if (colors->ndim == 3) {
        s->sh = golden_reals(c, "in_colors");
        s->sh_coefficients = (int)colors->shape[1];
        s->channels = 3;
    } else {
        s->colors = golden_reals(c, "in_colors");
        s->channels = (int)colors->shape[1];
    }
}

void golden_scene(const golden_case *c, scene *s) {
    *s = (scene){0};
    s->colors_rows = 1;
    s->sh_degree = (int)golden_number(c, "sh_degree", 0);
    if (is_gsplat(c)) {
        gsplat_scene(c, s);
    } else {
        compat_scene(c, s);
    }
    s->background_rows = s->cameras;
}

/* Channels [first, first + count) of [pixels, row]; NULL if the image is. */
static double *take_channels(const double *image, size_t pixels, int row, int first, int count) {
    if (!image) return NULL;
    double *taken = reals_alloc(pixels * (size_t)count);
    for (size_t i = 0; i < pixels; i++) {
        memcpy(taken + i * (size_t)count, image + i * (size_t)row + first,
               (size_t)count * sizeof *taken);
    }
    return taken;
}

/* "", "D" (accumulated) or "ED" (divided by alpha), the depth after the colours. */
static const char *depth_mode(const golden_case *c) {
    const char *mode = golden_string(c, "render_mode");
    if (strcmp(mode, "RGB+D") == 0) return "D";
    return strcmp(mode, "RGB+ED") == 0 ? "ED" : "";
}

static void gsplat_frame(const golden_case *c, const scene *s, frame *f) {
    size_t pixels = scene_pixels(s);
    const char *mode = depth_mode(c);
    int row = s->channels + (mode[0] != 0);
    double *image = golden_reals(c, "out_render_colors");
    f->color = take_channels(image, pixels, row, 0, s->channels);
    f->alpha = golden_reals(c, "out_render_alphas");
    if (mode[0]) f->depth = take_channels(image, pixels, row, s->channels, 1);
    for (size_t i = 0; i < pixels && mode[0] == 'E'; i++) f->depth[i] *= f->alpha[i];
    free(image);
    f->radii = golden_ints(c, "out_radii");
    f->radii_axes = 2;
    f->means2d = golden_reals(c, "out_means2d");
    f->depths = golden_reals(c, "out_depths");
    f->conics = golden_reals(c, "out_conics");
    for (size_t i = 0; i < scene_splats(s); i++) { /* garbage where culled */
        if (f->radii[2 * i]) continue;
        f->means2d[2 * i] = f->means2d[2 * i + 1] = f->depths[i] = 0;
        f->conics[3 * i] = f->conics[3 * i + 1] = f->conics[3 * i + 2] = 0;
    }
}

static void compat_frame(const golden_case *c, frame *f) {
    f->color = golden_reals(c, "out_color");
    f->radii = golden_ints(c, "out_radii");
    f->radii_axes = 1;
    f->inv_depth = golden_reals(c, "out_invdepth");
    if (is_variant(c, "WD")) {
        f->median_depth = golden_reals(c, "out_depth");
    } else {
        f->depth = golden_reals(c, "out_depth");
    }
    f->alpha = golden_reals(c, is_variant(c, "WP") ? "out_opacity" : "out_alpha");
    f->touched = golden_ints(c, "out_n_touched");
    f->means2d = golden_reals(c, "out_centers");
    f->depths = golden_reals(c, "out_depths");
    f->weight_sum = golden_reals(c, "out_accum_weights");
    f->weight_count = golden_ints(c, "out_accum_count");
    f->weight_blend = golden_reals(c, "out_accum_blend");
    f->weight_distance = golden_reals(c, "out_accum_dist");
}

void golden_frame(const golden_case *c, const scene *s, frame *f) {
    *f = (frame){0};
    if (is_gsplat(c)) {
        gsplat_frame(c, s, f);
    } else {
        compat_frame(c, f);
    }
}

static void gsplat_upstream(const golden_case *c, const scene *s, const frame *f, gradients *g) {
    size_t pixels = scene_pixels(s);
    const char *mode = depth_mode(c);
    int row = s->channels + (mode[0] != 0);
    double *grad_image = golden_reals(c, "in_grad_render_colors");
    g->grad_color = take_channels(grad_image, pixels, row, 0, s->channels);
    g->grad_alpha = golden_reals(c, "in_grad_render_alphas");
    if (mode[0]) g->grad_depth = take_channels(grad_image, pixels, row, s->channels, 1);
    for (size_t i = 0; i < pixels && mode[0] == 'E'; i++) {
        double alpha = f->alpha[i];
        if (alpha > 0) g->grad_alpha[i] -= g->grad_depth[i] * f->depth[i] / (alpha * alpha);
        g->grad_depth[i] = alpha > 0 ? g->grad_depth[i] / alpha : 0;
    }
    free(grad_image);
}

void golden_upstream(const golden_case *c, const scene *s, const frame *f, gradients *g) {
    if (is_gsplat(c)) {
        gsplat_upstream(c, s, f, g);
        return;
    }
    g->grad_color = golden_reals(c, "in_grad_color");
    g->grad_alpha = golden_reals(c, "in_grad_alpha");
    g->grad_depth = golden_reals(c, "in_grad_depth");
    g->grad_inv_depth = golden_reals(c, "in_grad_invdepth");
}

void golden_gradients(const golden_case *c, const scene *s, gradients *g) {
    *g = (gradients){0};
    size_t n = (size_t)s->gaussians;
    g->opacities = golden_reals(c, "grad_opacities");
    g->scales = golden_reals(c, "grad_scales");
    if (is_gsplat(c)) {
        g->means = golden_reals(c, "grad_means");
        g->rotations = golden_reals(c, "grad_quats");
        g->view = golden_reals(c, "grad_viewmats");
        *(s->sh ? &g->sh : &g->colors) = golden_reals(c, "grad_colors");
        return;
    }
    g->means = golden_reals(c, "grad_means3D");
    g->rotations = golden_reals(c, "grad_rotations");
    g->covariances = golden_reals(c, "grad_cov3D_precomp");
    g->colors = golden_reals(c, "grad_colors_precomp");
    g->sh = golden_reals(c, "grad_shs");
    double *dc = golden_reals(c, "grad_dc");
    if (dc) {
        double *rest = g->sh;
        g->sh = join_sh(dc, rest, s->gaussians, s->sh_coefficients);
        free(rest);
        free(dc);
    }
    double *means2d = golden_reals(c, "grad_means2D");
    g->means2d = take_channels(means2d, n, 3, 0, 2);
    free(means2d);
}
