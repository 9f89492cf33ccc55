/* Edge cases: nothing visible, near and far planes, opacities at the threshold, equal depths, half
 * pixels, a camera inside a Gaussian. */
#include "compare.h"
#include "expect.h"
#include "library.h"
#include "math/real.h"
#include "random_scene.h"
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static gsc_context *context;
static const uint32_t conventions[] = {0, GSC_RASTER_COMPAT_3DGS};

static void assert_agrees(const char *title, const scene *s, const frame *got) {
    frame wanted;
    frame_alloc(&wanted, s, 1);
    reference_rasterize(s, &wanted);
    int wrong = compare_frames(title, s, got, &wanted, LIBRARY_EPSILON, LIBRARY_EPSILON > 1e-8);
    frame_free(&wanted);
    assert_int_equal(wrong, 0);
}

/* -------------------------------------------------------------- nothing to see */

enum { BEHIND, ASIDE, TRANSPARENT, CLIPPED, HIDING_PLACES };

static void hide(scene *s, int where) {
    for (int i = 0; i < s->gaussians; i++) {
        if (where == BEHIND) s->means[3 * i + 2] = -4;
        if (where == ASIDE) s->means[3 * i] = 400;
        if (where == TRANSPARENT) s->opacities[i] = 0;
    }
    if (where == CLIPPED) s->radius_clip = 1000;
}

static void assert_empty(const scene *s, const frame *f) {
    size_t area = scene_pixels(s);
    for (size_t p = 0; p < area; p++) {
        for (size_t c = 0; c < 3; c++) {
            assert_true(f->color[c * area + p] == s->background[c]);
        }
        assert_true(f->alpha[p] == 0 && f->depth[p] == 0 && f->inv_depth[p] == 0);
        assert_true(f->median_depth[p] == 15);
    }
    for (int i = 0; i < s->gaussians; i++) {
        assert_int_equal(f->touched[i], 0);
        assert_true(f->weight_sum[i] == 0 && f->weight_count[i] == 0);
        assert_true(f->weight_blend[i] == 0 && f->weight_distance[i] == 0);
    }
}

static void nothing_visible_gives_the_background(void **state) {
    const int sizes[][2] = {{40, 30}, {1, 1}, {16, 16}, {17, 1}, {1, 17}};
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
            for (int where = 0; where < HIDING_PLACES; where++) {
                scene s;
                frame f;
                gradients g;
                simple_scene(&s, 5, sizes[k][0], sizes[k][1], conventions[c]);
                s.median_default = 15;
                s.pixel_weights = reals_alloc(scene_pixels(&s));
                hide(&s, where);
                library_expect_frame(context, &s, &f);
                assert_empty(&s, &f);
                bool has_radius = conventions[c] && where == TRANSPARENT;
                for (int i = 0; i < 5; i++) assert_int_equal(f.radii[i] > 0, has_radius);
                library_expect_gradients(context, &s, &g);
                for (int i = 0; i < 15; i++) {
                    assert_true(g.means[i] == 0 && g.scales[i] == 0 && g.colors[i] == 0);
                }
                for (int i = 0; i < 16; i++) assert_true(g.view[i] == 0);
                gradients_free(&g);
                frame_free(&f);
                scene_free(&s);
            }
        }
    }
}

static void faint_splats_end_at_the_threshold(void **state) {
    const double drawn[] = {1, 1.5, 0.6, 0.004, 0.00395};
    const double hidden[] = {0, 1e-8, 0.001086, 0.0039, -0.1, -1e30};
    const double threshold = (double)(gsc_real)(1 / GSC_REAL(255.0));
    const double near_it[] = {threshold, nextafter(threshold, 1), nextafter(threshold, 0)};
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        scene s;
        frame f;
        simple_scene(&s, 1, 33, 33, conventions[c]);
        size_t centre = 16 * 33 + 16;
        if (conventions[c]) s.intrinsics[2] = s.intrinsics[3] = 16.5;
        for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++) {
            s.opacities[0] = (double)(gsc_real)drawn[i];
            library_expect_frame(context, &s, &f);
            assert_agrees("faint", &s, &f);
            assert_true(f.alpha[centre] > 0 && f.alpha[centre] < 0.9901);
            frame_free(&f);
        }
        for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++) {
            s.opacities[0] = hidden[i];
            library_expect_frame(context, &s, &f);
            for (size_t p = 0; p < scene_pixels(&s); p++) assert_true(f.alpha[p] == 0);
            frame_free(&f);
        }
        for (size_t i = 0; i < 3; i++) { /* visible or not, depending on the last bit */
            s.opacities[0] = near_it[i];
            library_expect_frame(context, &s, &f);
            assert_true(f.alpha[centre] == 0 || fabs(f.alpha[centre] - threshold) < 1e-6);
            assert_true(f.alpha[0] == 0);
            frame_free(&f);
        }
        scene_free(&s);
    }
}

/* ---------------------------------------------------------- places and orders */

/* The centre of one splat's light, in pixel indices. */
static void pixels_have_their_centres_at_one_half(void **state) {
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        for (int size = 62; size < 66; size++) {
            scene s;
            frame f;
            simple_scene(&s, 1, size, size - 3, conventions[c]);
            s.means[0] = 0.37;
            s.means[1] = -0.21;
            s.means[2] = 4.5;
            library_round(&s);
            library_expect_frame(context, &s, &f);
            double sum = 0, x = 0, y = 0;
            for (int p = 0; p < s.width * s.height; p++) {
                sum += f.alpha[p];
                x += f.alpha[p] * (p % s.width);
                y += f.alpha[p] * (p / s.width);
            }
            assert_true(fabs(x / sum - (40 * 0.37 / 4.5 + s.width / 2.0 - 0.5)) < 0.01);
            assert_true(fabs(y / sum - (40 * -0.21 / 4.5 + s.height / 2.0 - 0.5)) < 0.01);
            frame_free(&f);
            scene_free(&s);
        }
    }
}

static void a_smaller_world_looks_the_same(void **state) {
    random_scene_options options = {.seed = 5, .sh_degree = 2, .near_plane = 1.5f, .background = 1};
    (void)state;
    scene s;
    frame large, small;
    random_scene(&s, &options);
    library_expect_frame(context, &s, &large);
    const double factor = 1.0 / 64; /* exact in binary */
    for (int i = 0; i < 3 * s.gaussians; i++) {
        s.means[i] *= factor;
        s.scales[i] *= factor;
    }
    for (int k = 12; k < 15; k++) s.view[k] *= factor;
    s.near_plane *= (float)factor;
    library_expect_frame(context, &s, &small);
    comparison c = compare_reals(small.color, large.color, 3 * scene_pixels(&s), 1e-6);
    assert_int_equal(compare_report("smaller world", "color", c), 0);
    for (size_t i = 0; i < scene_pixels(&s); i++) small.depth[i] /= factor;
    c = compare_reals(small.depth, large.depth, scene_pixels(&s), 1e-6);
    assert_int_equal(compare_report("smaller world", "depth", c), 0);
    frame_free(&large);
    frame_free(&small);
    scene_free(&s);
}

static void planes_cut_at_their_depth(void **state) {
    const struct {
        double z;
        float near_plane, far_plane;
        bool seen;
    } cases[] = {{0.1999, 0, 0, false},     {0.2001, 0, 0, true},  {0.0101, 0.01f, 0, true},
                 {0.0099, 0.01f, 0, false}, {8.001, 0, 8, false},  {7.999, 0, 8, true},
                 {8, 0, 8, true},           {0.5, 0.5f, 0, false}, {1e6, 0, 0, true}};
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            scene s;
            frame f;
            simple_scene(&s, 1, 33, 33, conventions[c]);
            s.means[2] = cases[i].z;
            s.near_plane = cases[i].near_plane;
            s.far_plane = cases[i].far_plane;
            library_round(&s);
            library_expect_frame(context, &s, &f);
            if ((f.alpha[16 * 33 + 16] > 0) != cases[i].seen) {
                fail_msg("z %g near %g far %g", cases[i].z, (double)cases[i].near_plane,
                         (double)cases[i].far_plane);
            }
            assert_int_equal(f.radii[0] > 0, cases[i].seen);
            frame_free(&f);
            scene_free(&s);
        }
    }
}

/* The centre lies outside the image, and the splat reaches into it. */
static void footprints_reach_into_the_image(void **state) {
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        for (int side = 0; side < 4; side++) {
            scene s;
            frame f;
            simple_scene(&s, 1, 33, 33, conventions[c]);
            s.means[side / 2] = side % 2 ? 1.75 : -1.75; /* one pixel outside */
            library_expect_frame(context, &s, &f);
            const size_t edge[] = {16 * 33, 16 * 33 + 32, 16, 32 * 33 + 16};
            assert_true(f.alpha[edge[side]] > 0.3);
            assert_agrees("footprint", &s, &f);
            frame_free(&f);
            scene_free(&s);
        }
    }
}

static void equal_depths_blend_in_index_order(void **state) {
    (void)state;
    for (size_t c = 0; c < 2; c++) {
        scene s;
        frame f;
        simple_scene(&s, 300, 33, 33, conventions[c]);
        random_source r = {99};
        for (int i = 0; i < 300; i++) {
            s.opacities[i] = random_uniform(&r, 0.02, 0.1);
            s.means[3 * i + 2] = i % 3 ? 4 : 5;
            for (int k = 0; k < 3; k++) s.colors[3 * i + k] = random_uniform(&r, 0, 1);
        }
        library_round(&s);
        library_expect_frame(context, &s, &f);
        assert_agrees("equal depths", &s, &f);
        double T = 1, red = 0;
        for (int pass = 0; pass < 2; pass++) { /* at the exact centre alpha is the opacity */
            for (int i = 0; i < 300; i++) {
                if ((i % 3 == 0) != (pass == 1)) continue;
                red += T * s.opacities[i] * s.colors[3 * i];
                T *= 1 - s.opacities[i];
            }
        }
        if (T > 1e-3) fail_msg("the stack should be almost opaque");
        assert_true(fabs(f.color[16 * 33 + 16] - red - T * s.background[0]) < 2e-4);
        frame_free(&f);
        scene_free(&s);
    }
}

static void a_camera_inside_a_gaussian_sees_no_nan(void **state) {
    (void)state;
    for (int given = 0; given < 2; given++) {
        scene s;
        frame f;
        gradients g;
        random_scene_options options = {
            .seed = 3, .sh_degree = 4, .gaussians = 20, .position = true};
        random_scene(&s, &options);
        memcpy(s.position, s.means, 3 * sizeof *s.position);
        if (!given) { /* at the camera's centre, without a near plane that hides it */
            free(s.position);
            s.position = NULL;
            s.near_plane = 1e-6f;
            for (int k = 0; k < 3; k++) s.view[12 + k] = 0;
            memset(s.means, 0, 3 * sizeof *s.means);
        }
        library_expect_frame(context, &s, &f);
        assert_agrees("camera inside", &s, &f);
        library_expect_gradients(context, &s, &g);
        assert_true(all_finite(g.means, 60) && all_finite(g.view, 16));
        assert_true(all_finite(g.sh, 20 * 25 * 3) && all_finite(g.position, 3));
        gradients_free(&g);
        frame_free(&f);
        scene_free(&s);
    }
}

static void colours_below_zero_are_clamped_and_still(void **state) {
    (void)state;
    scene s;
    frame f;
    gradients g;
    random_scene_options options = {.seed = 3, .sh_degree = 1, .gaussians = 1, .background = 1};
    random_scene(&s, &options);
    memset(s.means, 0, 3 * sizeof *s.means);
    s.opacities[0] = 0.9;
    for (int k = 0; k < 3; k++) s.sh[k] = k == 1 ? 1 : -9; /* red and blue far below zero */
    library_round(&s);
    library_expect_frame(context, &s, &f);
    assert_agrees("clamped", &s, &f);
    size_t area = scene_pixels(&s);
    for (size_t p = 0; p < area; p++) {
        assert_true(f.color[p] <= s.background[0] && f.color[2 * area + p] <= s.background[2]);
    }
    library_expect_gradients(context, &s, &g);
    for (int k = 0; k < 4; k++) {
        assert_true(g.sh[3 * k] == 0 && g.sh[3 * k + 2] == 0);
    }
    assert_true(g.sh[1] != 0);
    gradients_free(&g);
    frame_free(&f);
    scene_free(&s);
}

static void prefiltered_refuses_what_a_plane_cuts(void **state) {
    (void)state;
    scene s;
    frame plain, promised;
    simple_scene(&s, 4, 33, 33, 0);
    library_expect_frame(context, &s, &plain);
    s.flags |= GSC_RASTER_PREFILTERED;
    library_expect_frame(context, &s, &promised);
    assert_memory_equal(plain.color, promised.color, 3 * 33 * 33 * sizeof *plain.color);
    s.means[3 * 2 + 2] = -1;
    assert_int_equal(library_forward(context, &s, NULL, &promised, NULL),
                     GSC_ERROR_INVALID_ARGUMENT);
    assert_non_null(strstr(gsc_last_error(), "raster"));
    frame_free(&plain);
    frame_free(&promised);
    scene_free(&s);
}

static void huge_scales_cover_the_image(void **state) {
    const double scales[] = {1e6, 3e8, 1e15, 3e37};
    (void)state;
    for (int c = 0; c < 2; c++) {
        for (size_t k = 0; k < sizeof scales / sizeof *scales; k++) {
            for (int axes = 1; axes <= 3; axes++) { /* a needle, a disc, a ball */
                scene s;
                frame f;
                gradients g;
                simple_scene(&s, 1, 33, 33, conventions[c] | GSC_RASTER_ANTIALIAS);
                for (int j = 0; j < axes; j++) s.scales[j] = scales[k];
                library_round(&s);
                library_expect_frame(context, &s, &f);
                /* On the axis the Gaussian is flat, and the blur takes nothing from a disc. */
                const double middle = f.alpha[16 * 33 + 16], edge = f.alpha[16 * 33];
                assert_true(f.radii[0] > 33 && fabs(middle - edge) < 1e-6);
                if (axes > 1) assert_true(fabs(f.alpha[0] - 0.8) < 1e-6);
                library_expect_gradients(context, &s, &g);
                assert_true(all_finite(g.scales, 3) && all_finite(g.rotations, 4));
                assert_true(all_finite(g.means, 3) && g.opacities[0] != 0);
                gradients_free(&g);
                frame_free(&f);
                scene_free(&s);
            }
        }
    }
}

/* The squares of such quaternions are infinite or zero in float32. */
static void quaternions_of_any_length_are_normalised(void **state) {
    const double lengths[] = {1e-25, 1e25, 1e-30, 1e37};
    (void)state;
    scene s;
    frame wanted;
    gradients wanted_grads;
    random_scene_options options = {.seed = 5, .gaussians = 20};
    random_scene(&s, &options);
    library_expect_frame(context, &s, &wanted);
    library_expect_gradients(context, &s, &wanted_grads);
    const size_t area = scene_pixels(&s);
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        frame f;
        gradients g;
        scene longer;
        random_scene(&longer, &options);
        for (int i = 0; i < 80; i++) longer.rotations[i] *= lengths[k];
        library_round(&longer);
        library_expect_frame(context, &longer, &f);
        for (size_t p = 0; p < 3 * area; p++)
            assert_true(fabs(f.color[p] - wanted.color[p]) < 1e-4);
        library_expect_gradients(context, &longer, &g);
        double difference = 0, norm = 0;
        for (int i = 0; i < 80; i++) {
            difference += pow(g.rotations[i] * lengths[k] - wanted_grads.rotations[i], 2);
            norm += pow(wanted_grads.rotations[i], 2);
        }
        assert_true(sqrt(difference / norm) < 1e-4);
        gradients_free(&g);
        frame_free(&f);
        scene_free(&longer);
    }
    gradients_free(&wanted_grads);
    frame_free(&wanted);
    scene_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_visible_gives_the_background),
        cmocka_unit_test(faint_splats_end_at_the_threshold),
        cmocka_unit_test(pixels_have_their_centres_at_one_half),
        cmocka_unit_test(a_smaller_world_looks_the_same),
        cmocka_unit_test(planes_cut_at_their_depth),
        cmocka_unit_test(footprints_reach_into_the_image),
        cmocka_unit_test(equal_depths_blend_in_index_order),
        cmocka_unit_test(a_camera_inside_a_gaussian_sees_no_nan),
        cmocka_unit_test(colours_below_zero_are_clamped_and_still),
        cmocka_unit_test(prefiltered_refuses_what_a_plane_cuts),
        cmocka_unit_test(huge_scales_cover_the_image),
        cmocka_unit_test(quaternions_of_any_length_are_normalised),
    };
    context = library_context(2);
    int failures = cmocka_run_group_tests_name("rasterizer edges", tests, NULL, NULL);
    gsc_context_free(context);
    return failures;
}
