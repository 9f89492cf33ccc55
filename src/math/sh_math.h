/* Real spherical harmonics up to degree 4 and their derivatives with respect to the direction.
 *
 * Constants and order are those of 3DGS (Kerbl et al. 2023; Sloan 2008 for degree 4).  The
 * polynomials are evaluated on unit vectors; how they extend off the sphere does not matter, since
 * only the tangential part of the derivative is used. */
#ifndef GSC_SH_MATH_H
#define GSC_SH_MATH_H

#include "splat_math.h"

#define GSC__SH_MAX_COEFFICIENTS 25

#define GSC__SH_0 GSC_REAL(0.28209479177387814)
#define GSC__SH_1 GSC_REAL(0.4886025119029199)
#define GSC__SH_2A GSC_REAL(1.0925484305920792)
#define GSC__SH_2B GSC_REAL(0.31539156525252005)
#define GSC__SH_2C GSC_REAL(0.5462742152960396)
#define GSC__SH_3A GSC_REAL(0.5900435899266435)
#define GSC__SH_3B GSC_REAL(2.890611442640554)
#define GSC__SH_3C GSC_REAL(0.4570457994644658)
#define GSC__SH_3D GSC_REAL(0.3731763325901154)
#define GSC__SH_3E GSC_REAL(1.445305721320277)
#define GSC__SH_4A GSC_REAL(2.5033429417967046)
#define GSC__SH_4B GSC_REAL(1.7701307697799304)
#define GSC__SH_4C GSC_REAL(0.9461746957575601)
#define GSC__SH_4D GSC_REAL(0.6690465435572892)
#define GSC__SH_4E GSC_REAL(0.10578554691520431)
#define GSC__SH_4F GSC_REAL(0.47308734787878004)
#define GSC__SH_4G GSC_REAL(0.6258357354491761)

/* mean - position, normalised; returns 1 / its length, or 0 if the two coincide. */
GSC__PURE gsc_real gsc__sh_direction(const gsc_real mean[3], const gsc_real position[3],
                                     gsc_real direction[3]) {
    for (int i = 0; i < 3; ++i) direction[i] = mean[i] - position[i];
    return gsc__unit(direction, 3, direction);
}

/* basis: [(degree + 1)^2] */
GSC__PURE void gsc__sh_basis(int degree, const gsc_real direction[3], gsc_real *basis) {
    gsc_real x = direction[0], y = direction[1], z = direction[2];
    gsc_real xx = x * x, yy = y * y, zz = z * z;
    basis[0] = GSC__SH_0;
    if (degree < 1) return;
    basis[1] = -GSC__SH_1 * y;
    basis[2] = GSC__SH_1 * z;
    basis[3] = -GSC__SH_1 * x;
    if (degree < 2) return;
    basis[4] = GSC__SH_2A * x * y;
    basis[5] = -GSC__SH_2A * y * z;
    basis[6] = GSC__SH_2B * (2 * zz - xx - yy);
    basis[7] = -GSC__SH_2A * x * z;
    basis[8] = GSC__SH_2C * (xx - yy);
    if (degree < 3) return;
    basis[9] = -GSC__SH_3A * y * (3 * xx - yy);
    basis[10] = GSC__SH_3B * x * y * z;
    basis[11] = -GSC__SH_3C * y * (4 * zz - xx - yy);
    basis[12] = GSC__SH_3D * z * (2 * zz - 3 * xx - 3 * yy);
    basis[13] = -GSC__SH_3C * x * (4 * zz - xx - yy);
    basis[14] = GSC__SH_3E * z * (xx - yy);
    basis[15] = -GSC__SH_3A * x * (xx - 3 * yy);
    if (degree < 4) return;
    basis[16] = GSC__SH_4A * x * y * (xx - yy);
    basis[17] = -GSC__SH_4B * y * z * (3 * xx - yy);
    basis[18] = GSC__SH_4C * x * y * (7 * zz - 1);
    basis[19] = -GSC__SH_4D * y * z * (7 * zz - 3);
    basis[20] = GSC__SH_4E * (zz * (35 * zz - 30) + 3);
    basis[21] = -GSC__SH_4D * x * z * (7 * zz - 3);
    basis[22] = GSC__SH_4F * (xx - yy) * (7 * zz - 1);
    basis[23] = -GSC__SH_4B * x * z * (xx - 3 * yy);
    basis[24] = GSC__SH_4G * (xx * (xx - 3 * yy) - yy * (3 * xx - yy));
}

/* Adds weight[k] times the gradient of basis k, for k in [1, (degree + 1)^2), to out.
 * weight: [(degree + 1)^2] */
GSC__PURE void gsc__sh_direction_grad(int degree, const gsc_real direction[3],
                                      const gsc_real *weight, gsc_real out[3]) {
    gsc_real x = direction[0], y = direction[1], z = direction[2];
    gsc_real xx = x * x, yy = y * y, zz = z * z;
    const gsc_real *w = weight;
    gsc_real gx = 0, gy = 0, gz = 0;
    if (degree >= 1) {
        gx -= GSC__SH_1 * w[3];
        gy -= GSC__SH_1 * w[1];
        gz += GSC__SH_1 * w[2];
    }
    if (degree >= 2) {
        gx += GSC__SH_2A * (y * w[4] - z * w[7]) - 2 * GSC__SH_2B * x * w[6] +
              2 * GSC__SH_2C * x * w[8];
        gy += GSC__SH_2A * (x * w[4] - z * w[5]) - 2 * GSC__SH_2B * y * w[6] -
              2 * GSC__SH_2C * y * w[8];
        gz += -GSC__SH_2A * (y * w[5] + x * w[7]) + 4 * GSC__SH_2B * z * w[6];
    }
    if (degree >= 3) {
        gx += -6 * GSC__SH_3A * x * y * w[9] + GSC__SH_3B * y * z * w[10] +
              2 * GSC__SH_3C * x * y * w[11] - 6 * GSC__SH_3D * x * z * w[12] -
              GSC__SH_3C * (4 * zz - 3 * xx - yy) * w[13] + 2 * GSC__SH_3E * x * z * w[14] -
              3 * GSC__SH_3A * (xx - yy) * w[15];
        gy += -3 * GSC__SH_3A * (xx - yy) * w[9] + GSC__SH_3B * x * z * w[10] -
              GSC__SH_3C * (4 * zz - xx - 3 * yy) * w[11] - 6 * GSC__SH_3D * y * z * w[12] +
              2 * GSC__SH_3C * x * y * w[13] - 2 * GSC__SH_3E * y * z * w[14] +
              6 * GSC__SH_3A * x * y * w[15];
        gz += GSC__SH_3B * x * y * w[10] - 8 * GSC__SH_3C * y * z * w[11] +
              GSC__SH_3D * (6 * zz - 3 * xx - 3 * yy) * w[12] - 8 * GSC__SH_3C * x * z * w[13] +
              GSC__SH_3E * (xx - yy) * w[14];
    }
    if (degree >= 4) {
        gx += GSC__SH_4A * y * (3 * xx - yy) * w[16] - 6 * GSC__SH_4B * x * y * z * w[17] +
              GSC__SH_4C * y * (7 * zz - 1) * w[18] - GSC__SH_4D * z * (7 * zz - 3) * w[21] +
              2 * GSC__SH_4F * x * (7 * zz - 1) * w[22] - 3 * GSC__SH_4B * z * (xx - yy) * w[23] +
              4 * GSC__SH_4G * x * (xx - 3 * yy) * w[24];
        gy += GSC__SH_4A * x * (xx - 3 * yy) * w[16] - 3 * GSC__SH_4B * z * (xx - yy) * w[17] +
              GSC__SH_4C * x * (7 * zz - 1) * w[18] - GSC__SH_4D * z * (7 * zz - 3) * w[19] -
              2 * GSC__SH_4F * y * (7 * zz - 1) * w[22] + 6 * GSC__SH_4B * x * y * z * w[23] -
              4 * GSC__SH_4G * y * (3 * xx - yy) * w[24];
        gz += -GSC__SH_4B * y * (3 * xx - yy) * w[17] + 14 * GSC__SH_4C * x * y * z * w[18] -
              GSC__SH_4D * y * (21 * zz - 3) * w[19] + GSC__SH_4E * z * (140 * zz - 60) * w[20] -
              GSC__SH_4D * x * (21 * zz - 3) * w[21] + 14 * GSC__SH_4F * z * (xx - yy) * w[22] -
              GSC__SH_4B * x * (xx - 3 * yy) * w[23];
    }
    out[0] += gx;
    out[1] += gy;
    out[2] += gz;
}

#endif
