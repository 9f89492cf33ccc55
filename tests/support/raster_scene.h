/* Small random scenes for tests of the rasterizer, with options for every feature. */
#ifndef TESTS_RASTER_SCENE_H
#define TESTS_RASTER_SCENE_H

#include "scene.h"

/* Zero in a field means the default in its comment. */
typedef struct raster_scene_options {
    uint64_t seed;
    uint32_t flags;                 /* GSC_RASTER_* */
    int width, height;              /* 37 x 29 */
    int gaussians;                  /* 10; negative: none */
    int cameras;                    /* 1 */
    int channels;                   /* 3; without sh */
    int sh_coefficients, sh_degree; /* 0: colours instead */
    bool sh_split, colors_per_camera, covariances;
    bool projection;                 /* instead of intrinsics */
    bool position;                   /* pass a position that differs from the view's centre */
    int background_rows;             /* 0: no background */
    float scale_modifier, blur;      /* as in gsc_raster_args */
    double off_centre;               /* principal point, fraction of the size */
    double opacity_min, opacity_max; /* 0.2 and 0.9 */
    double size_min, size_max;       /* standard deviations: 1.5 and 6 pixels */
    double spread;                   /* of the means over the image: 1 */
    double depth_min, depth_max;     /* 2 and 6 */
} raster_scene_options;

/* Spherical harmonics of the degree in use, stored with the coefficients of that or a higher
 * degree. */
#define SH_STORED(degree, stored) \
    .sh_degree = degree, .sh_coefficients = (stored + 1) * (stored + 1)
#define SH(degree) SH_STORED(degree, degree)

void raster_scene_make(scene *s, const raster_scene_options *options);

/* Rebuilds the projections [C, 4, 4] from the views and the pinhole of the options. */
void raster_scene_project(scene *s, const raster_scene_options *options);

/* A view [4, 4] after a rigid motion by a screw (rotation vector, translation), and its derivative
 * with respect to the screw's length, at zero. */
void raster_scene_move_view(const scene *s, const double screw[6], const double *view,
                            double *moved);
void raster_scene_view_slope(const scene *s, const double screw[6], const double *view,
                             double *slope);

/* Upstream gradients, uniform in [-1, 1]. */
enum { GRAD_COLOR = 1, GRAD_ALPHA = 2, GRAD_DEPTH = 4, GRAD_INV_DEPTH = 8, GRAD_ALL = 15 };
void raster_scene_upstream(const scene *s, unsigned which, uint64_t seed, gradients *g);

/* Uniform in [low, high). */
double raster_random(uint64_t *state, double low, double high);

#endif
