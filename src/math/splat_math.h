/* The mathematics of one Gaussian seen by one camera.  Pure functions, shared by the CPU backend,
 * the double-precision oracle and the CUDA kernels.
 *
 * Sources: EWA Splatting, Zwicker et al. 2001 (2D covariance by the Jacobian of the
 * perspective map); 3D Gaussian Splatting, Kerbl et al. 2023 (conventions);
 * Mip-Splatting, Yu et al. 2024 (opacity compensation of the screen-space filter). */
#ifndef GSC_SPLAT_MATH_H
#define GSC_SPLAT_MATH_H

#include "real.h"

#ifdef __CUDACC__
#define GSC__PURE static __device__ __forceinline__
#else
#include <math.h>
#include <stdbool.h>
#define GSC__PURE static inline
#endif

#ifdef GSC_DOUBLE
#define gsc__sqrt sqrt
#define gsc__ceil ceil
#define gsc__floor floor
#define gsc__fabs fabs
#define gsc__fma fma
#define gsc__log2 log2
#define gsc__exp exp
#else
#define gsc__sqrt sqrtf
#define gsc__ceil ceilf
#define gsc__floor floorf
#define gsc__fabs fabsf
#define gsc__fma fmaf
#define gsc__log2 log2f
#define gsc__exp expf
#endif

#define GSC__ALPHA_MAX GSC_REAL(0.99)
#define GSC__ALPHA_MIN (GSC_REAL(1.0) / GSC_REAL(255.0))
#define GSC__TRANSMITTANCE_MIN GSC_REAL(1e-4)
#define GSC__LOG2_255 GSC_REAL(7.994353436858858) /* -log2(GSC__ALPHA_MIN) */
#define GSC__HALF_LOG2_E GSC_REAL(0.7213475204444817)
#define GSC__COMPENSATION2_MIN GSC_REAL(2.5e-5) /* minimum of the squared opacity compensation */
#define GSC__COMPAT_TILE 16                     /* the original clips its splats to tiles */

typedef struct gsc__camera {
    gsc_real rotation[3][3]; /* world to camera */
    gsc_real translation[3];
    gsc_real position[3]; /* centre, in the world */
    gsc_real clip[3][4];  /* rows x, y, w of world to clip; used if by_clip */
    gsc_real fx, fy;      /* pixels */
    gsc_real cx, cy;      /* principal point; pixel (j, i) has its centre at (j, i) */
    gsc_real ratio_min[2], ratio_max[2]; /* clamp of x/z and y/z in the Jacobian */
    gsc_real near_plane, far_plane;
    gsc_real blur;
    gsc_real width, height;
    gsc_real reach_of_size[2]; /* see gsc__camera_make_reach */
    gsc_real reach_of_depth[2];
    bool by_clip; /* means go through clip */
    bool compat;
    bool antialias;
    bool mip; /* antialias as Mip-Splatting's rasterizer */
} gsc__camera;

/* A Gaussian in view, with what backward needs again. */
typedef struct gsc__projection {
    gsc_real point[3]; /* camera space */
    gsc_real ratio[2]; /* x/z and y/z, clamped */
    bool clamped[2];
    gsc_real jw[2][3];   /* Jacobian times rotation */
    gsc_real scale[3];   /* bounded, times the scale modifier; unused with covariances */
    gsc_real axes[3][3]; /* columns: the scaled principal axes; unused with covariances */
    gsc_real rows[2][3]; /* jw axes, so that cov without blur is rows rows^T; with covariances
                            jw Sigma */
    gsc_real cross[3];   /* rows[0] x rows[1]; unused with covariances */
    gsc_real mean[2];    /* pixels, see gsc__camera.cx */
    gsc_real cov[3];     /* xx xy yy, blurred */
    gsc_real det_sharp, det;
    gsc_real compensation; /* of opacity; 1 without antialiasing */
} gsc__projection;

/* One instruction each, unlike fmin and fmax.  If a is NaN, the result is b. */
GSC__PURE gsc_real gsc__fmin(gsc_real a, gsc_real b) {
    return a < b ? a : b;
}
GSC__PURE gsc_real gsc__fmax(gsc_real a, gsc_real b) {
    return a > b ? a : b;
}

GSC__PURE gsc_real gsc__dot3(const gsc_real a[3], const gsc_real b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* a b - c d without the cancellation of the direct form (Kahan; Jeannerod et al. 2013). */
GSC__PURE gsc_real gsc__difference_of_products(gsc_real a, gsc_real b, gsc_real c, gsc_real d) {
    gsc_real cd = c * d;
    gsc_real error = gsc__fma(-c, d, cd);
    return gsc__fma(a, b, -cd) + error;
}

GSC__PURE gsc_real gsc__clamp(gsc_real x, gsc_real low, gsc_real high) {
    return gsc__fmin(gsc__fmax(x, low), high);
}

/* False for NaN and infinities, even if the compiler assumes that there are none. */
GSC__PURE bool gsc__finite(gsc_real x) {
    return gsc__fabs(x) <= (GSC_REAL_BITS == 64 ? (gsc_real)1.7e308 : (gsc_real)3.4e38);
}

/* 1 / (1 + e^-x) and its derivative, without overflow and, unlike s (1 - s), without cancellation
 * close to 1. */
GSC__PURE gsc_real gsc__sigmoid(gsc_real x) {
    gsc_real e = gsc__exp(-gsc__fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}
GSC__PURE gsc_real gsc__sigmoid_grad(gsc_real x) {
    gsc_real e = gsc__exp(-gsc__fabs(x));
    return e / ((1 + e) * (1 + e));
}

/* The unit vector, and 1 / |x|; zeros for a zero vector.  Squares of finite numbers may be infinite
 * or zero, so very long and very short vectors are scaled first. */
GSC__PURE gsc_real gsc__unit(const gsc_real *x, int count, gsc_real *unit) {
    gsc_real norm2 = 0, factor = 1;
    for (int i = 0; i < count; ++i) norm2 += x[i] * x[i];
    if (!(norm2 > GSC_REAL(1e-30) && norm2 < GSC_REAL(1e30))) {
        factor = norm2 < 1 ? GSC_REAL(1e30) : GSC_REAL(1e-30);
        norm2 = 0;
        for (int i = 0; i < count; ++i) norm2 += (factor * x[i]) * (factor * x[i]);
    }
    gsc_real inverse = norm2 > 0 ? 1 / gsc__sqrt(norm2) : 0;
    for (int i = 0; i < count; ++i) unit[i] = factor * x[i] * inverse;
    return gsc__fmin(factor * inverse, GSC_REAL(1e38));
}

/* The unit quaternion (w x y z) of the exact convention; returns 1 / |q|.  A zero quaternion is the
 * identity, with inverse norm 0, which stops its gradient. */
GSC__PURE gsc_real gsc__normalise(const gsc_real q[4], gsc_real unit[4]) {
    gsc_real inverse = gsc__unit(q, 4, unit);
    if (inverse == 0 && gsc__finite(q[0] + q[1] + q[2] + q[3])) unit[0] = 1;
    return inverse;
}

GSC__PURE void gsc__rotation_matrix(const gsc_real q[4], gsc_real r[3][3]) {
    gsc_real w = q[0], x = q[1], y = q[2], z = q[3];
    r[0][0] = 1 - 2 * (y * y + z * z);
    r[0][1] = 2 * (x * y - w * z);
    r[0][2] = 2 * (x * z + w * y);
    r[1][0] = 2 * (x * y + w * z);
    r[1][1] = 1 - 2 * (x * x + z * z);
    r[1][2] = 2 * (y * z - w * x);
    r[2][0] = 2 * (x * z - w * y);
    r[2][1] = 2 * (y * z + w * x);
    r[2][2] = 1 - 2 * (x * x + y * y);
}

GSC__PURE void gsc__to_camera(const gsc__camera *camera, const gsc_real mean[3],
                              gsc_real point[3]) {
    for (int i = 0; i < 3; ++i)
        point[i] = gsc__dot3(camera->rotation[i], mean) + camera->translation[i];
}

/* Is the point between the planes?  False for a point that is not finite. */
GSC__PURE bool gsc__in_depth_range(const gsc__camera *camera, const gsc_real point[3]) {
    return point[2] > camera->near_plane && point[2] <= camera->far_plane &&
           gsc__finite(point[0]) && gsc__finite(point[1]) && gsc__finite(point[2]);
}

GSC__PURE void gsc__project_mean(const gsc__camera *camera, const gsc_real mean[3],
                                 gsc__projection *p) {
    if (!camera->by_clip) {
        p->mean[0] = camera->fx * p->point[0] / p->point[2] + camera->cx;
        p->mean[1] = camera->fy * p->point[1] / p->point[2] + camera->cy;
        return;
    }
    gsc_real h[3];
    for (int i = 0; i < 3; ++i) h[i] = gsc__dot3(camera->clip[i], mean) + camera->clip[i][3];
    gsc_real inverse_w = 1 / (h[2] + GSC_REAL(1e-7));
    p->mean[0] = (gsc_real)((((double)(h[0] * inverse_w) + 1.0) * camera->width - 1.0) * 0.5);
    p->mean[1] = (gsc_real)((((double)(h[1] * inverse_w) + 1.0) * camera->height - 1.0) * 0.5);
}

/* Fills ratio, clamped and jw from point. */
GSC__PURE void gsc__project_jacobian(const gsc__camera *camera, gsc__projection *p) {
    gsc_real inverse_z = 1 / p->point[2];
    for (int i = 0; i < 2; ++i) {
        gsc_real ratio = p->point[i] * inverse_z;
        p->ratio[i] = gsc__clamp(ratio, camera->ratio_min[i], camera->ratio_max[i]);
        p->clamped[i] = ratio < camera->ratio_min[i] || ratio > camera->ratio_max[i];
        gsc_real focal = (i == 0 ? camera->fx : camera->fy) * inverse_z;
        for (int k = 0; k < 3; ++k)
            p->jw[i][k] = focal * (camera->rotation[i][k] - p->ratio[i] * camera->rotation[2][k]);
    }
}

/* The sharp covariance from its factor rows, with a determinant that cannot be negative: by
 * Cauchy-Binet it is the squared length of the rows' cross product. */
GSC__PURE void gsc__covariance_from_rows(gsc__projection *p) {
    const gsc_real *a = p->rows[0], *b = p->rows[1];
    p->cov[0] = gsc__dot3(a, a);
    p->cov[1] = gsc__dot3(a, b);
    p->cov[2] = gsc__dot3(b, b);
    p->cross[0] = gsc__difference_of_products(a[1], b[2], a[2], b[1]);
    p->cross[1] = gsc__difference_of_products(a[2], b[0], a[0], b[2]);
    p->cross[2] = gsc__difference_of_products(a[0], b[1], a[1], b[0]);
    p->det_sharp = gsc__dot3(p->cross, p->cross);
}

/* The scale in use: an axis of more than 1e8 pixels is made that short, so that determinants stay
 * finite.  No image can tell: its alpha changes by less than rounding does. */
GSC__PURE void gsc__bound_scale(const gsc_real scale[3], gsc__projection *p) {
    gsc_real longest = 0;
    for (int i = 0; i < 2; ++i)
        for (int k = 0; k < 3; ++k) longest = gsc__fmax(longest, gsc__fabs(p->jw[i][k]));
    for (int j = 0; j < 3; ++j) {
        const bool bounded = gsc__fabs(scale[j]) * longest > GSC_REAL(1e8) && gsc__finite(scale[j]);
        p->scale[j] = bounded ? (scale[j] < 0 ? -1 : 1) * GSC_REAL(1e8) / longest : scale[j];
    }
}

/* scale: standard deviations times the scale modifier; rotation as stored. */
GSC__PURE void gsc__project_axes(const gsc__camera *camera, const gsc_real scale[3],
                                 const gsc_real rotation[4], gsc__projection *p) {
    gsc_real unit[4], r[3][3];
    if (camera->compat)
        for (int i = 0; i < 4; ++i) unit[i] = rotation[i];
    else
        (void)gsc__normalise(rotation, unit);
    gsc__rotation_matrix(unit, r);
    gsc__bound_scale(scale, p);
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) p->axes[i][j] = r[i][j] * p->scale[j];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 3; ++j)
            p->rows[i][j] = p->jw[i][0] * p->axes[0][j] + p->jw[i][1] * p->axes[1][j] +
                            p->jw[i][2] * p->axes[2][j];
    gsc__covariance_from_rows(p);
}

/* covariance: xx xy xz yy yz zz. */
GSC__PURE void gsc__project_covariance(const gsc_real covariance[6], gsc__projection *p) {
    const gsc_real *s = covariance;
    for (int i = 0; i < 2; ++i) {
        const gsc_real *t = p->jw[i];
        p->rows[i][0] = t[0] * s[0] + t[1] * s[1] + t[2] * s[2];
        p->rows[i][1] = t[0] * s[1] + t[1] * s[3] + t[2] * s[4];
        p->rows[i][2] = t[0] * s[2] + t[1] * s[4] + t[2] * s[5];
    }
    p->cov[0] = gsc__dot3(p->rows[0], p->jw[0]);
    p->cov[1] = gsc__dot3(p->rows[0], p->jw[1]);
    p->cov[2] = gsc__dot3(p->rows[1], p->jw[1]);
    p->det_sharp = gsc__difference_of_products(p->cov[0], p->cov[2], p->cov[1], p->cov[1]);
}

/* Mip-Splatting hides a splat whose determinants are this small, and adds it here and there. */
#define GSC__MIP_EPSILON GSC_REAL(1e-6)

/* The factor of the opacity with antialiasing. */
GSC__PURE gsc_real gsc__compensation(const gsc__camera *camera, gsc_real det_sharp, gsc_real det) {
    const gsc_real e = GSC__MIP_EPSILON;
    if (!camera->mip) return gsc__sqrt(gsc__fmax(det_sharp / det, GSC__COMPENSATION2_MIN));
    return det_sharp > e && det > e ? gsc__sqrt(det_sharp / (det + e) + e) : 0;
}

/* Adds the blur.  False if the result is not an ellipse or not finite. */
GSC__PURE bool gsc__blur(const gsc__camera *camera, gsc__projection *p) {
    gsc_real blur = camera->blur;
    p->det = p->det_sharp + blur * (p->cov[0] + p->cov[2]) + blur * blur;
    p->cov[0] += blur;
    p->cov[2] += blur;
    p->compensation = 1;
    if (!(p->det > 0 && p->cov[0] > 0 && p->cov[2] > 0)) return false;
    if (!gsc__finite(p->det) || !gsc__finite(p->cov[0]) || !gsc__finite(p->cov[2])) return false;
    if (camera->antialias) p->compensation = gsc__compensation(camera, p->det_sharp, p->det);
    return true;
}

/* Half-extents of the compat convention: 3 standard deviations of the larger eigenvalue, with the
 * original's floor of 0.1 inside the square root.  Its training saw the same splats dropped. */
GSC__PURE gsc_real gsc__compat_radius(const gsc__projection *p) {
    gsc_real mid = (p->cov[0] + p->cov[2]) / 2;
    gsc_real half = (p->cov[0] - p->cov[2]) / 2;
    gsc_real spread = gsc__sqrt(gsc__fmax(half * half + p->cov[1] * p->cov[1], GSC_REAL(0.1)));
    return gsc__ceil(3 * gsc__sqrt(mid + spread));
}

/* Half-extents in pixels, rounded up.  False if both are at most radius_clip, or if their box
 * misses the image, which compat does not test here.  log2_alpha: log2(255 opacity). */
GSC__PURE bool gsc__splat_radii(const gsc__camera *camera, const gsc__projection *p,
                                gsc_real radius_clip, gsc_real log2_alpha, gsc_real radii[2]) {
    if (camera->compat) {
        radii[0] = radii[1] = gsc__compat_radius(p);
    } else {
        if (!(log2_alpha >= 0)) return false;
        gsc_real reach = gsc__sqrt(log2_alpha / GSC__HALF_LOG2_E);
        radii[0] = gsc__ceil(reach * gsc__sqrt(p->cov[0]));
        radii[1] = gsc__ceil(reach * gsc__sqrt(p->cov[2]));
    }
    if (radii[0] <= radius_clip && radii[1] <= radius_clip) return false;
    for (int axis = 0; axis < 2; ++axis) {
        radii[axis] = gsc__fmin(radii[axis], GSC_REAL(1e9));
        gsc_real size = axis == 0 ? camera->width : camera->height;
        gsc_real centre = p->mean[axis] + GSC_REAL(0.5);
        if (camera->compat) continue;
        if (!(centre + radii[axis] > 0 && centre - radii[axis] < size)) return false;
    }
    return true;
}

/* The whitening factor of the blurred covariance, scaled to base-2 exponents: with
 * u = r00 dx + r01 dy and v = r11 dy the Gaussian is 2^-(u^2 + v^2).  It costs two more
 * multiplications per pixel than the expanded conic, but its error on long thin splats is two
 * orders of magnitude smaller. */
GSC__PURE void gsc__whiten(const gsc__projection *p, gsc_real *r00, gsc_real *r01, gsc_real *r11) {
    gsc_real inverse_c = 1 / p->cov[2];
    *r11 = gsc__sqrt(GSC__HALF_LOG2_E * inverse_c);
    *r00 = gsc__sqrt(GSC__HALF_LOG2_E * p->cov[2] / p->det);
    *r01 = -p->cov[1] * inverse_c * *r00;
}

#endif
