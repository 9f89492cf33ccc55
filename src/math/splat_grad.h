/* Derivatives of splat_math.h and sh_math.h: from a splat in the image back to its Gaussian and
 * its camera.
 *
 * The exact convention differentiates what forward computes.  Compat keeps the original's
 * conventions where training depends on them; docs/numerics.md lists these. */
#ifndef GSC_SPLAT_GRAD_H
#define GSC_SPLAT_GRAD_H

#include "sh_math.h"

/* Derivatives of the loss with respect to what one camera sees of a Gaussian. */
typedef struct gsc__splat_grad {
    gsc_real mean[2];
    gsc_real r00, r01, r11; /* the record's whitening factor R */
    gsc_real white[3]; /* uu uv vv of the symmetric matrix M: R^T M R is the derivative with respect
                          to the covariance */
    gsc_real opacity;  /* after antialiasing */
    gsc_real depth;
} gsc__splat_grad;

/* From moments in whitened coordinates, sums of w, w u, w v, w u^2, w u v and w v^2 with
 * w = alpha dL/dalpha.  With z = (u, v) = R d and alpha = opacity 2^-|z|^2:
 * d alpha / d mean = 2 ln 2 alpha R^T z, d alpha / d covariance = (2 ln 2)^2 / 2 alpha R^T z z^T R. */
GSC__PURE void gsc__moments_grad(const gsc_real moments[6], gsc__splat_grad *out) {
    const gsc_real two_ln2 = 1 / GSC__HALF_LOG2_E; /* log2(e) = 1 / ln 2 */
    out->mean[0] = two_ln2 * out->r00 * moments[1];
    out->mean[1] = two_ln2 * (out->r01 * moments[1] + out->r11 * moments[2]);
    for (int i = 0; i < 3; ++i) out->white[i] = two_ln2 * two_ln2 / 2 * moments[3 + i];
}

/* Derivatives with respect to the Gaussian's parameters and the camera's view matrix. */
typedef struct gsc__gaussian_grad {
    gsc_real mean[3];
    gsc_real opacity;
    gsc_real scale[3];
    gsc_real rotation[4];
    gsc_real covariance[6]; /* off the diagonal, each stands for both entries */
    gsc_real view[3][4];
} gsc__gaussian_grad;

/* A Gaussian as forward saw it. */
typedef struct gsc__gaussian {
    const gsc_real *mean;             /* [3] */
    const gsc_real *rotation;         /* [4] as stored; NULL with covariances */
    gsc_real scale_modifier, opacity; /* without compensation */
} gsc__gaussian;

/* Derivatives of the loss through the opacity compensation sqrt(det_sharp / det). */
typedef struct gsc__compensation_grad {
    gsc_real det_sharp; /* with respect to it */
    gsc_real trace;     /* with respect to the trace of the blurred covariance */
    gsc_real white;     /* added to the diagonal of gsc__splat_grad.white */
} gsc__compensation_grad;

/* The derivative of det with respect to the covariance is det times its inverse, and in whitened
 * coordinates a multiple of the identity. */
GSC__PURE gsc__compensation_grad gsc__compensation_grad_of(const gsc__camera *camera,
                                                           const gsc__projection *p,
                                                           gsc_real grad_opacity,
                                                           gsc_real opacity) {
    gsc__compensation_grad out = {0, 0, 0};
    if (!camera->antialias) return out;
    if (camera->mip) {
        /* Where the exact derivative has rho and (det + e)^2, the original has these. */
        const gsc_real e = GSC__MIP_EPSILON, rho = p->compensation;
        if (rho == 0) return out;
        const gsc_real half = grad_opacity * opacity * (rho / (rho + e)) / (2 * (rho + e));
        out.det_sharp = half / (p->det + e);
        out.white = -half * (p->det_sharp * p->det / (p->det * p->det + e)) / GSC__HALF_LOG2_E;
        return out;
    }
    if (!(p->det_sharp > GSC__COMPENSATION2_MIN * p->det)) return out;
    const gsc_real grad_ratio = grad_opacity * opacity / (2 * p->compensation);
    if (camera->compat) {
        /* The original differentiates at the covariance blurred once more; the adjugate of that
         * one is the adjugate of the other plus blur I. */
        const gsc_real more = camera->blur * (p->cov[0] + p->cov[2] + camera->blur);
        const gsc_real det = p->det + more;
        out.trace = -grad_ratio * camera->blur * p->det / (det * det);
        out.white = grad_ratio * (more / det) * (p->det / det) / GSC__HALF_LOG2_E;
    } else {
        out.det_sharp = grad_ratio / p->det;
        out.white = -grad_ratio * (p->det_sharp / p->det) / GSC__HALF_LOG2_E;
    }
    return out;
}

/* With respect to the unit quaternion or, in compat, to the stored one; g: with respect to the
 * matrix. */
GSC__PURE void gsc__rotation_grad(const gsc_real q[4], const gsc_real g[3][3], gsc_real out[4]) {
    gsc_real w = q[0], x = q[1], y = q[2], z = q[3];
    out[0] = 2 * (x * (g[2][1] - g[1][2]) + y * (g[0][2] - g[2][0]) + z * (g[1][0] - g[0][1]));
    out[1] = 2 * (y * (g[0][1] + g[1][0]) + z * (g[0][2] + g[2][0]) + w * (g[2][1] - g[1][2])) -
             4 * x * (g[1][1] + g[2][2]);
    out[2] = 2 * (x * (g[0][1] + g[1][0]) + z * (g[1][2] + g[2][1]) + w * (g[0][2] - g[2][0])) -
             4 * y * (g[0][0] + g[2][2]);
    out[3] = 2 * (x * (g[0][2] + g[2][0]) + y * (g[1][2] + g[2][1]) + w * (g[1][0] - g[0][1])) -
             4 * z * (g[0][0] + g[1][1]);
}

/* From g, the derivative with respect to the axes, to the rotation. */
GSC__PURE void gsc__axes_grad(const gsc__camera *camera, const gsc_real rotation[4],
                              const gsc_real scale[3], const gsc_real g[3][3],
                              gsc__gaussian_grad *out) {
    gsc_real unit[4], grad_r[3][3], inverse = 1;
    if (camera->compat)
        for (int i = 0; i < 4; ++i) unit[i] = rotation[i];
    else
        inverse = gsc__normalise(rotation, unit);
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j) grad_r[i][j] = g[i][j] * scale[j];
    gsc__rotation_grad(unit, (const gsc_real(*)[3])grad_r, out->rotation);
    if (camera->compat) return;
    gsc_real along = 0;
    for (int i = 0; i < 4; ++i) along += unit[i] * out->rotation[i];
    for (int i = 0; i < 4; ++i) out->rotation[i] = (out->rotation[i] - unit[i] * along) * inverse;
}

/* With covariances, rows = jw Sigma. */
GSC__PURE void gsc__given_covariance_grad(const gsc__camera *camera, const gsc__projection *p,
                                          const gsc__splat_grad *splat,
                                          const gsc__compensation_grad *compensation,
                                          gsc_real grad_jw[2][3], gsc__gaussian_grad *out) {
    const gsc_real r00 = splat->r00, r01 = splat->r01, r11 = splat->r11;
    const gsc_real *s = p->jw[0], *t = p->jw[1], det_sharp = compensation->det_sharp;
    const gsc_real uu = splat->white[0] + compensation->white, uv = splat->white[1];
    const gsc_real vv = splat->white[2] + compensation->white;
    const gsc_real xx =
        r00 * r00 * uu + compensation->trace + det_sharp * (p->cov[2] - camera->blur);
    const gsc_real xy = 2 * r00 * (r01 * uu + r11 * uv) - 2 * det_sharp * p->cov[1];
    const gsc_real yy = r01 * r01 * uu + 2 * r01 * r11 * uv + r11 * r11 * vv + compensation->trace +
                        det_sharp * (p->cov[0] - camera->blur);
    for (int i = 0, at = 0; i < 3; ++i)
        for (int j = i; j < 3; ++j, ++at) {
            gsc_real g = xx * s[i] * s[j] + xy * (s[i] * t[j] + t[i] * s[j]) / 2 + yy * t[i] * t[j];
            out->covariance[at] = i == j ? g : 2 * g;
        }
    for (int k = 0; k < 3; ++k) {
        grad_jw[0][k] = 2 * xx * p->rows[0][k] + xy * p->rows[1][k];
        grad_jw[1][k] = xy * p->rows[0][k] + 2 * yy * p->rows[1][k];
    }
}

GSC__PURE void gsc__cross(const gsc_real a[3], const gsc_real b[3], gsc_real out[3]) {
    out[0] = a[1] * b[2] - a[2] * b[1];
    out[1] = a[2] * b[0] - a[0] * b[2];
    out[2] = a[0] * b[1] - a[1] * b[0];
}

/* From the 2D covariance to jw, scales and rotation.
 *
 * (R^T M R) rows would lose a digit for each factor of ten between length and width of a splat.
 * R^T (M (R rows)) does not: entries of R rows are at most about one, and with the rows a and b
 * and n = a x b they are r00 / cov[2] (blur a + b x n) and r11 b, without cancellation. */
GSC__PURE void gsc__axes_covariance_grad(const gsc__camera *camera, const gsc__gaussian *gaussian,
                                         const gsc__projection *p, const gsc__splat_grad *splat,
                                         const gsc__compensation_grad *compensation,
                                         gsc_real grad_jw[2][3], gsc__gaussian_grad *out) {
    const gsc_real *a = p->rows[0], *b = p->rows[1];
    const gsc_real uu = splat->white[0] + compensation->white, uv = splat->white[1];
    const gsc_real vv = splat->white[2] + compensation->white;
    const gsc_real to_u = splat->r00 / p->cov[2];
    gsc_real bn[3], na[3], grad_rows[2][3], grad_axes[3][3];
    gsc__cross(b, p->cross, bn);
    gsc__cross(p->cross, a, na);
    for (int j = 0; j < 3; ++j) {
        const gsc_real u = to_u * (camera->blur * a[j] + bn[j]), v = splat->r11 * b[j];
        const gsc_real grad_u = 2 * (uu * u + uv * v), grad_v = 2 * (uv * u + vv * v);
        const gsc_real grad_a = 2 * (compensation->trace * a[j] + compensation->det_sharp * bn[j]);
        const gsc_real grad_b = 2 * (compensation->trace * b[j] + compensation->det_sharp * na[j]);
        const gsc_real inverse = gsc__fabs(p->scale[j]) > GSC_REAL(1e-37) ? 1 / p->scale[j] : 0;
        out->scale[j] = u * inverse * grad_u + v * inverse * grad_v + a[j] * inverse * grad_a +
                        b[j] * inverse * grad_b;
        /* The original leaves the modifier's factor out. */
        if (!camera->compat) out->scale[j] *= gaussian->scale_modifier;
        grad_rows[0][j] = splat->r00 * grad_u + grad_a;
        grad_rows[1][j] = splat->r01 * grad_u + splat->r11 * grad_v + grad_b;
    }
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j)
            grad_axes[i][j] = p->jw[0][i] * grad_rows[0][j] + p->jw[1][i] * grad_rows[1][j];
    for (int i = 0; i < 2; ++i)
        for (int k = 0; k < 3; ++k) grad_jw[i][k] = gsc__dot3(grad_rows[i], p->axes[k]);
    gsc__axes_grad(camera, gaussian->rotation, p->scale, (const gsc_real(*)[3])grad_axes, out);
}

/* From jw = focal / z (rotation row - ratio rotation row 2) to the point in camera space and the
 * view's rotation. */
GSC__PURE void gsc__jacobian_grad(const gsc__camera *camera, const gsc__projection *p,
                                  const gsc_real grad_jw[2][3], gsc_real grad_point[3],
                                  gsc__gaussian_grad *out) {
    gsc_real inverse_z = 1 / p->point[2];
    for (int i = 0; i < 2; ++i) {
        gsc_real focal = (i == 0 ? camera->fx : camera->fy) * inverse_z;
        gsc_real grad_ratio = -focal * gsc__dot3(grad_jw[i], camera->rotation[2]);
        grad_point[2] -= inverse_z * gsc__dot3(grad_jw[i], p->jw[i]);
        if (!p->clamped[i]) grad_point[i] += grad_ratio * inverse_z;
        /* A clamped ratio does not depend on z; the original differentiates as if it did. */
        if (!p->clamped[i] || camera->compat) grad_point[2] -= grad_ratio * p->ratio[i] * inverse_z;
        for (int k = 0; k < 3; ++k) {
            out->view[i][k] += focal * grad_jw[i][k];
            out->view[2][k] -= focal * p->ratio[i] * grad_jw[i][k];
        }
    }
}

/* Projection of the mean: into grad_point, or with by_clip straight into the mean (the camera's
 * own derivative goes through the pinhole in both cases). */
GSC__PURE void gsc__mean_grad(const gsc__camera *camera, const gsc_real mean[3],
                              const gsc__projection *p, const gsc_real grad_mean2d[2],
                              gsc_real grad_point[3], gsc__gaussian_grad *out) {
    gsc_real inverse_z = 1 / p->point[2];
    gsc_real gx = grad_mean2d[0] * camera->fx * inverse_z;
    gsc_real gy = grad_mean2d[1] * camera->fy * inverse_z;
    gsc_real gz = -(gx * p->point[0] + gy * p->point[1]) * inverse_z;
    if (!camera->by_clip) {
        grad_point[0] += gx;
        grad_point[1] += gy;
        grad_point[2] += gz;
        return;
    }
    gsc_real g[3] = {gx, gy, gz};
    for (int i = 0; i < 3; ++i) {
        for (int k = 0; k < 3; ++k) out->view[i][k] += g[i] * mean[k];
        out->view[i][3] += g[i];
    }
    gsc_real h[3];
    for (int i = 0; i < 3; ++i) h[i] = gsc__dot3(camera->clip[i], mean) + camera->clip[i][3];
    gsc_real inverse_w = 1 / (h[2] + GSC_REAL(1e-7));
    gsc_real ax = grad_mean2d[0] * camera->width / 2 * inverse_w;
    gsc_real ay = grad_mean2d[1] * camera->height / 2 * inverse_w;
    gsc_real aw = -(ax * h[0] + ay * h[1]) * inverse_w;
    for (int k = 0; k < 3; ++k)
        out->mean[k] += ax * camera->clip[0][k] + ay * camera->clip[1][k] + aw * camera->clip[2][k];
}

/* The whole way back.  Overwrites out; p comes from forward's functions on the same values. */
GSC__PURE void gsc__project_grad(const gsc__camera *camera, const gsc__gaussian *gaussian,
                                 const gsc__projection *p, const gsc__splat_grad *splat,
                                 gsc__gaussian_grad *out) {
    const gsc_real *mean = gaussian->mean;
    gsc_real grad_point[3] = {0, 0, splat->depth}, grad_jw[2][3];
    for (int k = 0; k < 3; ++k) out->mean[k] = 0;
    for (int i = 0; i < 3; ++i)
        for (int k = 0; k < 4; ++k) out->view[i][k] = 0;
    const gsc__compensation_grad compensation =
        gsc__compensation_grad_of(camera, p, splat->opacity, gaussian->opacity);
    out->opacity = splat->opacity * p->compensation;
    if (gaussian->rotation)
        gsc__axes_covariance_grad(camera, gaussian, p, splat, &compensation, grad_jw, out);
    else
        gsc__given_covariance_grad(camera, p, splat, &compensation, grad_jw, out);
    gsc__jacobian_grad(camera, p, (const gsc_real(*)[3])grad_jw, grad_point, out);
    gsc__mean_grad(camera, mean, p, splat->mean, grad_point, out);
    for (int i = 0; i < 3; ++i) {
        for (int k = 0; k < 3; ++k) {
            out->mean[k] += grad_point[i] * camera->rotation[i][k];
            out->view[i][k] += grad_point[i] * mean[k];
        }
        out->view[i][3] += grad_point[i];
    }
}

/* With respect to the mean, through the viewing direction.  weight[k]: the sum over the channels of
 * the gradient with respect to the channel times its coefficient k.  The derivative with respect
 * to the camera's centre is the negative. */
GSC__PURE void gsc__sh_mean_grad(int degree, const gsc_real direction[3], gsc_real inverse_length,
                                 const gsc_real *weight, gsc_real grad_mean[3]) {
    gsc_real g[3] = {0, 0, 0};
    gsc__sh_direction_grad(degree, direction, weight, g);
    gsc_real along = gsc__dot3(g, direction);
    for (int i = 0; i < 3; ++i) grad_mean[i] = (g[i] - direction[i] * along) * inverse_length;
}

#endif
