/* Gradients of the reference.  Each step mirrors one of the forward pass, in reverse;
 * what the original computes differently from the derivative is marked q1 to q4:
 *  q1  the clamp of alpha at 0.99 lets the gradient pass;
 *  q2  where x/z or y/z is clamped in the Jacobian, z gets twice that term's share;
 *  q3  the gradient of the scales lacks the scale modifier;
 *  q4  the compensation's derivative is taken at the covariance blurred once more. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Derivatives by the quantities of one projected splat. */
typedef struct splat_gradient {
    double x, y, x_abs, y_abs; /* mean, pixels */
    double conic[3];           /* xx, xy (both off-diagonals together), yy */
    double opacity;            /* after compensation */
    double z;                  /* by the depth outputs */
    double *color;             /* [channels] */
} splat_gradient;

typedef struct backward_task {
    const scene *s;
    gradients *g;
    int camera;
    reference_camera c;
    const reference_splat *splats;
    splat_gradient *by_splat;
    double by_view[3][4];
    double by_position[3];
} backward_task;

typedef struct blended {
    int index;
    double alpha, gauss, T; /* T in front of it */
} blended;

static bool is_compat(const scene *s) {
    return (s->flags & GSC_RASTER_COMPAT_3DGS) != 0;
}

static double dot3(const double *a, const double *b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Upstream gradients of one pixel. */
typedef struct pixel_gradient {
    double *color; /* [channels] */
    double alpha, depth, inv_depth;
} pixel_gradient;

static void load_pixel(const backward_task *t, int column, int row, pixel_gradient *p) {
    const scene *s = t->s;
    size_t area = (size_t)s->width * (size_t)s->height, channels = (size_t)s->channels;
    size_t inside = (size_t)row * (size_t)s->width + (size_t)column;
    size_t camera = (size_t)t->camera, pixel = camera * area + inside;
    bool last = (s->flags & GSC_RASTER_PIXEL_LAST) != 0;
    for (size_t c = 0; c < channels; c++) {
        size_t at = last ? pixel * channels + c : (camera * channels + c) * area + inside;
        p->color[c] = t->g->by_color ? t->g->by_color[at] : 0;
    }
    p->alpha = t->g->by_alpha ? t->g->by_alpha[pixel] : 0;
    p->depth = t->g->by_depth ? t->g->by_depth[pixel] : 0;
    p->inv_depth = t->g->by_inv_depth ? t->g->by_inv_depth[pixel] : 0;
}

/* The gradient of one splat's quadratic form and opacity, from that of its alpha. */
static void sample_backward(const backward_task *t, const blended *b, int column, int row,
                            double by_alpha) {
    const reference_splat *splat = &t->splats[b->index];
    splat_gradient *out = &t->by_splat[b->index];
    if (splat->opacity * b->gauss > 0.99 && !is_compat(t->s)) return; /* q1 */
    double centre = is_compat(t->s) ? 0 : 0.5;
    double dx = splat->x - (column + centre), dy = splat->y - (row + centre);
    double by_exponent = by_alpha * splat->opacity * b->gauss;
    double by_x = -by_exponent * (splat->conic[0] * dx + splat->conic[1] * dy);
    double by_y = -by_exponent * (splat->conic[1] * dx + splat->conic[2] * dy);
    out->opacity += by_alpha * b->gauss;
    out->x += by_x;
    out->y += by_y;
    out->x_abs += fabs(by_x);
    out->y_abs += fabs(by_y);
    out->conic[0] -= 0.5 * by_exponent * dx * dx;
    out->conic[1] -= by_exponent * dx * dy;
    out->conic[2] -= 0.5 * by_exponent * dy * dy;
}

static void pixel_backward(backward_task *t, const blended *list, int count, double T, int column,
                           int row, const pixel_gradient *p) {
    const scene *s = t->s;
    size_t background_row = s->background_rows == 1 ? 0 : (size_t)t->camera;
    double behind = 0; /* what lies behind, times its weights, dotted with the gradient */
    for (int c = 0; c < s->channels && s->background; c++) {
        size_t at = background_row * (size_t)s->channels + (size_t)c;
        behind += T * s->background[at] * p->color[c];
        if (t->g->background) t->g->background[at] += T * p->color[c];
    }
    for (int k = count - 1; k >= 0; k--) {
        const blended *b = &list[k];
        const reference_splat *splat = &t->splats[b->index];
        splat_gradient *out = &t->by_splat[b->index];
        double weight = b->alpha * b->T, z = splat->point[2];
        double value = p->alpha + p->depth * z + p->inv_depth / z;
        for (int c = 0; c < s->channels; c++) {
            value += splat->color[c] * p->color[c];
            out->color[c] += weight * p->color[c];
        }
        out->z += weight * (p->depth - p->inv_depth / (z * z));
        sample_backward(t, b, column, row, b->T * value - behind / (1 - b->alpha));
        behind += weight * value;
    }
}

static void blend_backward(backward_task *t, const int *order, int count) {
    const scene *s = t->s;
    blended *list = (blended *)calloc((size_t)count + 1, sizeof *list);
    pixel_gradient p = {.color = reals_alloc((size_t)s->channels)};
    for (int row = 0; list && row < s->height; row++) {
        for (int column = 0; column < s->width; column++) {
            double T = 1;
            int length = 0;
            for (int k = 0; k < count; k++) {
                blended b = {.index = order[k], .T = T};
                if (!reference_sample(s, &t->splats[b.index], column, row, &b.gauss, &b.alpha)) {
                    continue;
                }
                if (T * (1 - b.alpha) < 1e-4) break;
                list[length++] = b;
                T *= 1 - b.alpha;
            }
            load_pixel(t, column, row, &p);
            pixel_backward(t, list, length, T, column, row, &p);
        }
    }
    free(p.color);
    free(list);
}

/* By the 2D covariance, [xx, xy (both), yy], through the inverse and the opacity
 * compensation. */
static void covariance2d_backward(const backward_task *t, int i, double by_cov[3]) {
    const reference_splat *p = &t->splats[i];
    const splat_gradient *in = &t->by_splat[i];
    const double *k = p->conic;
    double g[2][2] = {{in->conic[0], in->conic[1] / 2}, {in->conic[1] / 2, in->conic[2]}};
    double kk[2][2] = {{k[0], k[1]}, {k[1], k[2]}}, full[2][2] = {{0, 0}, {0, 0}};
    for (int a = 0; a < 2; a++) {
        for (int b = 0; b < 2; b++) {
            for (int c = 0; c < 2; c++) {
                for (int d = 0; d < 2; d++) full[a][b] -= kk[a][c] * g[c][d] * kk[d][b];
            }
        }
    }
    by_cov[0] = full[0][0], by_cov[1] = full[0][1] + full[1][0], by_cov[2] = full[1][1];
    const double *sharp = is_compat(t->s) ? p->blurred : p->sharp; /* q4 */
    double det_blurred = p->blurred[0] * p->blurred[2] - p->blurred[1] * p->blurred[1];
    double det_sharp = p->sharp[0] * p->sharp[2] - p->sharp[1] * p->sharp[1];
    if (!(t->s->flags & GSC_RASTER_ANTIALIAS) || det_sharp / det_blurred <= 2.5e-5) return;
    double blur = p->blurred[0] - p->sharp[0];
    double a = sharp[0], b = sharp[1], c = sharp[2];
    double det = a * c - b * b, more = (a + blur) * (c + blur) - b * b;
    double by_ratio = in->opacity * reference_opacity(t->s, i) / (2 * p->compensation);
    by_cov[0] += by_ratio * (c * more - det * (c + blur)) / (more * more);
    by_cov[1] += by_ratio * 2 * b * (det - more) / (more * more);
    by_cov[2] += by_ratio * (a * more - det * (a + blur)) / (more * more);
}

/* By the world covariance, the rotation of the view and the point, from those by the
 * 2D covariance J W Sigma W^T J^T. */
static void jacobian_backward(backward_task *t, const reference_splat *p, const double by_cov[3],
                              double by_sigma[3][3], double by_point[3]) {
    const double g[2][2] = {{by_cov[0], by_cov[1] / 2}, {by_cov[1] / 2, by_cov[2]}};
    double jw[2][3], by_jw[2][3], by_j[2][3];
    for (int a = 0; a < 2; a++) {
        for (int k = 0; k < 3; k++) {
            jw[a][k] = 0;
            for (int m = 0; m < 3; m++) jw[a][k] += p->jacobian[a][m] * t->c.rotation[m][k];
        }
    }
    for (int k = 0; k < 3; k++) {
        for (int m = 0; m < 3; m++) {
            by_sigma[k][m] = 0;
            for (int a = 0; a < 2; a++) {
                for (int b = 0; b < 2; b++) by_sigma[k][m] += jw[a][k] * g[a][b] * jw[b][m];
            }
        }
    }
    for (int a = 0; a < 2; a++) {
        for (int k = 0; k < 3; k++) {
            double first = dot3(jw[0], p->sigma[k]), second = dot3(jw[1], p->sigma[k]);
            by_jw[a][k] = 2 * (g[a][0] * first + g[a][1] * second);
        }
        for (int m = 0; m < 3; m++) {
            by_j[a][m] = dot3(by_jw[a], t->c.rotation[m]);
            for (int k = 0; k < 3; k++) t->by_view[m][k] += p->jacobian[a][m] * by_jw[a][k];
        }
    }
    double z = p->point[2], f[2] = {t->c.fx, t->c.fy};
    for (int a = 0; a < 2; a++) {
        double slanted = f[a] * p->ratio[a] / (z * z) * by_j[a][2];
        by_point[2] += -f[a] / (z * z) * by_j[a][a];
        if (!p->clamped[a]) {
            by_point[a] += -f[a] / (z * z) * by_j[a][2];
            by_point[2] += 2 * slanted;
        } else {
            by_point[2] += (is_compat(t->s) ? 2 : 1) * slanted; /* q2 */
        }
    }
}

/* Adds to the gradients by covariances, or by scales and rotations. */
static void sigma_backward(const backward_task *t, int i, const double by_sigma[3][3]) {
    const scene *s = t->s;
    gradients *g = t->g;
    if (s->covariances) {
        double *out = g->covariances ? g->covariances + 6 * i : NULL;
        const int rows[6] = {0, 0, 0, 1, 1, 2}, columns[6] = {0, 1, 2, 1, 2, 2};
        for (int k = 0; k < 6 && out; k++) {
            bool diagonal = rows[k] == columns[k];
            out[k] += (diagonal ? 1 : 2) * by_sigma[rows[k]][columns[k]];
        }
        return;
    }
    double modifier = s->scale_modifier == 0 ? 1 : (double)s->scale_modifier;
    double q[4], r[3][3], by_r[3][3], norm = 0;
    for (int k = 0; k < 4; k++) norm += s->rotations[4 * i + k] * s->rotations[4 * i + k];
    norm = is_compat(s) ? 1 : sqrt(norm);
    for (int k = 0; k < 4; k++) q[k] = norm > 0 ? s->rotations[4 * i + k] / norm : k == 0;
    reference_rotation(q, r);
    for (int k = 0; k < 3; k++) {
        double by_scale = 0, deviation = modifier * reference_scale(s, i, k);
        for (int a = 0; a < 3; a++) {
            double by_axis = 0; /* by R_ak times deviation */
            for (int b = 0; b < 3; b++) by_axis += 2 * by_sigma[a][b] * r[b][k] * deviation;
            by_scale += by_axis * r[a][k];
            by_r[a][k] = by_axis * deviation;
        }
        if (!is_compat(s)) by_scale *= modifier; /* q3 */
        if (s->flags & GSC_RASTER_LOG_SCALES) by_scale *= reference_scale(s, i, k);
        if (g->scales) g->scales[3 * i + k] += by_scale;
    }
    if (!g->rotations || !(norm > 0)) return;
    double w = q[0], x = q[1], y = q[2], z = q[3];
    const double(*d)[3] = (const double(*)[3])by_r;
    const double by_q[4] = {
        2 * (-z * d[0][1] + y * d[0][2] + z * d[1][0] - x * d[1][2] - y * d[2][0] + x * d[2][1]),
        2 * (y * (d[0][1] + d[1][0]) + z * (d[0][2] + d[2][0]) - 2 * x * (d[1][1] + d[2][2]) +
             w * (d[2][1] - d[1][2])),
        2 * (x * (d[0][1] + d[1][0]) + z * (d[1][2] + d[2][1]) - 2 * y * (d[0][0] + d[2][2]) +
             w * (d[0][2] - d[2][0])),
        2 * (x * (d[0][2] + d[2][0]) + y * (d[1][2] + d[2][1]) - 2 * z * (d[0][0] + d[1][1]) +
             w * (d[1][0] - d[0][1])),
    };
    double along = 0;
    for (int k = 0; k < 4; k++) along += is_compat(s) ? 0 : by_q[k] * q[k];
    for (int k = 0; k < 4; k++) g->rotations[4 * i + k] += (by_q[k] - along * q[k]) / norm;
}

/* By the mean and the camera's position through the direction that SH is seen from. */
static void sh_backward(backward_task *t, int i, double by_mean[3]) {
    const scene *s = t->s;
    double d[3], basis[25], slopes[25][3], by_d[3] = {0, 0, 0};
    for (int k = 0; k < 3; k++) d[k] = s->means[3 * i + k] - t->c.position[k];
    double norm = sqrt(dot3(d, d));
    for (int k = 0; k < 3; k++) d[k] = norm > 0 ? d[k] / norm : 0;
    reference_sh(s->sh_degree, d, basis, slopes);
    for (int c = 0; c < 3; c++) {
        if (!t->splats[i].open[c]) continue;
        double by_color = t->by_splat[i].color[c];
        for (int b = 0; b < (s->sh_degree + 1) * (s->sh_degree + 1); b++) {
            size_t at = ((size_t)i * (size_t)s->sh_coefficients + (size_t)b) * 3 + (size_t)c;
            if (t->g->sh) t->g->sh[at] += by_color * basis[b];
            for (int k = 0; k < 3; k++) by_d[k] += by_color * s->sh[at] * slopes[b][k];
        }
    }
    if (!(norm > 0)) return;
    double along = dot3(by_d, d);
    for (int k = 0; k < 3; k++) {
        double by = (by_d[k] - along * d[k]) / norm;
        by_mean[k] += by;
        t->by_position[k] -= by;
    }
}

/* By the point, through the position in the image. */
static void position_backward(const backward_task *t, int i, double by_point[3]) {
    const reference_splat *p = &t->splats[i];
    const reference_camera *c = &t->c;
    double by_x = t->by_splat[i].x, by_y = t->by_splat[i].y, z = p->point[2];
    if (!c->by_clip) {
        by_point[0] += c->fx / z * by_x;
        by_point[1] += c->fy / z * by_y;
        by_point[2] -= (c->fx * p->point[0] * by_x + c->fy * p->point[1] * by_y) / (z * z);
        return;
    }
    double h[3], by_h[3];
    for (int k = 0; k < 3; k++) h[k] = dot3(c->clip[k], t->s->means + 3 * i) + c->clip[k][3];
    double w = h[2] + 1e-7;
    by_h[0] = by_x * t->s->width / 2 / w;
    by_h[1] = by_y * t->s->height / 2 / w;
    by_h[2] = -(by_h[0] * h[0] + by_h[1] * h[1]) / w;
    for (int k = 0; k < 3; k++) {
        for (int m = 0; m < 3; m++) by_point[m] += by_h[k] * dot3(c->clip[k], c->rotation[m]);
    }
}

static void splat_backward(backward_task *t, int i) {
    const scene *s = t->s;
    double by_cov[3], by_sigma[3][3], by_mean[3] = {0, 0, 0};
    double by_point[3] = {0, 0, t->by_splat[i].z};
    covariance2d_backward(t, i, by_cov);
    jacobian_backward(t, &t->splats[i], by_cov, by_sigma, by_point);
    position_backward(t, i, by_point);
    sigma_backward(t, i, (const double(*)[3])by_sigma);
    if (s->sh) sh_backward(t, i, by_mean);
    for (int a = 0; a < 3; a++) {
        for (int k = 0; k < 3; k++) {
            by_mean[k] += t->c.rotation[a][k] * by_point[a];
            t->by_view[a][k] += by_point[a] * s->means[3 * i + k];
        }
        t->by_view[a][3] += by_point[a];
    }
    for (int k = 0; k < 3 && t->g->means; k++) t->g->means[3 * i + k] += by_mean[k];
    if (t->g->opacities) {
        double opacity = reference_opacity(s, i);
        double slope = s->flags & GSC_RASTER_LOGIT_OPACITIES ? opacity * (1 - opacity) : 1;
        t->g->opacities[i] += t->by_splat[i].opacity * t->splats[i].compensation * slope;
    }
}

static void store_splat(const backward_task *t, int i) {
    const scene *s = t->s;
    const splat_gradient *in = &t->by_splat[i];
    size_t at = (size_t)t->camera * (size_t)s->gaussians + (size_t)i;
    bool ndc = (s->flags & GSC_RASTER_GRAD2D_NDC) != 0;
    double unit_x = ndc ? s->width / 2.0 : 1, unit_y = ndc ? s->height / 2.0 : 1;
    if (t->g->means2d) {
        t->g->means2d[2 * at] = in->x * unit_x;
        t->g->means2d[2 * at + 1] = in->y * unit_y;
    }
    if (t->g->means2d_abs) {
        t->g->means2d_abs[2 * at] = in->x_abs * unit_x;
        t->g->means2d_abs[2 * at + 1] = in->y_abs * unit_y;
    }
    size_t row = s->colors_rows == 1 ? 0 : (size_t)t->camera, channels = (size_t)s->channels;
    double *colors = t->g->colors;
    for (size_t c = 0; c < channels && colors && s->colors; c++) {
        colors[(row * (size_t)s->gaussians + (size_t)i) * channels + c] += in->color[c];
    }
}

/* The camera's centre is -R^T t unless it is given. */
static void store_camera(backward_task *t) {
    const scene *s = t->s;
    for (int k = 0; k < 3; k++) {
        if (s->position) {
            if (t->g->position) t->g->position[3 * t->camera + k] += t->by_position[k];
            continue;
        }
        for (int a = 0; a < 3; a++) {
            t->by_view[a][k] -= t->by_position[k] * t->c.translation[a];
            t->by_view[a][3] -= t->by_position[k] * t->c.rotation[a][k];
        }
    }
    for (int a = 0; a < 3 && t->g->view; a++) {
        for (int k = 0; k < 4; k++) {
            bool by_rows = (s->flags & GSC_RASTER_VIEW_ROW_MAJOR) != 0;
            t->g->view[16 * t->camera + (by_rows ? 4 * a + k : 4 * k + a)] += t->by_view[a][k];
        }
    }
}

void reference_backward(const scene *s, gradients *g) {
    size_t n = (size_t)s->gaussians, channels = (size_t)s->channels;
    reference_splat *splats = (reference_splat *)calloc(n + 1, sizeof *splats);
    splat_gradient *by_splat = (splat_gradient *)calloc(n + 1, sizeof *by_splat);
    double *by_color = reals_alloc(n * channels);
    int *order = ints_alloc(n);
    gradients_clear(g, s);
    for (int camera = 0; splats && by_splat && camera < s->cameras; camera++) {
        backward_task t = {
            .s = s, .g = g, .camera = camera, .splats = splats, .by_splat = by_splat};
        memset(by_splat, 0, n * sizeof *by_splat);
        memset(by_color, 0, n * channels * sizeof *by_color);
        for (size_t i = 0; i < n; i++) by_splat[i].color = by_color + i * channels;
        reference_camera_load(s, camera, &t.c);
        reference_project(s, camera, &t.c, splats);
        blend_backward(&t, order, reference_sort(s, splats, order));
        for (int i = 0; i < s->gaussians; i++) {
            if (splats[i].visible) splat_backward(&t, i);
            store_splat(&t, i);
        }
        store_camera(&t);
    }
    free(order);
    free(by_color);
    free(by_splat);
    free(splats);
}
