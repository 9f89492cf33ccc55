#include "raster_scene.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* SplitMix64 (Steele et al. 2014). */
double raster_random(uint64_t *state, double low, double high) {
    uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    z ^= z >> 31;
    return low + (high - low) * ((double)(z >> 11) * 0x1p-53);
}

static void fill(double *values, size_t count, uint64_t *random, double low, double high) {
    for (size_t i = 0; i < count; i++) values[i] = raster_random(random, low, high);
}

static int or_int(int value, int fallback) {
    return value ? value : fallback;
}

static double or_real(double value, double fallback) {
    return value != 0 ? value : fallback;
}

/* fx fy cx cy */
static void pinhole(const scene *s, const raster_scene_options *o, double k[4]) {
    k[0] = 0.9 * s->width;
    k[1] = 1.05 * s->width;
    k[2] = s->width * (0.5 + o->off_centre);
    k[3] = s->height * (0.5 - 0.7 * o->off_centre);
}

static size_t at(const scene *s, int row, int column) {
    bool by_rows = (s->flags & GSC_RASTER_VIEW_ROW_MAJOR) != 0;
    return (size_t)(by_rows ? 4 * row + column : 4 * column + row);
}

/* Rodrigues' rotation by a vector. */
static void rotation_of(const double v[3], double r[3][3]) {
    double angle = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    double a = angle > 0 ? sin(angle) / angle : 1;
    double b = angle > 0 ? (1 - cos(angle)) / (angle * angle) : 0.5;
    const double k[3][3] = {{0, -v[2], v[1]}, {v[2], 0, -v[0]}, {-v[1], v[0], 0}};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            r[i][j] = (i == j) + a * k[i][j];
            for (int m = 0; m < 3; m++) r[i][j] += b * k[i][m] * k[m][j];
        }
    }
}

static void make_views(scene *s, const raster_scene_options *o, uint64_t *random) {
    const double base[3] = {0.4, -0.7, 0.3};
    s->view = reals_alloc(16 * (size_t)s->cameras);
    if (o->position) s->position = reals_alloc(3 * (size_t)s->cameras);
    for (int c = 0; c < s->cameras; c++) {
        double vector[3], r[3][3], t[3], *view = s->view + 16 * c;
        for (int k = 0; k < 3; k++) {
            vector[k] = base[k] + (c ? raster_random(random, -0.1, 0.1) : 0);
            t[k] = 0.2 * k + raster_random(random, -0.2, 0.2);
        }
        rotation_of(vector, r);
        for (int i = 0; i < 3; i++) {
            for (int j = 0; j < 3; j++) view[at(s, i, j)] = r[i][j];
            view[at(s, i, 3)] = t[i];
        }
        view[at(s, 3, 3)] = 1;
        for (int k = 0; k < 3 && s->position; k++) {
            s->position[3 * c + k] = raster_random(random, -1, 1);
        }
    }
}

void raster_scene_project(scene *s, const raster_scene_options *o) {
    double k[4];
    pinhole(s, o, k);
    const double w = s->width, h = s->height, near = 0.01, far = 100;
    const double p[4][4] = {{2 * k[0] / w, 0, 2 * k[2] / w - 1, 0},
                            {0, 2 * k[1] / h, 2 * k[3] / h - 1, 0},
                            {0, 0, far / (far - near), -far * near / (far - near)},
                            {0, 0, 1, 0}};
    for (int c = 0; c < s->cameras; c++) {
        const double *view = s->view + 16 * c;
        for (int i = 0; i < 4; i++) {
            for (int j = 0; j < 4; j++) {
                double sum = 0;
                for (int m = 0; m < 4; m++) sum += p[i][m] * view[at(s, m, j)];
                s->projection[16 * c + (int)at(s, i, j)] = sum;
            }
        }
    }
}

void raster_scene_move_view(const scene *s, const double screw[6], const double *view,
                            double *moved) {
    double r[3][3];
    rotation_of(screw, r);
    memcpy(moved, view, 16 * sizeof *moved);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 4; j++) {
            double sum = j == 3 ? screw[3 + i] : 0;
            for (int m = 0; m < 3; m++) sum += r[i][m] * view[at(s, m, j)];
            moved[at(s, i, j)] = sum;
        }
    }
}

void raster_scene_view_slope(const scene *s, const double screw[6], const double *view,
                             double *slope) {
    const double *v = screw;
    const double k[3][3] = {{0, -v[2], v[1]}, {v[2], 0, -v[0]}, {-v[1], v[0], 0}};
    memset(slope, 0, 16 * sizeof *slope);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 4; j++) {
            double sum = j == 3 ? screw[3 + i] : 0;
            for (int m = 0; m < 3; m++) sum += k[i][m] * view[at(s, m, j)];
            slope[at(s, i, j)] = sum;
        }
    }
}

static void make_cameras(scene *s, const raster_scene_options *o, uint64_t *random) {
    make_views(s, o, random);
    if (o->projection) {
        double k[4];
        pinhole(s, o, k);
        s->tan_fovx = (float)(s->width / (2 * k[0]));
        s->tan_fovy = (float)(s->height / (2 * k[1]));
        s->projection = reals_alloc(16 * (size_t)s->cameras);
        raster_scene_project(s, o);
        return;
    }
    s->intrinsics = reals_alloc(4 * (size_t)s->cameras);
    for (int c = 0; c < s->cameras; c++) pinhole(s, o, s->intrinsics + 4 * c);
}

/* Means over the image of the first camera, deviations in its pixels. */
static void make_geometry(scene *s, const raster_scene_options *o, uint64_t *random) {
    double k[4], spread = or_real(o->spread, 1);
    pinhole(s, o, k);
    size_t n = (size_t)s->gaussians;
    s->means = reals_alloc(3 * n);
    s->scales = reals_alloc(3 * n);
    s->rotations = reals_alloc(4 * n);
    for (size_t i = 0; i < n; i++) {
        double z = raster_random(random, or_real(o->depth_min, 2), or_real(o->depth_max, 6));
        double x = s->width * (0.5 + spread * raster_random(random, -0.5, 0.5));
        double y = s->height * (0.5 + spread * raster_random(random, -0.5, 0.5));
        const double p[3] = {(x - k[2]) / k[0] * z, (y - k[3]) / k[1] * z, z};
        double norm = 0;
        for (int j = 0; j < 3; j++) {
            for (int m = 0; m < 3; m++) {
                s->means[3 * i + (size_t)j] += s->view[at(s, m, j)] * (p[m] - s->view[at(s, m, 3)]);
            }
            double size =
                raster_random(random, log(or_real(o->size_min, 1.5)), log(or_real(o->size_max, 6)));
            s->scales[3 * i + (size_t)j] = exp(size) * z / k[0];
        }
        double *q = s->rotations + 4 * i;
        fill(q, 4, random, -1, 1);
        for (int j = 0; j < 4; j++) norm += q[j] * q[j];
        /* The compat covariance depends on the quaternion's length: keep it near 1 there. */
        double length = raster_random(random, 0.97, 1.03);
        if (!(s->flags & GSC_RASTER_COMPAT_3DGS)) length = raster_random(random, 0.5, 2);
        for (int j = 0; j < 4; j++) q[j] *= length / sqrt(norm);
    }
}

/* Replaces scales and rotations by R diag(scales^2) R^T. */
static void make_covariances(scene *s) {
    size_t n = (size_t)s->gaussians;
    s->covariances = reals_alloc(6 * n);
    for (size_t i = 0; i < n; i++) {
        const double *q = s->rotations + 4 * i, *scale = s->scales + 3 * i;
        double norm = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
        double angle = 2 * acos(q[0] / norm), sine = sqrt(1 - q[0] * q[0] / (norm * norm));
        double v[3], r[3][3];
        for (int k = 0; k < 3; k++) v[k] = q[k + 1] / norm / sine * angle;
        rotation_of(v, r);
        for (int a = 0, m = 0; a < 3; a++) {
            for (int b = a; b < 3; b++, m++) {
                for (int k = 0; k < 3; k++) {
                    s->covariances[6 * i + (size_t)m] += r[a][k] * scale[k] * scale[k] * r[b][k];
                }
            }
        }
    }
}

static void make_appearance(scene *s, const raster_scene_options *o, uint64_t *random) {
    size_t n = (size_t)s->gaussians;
    s->opacities = reals_alloc(n);
    fill(s->opacities, n, random, or_real(o->opacity_min, 0.2), or_real(o->opacity_max, 0.9));
    s->colors_rows = o->colors_per_camera ? s->cameras : 1;
    if (o->sh_coefficients) {
        s->sh = reals_alloc(3 * n * (size_t)o->sh_coefficients);
        fill(s->sh, 3 * n * (size_t)o->sh_coefficients, random, -1.2, 1.2);
    } else {
        size_t count = (size_t)s->colors_rows * n * (size_t)s->channels;
        s->colors = reals_alloc(count);
        fill(s->colors, count, random, -0.2, 1);
    }
    s->background_rows = o->background_rows ? o->background_rows : 1;
    if (!o->background_rows) return;
    s->background = reals_alloc((size_t)(o->background_rows * s->channels));
    fill(s->background, (size_t)(o->background_rows * s->channels), random, 0, 1);
}

void raster_scene_make(scene *s, const raster_scene_options *o) {
    uint64_t random = o->seed;
    memset(s, 0, sizeof *s);
    s->flags = o->flags;
    s->width = or_int(o->width, 37);
    s->height = or_int(o->height, 29);
    s->channels = o->sh_coefficients ? 3 : or_int(o->channels, 3);
    s->gaussians = o->gaussians < 0 ? 0 : or_int(o->gaussians, 10);
    s->cameras = or_int(o->cameras, 1);
    s->sh_degree = o->sh_degree;
    s->sh_coefficients = o->sh_coefficients;
    s->sh_split = o->sh_split;
    s->scale_modifier = o->scale_modifier;
    s->blur = o->blur;
    make_cameras(s, o, &random);
    make_geometry(s, o, &random);
    make_appearance(s, o, &random);
    scene_store(s);
    if (!o->covariances) return;
    make_covariances(s);
    free(s->scales);
    free(s->rotations);
    s->scales = s->rotations = NULL;
}

void raster_scene_upstream(const scene *s, unsigned which, uint64_t seed, gradients *g) {
    size_t pixels = scene_pixels(s), channels = (size_t)s->channels;
    double **upstream[4] = {&g->grad_color, &g->grad_alpha, &g->grad_depth, &g->grad_inv_depth};
    for (int i = 0; i < 4; i++) {
        uint64_t random = seed + (uint64_t)i;
        if (!(which >> i & 1)) continue;
        size_t count = i == 0 ? pixels * channels : pixels;
        *upstream[i] = reals_alloc(count);
        fill(*upstream[i], count, &random, -1, 1);
    }
}
