/* The ellipse in which a splat's alpha is at least 1/255, cut into rows.  Pure functions, shared by
 * the CPU backend and the CUDA kernels. */
#ifndef GSC_ELLIPSE_MATH_H
#define GSC_ELLIPSE_MATH_H

#include "splat_math.h"

/* Exact to a few units in the last place, which the margins below cover: on a GPU the exact
 * operations cost ten times as much. */
#ifdef __CUDACC__
GSC__PURE float gsc__sqrt_near(float x) {
    float y;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
GSC__PURE float gsc__quotient_near(float a, float b) {
    return __fdividef(a, b);
}
#else
#define gsc__sqrt_near gsc__sqrt
GSC__PURE gsc_real gsc__quotient_near(gsc_real a, gsc_real b) {
    return a / b;
}
/* A zero that the compiler does not know: it may turn sqrt(max(x, 0)) into a choice between
 * sqrt(x) and 0, which raises "invalid" where x is negative. */
GSC__PURE gsc_real gsc__unknown_zero(void) {
    gsc_real zero = 0;
    __asm__("" : "+m"(zero));
    return zero;
}
#endif

/* |z| <= root in whitened coordinates z = (u, v).  There x = (u - k v) / r00 with k = r01 / r11,
 * which is largest at v = -extreme and smallest at v = extreme. */
typedef struct gsc__ellipse {
    gsc_real x, y, t, root, k, extreme, inverse_r00, r11, pad;
#ifndef __CUDACC__
    gsc_real zero;
#endif
} gsc__ellipse;
#ifdef __CUDACC__
#define GSC__ELLIPSE_ZERO(e) 0
#else
#define GSC__ELLIPSE_ZERO(e) (e)->zero
#endif

GSC__PURE gsc__ellipse gsc__ellipse_of(const gsc_real mean[2], gsc_real r00, gsc_real r01,
                                       gsc_real r11, gsc_real log2_alpha) {
    gsc__ellipse e;
    /* With the margins, rounding may add a pixel but never lose one. */
    e.t = log2_alpha * GSC_REAL(1.00001) + GSC_REAL(1e-5);
    e.root = gsc__sqrt_near(e.t);
    e.k = gsc__quotient_near(r01, r11);
    gsc_real lean = gsc__sqrt_near(1 + e.k * e.k);
    e.extreme = gsc__quotient_near(e.k * e.root, lean);
    e.inverse_r00 = gsc__quotient_near(1, r00);
    e.r11 = r11;
    e.pad = GSC_REAL(0.01) + GSC_REAL(2e-6) * e.root * lean * e.inverse_r00;
    e.x = mean[0];
    e.y = mean[1];
#ifndef __CUDACC__
    e.zero = gsc__unknown_zero();
#endif
    return e;
}

/* Pixel columns [*first, *last] of the rows y0 to y1 (pixel centres), between columns
 * x_min and x_max; empty if *last < *first. */
GSC__PURE void gsc__ellipse_slab(const gsc__ellipse *e, gsc_real y0, gsc_real y1, gsc_real x_min,
                                 gsc_real x_max, int32_t *first, int32_t *last) {
    gsc_real v0 = gsc__clamp(e->r11 * (y0 - e->y - e->pad), -e->root, e->root);
    gsc_real v1 = gsc__clamp(e->r11 * (y1 - e->y + e->pad), -e->root, e->root);
    gsc_real left_v = gsc__clamp(e->extreme, v0, v1);
    gsc_real right_v = gsc__clamp(-e->extreme, v0, v1);
    gsc_real left_u = gsc__sqrt_near(gsc__fmax(e->t - left_v * left_v, GSC__ELLIPSE_ZERO(e)));
    gsc_real right_u = gsc__sqrt_near(gsc__fmax(e->t - right_v * right_v, GSC__ELLIPSE_ZERO(e)));
    gsc_real left = e->x - (left_u + e->k * left_v) * e->inverse_r00 - e->pad;
    gsc_real right = e->x + (right_u - e->k * right_v) * e->inverse_r00 + e->pad;
    /* Outside the columns on either side the range is empty. */
    *first = (int32_t)gsc__ceil(gsc__clamp(left, x_min, x_max + 1));
    *last = (int32_t)gsc__floor(gsc__clamp(right, x_min - 1, x_max));
}

#endif
