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
    gsc_real cov[3];  /* xx xy yy, blurred; xy stands for both entries off the diagonal */
    gsc_real opacity; /* after antialiasing */
    gsc_real depth;
} gsc__splat_grad;

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
    const gsc_real *scale;            /* [3] without the modifier; NULL with covariances */
    const gsc_real *rotation;         /* [4] as stored */
    gsc_real scale_modifier, opacity; /* without compensation */
} gsc__gaussian;

/* Through the opacity compensation sqrt(det_sharp / det), to opacity and cov. */
GSC__PURE void gsc__compensation_grad(const gsc__camera *camera, const gsc__projection *p,
                                      gsc_real opacity, gsc__splat_grad *splat,
                                      gsc__gaussian_grad *out) {
    out->opacity = splat->opacity * p->compensation;
    if (!camera->antialias || !(p->det_sharp > GSC__COMPENSATION2_MIN * p->det)) return;
    gsc_real blur = camera->blur;
    gsc_real a = p->cov[0], b = p->cov[1], c = p->cov[2];
    gsc_real sharp_a = a - blur, sharp_c = c - blur;
    gsc_real det_sharp = p->det_sharp, det = p->det;
    if (camera->compat) {
        /* The original differentiates at the covariance blurred once more. */
        sharp_a = a;
        sharp_c = c;
        a += blur;
        c += blur;
        det_sharp = p->det;
        det = a * c - b * b;
    }
    gsc_real ratio = det_sharp / det;
    gsc_real grad_ratio = splat->opacity * opacity / (2 * p->compensation * det);
    splat->cov[0] += grad_ratio * (sharp_c - ratio * c);
    splat->cov[1] -= grad_ratio * 2 * b * (1 - ratio);
    splat->cov[2] += grad_ratio * (sharp_a - ratio * a);
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

/* From g, the derivative with respect to the axes, to scales and rotation. */
GSC__PURE void gsc__axes_grad(const gsc__camera *camera, const gsc__gaussian *gaussian,
                              const gsc_real g[3][3], gsc__gaussian_grad *out) {
    const gsc_real *scale = gaussian->scale, *rotation = gaussian->rotation;
    const gsc_real modifier = gaussian->scale_modifier;
    gsc_real unit[4], r[3][3], grad_r[3][3], inverse = 1;
    if (camera->compat)
        for (int i = 0; i < 4; ++i) unit[i] = rotation[i];
    else
        inverse = gsc__normalise(rotation, unit);
    gsc__rotation_matrix(unit, r);
    for (int j = 0; j < 3; ++j) {
        gsc_real grad_scale = r[0][j] * g[0][j] + r[1][j] * g[1][j] + r[2][j] * g[2][j];
        /* The original leaves the modifier's factor out. */
        out->scale[j] = camera->compat ? grad_scale : grad_scale * modifier;
        for (int i = 0; i < 3; ++i) grad_r[i][j] = g[i][j] * scale[j] * modifier;
    }
    gsc__rotation_grad(unit, (const gsc_real(*)[3])grad_r, out->rotation);
    if (camera->compat) return;
    gsc_real along = 0;
    for (int i = 0; i < 4; ++i) along += unit[i] * out->rotation[i];
    for (int i = 0; i < 4; ++i) out->rotation[i] = (out->rotation[i] - unit[i] * along) * inverse;
}

/* From the 2D covariance to jw, and to the parameters of the covariance. */
GSC__PURE void gsc__covariance_grad(const gsc__camera *camera, const gsc__gaussian *gaussian,
                                    const gsc__projection *p, const gsc_real cov[3],
                                    gsc_real grad_jw[2][3], gsc__gaussian_grad *out) {
    gsc_real grad_rows[2][3];
    for (int k = 0; k < 3; ++k) {
        grad_rows[0][k] = 2 * cov[0] * p->rows[0][k] + cov[1] * p->rows[1][k];
        grad_rows[1][k] = cov[1] * p->rows[0][k] + 2 * cov[2] * p->rows[1][k];
    }
    if (!gaussian->scale) {
        /* rows = jw Sigma, so this is already the derivative with respect to jw. */
        const gsc_real *s = p->jw[0], *t = p->jw[1];
        for (int i = 0, at = 0; i < 3; ++i)
            for (int j = i; j < 3; ++j, ++at) {
                gsc_real cross = s[i] * t[j] + t[i] * s[j];
                gsc_real g = cov[0] * s[i] * s[j] + cov[1] * cross / 2 + cov[2] * t[i] * t[j];
                out->covariance[at] = i == j ? g : 2 * g;
            }
        for (int i = 0; i < 2; ++i)
            for (int k = 0; k < 3; ++k) grad_jw[i][k] = grad_rows[i][k];
        return;
    }
    gsc_real grad_axes[3][3];
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j)
            grad_axes[i][j] = p->jw[0][i] * grad_rows[0][j] + p->jw[1][i] * grad_rows[1][j];
    for (int i = 0; i < 2; ++i)
        for (int k = 0; k < 3; ++k) grad_jw[i][k] = gsc__dot3(grad_rows[i], p->axes[k]);
    gsc__axes_grad(camera, gaussian, (const gsc_real(*)[3])grad_axes, out);
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

/* The whole way back.  Changes splat and overwrites out; p comes from forward's functions on the
 * same values. */
GSC__PURE void gsc__project_grad(const gsc__camera *camera, const gsc__gaussian *gaussian,
                                 const gsc__projection *p, gsc__splat_grad *splat,
                                 gsc__gaussian_grad *out) {
    const gsc_real *mean = gaussian->mean;
    gsc_real grad_point[3] = {0, 0, splat->depth}, grad_jw[2][3];
    for (int k = 0; k < 3; ++k) out->mean[k] = 0;
    for (int i = 0; i < 3; ++i)
        for (int k = 0; k < 4; ++k) out->view[i][k] = 0;
    gsc__compensation_grad(camera, p, gaussian->opacity, splat, out);
    gsc__covariance_grad(camera, gaussian, p, splat->cov, grad_jw, out);
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
