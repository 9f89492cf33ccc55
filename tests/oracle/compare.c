#include "compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool compare_verbose(void) {
    const char *wish = getenv("GSPLAT_C_VERBOSE");
    return wish && wish[0] && wish[0] != '0';
}

static size_t pixel_of(size_t i, size_t channels, size_t area, bool pixel_last) {
    if (pixel_last) return i / channels;
    return i / (channels * area) * area + i % area;
}

/* Removes the worst pixels from the sum of squares until it is small enough. */
static void leave_out_flips(comparison *c, double *squares, size_t pixels, double norm2,
                            double highest, double tolerance) {
    double total = 0;
    for (size_t p = 0; p < pixels; p++) total += squares[p];
    double bound = tolerance * tolerance * norm2;
    double flip = COMPARE_FLIP_SIZE * highest;
    while (!(total <= bound) && c->flips < COMPARE_MAX_FLIPS) {
        size_t worst = 0;
        for (size_t p = 1; p < pixels; p++) {
            if (squares[p] > squares[worst]) worst = p;
        }
        if (pixels == 0 || !(squares[worst] <= flip * flip)) break;
        squares[worst] = 0;
        c->flips++;
        total = 0;
        for (size_t p = 0; p < pixels; p++) total += squares[p];
    }
    c->relative = total > 0 ? sqrt(total / norm2) : 0;
    c->good = total <= bound;
}

static comparison compare(const double *got, const double *wanted, size_t images, size_t channels,
                          size_t area, bool pixel_last, double tolerance, bool flips) {
    comparison c = {0};
    size_t pixels = images * area;
    double *squares = reals_alloc(pixels), norm2 = 0, total = 0, highest = 0;
    bool finite = true;
    for (size_t i = 0; i < pixels * channels; i++) {
        double difference = got[i] - wanted[i];
        if (!isfinite(difference)) finite = false;
        squares[pixel_of(i, channels, area, pixel_last)] += difference * difference;
        total += difference * difference;
        norm2 += wanted[i] * wanted[i];
        c.largest = fmax(c.largest, fabs(difference));
        highest = fmax(highest, fabs(wanted[i]));
    }
    if (!finite) {
        c.relative = c.largest = (double)NAN;
    } else if (flips) {
        leave_out_flips(&c, squares, pixels, norm2, highest, tolerance);
    } else {
        c.relative = total > 0 ? sqrt(total / norm2) : 0;
        c.good = c.relative <= tolerance;
    }
    free(squares);
    return c;
}

comparison compare_reals(const double *got, const double *wanted, size_t count, double tolerance) {
    return compare(got, wanted, 1, 1, count, true, tolerance, false);
}

comparison compare_images(const double *got, const double *wanted, size_t images, size_t channels,
                          size_t area, bool pixel_last, double tolerance) {
    return compare(got, wanted, images, channels, area, pixel_last, tolerance, true);
}

comparison compare_counts(const int32_t *got, const int32_t *wanted, size_t count, int off) {
    comparison c = {0};
    for (size_t i = 0; i < count; i++) {
        double difference = fabs((double)got[i] - (double)wanted[i]);
        c.largest = fmax(c.largest, difference);
        c.flips += difference > 0;
    }
    c.good = c.flips <= off && c.largest <= 2;
    return c;
}

size_t compare_ints(const int32_t *got, const int32_t *wanted, size_t count) {
    size_t different = 0;
    for (size_t i = 0; i < count; i++) different += got[i] != wanted[i];
    return different;
}

int compare_report(const char *title, const char *what, comparison c) {
    FILE *out = c.good ? stdout : stderr;
    if (!c.good || compare_verbose()) {
        fprintf(out, "%-46s %-16s relative %9.2e  largest %9.2e  flips %d%s\n", title, what,
                c.relative, c.largest, c.flips, c.good ? "" : "  WRONG");
    }
    return !c.good;
}

static int image(const char *title, const char *what, const scene *s, const double *got,
                 const double *wanted, int channels, double tolerance, bool flips) {
    if (!got || !wanted) return 0;
    size_t area = (size_t)s->height * (size_t)s->width;
    bool last = (s->flags & GSC_RASTER_PIXEL_LAST) != 0;
    comparison c =
        compare(got, wanted, (size_t)s->cameras, (size_t)channels, area, last, tolerance, flips);
    return compare_report(title, what, c);
}

static int splat_values(const char *title, const char *what, const scene *s, const double *got,
                        const double *wanted, int columns, double tolerance) {
    if (!got || !wanted) return 0;
    size_t count = scene_splats(s) * (size_t)columns;
    return compare_report(title, what, compare_reals(got, wanted, count, tolerance));
}

/* A sum over a splat's pixels changes when one of them flips: ignore the worst rows. */
static int splat_sums(const char *title, const char *what, const scene *s, const double *got,
                      const double *wanted, double tolerance, bool flips) {
    if (!got || !wanted) return 0;
    comparison c = compare(got, wanted, 1, 1, scene_splats(s), true, tolerance, flips);
    return compare_report(title, what, c);
}

static int splat_counts(const char *title, const char *what, const scene *s, const int32_t *got,
                        const int32_t *wanted, bool flips) {
    if (!got || !wanted) return 0;
    comparison c = compare_counts(got, wanted, scene_splats(s), flips ? COMPARE_MAX_FLIPS : 0);
    return compare_report(title, what, c);
}

int compare_frames(const char *title, const scene *s, const frame *got, const frame *wanted,
                   double tolerance, bool flips) {
    int wrong = 0;
    wrong += image(title, "color", s, got->color, wanted->color, s->channels, tolerance, flips);
    wrong += image(title, "alpha", s, got->alpha, wanted->alpha, 1, tolerance, flips);
    wrong += image(title, "depth", s, got->depth, wanted->depth, 1, tolerance, flips);
    wrong += image(title, "inv_depth", s, got->inv_depth, wanted->inv_depth, 1, tolerance, flips);
    wrong += image(title, "median_depth", s, got->median_depth, wanted->median_depth, 1, tolerance,
                   false);
    if (got->radii && wanted->radii) {
        size_t count = scene_splats(s) * (size_t)wanted->radii_axes;
        comparison c = {0};
        c.flips = (int)compare_ints(got->radii, wanted->radii, count);
        c.good = c.flips == 0 && got->radii_axes == wanted->radii_axes;
        wrong += compare_report(title, "radii", c);
    }
    wrong += splat_values(title, "means2d", s, got->means2d, wanted->means2d, 2, tolerance);
    wrong += splat_values(title, "depths", s, got->depths, wanted->depths, 1, tolerance);
    wrong += splat_values(title, "conics", s, got->conics, wanted->conics, 3, tolerance);
    wrong += splat_values(title, "opacities", s, got->opacities, wanted->opacities, 1, tolerance);
    wrong += splat_counts(title, "touched", s, got->touched, wanted->touched, flips);
    wrong += splat_counts(title, "weight_count", s, got->weight_count, wanted->weight_count, flips);
    wrong +=
        splat_sums(title, "weight_sum", s, got->weight_sum, wanted->weight_sum, tolerance, flips);
    wrong += splat_sums(title, "weight_blend", s, got->weight_blend, wanted->weight_blend,
                        tolerance, flips);
    wrong += splat_sums(title, "weight_distance", s, got->weight_distance, wanted->weight_distance,
                        tolerance, flips);
    return wrong;
}

static int gradient(const char *title, const char *what, const double *got, const double *wanted,
                    size_t count, double tolerance) {
    if (!got || !wanted) return 0;
    return compare_report(title, what, compare_reals(got, wanted, count, tolerance));
}

int compare_gradients(const char *title, const scene *s, const gradients *got,
                      const gradients *wanted, double tolerance) {
    size_t n = (size_t)s->gaussians, channels = (size_t)s->channels;
    size_t cameras = (size_t)s->cameras, coefficients = (size_t)s->sh_coefficients;
    int wrong = 0;
    wrong += gradient(title, "d means", got->means, wanted->means, n * 3, tolerance);
    wrong += gradient(title, "d opacities", got->opacities, wanted->opacities, n, tolerance);
    wrong += gradient(title, "d scales", got->scales, wanted->scales, n * 3, tolerance);
    wrong += gradient(title, "d rotations", got->rotations, wanted->rotations, n * 4, tolerance);
    wrong +=
        gradient(title, "d covariances", got->covariances, wanted->covariances, n * 6, tolerance);
    wrong += gradient(title, "d colors", got->colors, wanted->colors,
                      (size_t)s->colors_rows * n * channels, tolerance);
    wrong += gradient(title, "d sh", got->sh, wanted->sh, n * coefficients * 3, tolerance);
    wrong +=
        gradient(title, "d means2d", got->means2d, wanted->means2d, cameras * n * 2, tolerance);
    wrong += gradient(title, "d means2d_abs", got->means2d_abs, wanted->means2d_abs,
                      cameras * n * 2, tolerance);
    wrong += gradient(title, "d view", got->view, wanted->view, cameras * 16, tolerance);
    wrong += gradient(title, "d position", got->position, wanted->position, cameras * 3, tolerance);
    wrong += gradient(title, "d background", got->background, wanted->background,
                      (size_t)s->background_rows * channels, tolerance);
    return wrong;
}
