/* A scene, its images and its gradients in double precision: the common ground of
 * the golden data, the reference rasterizer and the library under test.
 *
 * Arrays are named and shaped as in gsplat_c.h; NULL means not given or not wanted.
 * A scene, frame or gradients owns its arrays, which a *_free function releases. */
#ifndef TESTS_SCENE_H
#define TESTS_SCENE_H

#include "gsplat_c.h"

#include <stdbool.h>

typedef struct scene {
    uint32_t flags; /* GSC_RASTER_* */
    int width, height, channels, sh_degree, cameras, gaussians;
    int sh_coefficients; /* K */
    bool sh_split;       /* the library gets sh as sh_dc and the rest */
    int background_rows; /* 1 or cameras */
    int colors_rows;     /* 1 or cameras */
    float scale_modifier, tan_fovx, tan_fovy, near_plane, far_plane, radius_clip, blur;
    float median_default;
    double *view;          /* [C, 4, 4], order as the flags say */
    double *projection;    /* [C, 4, 4] */
    double *intrinsics;    /* [C, 4] */
    double *position;      /* [C, 3] */
    double *background;    /* [background_rows, channels] */
    double *pixel_weights; /* [C, H, W] */
    double *means;         /* [N, 3] */
    double *opacities;     /* [N] */
    double *scales;        /* [N, 3] */
    double *rotations;     /* [N, 4] */
    double *covariances;   /* [N, 6] */
    double *colors;        /* [colors_rows, N, channels] */
    double *sh;            /* [N, K, 3], whole */
} scene;

typedef struct frame {
    double *color; /* [C, channels, H, W], or [C, H, W, channels] with PIXEL_LAST */
    double *alpha, *depth, *inv_depth, *median_depth;    /* [C, H, W] */
    int32_t *radii;                                      /* [C, N, radii_axes] */
    int radii_axes;                                      /* 1 or 2 */
    double *means2d;                                     /* [C, N, 2] */
    double *depths;                                      /* [C, N] */
    double *conics;                                      /* [C, N, 3] */
    double *opacities;                                   /* [C, N] */
    int32_t *touched, *weight_count;                     /* [C, N] */
    double *weight_sum, *weight_blend, *weight_distance; /* [C, N] */
} frame;

typedef struct gradients {
    double *grad_color, *grad_alpha, *grad_depth,
        *grad_inv_depth; /* upstream, shaped as the outputs */
    double *means, *opacities, *scales, *rotations, *covariances, *colors, *sh;
    double *means2d, *means2d_abs; /* [C, N, 2] */
    double *view, *position, *background;
} gradients;

/* Elements of each array of a scene. */
size_t scene_pixels(const scene *s); /* C H W */
size_t scene_splats(const scene *s); /* C N */

void scene_free(scene *s);
void frame_free(frame *f);
void gradients_free(gradients *g);

/* Replaces scales by logarithms and opacities by logits, where the flags ask for them. */
void scene_store(scene *s);

/* Allocates every output (weighted statistics only if the scene has pixel weights). */
void frame_alloc(frame *f, const scene *s, int radii_axes);
/* Allocates every gradient that the scene has; upstream gradients stay NULL. */
void gradients_alloc(gradients *g, const scene *s);
/* Zeroes the gradients that are summed over cameras: all but upstream ones, means2d and
 * means2d_abs. */
void gradients_clear(gradients *g, const scene *s);

/* calloc that ends the test program when there is no memory. */
double *reals_alloc(size_t count);
int32_t *ints_alloc(size_t count);
/* True for values NULL. */
bool all_finite(const double *values, size_t count);

#endif
