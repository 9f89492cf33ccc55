#include "image_reference.h"

#include <math.h>
#include <stddef.h>

int image_map_height(const image_case *c) {
    return c->valid ? c->height - c->window + 1 : c->height;
}
int image_map_width(const image_case *c) {
    return c->valid ? c->width - c->window + 1 : c->width;
}

/* The statistics of one window. */
typedef struct window_view {
    double weights[33][33];
    double x[33][33], y[33][33];
    double mean_x, mean_y, var_x, var_y, cov;
} window_view;

static void window_weights(const image_case *c, window_view *w) {
    double sum = 0, r = c->window / 2;
    for (int i = 0; i < c->window; i++)
        for (int j = 0; j < c->window; j++) {
            double d2 = (i - r) * (i - r) + (j - r) * (j - r);
            sum += w->weights[i][j] = exp(-d2 / (2 * c->sigma * c->sigma));
        }
    for (int i = 0; i < c->window; i++)
        for (int j = 0; j < c->window; j++) w->weights[i][j] /= sum;
}

/* Top left corner of the window of element (i, j) of the map. */
static int corner(const image_case *c, int i) {
    return c->valid ? i : i - c->window / 2;
}
static bool inside(const image_case *c, int y, int x) {
    return y >= 0 && y < c->height && x >= 0 && x < c->width;
}

static void look(const image_case *c, const double *x, const double *y, int i, int j,
                 window_view *w) {
    const int top = corner(c, i), left = corner(c, j);
    w->mean_x = w->mean_y = w->var_x = w->var_y = w->cov = 0;
    for (int a = 0; a < c->window; a++)
        for (int b = 0; b < c->window; b++) {
            bool in = inside(c, top + a, left + b);
            size_t at = in ? (size_t)(top + a) * (size_t)c->width + (size_t)(left + b) : 0;
            w->x[a][b] = in ? x[at] : 0;
            w->y[a][b] = in ? y[at] : 0;
            w->mean_x += w->weights[a][b] * w->x[a][b];
            w->mean_y += w->weights[a][b] * w->y[a][b];
        }
    for (int a = 0; a < c->window; a++)
        for (int b = 0; b < c->window; b++) {
            double dx = w->x[a][b] - w->mean_x, dy = w->y[a][b] - w->mean_y;
            w->var_x += w->weights[a][b] * dx * dx;
            w->var_y += w->weights[a][b] * dy * dy;
            w->cov += w->weights[a][b] * dx * dy;
        }
}

static double luminance(const image_case *c, const window_view *w) {
    return (2 * w->mean_x * w->mean_y + c->c1) /
           (w->mean_x * w->mean_x + w->mean_y * w->mean_y + c->c1);
}
static double structure(const image_case *c, const window_view *w) {
    return (2 * w->cov + c->c2) / (w->var_x + w->var_y + c->c2);
}

double reference_ssim(const image_case *c, const double *x, const double *y, double *map) {
    const int height = image_map_height(c), width = image_map_width(c);
    const size_t plane = (size_t)c->height * (size_t)c->width;
    window_view w;
    window_weights(c, &w);
    double sum = 0;
    for (int p = 0; p < c->planes; p++)
        for (int i = 0; i < height; i++)
            for (int j = 0; j < width; j++) {
                look(c, x + (size_t)p * plane, y + (size_t)p * plane, i, j, &w);
                sum += *map++ = luminance(c, &w) * structure(c, &w);
            }
    return sum / ((double)c->planes * height * width);
}

/* The chain rule through the mean, the variance and the covariance of one window. */
static void scatter(const image_case *c, const window_view *w, int i, int j, double upstream,
                    double *grad_x, double *grad_y) {
    const double l = luminance(c, w), s = structure(c, w);
    const double energy = w->mean_x * w->mean_x + w->mean_y * w->mean_y + c->c1;
    const double spread = w->var_x + w->var_y + c->c2;
    const int top = corner(c, i), left = corner(c, j);
    for (int a = 0; a < c->window; a++)
        for (int b = 0; b < c->window; b++) {
            if (!inside(c, top + a, left + b)) continue;
            size_t at = (size_t)(top + a) * (size_t)c->width + (size_t)(left + b);
            double weight = upstream * w->weights[a][b];
            double dx = w->x[a][b] - w->mean_x, dy = w->y[a][b] - w->mean_y;
            grad_x[at] += weight * (s * 2 * (w->mean_y - l * w->mean_x) / energy +
                                    l * 2 * (dy - s * dx) / spread);
            grad_y[at] += weight * (s * 2 * (w->mean_x - l * w->mean_y) / energy +
                                    l * 2 * (dx - s * dy) / spread);
        }
}

void reference_ssim_backward(const image_case *c, const double *x, const double *y,
                             const double *upstream, double *grad_x, double *grad_y) {
    const size_t plane = (size_t)c->height * (size_t)c->width;
    window_view w;
    window_weights(c, &w);
    for (size_t k = 0; k < (size_t)c->planes * plane; k++) grad_x[k] = grad_y[k] = 0;
    for (int p = 0; p < c->planes; p++)
        for (int i = 0; i < image_map_height(c); i++)
            for (int j = 0; j < image_map_width(c); j++) {
                size_t start = (size_t)p * plane;
                look(c, x + start, y + start, i, j, &w);
                scatter(c, &w, i, j, *upstream++, grad_x + start, grad_y + start);
            }
}
