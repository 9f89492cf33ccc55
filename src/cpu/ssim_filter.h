/* The inner loops of SSIM over one row of one tile: the separable Gaussian filter, vertical and
 * horizontal, and the formulas that use its results.
 *
 * SSIM depends only on mu_x, mu_y, sigma_x^2 + sigma_y^2 and sigma_xy, so four fields are filtered
 * (x, y, x^2 + y^2, x y) where the textbook has five.  Subtracting a constant from an image does
 * not change its variances: x and y here are pixels less the level of their tile, so that
 * E[x^2] - E[x]^2 does not cancel on bright flat images.
 *
 * Every loop runs over whole vectors and may read and write up to GSC__LANES - 1 columns beyond its
 * count.  The usual 11 taps have code of their own, with unrolled loops. */
#ifndef GSC_SSIM_FILTER_H
#define GSC_SSIM_FILTER_H

#include "simd.h"

#include <stddef.h>
#include <stdlib.h>

enum {
    SSIM_RADIUS_MAX = 16,
    SSIM_RADIUS_USUAL = 5,
    SSIM_ROWS = 4, /* rows filtered together: each row read serves four results */
    SSIM_FIELDS = 4
};
/* The filtered fields of the images and of their partial derivatives. */
enum { FIELD_X, FIELD_Y, FIELD_SQUARES, FIELD_PRODUCT };
enum { PARTIAL_X, PARTIAL_SQUARES, PARTIAL_PRODUCT, PARTIAL_Y };

/* For the loops over the taps, which GCC would not unroll. */
#if defined(__clang__)
#define SSIM_UNROLL
#else
#define SSIM_UNROLL _Pragma("GCC unroll 14")
#endif

typedef struct ssim_terms {
    int radius;
    const gsc_real *half; /* [radius + 1] weights from the window's centre outwards */
    gsc_real c1, c2;
    gsc_real level_x, level_y; /* what was subtracted */
    gsc_real upstream;         /* derivative with respect to weight times SSIM */
} ssim_terms;

/* Calls a function, whose last parameter is the radius.  The usual one is a constant there. */
#define SSIM_BY_RADIUS(terms, function, ...)          \
    do {                                              \
        if ((terms)->radius == SSIM_RADIUS_USUAL)     \
            function(__VA_ARGS__, SSIM_RADIUS_USUAL); \
        else                                          \
            function(__VA_ARGS__, (terms)->radius);   \
    } while (0)

/* out[r] = sum over k of w[k] rows[r + k], for SSIM_ROWS results. */
GSC__INLINE void filter_columns(const gsc_real *const *rows, const ssim_terms *terms, int count,
                                gsc_real *out, ptrdiff_t out_stride, int radius) {
    const int taps = 2 * radius + 1;
    const gsc_real *half = terms->half;
    for (int i = 0; i < count; i += GSC__LANES) {
        gsc__vec sums[SSIM_ROWS] = {{0}, {0}, {0}, {0}};
        SSIM_UNROLL
        for (int k = 0; k < taps + SSIM_ROWS - 1; ++k) {
            gsc__vec v = gsc__vload(rows[k] + i);
            for (int r = 0; r < SSIM_ROWS; ++r)
                if (k >= r && k - r < taps) sums[r] += gsc__vset(half[abs(k - r - radius)]) * v;
        }
        for (int r = 0; r < SSIM_ROWS; ++r) gsc__vstore(out + r * out_stride + i, sums[r]);
    }
}

/* The horizontal filter of p[0 .. 2 radius], and of the columns after it in the other lanes. */
GSC__INLINE gsc__vec filter_row(const gsc_real *p, const gsc_real *half, int radius) {
    gsc__vec sum = {0};
    SSIM_UNROLL
    for (int k = 0; k <= 2 * radius; ++k)
        sum += gsc__vset(half[abs(k - radius)]) * gsc__vload(p + k);
    return sum;
}

/* A row of the SSIM map and, unless partials is NULL, of upstream * weight times its partial
 * derivatives with respect to the filtered fields:
 *
 *   S = C D / (A B),  A = mu_x^2 + mu_y^2 + c1,   B = sigma_x^2 + sigma_y^2 + c2,
 *                     C = 2 mu_x mu_y + c1,       D = 2 sigma_xy + c2,
 *   dS/d(x^2 + y^2) = -S / B,   dS/d(x y) = 2 C / (A B),
 *   dS/dmu_x = 2 mu_y D / (A B) - 2 mu_x S / A + 2 a S / B - b 2 C / (A B)
 *
 * with a, b the filtered shifted images, mu = level + a, level + b.  A window of one
 * pixel has no variance, but rounding would leave some. */
GSC__INLINE void ssim_row(const gsc_real *const fields[SSIM_FIELDS], const ssim_terms *terms,
                          bool both, int count, const gsc_real *weight, gsc_real *map,
                          gsc_real *const partials[SSIM_FIELDS], int radius) {
    const gsc__vec zero = {0};
    for (int i = 0; i < count; i += GSC__LANES) {
        gsc__vec a = filter_row(fields[FIELD_X] + i, terms->half, radius);
        gsc__vec b = filter_row(fields[FIELD_Y] + i, terms->half, radius);
        gsc__vec squares = filter_row(fields[FIELD_SQUARES] + i, terms->half, radius);
        gsc__vec product = filter_row(fields[FIELD_PRODUCT] + i, terms->half, radius);
        gsc__vec mu_x = a + terms->level_x, mu_y = b + terms->level_y;
        gsc__vec variances = squares - a * a - b * b;
        gsc__vec covariance = product - a * b;
        if (radius == 0) variances = covariance = zero;
        variances = gsc__vselect(gsc__vgt(zero, variances), zero, variances);
        gsc__vec A = mu_x * mu_x + mu_y * mu_y + terms->c1;
        gsc__vec B = variances + terms->c2;
        gsc__vec C = 2 * (mu_x * mu_y) + terms->c1;
        gsc__vec D = 2 * covariance + terms->c2;
        gsc__vec inverse = 1 / (A * B);
        gsc__vec S = C * D * inverse;
        gsc__vstore(map + i, S);
        if (!partials) continue;
        gsc__vec q = gsc__vload(weight + i) * terms->upstream;
        gsc__vec grad_squares = -q * S * (A * inverse);
        gsc__vec grad_product = 2 * q * (C * inverse);
        if (radius == 0) grad_squares = grad_product = zero;
        gsc__vec grad_A = 2 * q * S * (B * inverse), grad_C = 2 * q * (D * inverse);
        gsc__vstore(partials[PARTIAL_SQUARES] + i, grad_squares);
        gsc__vstore(partials[PARTIAL_PRODUCT] + i, grad_product);
        gsc__vstore(partials[PARTIAL_X] + i,
                    mu_y * grad_C - mu_x * grad_A - 2 * a * grad_squares - b * grad_product);
        if (both)
            gsc__vstore(partials[PARTIAL_Y] + i,
                        mu_x * grad_C - mu_y * grad_A - 2 * b * grad_squares - a * grad_product);
    }
}

/* Adds the gradient of the SSIM sum to grad_x and, unless it is NULL, to grad_y:
 * G[dx] + 2 x G[d(x^2 + y^2)] + y G[d(x y)], G the window, x and y shifted as above. */
GSC__INLINE void gradient_row(const gsc_real *const partials[SSIM_FIELDS], const ssim_terms *terms,
                              int count, const gsc_real *x, const gsc_real *y, gsc_real *grad_x,
                              gsc_real *grad_y, int radius) {
    for (int i = 0; i < count; i += GSC__LANES) {
        gsc__vec shifted_x = gsc__vload(x + i) - terms->level_x;
        gsc__vec shifted_y = gsc__vload(y + i) - terms->level_y;
        gsc__vec squares = 2 * filter_row(partials[PARTIAL_SQUARES] + i, terms->half, radius);
        gsc__vec product = filter_row(partials[PARTIAL_PRODUCT] + i, terms->half, radius);
        gsc__vec of_x = filter_row(partials[PARTIAL_X] + i, terms->half, radius);
        gsc__vstore(grad_x + i,
                    gsc__vload(grad_x + i) + of_x + shifted_x * squares + shifted_y * product);
        if (!grad_y) continue;
        gsc__vec of_y = filter_row(partials[PARTIAL_Y] + i, terms->half, radius);
        gsc__vstore(grad_y + i,
                    gsc__vload(grad_y + i) + of_y + shifted_y * squares + shifted_x * product);
    }
}

#endif
