/* Tests the reference rasterizer: against golden outputs and gradients, its gradients against
 * finite differences, its spherical harmonics against their integrals. */
#include "compare.h"
#include "expect.h"
#include "golden.h"
#include "random_scene.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The float32 rounding of the recordings. */
#define OUTPUT_EPSILON 2e-5
#define GRADIENT_EPSILON 1e-3

static void outputs_agree(const golden_case *c, const scene *s, frame *images) {
    frame recorded;
    golden_frame(c, s, &recorded);
    frame_alloc(images, s, recorded.radii_axes);
    reference_rasterize(s, images);
    int wrong = compare_frames(c->name, s, images, &recorded, OUTPUT_EPSILON, true);
    frame_free(&recorded);
    assert_int_equal(wrong, 0);
}

static void agrees_with_recordings(void **state) {
    golden_case c;
    scene s;
    frame images;
    gradients got, recorded;
    assert_true(golden_open(&c, (const char *)*state));
    golden_scene(&c, &s);
    outputs_agree(&c, &s, &images);
    gradients_alloc(&got, &s);
    golden_upstream(&c, &s, &images, &got);
    bool accelerated = strncmp(c.name, "ACC_", 4) == 0; /* counts its background twice */
    bool incomplete = strcmp(c.name, "ACC_tiny3") == 0 || strcmp(c.name, "ACC_saturated") == 0;
    for (int i = 0; accelerated && i < s.channels; i++) s.background[i] *= 2;
    reference_backward(&s, &got);
    golden_gradients(&c, &s, &recorded);
    int wrong = incomplete ? 0 : compare_gradients(c.name, &s, &got, &recorded, GRADIENT_EPSILON);
    gradients_free(&recorded);
    gradients_free(&got);
    frame_free(&images);
    scene_free(&s);
    golden_close(&c);
    assert_int_equal(wrong, 0);
}

/* Exact for polynomials of degree 9 and below on the sphere: Gauss-Legendre in z, equal
 * steps around it. */
static void harmonics_are_orthonormal(void **state) {
    static const double nodes[5] = {-0.9061798459386640, -0.5384693101056831, 0, 0.5384693101056831,
                                    0.9061798459386640};
    static const double weights[5] = {0.2369268850561891, 0.4786286704993665, 0.5688888888888889,
                                      0.4786286704993665, 0.2369268850561891};
    double products[25][25] = {{0}};
    (void)state;
    for (int i = 0; i < 5; i++) {
        for (int k = 0; k < 10; k++) {
            double angle = 0.1 + 2 * acos(-1.0) * k / 10, radius = sqrt(1 - nodes[i] * nodes[i]);
            const double d[3] = {radius * cos(angle), radius * sin(angle), nodes[i]};
            double basis[25];
            reference_sh(4, d, basis, NULL);
            for (int a = 0; a < 25; a++) {
                for (int b = 0; b < 25; b++) {
                    products[a][b] += weights[i] * 2 * acos(-1.0) / 10 * basis[a] * basis[b];
                }
            }
        }
    }
    for (int a = 0; a < 25; a++) {
        for (int b = 0; b < 25; b++) {
            if (fabs(products[a][b] - (a == b)) > 1e-9) {
                fail_msg("harmonics %d and %d: integral %.12f", a, b, products[a][b]);
            }
        }
    }
}

static double weigh(const double *values, const double *weights, size_t count) {
    double sum = 0;
    for (size_t i = 0; values && i < count; i++) sum += values[i] * weights[i];
    return sum;
}

/* The loss whose gradient with respect to the outputs is the upstream gradient. */
static double loss(const scene *s, const gradients *g, frame *f) {
    size_t pixels = scene_pixels(s);
    reference_rasterize(s, f);
    return weigh(f->color, g->grad_color, pixels * (size_t)s->channels) +
           weigh(f->alpha, g->grad_alpha, pixels) + weigh(f->depth, g->grad_depth, pixels) +
           weigh(f->inv_depth, g->grad_inv_depth, pixels);
}

/* Relative L2 of a gradient against central differences. */
static int differences_agree(const char *title, const char *what, const scene *s,
                             const gradients *g, frame *f, double *values, const double *gradient,
                             size_t count) {
    const double step = 1e-6;
    if (!values) return 0;
    double *differences = reals_alloc(count);
    for (size_t i = 0; i < count; i++) {
        double value = values[i];
        values[i] = value + step;
        double above = loss(s, g, f);
        values[i] = value - step;
        differences[i] = (above - loss(s, g, f)) / (2 * step);
        values[i] = value;
    }
    comparison c = compare_reals(gradient, differences, count, 1e-5);
    free(differences);
    return compare_report(title, what, c);
}

static void gradients_are_derivatives(void **state) {
    const random_scene_options *o = (const random_scene_options *)*state;
    scene s;
    frame f;
    gradients g;
    random_scene(&s, o);
    frame_alloc(&f, &s, 1);
    gradients_alloc(&g, &s);
    random_upstream(&s, &g, o->seed);
    reference_backward(&s, &g);
    size_t n = (size_t)s.gaussians, cameras = (size_t)s.cameras, channels = (size_t)s.channels;
    size_t colors = (size_t)s.colors_rows * n * channels, sh = n * (size_t)s.sh_coefficients * 3;
    int wrong = 0;
    wrong += differences_agree("differences", "means", &s, &g, &f, s.means, g.means, 3 * n);
    wrong += differences_agree("differences", "opacities", &s, &g, &f, s.opacities, g.opacities, n);
    wrong += differences_agree("differences", "scales", &s, &g, &f, s.scales, g.scales, 3 * n);
    wrong +=
        differences_agree("differences", "rotations", &s, &g, &f, s.rotations, g.rotations, 4 * n);
    wrong += differences_agree("differences", "covariances", &s, &g, &f, s.covariances,
                               g.covariances, 6 * n);
    wrong += differences_agree("differences", "colors", &s, &g, &f, s.colors, g.colors, colors);
    wrong += differences_agree("differences", "sh", &s, &g, &f, s.sh, g.sh, sh);
    wrong += differences_agree("differences", "view", &s, &g, &f, s.view, g.view, 16 * cameras);
    wrong += differences_agree("differences", "position", &s, &g, &f, s.position, g.position,
                               3 * cameras);
    wrong += differences_agree("differences", "background", &s, &g, &f, s.background, g.background,
                               (size_t)s.background_rows * channels);
    gradients_free(&g);
    frame_free(&f);
    scene_free(&s);
    assert_int_equal(wrong, 0);
}

static random_scene_options differentiable[] = {
    {.width = 16, .height = 12, .gaussians = 9, .sh_degree = 4, .background = 1, .seed = 1},
    {.width = 16,
     .height = 12,
     .gaussians = 9,
     .channels = 5,
     .cameras = 2,
     .covariances = true,
     .background = 2,
     .color_per_camera = true,
     .flags = GSC_RASTER_ANTIALIAS,
     .seed = 2},
    {.width = 20,
     .height = 9,
     .gaussians = 30,
     .sh_degree = 1,
     .position = true,
     .off_centre = true,
     .scale_modifier = 1.5f,
     .distance = 1.5,
     .seed = 3,
     .flags = GSC_RASTER_VIEW_ROW_MAJOR | GSC_RASTER_PIXEL_LAST},
};

int main(void) {
    static char names[GOLDEN_MAX_CASES][GOLDEN_NAME];
    static struct CMUnitTest tests[GOLDEN_MAX_CASES + 8];
    const char *prefixes[] = {"inria_", "AA_",  "ACC_",    "taming_", "WD_",
                              "WP_",    "ASH_", "gsplat_", NULL};
    size_t count = 0;
    int cases = golden_list(prefixes, names);
    for (int i = 0; i < cases; i++) {
        tests[count++] =
            (struct CMUnitTest){names[i], agrees_with_recordings, NULL, NULL, names[i]};
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(harmonics_are_orthonormal);
    for (size_t i = 0; i < sizeof differentiable / sizeof *differentiable; i++) {
        tests[count++] = (struct CMUnitTest)cmocka_unit_test_prestate(gradients_are_derivatives,
                                                                      &differentiable[i]);
    }
    return _cmocka_run_group_tests("reference", tests, count, NULL, NULL);
}
