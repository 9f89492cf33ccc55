#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const reference_splat *sorted_splats; /* the depths that compare_depth compares */

static int compare_depth(const void *a, const void *b) {
    int i = *(const int *)a, j = *(const int *)b;
    double zi = sorted_splats[i].point[2], zj = sorted_splats[j].point[2];
    if (zi != zj) return zi < zj ? -1 : 1;
    return i < j ? -1 : i > j;
}

int reference_sort(const scene *s, const reference_splat *splats, int *order) {
    int count = 0;
    for (int i = 0; i < s->gaussians; i++) {
        if (splats[i].visible) order[count++] = i;
    }
    sorted_splats = splats;
    qsort(order, (size_t)count, sizeof *order, compare_depth);
    return count;
}

bool reference_sample(const scene *s, const reference_splat *splat, int column, int row,
                      double *gauss, double *alpha) {
    if (column < splat->x0 || column >= splat->x1 || row < splat->y0 || row >= splat->y1) {
        return false;
    }
    double centre = s->flags & GSC_RASTER_COMPAT_3DGS ? 0 : 0.5;
    double dx = splat->x - (column + centre), dy = splat->y - (row + centre);
    double exponent =
        -0.5 * (splat->conic[0] * dx * dx + splat->conic[2] * dy * dy) - splat->conic[1] * dx * dy;
    if (exponent > 0 || exponent < -30) return false;
    *gauss = exp(exponent);
    *alpha = fmin(0.99, splat->opacity * *gauss);
    return *alpha >= 1.0 / 255;
}

/* Adds a splat to the sums of one pixel; T is the transmittance in front of it. */
static void blend(const scene *s, frame *f, size_t pixel, size_t at, const reference_splat *splat,
                  int column, int row, double alpha, double *T, double *color) {
    double weight = alpha * *T, after = *T * (1 - alpha), z = splat->point[2];
    for (int c = 0; c < s->channels; c++) color[c] += weight * splat->color[c];
    if (f->depth) f->depth[pixel] += weight * z;
    if (f->inv_depth) f->inv_depth[pixel] += weight / z;
    if (f->median_depth && *T > 0.5 && after < 0.5) f->median_depth[pixel] = z;
    if (f->touched && after > 0.5) f->touched[at]++;
    *T = after;
    if (!s->pixel_weights) return;
    double centre = s->flags & GSC_RASTER_COMPAT_3DGS ? 0 : 0.5;
    double distance = hypot(splat->x - (column + centre), splat->y - (row + centre));
    if (f->weight_sum) f->weight_sum[at] += s->pixel_weights[pixel];
    if (f->weight_count) f->weight_count[at]++;
    if (f->weight_blend) f->weight_blend[at] += weight;
    if (f->weight_distance) f->weight_distance[at] += distance;
}

static void store_color(const scene *s, frame *f, int camera, int column, int row,
                        const double *color, double T) {
    size_t area = (size_t)s->width * (size_t)s->height;
    size_t channels = (size_t)s->channels;
    size_t inside = (size_t)row * (size_t)s->width + (size_t)column;
    for (size_t c = 0; c < channels; c++) {
        size_t background_row = s->background_rows == 1 ? 0 : (size_t)camera;
        double background = s->background ? s->background[background_row * channels + c] : 0;
        size_t at = s->flags & GSC_RASTER_PIXEL_LAST
                        ? ((size_t)camera * area + inside) * channels + c
                        : ((size_t)camera * channels + c) * area + inside;
        f->color[at] = color[c] + T * background;
    }
}

static void blend_pixel(const scene *s, frame *f, int camera, const reference_splat *splats,
                        const int *order, int count, int column, int row, double *color) {
    size_t pixel =
        ((size_t)camera * (size_t)s->height + (size_t)row) * (size_t)s->width + (size_t)column;
    double T = 1;
    memset(color, 0, (size_t)s->channels * sizeof *color);
    if (f->depth) f->depth[pixel] = 0;
    if (f->inv_depth) f->inv_depth[pixel] = 0;
    if (f->median_depth) f->median_depth[pixel] = (double)s->median_default;
    for (int k = 0; k < count; k++) {
        const reference_splat *splat = &splats[order[k]];
        double gauss, alpha;
        if (!reference_sample(s, splat, column, row, &gauss, &alpha)) continue;
        if (T * (1 - alpha) < 1e-4) break;
        size_t at = (size_t)camera * (size_t)s->gaussians + (size_t)order[k];
        blend(s, f, pixel, at, splat, column, row, alpha, &T, color);
    }
    if (f->alpha) f->alpha[pixel] = 1 - T;
    if (f->color) store_color(s, f, camera, column, row, color, T);
}

static void store_splats(const scene *s, frame *f, int camera, const reference_splat *splats) {
    static const reference_splat culled;
    for (int i = 0; i < s->gaussians; i++) {
        size_t at = (size_t)camera * (size_t)s->gaussians + (size_t)i;
        const reference_splat *p = splats[i].visible ? &splats[i] : &culled;
        if (f->radii && f->radii_axes == 2) {
            f->radii[2 * at] = p->radius[0];
            f->radii[2 * at + 1] = p->radius[1];
        } else if (f->radii) {
            f->radii[at] = p->radius[0] > p->radius[1] ? p->radius[0] : p->radius[1];
        }
        if (f->means2d) f->means2d[2 * at] = p->x, f->means2d[2 * at + 1] = p->y;
        if (f->depths) f->depths[at] = p->point[2];
        if (f->conics) memcpy(f->conics + 3 * at, p->conic, sizeof p->conic);
        if (f->opacities) f->opacities[at] = p->opacity;
        if (f->touched) f->touched[at] = 0;
        if (f->weight_sum) f->weight_sum[at] = 0;
        if (f->weight_count) f->weight_count[at] = 0;
        if (f->weight_blend) f->weight_blend[at] = 0;
        if (f->weight_distance) f->weight_distance[at] = 0;
    }
}

void reference_rasterize(const scene *s, frame *f) {
    size_t n = (size_t)s->gaussians;
    reference_splat *splats = (reference_splat *)calloc(n + 1, sizeof *splats);
    int *order = ints_alloc(n);
    double *color = reals_alloc((size_t)s->channels);
    for (int camera = 0; splats && camera < s->cameras; camera++) {
        reference_camera c;
        reference_camera_load(s, camera, &c);
        reference_project(s, camera, &c, splats);
        int count = reference_sort(s, splats, order);
        store_splats(s, f, camera, splats);
        for (int row = 0; row < s->height; row++) {
            for (int column = 0; column < s->width; column++) {
                blend_pixel(s, f, camera, splats, order, count, column, row, color);
            }
        }
    }
    free(color);
    free(order);
    free(splats);
}
