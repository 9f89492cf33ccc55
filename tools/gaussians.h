/* A trained scene, read from the PLY file that 3DGS training writes. */
#ifndef GSPLAT_C_TOOLS_GAUSSIANS_H
#define GSPLAT_C_TOOLS_GAUSSIANS_H

#include "ply.h"

/* Values after activation, as gsc_raster_args takes them; K = (sh_degree + 1)^2.  All arrays are
 * in one block, which `means` owns.  Double positions keep their digits: means are counted from an
 * origin near them. */
typedef struct gaussians {
    int64_t count;           /* N */
    int32_t sh_degree;       /* 0 to 4 */
    int32_t sh_coefficients; /* K */
    double origin[3];        /* in the world; zero with float positions */
    float *means;            /* [N, 3] from the origin */
    float *scales;           /* [N, 3] */
    float *rotations;        /* [N, 4] w x y z, as in the file */
    float *opacities;        /* [N] */
    float *sh;               /* [N, K, 3] */
    int64_t non_finite;      /* Gaussians with a NaN or infinity, which are not drawn */
    bool antialiased;        /* trained so, as the file says */
    bool filtered;           /* filter_3D was applied to scales and opacities */
    bool flat;               /* discs of 2D Gaussian splatting, with a third scale near zero */
    float blur;              /* as in gsc_raster_args */
    ply_format format;
} gaussians;

/* False after fail(), with nothing to free. */
bool gaussians_read(gaussians *scene, const char *path);
/* Zeroed memory for `count` Gaussians; false after fail(). */
bool gaussians_allocate(gaussians *scene, int64_t count, int32_t sh_degree);
void gaussians_free(gaussians *scene);
/* As 3DGS does before it rasterizes; a zero quaternion stays zero. */
void gaussians_normalize_rotations(gaussians *scene);

#endif
