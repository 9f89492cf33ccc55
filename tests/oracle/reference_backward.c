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
    splat_gradient *grad_splat;
    double grad_view[3][4];
    double grad_position[3];
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
        p->color[c] = t->g->grad_color ? t->g->grad_color[at] : 0;
    }
    p->alpha = t->g->grad_alpha ? t->g->grad_alpha[pixel] : 0;
    p->depth = t->g->grad_depth ? t->g->grad_depth[pixel] : 0;
    p->inv_depth = t->g->grad_inv_depth ? t->g->grad_inv_depth[pixel] : 0;
}

/* The gradient of one splat's quadratic form and opacity, from that of its alpha. */
static void sample_backward(const backward_task *t, const blended *b, int column, int row,
                            double grad_alpha) {
    const reference_splat *splat = &t->splats[b->index];
    splat_gradient *out = &t->grad_splat[b->index];
    if (splat->opacity * b->gauss > 0.99 && !is_compat(t->s)) return; /* q1 */
    double centre = is_compat(t->s) ? 0 : 0.5;
    double dx = splat->x - (column + centre), dy = splat->y - (row + centre);
    double grad_exponent = grad_alpha * splat->opacity * b->gauss;
    double grad_x = -grad_exponent * (splat->conic[0] * dx + splat->conic[1] * dy);
    double grad_y = -grad_exponent * (splat->conic[1] * dx + splat->conic[2] * dy);
    out->opacity += grad_alpha * b->gauss;
    out->x += grad_x;
    out->y += grad_y;
    out->x_abs += fabs(grad_x);
    out->y_abs += fabs(grad_y);
    out->conic[0] -= 0.5 * grad_exponent * dx * dx;
    out->conic[1] -= grad_exponent * dx * dy;
    out->conic[2] -= 0.5 * grad_exponent * dy * dy;
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
        splat_gradient *out = &t->grad_splat[b->index];
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
static void covariance2d_backward(const backward_task *t, int i, double grad_cov[3]) {
    const reference_splat *p = &t->splats[i];
    const splat_gradient *in = &t->grad_splat[i];
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
    grad_cov[0] = full[0][0], grad_cov[1] = full[0][1] + full[1][0], grad_cov[2] = full[1][1];
    const double *sharp = is_compat(t->s) ? p->blurred : p->sharp; /* q4 */
    double det_blurred = p->blurred[0] * p->blurred[2] - p->blurred[1] * p->blurred[1];
    double det_sharp = p->sharp[0] * p->sharp[2] - p->sharp[1] * p->sharp[1];
    double blur = p->blurred[0] - p->sharp[0];
    if (t->s->flags & GSC_RASTER_COMPAT_MIP) { /* its 1 / (rho + 1e-6) and 1 / (det^2 + 1e-6) */
        const double rho = p->compensation, *blurred = p->blurred;
        if (rho == 0) return;
        double grad = in->opacity * p->opacity / (rho + 1e-6) / (2 * (rho + 1e-6));
        double to_sharp = grad / (det_blurred + 1e-6);
        double to_blurred = -grad * det_sharp / (det_blurred * det_blurred + 1e-6);
        grad_cov[0] += to_sharp * p->sharp[2] + to_blurred * blurred[2];
        grad_cov[1] -= 2 * (to_sharp + to_blurred) * blurred[1];
        grad_cov[2] += to_sharp * p->sharp[0] + to_blurred * blurred[0];
        return;
    }
    if (!(t->s->flags & GSC_RASTER_ANTIALIAS) || det_sharp / det_blurred <= 2.5e-5) return;
    double a = sharp[0], b = sharp[1], c = sharp[2];
    double det = a * c - b * b, more = (a + blur) * (c + blur) - b * b;
    double grad_ratio = in->opacity * reference_opacity(t->s, i) / (2 * p->compensation);
    grad_cov[0] += grad_ratio * (c * more - det * (c + blur)) / (more * more);
    grad_cov[1] += grad_ratio * 2 * b * (det - more) / (more * more);
    grad_cov[2] += grad_ratio * (a * more - det * (a + blur)) / (more * more);
}

/* By the world covariance, the rotation of the view and the point, from those by the
 * 2D covariance J W Sigma W^T J^T. */
static void jacobian_backward(backward_task *t, const reference_splat *p, const double grad_cov[3],
                              double grad_sigma[3][3], double grad_point[3]) {
    const double g[2][2] = {{grad_cov[0], grad_cov[1] / 2}, {grad_cov[1] / 2, grad_cov[2]}};
    double jw[2][3], grad_jw[2][3], grad_j[2][3];
    for (int a = 0; a < 2; a++) {
        for (int k = 0; k < 3; k++) {
            jw[a][k] = 0;
            for (int m = 0; m < 3; m++) jw[a][k] += p->jacobian[a][m] * t->c.rotation[m][k];
        }
    }
    for (int k = 0; k < 3; k++) {
        for (int m = 0; m < 3; m++) {
            grad_sigma[k][m] = 0;
            for (int a = 0; a < 2; a++) {
                for (int b = 0; b < 2; b++) grad_sigma[k][m] += jw[a][k] * g[a][b] * jw[b][m];
            }
        }
    }
    for (int a = 0; a < 2; a++) {
        for (int k = 0; k < 3; k++) {
            double first = dot3(jw[0], p->sigma[k]), second = dot3(jw[1], p->sigma[k]);
            grad_jw[a][k] = 2 * (g[a][0] * first + g[a][1] * second);
        }
        for (int m = 0; m < 3; m++) {
            grad_j[a][m] = dot3(grad_jw[a], t->c.rotation[m]);
            for (int k = 0; k < 3; k++) t->grad_view[m][k] += p->jacobian[a][m] * grad_jw[a][k];
        }
    }
    double z = p->point[2], f[2] = {t->c.fx, t->c.fy};
    for (int a = 0; a < 2; a++) {
        double slanted = f[a] * p->ratio[a] / (z * z) * grad_j[a][2];
        grad_point[2] += -f[a] / (z * z) * grad_j[a][a];
        if (!p->clamped[a]) {
            grad_point[a] += -f[a] / (z * z) * grad_j[a][2];
            grad_point[2] += 2 * slanted;
        } else {
            grad_point[2] += (is_compat(t->s) ? 2 : 1) * slanted; /* q2 */
        }
    }
}

/* Adds to the gradients by covariances, or by scales and rotations. */
static void sigma_backward(const backward_task *t, int i, const double grad_sigma[3][3]) {
    const scene *s = t->s;
    gradients *g = t->g;
    if (s->covariances) {
        double *out = g->covariances ? g->covariances + 6 * i : NULL;
        const int rows[6] = {0, 0, 0, 1, 1, 2}, columns[6] = {0, 1, 2, 1, 2, 2};
        for (int k = 0; k < 6 && out; k++) {
            bool diagonal = rows[k] == columns[k];
            out[k] += (diagonal ? 1 : 2) * grad_sigma[rows[k]][columns[k]];
        }
        return;
    }
    double modifier = s->scale_modifier == 0 ? 1 : (double)s->scale_modifier;
    double q[4], r[3][3], grad_r[3][3], norm = 0;
    for (int k = 0; k < 4; k++) norm += s->rotations[4 * i + k] * s->rotations[4 * i + k];
    norm = is_compat(s) ? 1 : sqrt(norm);
    for (int k = 0; k < 4; k++) q[k] = norm > 0 ? s->rotations[4 * i + k] / norm : k == 0;
    reference_rotation(q, r);
    for (int k = 0; k < 3; k++) {
        double grad_scale = 0, deviation = modifier * reference_scale(s, i, k);
        for (int a = 0; a < 3; a++) {
            double by_axis = 0; /* by R_ak times deviation */
            for (int b = 0; b < 3; b++) by_axis += 2 * grad_sigma[a][b] * r[b][k] * deviation;
            grad_scale += by_axis * r[a][k];
            grad_r[a][k] = by_axis * deviation;
        }
        if (!is_compat(s)) grad_scale *= modifier; /* q3 */
        if (s->flags & GSC_RASTER_LOG_SCALES) grad_scale *= reference_scale(s, i, k);
        if (g->scales) g->scales[3 * i + k] += grad_scale;
    }
    if (!g->rotations || !(norm > 0)) return;
    double w = q[0], x = q[1], y = q[2], z = q[3];
    const double(*d)[3] = (const double(*)[3])grad_r;
    const double grad_q[4] = {
        2 * (-z * d[0][1] + y * d[0][2] + z * d[1][0] - x * d[1][2] - y * d[2][0] + x * d[2][1]),
        2 * (y * (d[0][1] + d[1][0]) + z * (d[0][2] + d[2][0]) - 2 * x * (d[1][1] + d[2][2]) +
             w * (d[2][1] - d[1][2])),
        2 * (x * (d[0][1] + d[1][0]) + z * (d[1][2] + d[2][1]) - 2 * y * (d[0][0] + d[2][2]) +
             w * (d[0][2] - d[2][0])),
        2 * (x * (d[0][2] + d[2][0]) + y * (d[1][2] + d[2][1]) - 2 * z * (d[0][0] + d[1][1]) +
             w * (d[1][0] - d[0][1])),
    };
    double along = 0;
    for (int k = 0; k < 4; k++) along += is_compat(s) ? 0 : grad_q[k] * q[k];
    for (int k = 0; k < 4; k++) g->rotations[4 * i + k] += (grad_q[k] - along * q[k]) / norm;
}

/* By the mean and the camera's position through the direction that SH is seen from. */
static void sh_backward(backward_task *t, int i, double grad_mean[3]) {
    const scene *s = t->s;
    double d[3], basis[25], slopes[25][3], grad_d[3] = {0, 0, 0};
    for (int k = 0; k < 3; k++) d[k] = s->means[3 * i + k] - t->c.position[k];
    double norm = sqrt(dot3(d, d));
    for (int k = 0; k < 3; k++) d[k] = norm > 0 ? d[k] / norm : 0;
    reference_sh(s->sh_degree, d, basis, slopes);
    for (int c = 0; c < 3; c++) {
        if (!t->splats[i].open[c]) continue;
        double grad_color = t->grad_splat[i].color[c];
        for (int b = 0; b < (s->sh_degree + 1) * (s->sh_degree + 1); b++) {
            size_t at = ((size_t)i * (size_t)s->sh_coefficients + (size_t)b) * 3 + (size_t)c;
            if (t->g->sh) t->g->sh[at] += grad_color * basis[b];
            for (int k = 0; k < 3; k++) grad_d[k] += grad_color * s->sh[at] * slopes[b][k];
        }
    }
    if (!(norm > 0)) return;
    double along = dot3(grad_d, d);
    for (int k = 0; k < 3; k++) {
        double by = (grad_d[k] - along * d[k]) / norm;
        grad_mean[k] += by;
        t->grad_position[k] -= by;
    }
}

/* By the point, through the position in the image. */
static void position_backward(const backward_task *t, int i, double grad_point[3]) {
    const reference_splat *p = &t->splats[i];
    const reference_camera *c = &t->c;
    double grad_x = t->grad_splat[i].x, grad_y = t->grad_splat[i].y, z = p->point[2];
    if (!c->grad_clip) {
        grad_point[0] += c->fx / z * grad_x;
        grad_point[1] += c->fy / z * grad_y;
        grad_point[2] -= (c->fx * p->point[0] * grad_x + c->fy * p->point[1] * grad_y) / (z * z);
        return;
    }
    double h[3], grad_h[3];
    for (int k = 0; k < 3; k++) h[k] = dot3(c->clip[k], t->s->means + 3 * i) + c->clip[k][3];
    double w = h[2] + 1e-7;
    grad_h[0] = grad_x * t->s->width / 2 / w;
    grad_h[1] = grad_y * t->s->height / 2 / w;
    grad_h[2] = -(grad_h[0] * h[0] + grad_h[1] * h[1]) / w;
    for (int k = 0; k < 3; k++) {
        for (int m = 0; m < 3; m++) grad_point[m] += grad_h[k] * dot3(c->clip[k], c->rotation[m]);
    }
}

static void splat_backward(backward_task *t, int i) {
    const scene *s = t->s;
    double grad_cov[3], grad_sigma[3][3], grad_mean[3] = {0, 0, 0};
    double grad_point[3] = {0, 0, t->grad_splat[i].z};
    covariance2d_backward(t, i, grad_cov);
    jacobian_backward(t, &t->splats[i], grad_cov, grad_sigma, grad_point);
    position_backward(t, i, grad_point);
    sigma_backward(t, i, (const double(*)[3])grad_sigma);
    if (s->sh) sh_backward(t, i, grad_mean);
    for (int a = 0; a < 3; a++) {
        for (int k = 0; k < 3; k++) {
            grad_mean[k] += t->c.rotation[a][k] * grad_point[a];
            t->grad_view[a][k] += grad_point[a] * s->means[3 * i + k];
        }
        t->grad_view[a][3] += grad_point[a];
    }
    for (int k = 0; k < 3 && t->g->means; k++) t->g->means[3 * i + k] += grad_mean[k];
    if (t->g->opacities) {
        double opacity = reference_opacity(s, i);
        double slope = s->flags & GSC_RASTER_LOGIT_OPACITIES ? opacity * (1 - opacity) : 1;
        t->g->opacities[i] += t->grad_splat[i].opacity * t->splats[i].compensation * slope;
    }
}

static void store_splat(const backward_task *t, int i) {
    const scene *s = t->s;
    const splat_gradient *in = &t->grad_splat[i];
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
            if (t->g->position) t->g->position[3 * t->camera + k] += t->grad_position[k];
            continue;
        }
        for (int a = 0; a < 3; a++) {
            t->grad_view[a][k] -= t->grad_position[k] * t->c.translation[a];
            t->grad_view[a][3] -= t->grad_position[k] * t->c.rotation[a][k];
        }
    }
    for (int a = 0; a < 3 && t->g->view; a++) {
        for (int k = 0; k < 4; k++) {
            bool by_rows = (s->flags & GSC_RASTER_VIEW_ROW_MAJOR) != 0;
            t->g->view[16 * t->camera + (by_rows ? 4 * a + k : 4 * k + a)] += t->grad_view[a][k];
        }
    }
}

void reference_backward(const scene *s, gradients *g) {
    size_t n = (size_t)s->gaussians, channels = (size_t)s->channels;
    reference_splat *splats = (reference_splat *)calloc(n + 1, sizeof *splats);
    splat_gradient *grad_splat = (splat_gradient *)calloc(n + 1, sizeof *grad_splat);
    double *grad_color = reals_alloc(n * channels);
    int *order = ints_alloc(n);
    gradients_clear(g, s);
    for (int camera = 0; splats && grad_splat && camera < s->cameras; camera++) {
        backward_task t = {
            .s = s, .g = g, .camera = camera, .splats = splats, .grad_splat = grad_splat};
        memset(grad_splat, 0, n * sizeof *grad_splat);
        memset(grad_color, 0, n * channels * sizeof *grad_color);
        for (size_t i = 0; i < n; i++) grad_splat[i].color = grad_color + i * channels;
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
    free(grad_color);
    free(grad_splat);
    free(splats);
}
