#include "random_scene.h"

#include "library.h"
#include "random.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

double random_uniform(random_source *r, double low, double high) {
    return low + (high - low) * (double)(xorshift64(&r->state) >> 11) / 9007199254740992.0;
}

double random_normal(random_source *r) {
    double radius = sqrt(-2 * log(random_uniform(r, 1e-300, 1)));
    return radius * cos(2 * pi * random_uniform(r, 0, 1));
}

static void random_rotation(random_source *r, double m[3][3]) {
    double q[4], norm = 0;
    for (int k = 0; k < 4; k++) {
        q[k] = random_normal(r);
        norm += q[k] * q[k];
    }
    for (int k = 0; k < 4; k++) q[k] /= sqrt(norm);
    double w = q[0], x = q[1], y = q[2], z = q[3];
    const double full[3][3] = {
        {w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)},
        {2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)},
        {2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z},
    };
    memcpy(m, full, sizeof full);
}

static double *matrix_element(const scene *s, double *matrices, int camera, int row, int column) {
    bool by_rows = (s->flags & GSC_RASTER_VIEW_ROW_MAJOR) != 0;
    return matrices + 16 * camera + (by_rows ? 4 * row + column : 4 * column + row);
}

/* World-to-clip matrix of a pinhole camera [fx fy cx cy] in pixels. */
static void set_projection(const scene *s, int camera, const double k[4]) {
    double pinhole[4][4] = {{2 * k[0] / s->width, 0, 2 * k[2] / s->width - 1, 0},
                            {0, 2 * k[1] / s->height, 2 * k[3] / s->height - 1, 0},
                            {0, 0, 1.0001, -0.01},
                            {0, 0, 1, 0}};
    for (int row = 0; row < 4; row++) {
        for (int column = 0; column < 4; column++) {
            double sum = 0;
            for (int m = 0; m < 4; m++) {
                sum += pinhole[row][m] * *matrix_element(s, s->view, camera, m, column);
            }
            *matrix_element(s, s->projection, camera, row, column) = sum;
        }
    }
}

/* Somewhere around the origin at the given distance, looking near it. */
static void set_camera(random_source *r, const random_scene_options *o, scene *s, int camera) {
    double rotation[3][3], distance = o->distance == 0 ? 3 : o->distance;
    random_rotation(r, rotation);
    double translation[3] = {random_uniform(r, -0.2, 0.2), random_uniform(r, -0.2, 0.2), distance};
    for (int a = 0; a < 3; a++) {
        for (int b = 0; b < 3; b++) {
            *matrix_element(s, s->view, camera, a, b) = rotation[a][b];
            if (s->position) s->position[3 * camera + b] -= rotation[a][b] * translation[a];
        }
        *matrix_element(s, s->view, camera, a, 3) = translation[a];
    }
    *matrix_element(s, s->view, camera, 3, 3) = 1;
    double shift = o->off_centre ? random_uniform(r, 0.15, 0.3) : 0;
    const double k[4] = {s->width / (2 * (double)s->tan_fovx),
                         s->height / (2 * (double)s->tan_fovy), s->width * (0.5 + shift),
                         s->height * (0.5 - shift)};
    if (s->projection) {
        set_projection(s, camera, k);
    } else {
        memcpy(s->intrinsics + 4 * camera, k, sizeof k);
    }
}

static void set_shape(random_source *r, const random_scene_options *o, scene *s, int i) {
    double largest = o->deviation == 0 ? 0.5 : o->deviation, rotation[3][3], axes[3];
    for (int k = 0; k < 3; k++) axes[k] = largest * pow(50, -random_uniform(r, 0, 1));
    if (!o->covariances) {
        double size = s->flags & GSC_RASTER_COMPAT_3DGS ? 0.55 : 2;
        for (int k = 0; k < 3; k++) s->scales[3 * i + k] = axes[k];
        for (int k = 0; k < 4; k++) s->rotations[4 * i + k] = size * random_normal(r);
        return;
    }
    random_rotation(r, rotation);
    const int rows[6] = {0, 0, 0, 1, 1, 2}, columns[6] = {0, 1, 2, 1, 2, 2};
    for (int e = 0; e < 6; e++) {
        for (int k = 0; k < 3; k++) {
            s->covariances[6 * i + e] +=
                rotation[rows[e]][k] * axes[k] * axes[k] * rotation[columns[e]][k];
        }
    }
}

static void set_gaussians(random_source *r, const random_scene_options *o, scene *s) {
    static const double special[] = {0, 0.0038, 0.0035, 0.9999, 1, 1.5, -0.1, 0.0041};
    const int specials = (int)(sizeof special / sizeof *special);
    for (int i = 0; i < s->gaussians; i++) {
        for (int k = 0; k < 3; k++) s->means[3 * i + k] = 1.4 * random_normal(r);
        set_shape(r, o, s, i);
        bool usual = random_uniform(r, 0, 1) < 0.9;
        s->opacities[i] = usual ? random_uniform(r, 0.01, 1) : special[i % specials];
    }
    size_t colors = (size_t)s->colors_rows * (size_t)s->gaussians * (size_t)s->channels;
    for (size_t k = 0; s->colors && k < colors; k++) s->colors[k] = random_uniform(r, -0.3, 1.2);
    size_t coefficients = (size_t)s->gaussians * (size_t)s->sh_coefficients * 3;
    for (size_t k = 0; s->sh && k < coefficients; k++) s->sh[k] = 0.4 * random_normal(r);
}

static void set_sizes(const random_scene_options *o, scene *s) {
    *s = (scene){.flags = o->flags,
                 .scale_modifier = o->scale_modifier,
                 .near_plane = o->near_plane,
                 .far_plane = o->far_plane,
                 .radius_clip = o->radius_clip,
                 .blur = o->blur,
                 .median_default = o->median_default,
                 .sh_split = o->sh_split};
    s->width = o->width ? o->width : 70;
    s->height = o->height ? o->height : 50;
    s->gaussians = o->gaussians < 0 ? 0 : o->gaussians ? o->gaussians : 200;
    s->cameras = o->cameras ? o->cameras : 1;
    s->channels = o->channels ? o->channels : 3;
    s->sh_degree = o->sh_degree;
    s->background_rows = o->background == 2 ? s->cameras : 1;
    s->colors_rows = o->color_per_camera ? s->cameras : 1;
    s->tan_fovx = 0.6f;
    s->tan_fovy = 0.45f;
    if (!o->channels) s->sh_coefficients = (o->sh_degree + 1) * (o->sh_degree + 1) + o->sh_more;
}

static void alloc_arrays(const random_scene_options *o, scene *s) {
    size_t n = (size_t)s->gaussians, cameras = (size_t)s->cameras, channels = (size_t)s->channels;
    s->view = reals_alloc(16 * cameras);
    *(o->projection ? &s->projection : &s->intrinsics) = reals_alloc(16 * cameras);
    if (o->position) s->position = reals_alloc(3 * cameras);
    if (o->background) s->background = reals_alloc((size_t)s->background_rows * channels);
    if (o->pixel_weights) s->pixel_weights = reals_alloc(scene_pixels(s));
    s->means = reals_alloc(3 * n);
    s->opacities = reals_alloc(n);
    if (o->covariances) s->covariances = reals_alloc(6 * n);
    if (!o->covariances) s->scales = reals_alloc(3 * n);
    if (!o->covariances) s->rotations = reals_alloc(4 * n);
    if (o->channels) s->colors = reals_alloc((size_t)s->colors_rows * n * channels);
    if (!o->channels) s->sh = reals_alloc(n * (size_t)s->sh_coefficients * 3);
}

void random_scene(scene *s, const random_scene_options *o) {
    random_source r = {o->seed + UINT64_C(0x9E3779B97F4A7C15)};
    set_sizes(o, s);
    alloc_arrays(o, s);
    for (int camera = 0; camera < s->cameras; camera++) set_camera(&r, o, s, camera);
    size_t background = (size_t)s->background_rows * (size_t)s->channels;
    for (size_t i = 0; s->background && i < background; i++) {
        s->background[i] = random_uniform(&r, 0, 1);
    }
    for (size_t i = 0; s->pixel_weights && i < scene_pixels(s); i++) {
        s->pixel_weights[i] = random_uniform(&r, 0, 2);
    }
    set_gaussians(&r, o, s);
    scene_store(s);
    library_round(s);
}

void random_upstream(const scene *s, gradients *g, uint64_t seed) {
    random_source r = {seed + UINT64_C(0xD1B54A32D192ED03)};
    size_t pixels = scene_pixels(s), values = pixels * (size_t)s->channels;
    g->grad_color = reals_alloc(values);
    g->grad_alpha = reals_alloc(pixels);
    g->grad_depth = reals_alloc(pixels);
    g->grad_inv_depth = reals_alloc(pixels);
    for (size_t i = 0; i < values; i++) g->grad_color[i] = random_normal(&r);
    for (size_t i = 0; i < pixels; i++) {
        g->grad_alpha[i] = random_normal(&r);
        g->grad_depth[i] = random_normal(&r);
        g->grad_inv_depth[i] = random_normal(&r);
    }
}

void simple_scene(scene *s, int n, int width, int height, uint32_t flags) {
    *s = (scene){.flags = flags,
                 .width = width,
                 .height = height,
                 .channels = 3,
                 .cameras = 1,
                 .gaussians = n,
                 .background_rows = 1,
                 .colors_rows = 1};
    s->view = reals_alloc(16);
    for (int k = 0; k < 4; k++) s->view[5 * k] = 1;
    const double intrinsics[4] = {40, 40, width / 2.0, height / 2.0};
    s->intrinsics = reals_alloc(4);
    memcpy(s->intrinsics, intrinsics, sizeof intrinsics);
    s->background = reals_alloc(3);
    for (int k = 0; k < 3; k++) s->background[k] = 0.25 * (k + 1);
    s->means = reals_alloc(3 * (size_t)n);
    s->opacities = reals_alloc((size_t)n);
    s->scales = reals_alloc(3 * (size_t)n);
    s->rotations = reals_alloc(4 * (size_t)n);
    s->colors = reals_alloc(3 * (size_t)n);
    for (int i = 0; i < n; i++) {
        s->means[3 * i + 2] = 4;
        s->opacities[i] = 0.8;
        s->rotations[4 * i] = 1;
        for (int k = 0; k < 3; k++) s->scales[3 * i + k] = 0.2;
        for (int k = 0; k < 3; k++) s->colors[3 * i + k] = 0.5;
    }
    library_round(s);
}
