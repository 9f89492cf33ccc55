/* A slow rasterizer in double precision, written from the formulas alone: every pixel walks all
 * Gaussians in depth order.  It is the reference for the library; golden data, and finite
 * differences for the gradients, test it in turn. */
#ifndef TESTS_REFERENCE_H
#define TESTS_REFERENCE_H

#include "scene.h"

typedef struct reference_camera {
    double rotation[3][3], translation[3], position[3];
    double fx, fy, cx, cy;  /* pixel (j, i) has its centre at (j + 0.5, i + 0.5) */
    double low[2], high[2]; /* of x/z and y/z in the Jacobian */
    bool grad_clip;         /* compat with a projection: */
    double clip[3][4];      /* world to clip, rows x y w */
} reference_camera;

typedef struct reference_splat {
    bool visible;
    double point[3]; /* camera space */
    double x, y;     /* mean, pixels of the convention's own origin */
    double ratio[2]; /* x/z and y/z, clamped */
    bool clamped[2];
    double jacobian[2][3];
    double sigma[3][3]; /* world covariance */
    double sharp[3];    /* 2D covariance xx xy yy */
    double blurred[3];
    double conic[3];
    double compensation, opacity; /* opacity after compensation */
    int radius[2];
    int x0, x1, y0, y1;  /* pixels that it may touch */
    double rgb[3];       /* from SH, clamped at 0 */
    bool open[3];        /* not clamped */
    const double *color; /* [channels] */
} reference_splat;

void reference_camera_load(const scene *s, int camera, reference_camera *c);
/* splats: [N].  The splats' color may point into themselves. */
void reference_project(const scene *s, int camera, const reference_camera *c,
                       reference_splat *splats);
/* order: [N]; visible splats by depth, equal ones by index.  Returns their number. */
int reference_sort(const scene *s, const reference_splat *splats, int *order);

/* exp(-q / 2), unclamped, of a splat at a pixel, and whether it blends there. */
bool reference_sample(const scene *s, const reference_splat *splat, int column, int row,
                      double *gauss, double *alpha);

/* Activated: the flags may say that logarithms and logits are stored. */
double reference_scale(const scene *s, int i, int axis);
double reference_opacity(const scene *s, int i);

/* Rotation matrix of a quaternion and standard real spherical harmonics, degree 0 to 4,
 * with derivatives by the direction (gradient NULL: not wanted). */
void reference_rotation(const double q[4], double r[3][3]);
void reference_sh(int degree, const double direction[3], double basis[25], double gradient[25][3]);

/* Writes every output that f holds an array for. */
void reference_rasterize(const scene *s, frame *f);
/* Writes every gradient that g holds an array for, from its upstream ones.  Both
 * conventions: with COMPAT_3DGS the original's quirks, see docs/numerics.md. */
void reference_backward(const scene *s, gradients *g);

#endif
