/* Where the compat convention's gradients differ from the derivatives of its image: each quirk of
 * the original, separately and by its formula, in double precision. */
#include "expect.h"
#include "finite_difference.h"
#include "library.h"
#include "math/splat_grad.h"

#include <math.h>
#include <stdlib.h>

static gsc_context *context;

static void assert_near(double got, double wanted, double relative) {
    if (fabs(got - wanted) <= relative * fabs(wanted)) return;
    print_error("got %.12g, wanted %.12g\n", got, wanted);
    fail();
}

static double along(scene *s, const gradients *g, double *value, double step) {
    const double one = 1;
    return difference_along(context, s, g, value, &one, 1, step);
}

/* q1: the clamp of alpha at 0.99 lets the gradient pass, as if alpha were not clamped. */
static void clamped_alpha_passes(void **state) {
    (void)state;
    const raster_scene_options o = {.seed = 1,
                                    .width = 1,
                                    .height = 1,
                                    .gaussians = 1,
                                    .background_rows = 1,
                                    .size_min = 20,
                                    .size_max = 21,
                                    .opacity_min = 0.999,
                                    .opacity_max = 1};
    scene s;
    gradients g;
    frame f;
    raster_scene_make(&s, &o);
    gradients_alloc(&g, &s);
    frame_alloc(&f, &s, 1);
    raster_scene_upstream(&s, GRAD_COLOR, 1, &g);
    expect_ok(library_backward(context, &s, NULL, &g));
    assert_true(g.opacities[0] == 0 && g.means[0] == 0 && g.means2d_abs[0] == 0);
    s.flags |= GSC_RASTER_COMPAT_3DGS;
    expect_ok(library_forward(context, &s, NULL, &f, NULL));
    assert_near(f.alpha[0], 0.99, 1e-12);
    expect_ok(library_backward(context, &s, NULL, &g));
    double grad_alpha = 0, dx = -f.means2d[0], dy = -f.means2d[1];
    for (int c = 0; c < 3; c++) grad_alpha += g.grad_color[c] * (s.colors[c] - s.background[c]);
    double gauss =
        exp(-0.5 * (f.conics[0] * dx * dx + f.conics[2] * dy * dy) - f.conics[1] * dx * dy);
    assert_true(s.opacities[0] * gauss > 0.99);
    assert_near(g.opacities[0], grad_alpha * gauss, 1e-9);
    double grad_x = grad_alpha * s.opacities[0] * gauss * (f.conics[0] * dx + f.conics[1] * dy);
    assert_near(g.means2d[0], grad_x, 1e-9);
    assert_true(along(&s, &g, s.opacities, 1e-5) == 0);
    frame_free(&f);
    gradients_free(&g);
    scene_free(&s);
}

/* A splat to the right of the frustum, clamped along x, in front of an unrotated camera. */
static void make_clamped(scene *s, bool compat, double *limit) {
    const raster_scene_options o = {.seed = 2,
                                    .gaussians = 1,
                                    .projection = true,
                                    .flags = compat ? GSC_RASTER_COMPAT_3DGS : 0};
    raster_scene_make(s, &o);
    for (int i = 0; i < 16; i++) s->view[i] = i % 5 == 0;
    raster_scene_project(s, &o);
    *limit = 1.3 * (double)s->tan_fovx;
    const double mean[] = {1.6 * (double)s->tan_fovx * 3, 0.2, 3}, scale[] = {0.7, 0.6, 0.9};
    for (int k = 0; k < 3; k++) {
        s->means[k] = mean[k];
        s->scales[k] = scale[k];
    }
}

/* q2: z's contribution through a clamped ratio is doubled: to the derivative of f / z it adds that
 * of the ratio, as if the ratio still depended on z.  Only the entry (x, z) of the view moves the
 * Jacobian's row, since the mean passes through the projection. */
static void clamped_ratio_counts_twice(void **state) {
    (void)state;
    scene s;
    gradients g;
    double limit;
    make_clamped(&s, true, &limit);
    gradients_alloc(&g, &s);
    raster_scene_upstream(&s, GRAD_COLOR | GRAD_ALPHA, 2, &g);
    expect_ok(library_backward(context, &s, NULL, &g));
    assert_near(g.means[0], along(&s, &g, &s.means[0], 1e-4), 1e-6);
    assert_near(g.means[1], along(&s, &g, &s.means[1], 1e-4), 1e-6);
    double grad_z = along(&s, &g, &s.means[2], 1e-4);
    double by_row = along(&s, &g, &s.view[8], 1e-4); /* row x, column z */
    double term = by_row * limit / s.means[2];
    assert_true(fabs(term) > 1e-3 * fabs(grad_z));
    assert_near(g.means[2], grad_z + term, 1e-6);
    gradients_free(&g);
    scene_free(&s);
    make_clamped(&s, false, &limit);
    gradients_alloc(&g, &s);
    raster_scene_upstream(&s, GRAD_COLOR | GRAD_ALPHA, 2, &g);
    expect_ok(library_backward(context, &s, NULL, &g));
    assert_near(g.means[2], along(&s, &g, &s.means[2], 1e-4), 1e-6);
    gradients_free(&g);
    scene_free(&s);
}

/* The same term separately: where r = x / z is clamped, the Jacobian's entry f x / z^2 has the
 * derivative f r / z^2 with respect to z; the original uses 2 f x / z^3, which is 2 f r / z^2. */
static void clamped_term_is_double(void **state) {
    (void)state;
    const gsc__camera exact = {.rotation = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}, .fx = 700, .fy = 700};
    gsc__camera compat = exact;
    compat.compat = true;
    const gsc__projection p = {.point = {5, 0, 2},
                               .ratio = {0.5, 0},
                               .clamped = {true, false},
                               .jw = {{350, 0, -175}, {0, 350, 0}}};
    const double grad_jw[2][3] = {{0, 0, 1}, {0, 0, 0}};
    double by_exact[3] = {0}, by_compat[3] = {0};
    gsc__gaussian_grad out = {0};
    gsc__jacobian_grad(&exact, &p, grad_jw, by_exact, &out);
    gsc__jacobian_grad(&compat, &p, grad_jw, by_compat, &out);
    assert_near(by_exact[2], 87.5, 1e-12);
    assert_near(by_compat[2], 175, 1e-12);
    assert_true(by_exact[0] == 0 && by_compat[0] == 0);
}

/* q3: the gradient with respect to the scales lacks the factor of the scale modifier. */
static void scales_lack_modifier(void **state) {
    (void)state;
    const raster_scene_options o = {.seed = 3,
                                    .gaussians = 6,
                                    .scale_modifier = 1.75f,
                                    .flags = GSC_RASTER_COMPAT_3DGS,
                                    .spread = 0.7};
    scene s;
    gradients g;
    raster_scene_make(&s, &o);
    gradients_alloc(&g, &s);
    raster_scene_upstream(&s, GRAD_ALL, 3, &g);
    expect_ok(library_backward(context, &s, NULL, &g));
    for (int i = 0; i < 18; i++) {
        assert_near(1.75 * g.scales[i], along(&s, &g, &s.scales[i], 1e-4), 1e-6);
        assert_near(g.means[i], along(&s, &g, &s.means[i], 1e-4), 1e-6);
    }
    for (int i = 0; i < 24; i++) {
        assert_near(g.rotations[i], along(&s, &g, &s.rotations[i], 2e-4), 1e-5);
    }
    gradients_free(&g);
    scene_free(&s);
}

/* A Gaussian on the axis of a camera with f / z = 1: its xy covariance is the image's. */
static void make_axial(scene *s, uint32_t flags) {
    const raster_scene_options o = {.seed = 4, .gaussians = 1, .covariances = true, .flags = flags};
    const double covariance[] = {0.5, 0.2, 0, 0.8, 0, 1};
    raster_scene_make(s, &o);
    for (int i = 0; i < 16; i++) s->view[i] = i % 5 == 0;
    s->intrinsics[0] = s->intrinsics[1] = 4;
    s->means[0] = s->means[1] = 0;
    s->means[2] = 4;
    for (int i = 0; i < 6; i++) s->covariances[i] = covariance[i];
    s->opacities[0] = 0.9;
}

/* Gradient of the compensation with respect to a, b (both entries) and c, in units of the gradient
 * of the opacity: with antialiasing minus without, at the same opacity in the image. */
static void compensation_gradient(uint32_t flags, double out[3]) {
    scene s;
    gradients with, without;
    frame f;
    make_axial(&s, flags | GSC_RASTER_ANTIALIAS);
    gradients_alloc(&with, &s);
    raster_scene_upstream(&s, GRAD_COLOR | GRAD_ALPHA, 4, &with);
    expect_ok(library_backward(context, &s, NULL, &with));
    frame_alloc(&f, &s, 1);
    expect_ok(library_forward(context, &s, NULL, &f, NULL));
    double opacity = s.opacities[0];
    s.opacities[0] = f.opacities[0];
    s.flags = flags;
    gradients_alloc(&without, &s);
    raster_scene_upstream(&s, GRAD_COLOR | GRAD_ALPHA, 4, &without);
    expect_ok(library_backward(context, &s, NULL, &without));
    const int entry[3] = {0, 1, 3};
    for (int k = 0; k < 3; k++) {
        double grad_cov = with.covariances[entry[k]] - without.covariances[entry[k]];
        out[k] = grad_cov / (without.opacities[0] * opacity);
    }
    frame_free(&f);
    gradients_free(&with);
    gradients_free(&without);
    scene_free(&s);
}

/* q4: the compensation is differentiated at a covariance that is blurred once more: for (a, b, c) =
 * (0.5, 0.2, 0.8) the gradient is (0.161, -0.090, 0.094), not (0.299, -0.208, 0.143). */
static void compensation_is_blurred_twice(void **state) {
    (void)state;
    const double exact[3] = {0.2987, -0.2078, 0.1429}, original[3] = {0.1609, -0.0896, 0.0937};
    double got[3];
    compensation_gradient(0, got);
    for (int k = 0; k < 3; k++) assert_true(fabs(got[k] - exact[k]) < 1e-4);
    compensation_gradient(GSC_RASTER_COMPAT_3DGS, got);
    for (int k = 0; k < 3; k++) assert_true(fabs(got[k] - original[k]) < 1e-4);
}

/* At the minimum of the compensation both conventions have no gradient. */
static void compensation_stops_at_floor(void **state) {
    (void)state;
    const gsc__camera camera = {.compat = true, .antialias = true, .blur = 0.3};
    const gsc__projection p = {
        .cov = {0.301, 0, 0.301}, .det_sharp = 1e-6, .det = 0.301 * 0.301, .compensation = 0.005};
    const gsc__compensation_grad grad = gsc__compensation_grad_of(&camera, &p, 1, 1);
    assert_true(grad.det_sharp == 0 && grad.trace == 0 && grad.white == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clamped_alpha_passes),
        cmocka_unit_test(clamped_ratio_counts_twice),
        cmocka_unit_test(clamped_term_is_double),
        cmocka_unit_test(scales_lack_modifier),
        cmocka_unit_test(compensation_is_blurred_twice),
        cmocka_unit_test(compensation_stops_at_floor),
    };
    context = library_context(1);
    int failures = cmocka_run_group_tests_name("raster quirks", tests, NULL, NULL);
    gsc_context_free(context);
    return failures;
}
