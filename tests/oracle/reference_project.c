#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double or_default(double value, double fallback) {
    return value == 0 ? fallback : value;
}

static bool is_compat(const scene *s) {
    return (s->flags & GSC_RASTER_COMPAT_3DGS) != 0;
}

/* Row-and-column access to a camera's matrix, whichever way it is stored. */
static double entry(const scene *s, const double *matrices, int camera, int row, int column) {
    const double *m = matrices + 16 * camera;
    return s->flags & GSC_RASTER_VIEW_ROW_MAJOR ? m[4 * row + column] : m[4 * column + row];
}

static double dot3(const double *a, const double *b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* A projection holds the pinhole times the view, so that rows of clip dotted with rows
 * of the rotation are the pinhole's entries. */
static void load_pinhole(const scene *s, int camera, reference_camera *c) {
    if (s->intrinsics) {
        const double *k = s->intrinsics + 4 * camera;
        c->fx = k[0], c->fy = k[1], c->cx = k[2], c->cy = k[3];
        return;
    }
    const int rows[3] = {0, 1, 3};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 4; j++) c->clip[i][j] = entry(s, s->projection, camera, rows[i], j);
    }
    if (is_compat(s)) {
        c->grad_clip = true;
        c->fx = s->width / (2 * (double)s->tan_fovx);
        c->fy = s->height / (2 * (double)s->tan_fovy);
        c->cx = s->width / 2.0;
        c->cy = s->height / 2.0;
        return;
    }
    double w = dot3(c->clip[2], c->rotation[2]);
    c->fx = dot3(c->clip[0], c->rotation[0]) / w * s->width / 2;
    c->fy = dot3(c->clip[1], c->rotation[1]) / w * s->height / 2;
    c->cx = (1 + dot3(c->clip[0], c->rotation[2]) / w) * s->width / 2;
    c->cy = (1 + dot3(c->clip[1], c->rotation[2]) / w) * s->height / 2;
}

void reference_camera_load(const scene *s, int camera, reference_camera *c) {
    memset(c, 0, sizeof *c);
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) c->rotation[i][j] = entry(s, s->view, camera, i, j);
        c->translation[i] = entry(s, s->view, camera, i, 3);
    }
    for (int j = 0; j < 3; j++) {
        for (int i = 0; i < 3; i++) c->position[j] -= c->rotation[i][j] * c->translation[i];
        if (s->position) c->position[j] = s->position[3 * camera + j];
    }
    load_pinhole(s, camera, c);
    double tan_x = s->width / (2 * c->fx), tan_y = s->height / (2 * c->fy);
    if (is_compat(s) && s->projection) {
        c->high[0] = 1.3 * tan_x, c->high[1] = 1.3 * tan_y;
        c->low[0] = -c->high[0], c->low[1] = -c->high[1];
    } else {
        c->low[0] = -c->cx / c->fx - 0.3 * tan_x;
        c->low[1] = -c->cy / c->fy - 0.3 * tan_y;
        c->high[0] = (s->width - c->cx) / c->fx + 0.3 * tan_x;
        c->high[1] = (s->height - c->cy) / c->fy + 0.3 * tan_y;
    }
}

void reference_rotation(const double q[4], double r[3][3]) {
    double w = q[0], x = q[1], y = q[2], z = q[3];
    const double m[3][3] = {
        {1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
        {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
        {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)},
    };
    memcpy(r, m, sizeof m);
}

double reference_scale(const scene *s, int i, int axis) {
    double stored = s->scales[3 * i + axis];
    return s->flags & GSC_RASTER_LOG_SCALES ? exp(stored) : stored;
}

double reference_opacity(const scene *s, int i) {
    double stored = s->opacities[i];
    return s->flags & GSC_RASTER_LOGIT_OPACITIES ? 1 / (1 + exp(-stored)) : stored;
}

static void load_sigma(const scene *s, int i, double sigma[3][3]) {
    if (s->covariances) {
        const double *c = s->covariances + 6 * i;
        const double full[3][3] = {{c[0], c[1], c[2]}, {c[1], c[3], c[4]}, {c[2], c[4], c[5]}};
        memcpy(sigma, full, sizeof full);
        return;
    }
    double q[4], r[3][3], modifier = or_default((double)s->scale_modifier, 1);
    memcpy(q, s->rotations + 4 * i, sizeof q);
    double norm = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    if (!is_compat(s)) {
        for (int k = 0; k < 4; k++) q[k] = norm == 0 ? k == 0 : q[k] / norm;
    }
    reference_rotation(q, r);
    for (int a = 0; a < 3; a++) {
        for (int b = 0; b < 3; b++) {
            sigma[a][b] = 0;
            for (int k = 0; k < 3; k++) {
                double deviation = modifier * reference_scale(s, i, k);
                sigma[a][b] += r[a][k] * deviation * deviation * r[b][k];
            }
        }
    }
}

static bool project_mean(const scene *s, const reference_camera *c, const double *mean,
                         reference_splat *p) {
    for (int i = 0; i < 3; i++) p->point[i] = dot3(c->rotation[i], mean) + c->translation[i];
    double z = p->point[2];
    if (!(z > or_default((double)s->near_plane, 0.2))) return false;
    if (s->far_plane != 0 && z > (double)s->far_plane) return false;
    if (!c->grad_clip) {
        double half = is_compat(s) ? 0.5 : 0;
        p->x = c->fx * p->point[0] / z + c->cx - half;
        p->y = c->fy * p->point[1] / z + c->cy - half;
        return isfinite(p->x) && isfinite(p->y) && isfinite(z);
    }
    double h[3];
    for (int i = 0; i < 3; i++) h[i] = dot3(c->clip[i], mean) + c->clip[i][3];
    p->x = ((h[0] / (h[2] + 1e-7) + 1) * s->width - 1) / 2;
    p->y = ((h[1] / (h[2] + 1e-7) + 1) * s->height - 1) / 2;
    return isfinite(p->x) && isfinite(p->y) && isfinite(z);
}

static void project_covariance(const reference_camera *c, reference_splat *p) {
    double z = p->point[2], f[2] = {c->fx, c->fy}, t[2][3];
    for (int a = 0; a < 2; a++) {
        double ratio = p->point[a] / z;
        p->clamped[a] = ratio < c->low[a] || ratio > c->high[a];
        p->ratio[a] = fmin(fmax(ratio, c->low[a]), c->high[a]);
        for (int k = 0; k < 3; k++) p->jacobian[a][k] = 0;
        p->jacobian[a][a] = f[a] / z;
        p->jacobian[a][2] = -f[a] * p->ratio[a] / z;
        for (int k = 0; k < 3; k++) {
            t[a][k] = p->jacobian[a][a] * c->rotation[a][k] + p->jacobian[a][2] * c->rotation[2][k];
        }
    }
    double full[2][2];
    for (int a = 0; a < 2; a++) {
        for (int b = 0; b < 2; b++) {
            double rows[3];
            for (int k = 0; k < 3; k++) rows[k] = dot3(p->sigma[k], t[b]);
            full[a][b] = dot3(t[a], rows);
        }
    }
    p->sharp[0] = full[0][0], p->sharp[1] = full[0][1], p->sharp[2] = full[1][1];
}

static double determinant(const double m[3]) {
    return m[0] * m[2] - m[1] * m[1];
}

/* False if the blurred covariance is no ellipse. */
static bool blur_and_invert(const scene *s, double opacity, reference_splat *p) {
    double blur = s->blur < 0 ? 0 : or_default((double)s->blur, 0.3);
    memcpy(p->blurred, p->sharp, sizeof p->blurred);
    p->blurred[0] += blur;
    p->blurred[2] += blur;
    double det = determinant(p->blurred);
    if (!(det > 0) || !isfinite(det) || !(p->blurred[0] > 0)) return false;
    p->conic[0] = p->blurred[2] / det;
    p->conic[1] = -p->blurred[1] / det;
    p->conic[2] = p->blurred[0] / det;
    p->compensation = 1;
    double sharp = determinant(p->sharp);
    if (s->flags & GSC_RASTER_COMPAT_MIP) {
        p->compensation = sharp > 1e-6 && det > 1e-6 ? sqrt(sharp / (det + 1e-6) + 1e-6) : 0;
    } else if (s->flags & GSC_RASTER_ANTIALIAS) {
        p->compensation = sqrt(fmax(2.5e-5, sharp / det));
    }
    p->opacity = opacity * p->compensation;
    return isfinite(p->opacity);
}

static int clamp_tile(double value, int tiles) {
    return (int)fmin(fmax(trunc(value / 16), 0), tiles);
}

/* The original's square of three standard deviations, widened to 16x16 tiles. */
static bool compat_extent(const scene *s, reference_splat *p) {
    double mid = (p->blurred[0] + p->blurred[2]) / 2;
    double root = sqrt(fmax(0.1, mid * mid - determinant(p->blurred)));
    double radius = ceil(3 * sqrt(mid + root));
    p->radius[0] = p->radius[1] = (int)fmin(radius, 1e9);
    int tiles_x = (s->width + 15) / 16, tiles_y = (s->height + 15) / 16;
    p->x0 = 16 * clamp_tile(p->x - radius, tiles_x);
    p->x1 = 16 * clamp_tile(p->x + radius + 15, tiles_x);
    p->y0 = 16 * clamp_tile(p->y - radius, tiles_y);
    p->y1 = 16 * clamp_tile(p->y + radius + 15, tiles_y);
    return p->x0 < p->x1 && p->y0 < p->y1;
}

/* As far as alpha can reach 1/255; no pixel is cut off. */
static bool exact_extent(const scene *s, reference_splat *p) {
    if (!(p->opacity >= 1.0 / 255)) return false;
    double reach = sqrt(2 * log(255 * p->opacity));
    double rx = ceil(reach * sqrt(p->blurred[0])), ry = ceil(reach * sqrt(p->blurred[2]));
    p->radius[0] = (int)fmin(rx, 1e9), p->radius[1] = (int)fmin(ry, 1e9);
    p->x0 = p->y0 = 0;
    p->x1 = s->width, p->y1 = s->height;
    return p->x + rx > 0 && p->x - rx < s->width && p->y + ry > 0 && p->y - ry < s->height;
}

static bool clipped(const scene *s, const reference_splat *p) {
    double clip = (double)s->radius_clip;
    return clip != 0 && p->radius[0] <= clip && p->radius[1] <= clip;
}

static bool load_color(const scene *s, int camera, const reference_camera *c, int i,
                       reference_splat *p) {
    if (s->colors) {
        int row = s->colors_rows == 1 ? 0 : camera;
        p->color =
            s->colors + ((size_t)row * (size_t)s->gaussians + (size_t)i) * (size_t)s->channels;
        for (int k = 0; k < s->channels; k++) {
            if (!isfinite(p->color[k])) return false;
        }
        return true;
    }
    double d[3], basis[25];
    for (int k = 0; k < 3; k++) d[k] = s->means[3 * i + k] - c->position[k];
    double norm = sqrt(dot3(d, d));
    for (int k = 0; k < 3; k++) d[k] = norm > 0 ? d[k] / norm : 0;
    reference_sh(s->sh_degree, d, basis, NULL);
    for (int k = 0; k < 3; k++) {
        double sum = 0.5;
        for (int b = 0; b < (s->sh_degree + 1) * (s->sh_degree + 1); b++) {
            sum += basis[b] *
                   s->sh[((size_t)i * (size_t)s->sh_coefficients + (size_t)b) * 3 + (size_t)k];
        }
        if (!isfinite(sum)) return false;
        p->open[k] = sum > 0;
        p->rgb[k] = sum > 0 ? sum : 0;
    }
    p->color = p->rgb;
    return true;
}

void reference_project(const scene *s, int camera, const reference_camera *c,
                       reference_splat *splats) {
    for (int i = 0; i < s->gaussians; i++) {
        reference_splat *p = &splats[i];
        memset(p, 0, sizeof *p);
        if (!project_mean(s, c, s->means + 3 * i, p)) continue;
        load_sigma(s, i, p->sigma);
        project_covariance(c, p);
        if (!blur_and_invert(s, reference_opacity(s, i), p)) continue;
        p->visible = (is_compat(s) ? compat_extent(s, p) : exact_extent(s, p)) && !clipped(s, p) &&
                     load_color(s, camera, c, i, p);
    }
}
