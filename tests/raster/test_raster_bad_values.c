/* Gaussians with non-finite or senseless values: the image is as without them, and every gradient
 * stays finite. */
#include "expect.h"
#include "library.h"
#include "random_scene.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gsc_context *context;

/* One array of a scene and its length per Gaussian. */
static double *parameter(const scene *s, int which, int *row) {
    double *arrays[] = {s->means,       s->opacities, s->scales, s->rotations,
                        s->covariances, s->colors,    s->sh};
    const int rows[] = {3, 1, 3, 4, 6, s->channels, 3 * s->sh_coefficients};
    *row = rows[which];
    return arrays[which];
}

/* Gaussian i must not change the image of the others. */
static int check_poisoned(const scene *s, int i, const frame *without, const char *what) {
    frame got;
    gradients g;
    library_expect_frame(context, s, &got);
    library_expect_gradients(context, s, &g);
    size_t n = (size_t)s->gaussians, colors = scene_pixels(s) * (size_t)s->channels;
    bool unseen = memcmp(got.color, without->color, colors * sizeof *got.color) == 0 &&
                  memcmp(got.depth, without->depth, scene_pixels(s) * sizeof *got.depth) == 0;
    bool culled = got.radii[i] == 0 && got.touched[i] == 0;
    bool finite = all_finite(g.means, 3 * n) && all_finite(g.opacities, n) &&
                  all_finite(g.scales, 3 * n) && all_finite(g.rotations, 4 * n) &&
                  all_finite(g.covariances, 6 * n) && all_finite(g.view, 16) &&
                  all_finite(g.sh, 3 * n * (size_t)s->sh_coefficients) &&
                  all_finite(g.colors, n * (size_t)s->channels) && all_finite(g.means2d, 2 * n) &&
                  all_finite(g.background, (size_t)s->channels);
    gradients_free(&g);
    frame_free(&got);
    if (unseen && culled && finite) return 0;
    print_error("%s: %s%s%s\n", what, unseen ? "" : "drawn ", culled ? "" : "has a radius ",
                finite ? "" : "gradients not finite");
    return 1;
}

static void non_finite_is_culled(void **state) {
    const random_scene_options kinds[] = {
        {.seed = 1, .gaussians = 60, .sh_degree = 2, .background = 1},
        {.seed = 2, .gaussians = 60, .channels = 5, .covariances = true, .background = 1},
        {.seed = 3,
         .gaussians = 60,
         .channels = 3,
         .flags = GSC_RASTER_COMPAT_3DGS,
         .projection = true,
         .background = 1},
        {.seed = 4,
         .gaussians = 60,
         .sh_degree = 1,
         .flags = GSC_RASTER_COMPAT_3DGS,
         .projection = true,
         .covariances = true,
         .background = 1},
    };
    const char *names[] = {"means",       "opacities", "scales", "rotations",
                           "covariances", "colors",    "sh"};
    const double poisons[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    int wrong = 0;
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const int i = 31;
        scene s;
        frame without;
        random_scene(&s, &kinds[k]);
        double opacity = s.opacities[i];
        s.opacities[i] = (double)NAN;
        library_expect_frame(context, &s, &without);
        s.opacities[i] = opacity;
        for (int which = 0; which < 7; which++) {
            int row;
            double *values = parameter(&s, which, &row);
            for (int element = 0; values && element < row; element++) {
                double *value = values + i * row + element, kept = *value;
                for (int p = 0; p < 3; p++) {
                    char what[64];
                    *value = poisons[p];
                    snprintf(what, sizeof what, "%s[%d] = %g, scene %zu", names[which], element,
                             poisons[p], k);
                    wrong += check_poisoned(&s, i, &without, what);
                }
                *value = kept;
            }
        }
        frame_free(&without);
        scene_free(&s);
    }
    assert_int_equal(wrong, 0);
}

static void huge_values_do_no_harm(void **state) {
    const double huge[] = {1e10, -1e10, 1e19, 1e30, 3e38, -3e38, 1e-30, 1e-44, 0};
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        for (int which = 0; which < 4; which++) {
            for (size_t h = 0; h < sizeof huge / sizeof *huge; h++) {
                scene s;
                frame f;
                gradients g;
                int row;
                simple_scene(&s, 3, 40, 30,
                             (c ? GSC_RASTER_COMPAT_3DGS : 0) | GSC_RASTER_ANTIALIAS);
                double *values = parameter(&s, which, &row);
                for (int element = 0; element < row; element++) {
                    double kept = values[row + element];
                    values[row + element] = huge[h];
                    library_expect_frame(context, &s, &f);
                    assert_true(all_finite(f.color, 3 * scene_pixels(&s)));
                    assert_true(all_finite(f.alpha, scene_pixels(&s)));
                    library_expect_gradients(context, &s, &g);
                    assert_true(all_finite(g.opacities, 1) && all_finite(g.means, 3));
                    gradients_free(&g);
                    frame_free(&f);
                    values[row + element] = kept;
                }
                scene_free(&s);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(non_finite_is_culled),
        cmocka_unit_test(huge_values_do_no_harm),
    };
    context = library_context(2);
    int failures = cmocka_run_group_tests_name("rasterizer, bad values", tests, NULL, NULL);
    gsc_context_free(context);
    return failures;
}
