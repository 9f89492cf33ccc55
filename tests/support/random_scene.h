/* Seeded random scenes: a cloud around the origin, partly behind the cameras, outside the image,
 * too faint to see or almost opaque. */
#ifndef TESTS_RANDOM_SCENE_H
#define TESTS_RANDOM_SCENE_H

#include "scene.h"

typedef struct random_source {
    uint64_t state; /* not 0 */
} random_source;

double random_uniform(random_source *r, double low, double high);
double random_normal(random_source *r);

/* Zero in a field means the plain default. */
typedef struct random_scene_options {
    int width, height; /* 0: 70 x 50 */
    int gaussians;     /* 0: 200, negative: none */
    int cameras;       /* 0: 1 */
    int channels;      /* of colours; 0: spherical harmonics */
    int sh_degree;     /* in use */
    int sh_more;       /* coefficients stored beyond those in use */
    uint32_t flags;
    bool sh_split;
    bool covariances;
    bool projection; /* instead of intrinsics */
    bool off_centre; /* principal point off the image's centre */
    bool position;   /* pass the camera positions */
    bool color_per_camera;
    int background; /* 0: none, 1: one for all, 2: one per camera */
    bool pixel_weights;
    float scale_modifier, near_plane, far_plane, radius_clip, blur, median_default;
    double distance;  /* cameras to origin; 0: 3 */
    double deviation; /* largest of a Gaussian; 0: 0.5 */
    uint64_t seed;
} random_scene_options;

typedef struct named_scene {
    const char *name;
    random_scene_options options;
} named_scene;

#define RANDOM_SCENES_MAX 64
extern const named_scene random_scenes[];
extern const size_t random_scene_count; /* at most RANDOM_SCENES_MAX */

/* Values are rounded to the library's type. */
void random_scene(scene *s, const random_scene_options *options);
/* n round grey splats of deviation 0.2 at (0, 0, 4) before a camera at the origin of focal
 * length 40. */
void simple_scene(scene *s, int n, int width, int height, uint32_t flags);
/* Upstream gradients of every differentiable output, from the normal distribution. */
void random_upstream(const scene *s, gradients *g, uint64_t seed);

#endif
