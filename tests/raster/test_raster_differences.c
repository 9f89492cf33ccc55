/* Gradients of the rasterizer against finite differences, in double precision. */
#include "compare.h"
#include "expect.h"
#include "finite_difference.h"
#include "library.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>

typedef struct gradient_case {
    const char *name;
    raster_scene_options options;
    unsigned upstream;               /* GRAD_*; 0: GRAD_ALL */
    void (*prepare)(scene *s);       /* changes the random scene; may be NULL */
    void (*examine)(const scene *s); /* asserts that the scene is what its name says; may be NULL */
} gradient_case;

/* ------------------------------------------------------- special scenes */

static void zero_axes(scene *s) {
    for (int i = 0; i < s->gaussians; i++) {
        s->scales[3 * i + i % 3] = 0;
        if (i % 2) s->scales[3 * i + (i + 1) % 3] = 0;
    }
}

static void zero_quaternions(scene *s) {
    for (int i = 0; i < 8; i++) s->rotations[8 + i] = 0;
}

/* So small that the compensation is at its minimum, and only the blur remains. */
static void points(scene *s) {
    for (int i = 0; i < 3 * s->gaussians; i++) s->scales[i] *= 0.01;
    for (int i = 0; i < s->gaussians; i++) s->opacities[i] = 0.9 + 0.05 * i / s->gaussians;
}

typedef struct census {
    int clamped_ratios, clamped_alphas, stopped, closed, behind;
} census;

static void count_pixels(const scene *s, const reference_splat *splats, const int *order, int count,
                         census *n) {
    for (int pixel = 0; pixel < s->width * s->height; pixel++) {
        double T = 1;
        for (int k = 0; k < count && T >= 1e-4; k++) {
            const reference_splat *splat = &splats[order[k]];
            double gauss, alpha;
            if (!reference_sample(s, splat, pixel % s->width, pixel / s->width, &gauss, &alpha)) {
                continue;
            }
            T *= 1 - alpha;
            n->clamped_alphas += splat->opacity * gauss > 0.99;
        }
        n->stopped += T < 1e-4;
    }
}

static census take_census(const scene *s) {
    census n = {0};
    reference_camera camera;
    reference_splat *splats = (reference_splat *)calloc((size_t)s->gaussians, sizeof *splats);
    int *order = ints_alloc((size_t)s->gaussians);
    assert_non_null(splats);
    reference_camera_load(s, 0, &camera);
    reference_project(s, 0, &camera, splats);
    int count = reference_sort(s, splats, order);
    for (int i = 0; i < s->gaussians; i++) {
        n.behind += splats[i].point[2] <= 0.2;
        if (!splats[i].visible) continue;
        n.clamped_ratios += splats[i].clamped[0] || splats[i].clamped[1];
        for (int c = 0; c < 3 && s->sh; c++) n.closed += !splats[i].open[c];
    }
    count_pixels(s, splats, order, count, &n);
    free(order);
    free(splats);
    return n;
}

static void has_clamped_ratios(const scene *s) {
    assert_true(take_census(s).clamped_ratios >= 3);
}

static void is_saturated(const scene *s) {
    census n = take_census(s);
    assert_true(n.clamped_alphas > 20);
    assert_true(n.stopped > 20);
}

static void has_closed_channels(const scene *s) {
    assert_true(take_census(s).closed > 0);
}

static void has_points_behind(const scene *s) {
    assert_true(take_census(s).behind > 0);
}

/* ---------------------------------------------------------------- cases */

#define OPAQUE                                                                               \
    .opacity_min = 0.993, .opacity_max = 1.0, .spread = 0.4, .size_min = 12, .size_max = 25, \
    .gaussians = 14
#define EDGE .spread = 3.2, .size_min = 8, .size_max = 25, .gaussians = 14
#define ROWS GSC_RASTER_VIEW_ROW_MAJOR
#define STORED .flags = GSC_RASTER_LOG_SCALES | GSC_RASTER_LOGIT_OPACITIES
#define ANTIALIAS GSC_RASTER_ANTIALIAS
#define COMPAT .flags = GSC_RASTER_COMPAT_3DGS

/* clang-format off */
static const gradient_case cases[] = {
    {"by color", {.seed = 1, .background_rows = 1}, GRAD_COLOR, NULL, NULL},
    {"by alpha", {.seed = 2, .background_rows = 1}, GRAD_ALPHA, NULL, NULL},
    {"by depth", {.seed = 3}, GRAD_DEPTH, NULL, NULL},
    {"by inverse depth", {.seed = 4}, GRAD_INV_DEPTH, NULL, NULL},
    {"by all outputs", {.seed = 5, .background_rows = 1}, GRAD_ALL, NULL, NULL},
    {"1 channel", {.seed = 6, .channels = 1, .background_rows = 1}, 0, NULL, NULL},
    {"4 channels", {.seed = 7, .channels = 4, .background_rows = 1}, GRAD_COLOR, NULL, NULL},
    {"8 channels", {.seed = 8, .channels = 8, .background_rows = 1}, 0, NULL, NULL},
    {"17 channels", {.seed = 9, .channels = 17, .background_rows = 1}, 0, NULL, NULL},
    {"3 cameras", {.seed = 10, .cameras = 3, .background_rows = 1}, 0, NULL, NULL},
    {"colors and background per camera",
     {.seed = 11, .cameras = 3, .background_rows = 3, .colors_per_camera = true}, 0, NULL, NULL},
    {"2 cameras, 17 channels each",
     {.seed = 12, .cameras = 2, .channels = 17, .colors_per_camera = true, .background_rows = 2,
      .gaussians = 6}, 0, NULL, NULL},
    {"sh degree 0", {.seed = 13, SH(0)}, 0, NULL, NULL},
    {"sh degree 1", {.seed = 114, SH(1), .gaussians = 14}, 0, NULL, has_closed_channels},
    {"sh degree 2", {.seed = 15, SH(2)}, 0, NULL, has_closed_channels},
    {"sh degree 3", {.seed = 16, SH(3)}, 0, NULL, has_closed_channels},
    {"sh degree 4", {.seed = 17, SH(4)}, 0, NULL, has_closed_channels},
    {"sh degree 4, 3 Gaussians", {.seed = 18, SH(4), .gaussians = 3}, 0, NULL, NULL},
    {"sh degree 0 split", {.seed = 19, SH(0), .sh_split = true}, 0, NULL, NULL},
    {"sh degree 1 split", {.seed = 20, SH(1), .sh_split = true}, 0, NULL, NULL},
    {"sh degree 2 split", {.seed = 21, SH(2), .sh_split = true}, 0, NULL, NULL},
    {"sh degree 3 split", {.seed = 22, SH(3), .sh_split = true}, 0, NULL, NULL},
    {"sh degree 4 split", {.seed = 23, SH(4), .sh_split = true}, 0, NULL, NULL},
    {"sh degree 2 of 4", {.seed = 24, SH_STORED(2, 4), .gaussians = 3}, 0, NULL, NULL},
    {"sh degree 1 of 3 split", {.seed = 25, SH_STORED(1, 3), .gaussians = 5, .sh_split = true}, 0,
     NULL, NULL},
    {"sh degree 0 of 3 split", {.seed = 26, SH_STORED(0, 3), .gaussians = 5, .sh_split = true}, 0,
     NULL, NULL},
    {"row-major view", {.seed = 27, SH(3), .flags = ROWS}, 0, NULL, NULL},
    {"position", {.seed = 28, SH(3), .position = true}, 0, NULL, NULL},
    {"position, row-major view, 2 cameras",
     {.seed = 29, SH(2), .position = true, .flags = ROWS, .cameras = 2}, 0, NULL, NULL},
    {"off-centre", {.seed = 30, .off_centre = 0.2}, 0, NULL, NULL},
    {"projection", {.seed = 31, SH(3), .projection = true}, 0, NULL, NULL},
    {"projection, row-major, off-centre, 2 cameras",
     {.seed = 32, SH(1), .projection = true, .flags = ROWS, .off_centre = -0.15, .cameras = 2},
     0, NULL, NULL},
    {"projection and position", {.seed = 33, SH(2), .projection = true, .position = true}, 0,
     NULL, NULL},
    {"covariances", {.seed = 34, .covariances = true}, 0, NULL, NULL},
    {"covariances, antialias, off-centre",
     {.seed = 35, .covariances = true, .flags = ANTIALIAS, .off_centre = 0.2, .size_min = 0.4,
      .size_max = 3}, 0, NULL, NULL},
    {"antialias", {.seed = 36, .flags = ANTIALIAS}, 0, NULL, NULL},
    {"antialias, small splats",
     {.seed = 37, .flags = ANTIALIAS, .size_min = 0.15, .size_max = 0.8}, 0, NULL, NULL},
    {"antialias, blur 1",
     {.seed = 38, .flags = ANTIALIAS, .blur = 1.0f, .scale_modifier = 0.8f}, 0, NULL, NULL},
    {"antialias at its floor", {.seed = 39, .flags = ANTIALIAS, .gaussians = 20}, 0, points, NULL},
    {"no blur", {.seed = 40, .blur = -1.0f}, 0, NULL, NULL},
    {"scale modifier", {.seed = 41, .scale_modifier = 1.7f, SH(1)}, 0, NULL, NULL},
    {"saturated", {.seed = 42, OPAQUE, .background_rows = 1}, 0, NULL, is_saturated},
    {"saturated, antialias, 4 channels",
     {.seed = 43, OPAQUE, .flags = ANTIALIAS, .channels = 4}, 0, NULL, is_saturated},
    {"frustum's edge", {.seed = 44, EDGE}, 0, NULL, has_clamped_ratios},
    {"frustum's edge, off-centre", {.seed = 45, EDGE, .off_centre = 0.3, SH(1)}, 0, NULL,
     has_clamped_ratios},
    {"frustum's edge, projection, antialias",
     {.seed = 46, EDGE, .projection = true, .flags = ANTIALIAS}, 0, NULL, has_clamped_ratios},
    {"frustum's edge, covariances", {.seed = 47, EDGE, .covariances = true}, 0, NULL,
     has_clamped_ratios},
    {"flat and thin", {.seed = 48}, 0, zero_axes, NULL},
    {"flat and thin, antialias", {.seed = 49, .flags = ANTIALIAS}, 0, zero_axes, NULL},
    {"zero quaternions", {.seed = 50}, 0, zero_quaternions, NULL},
    {"behind the camera", {.seed = 51, .depth_min = -2, .depth_max = 5, .gaussians = 16}, 0, NULL,
     has_points_behind},
    {"pixel last", {.seed = 52, .flags = GSC_RASTER_PIXEL_LAST, .background_rows = 1}, 0, NULL,
     NULL},
    {"pixel last, 5 channels, 2 cameras",
     {.seed = 53, .flags = GSC_RASTER_PIXEL_LAST, .background_rows = 2, .channels = 5,
      .cameras = 2}, 0, NULL, NULL},
    {"stored values", {.seed = 56, STORED, .scale_modifier = 0.7f, SH(1)}, 0, NULL, NULL},
    {"stored values, antialias, small splats",
     {.seed = 57, STORED | ANTIALIAS, .size_min = 0.15, .size_max = 0.8}, 0, NULL, NULL},
    {"60 Gaussians", {.seed = 55, .gaussians = 60, SH(1), .size_max = 3}, 0, NULL, NULL},
    /* Where none of the original's quirks is active, compat is exact too. */
    {"compat", {.seed = 70, COMPAT, .spread = 0.9, .background_rows = 1}, 0, NULL, NULL},
    {"compat, projection", {.seed = 71, COMPAT, .spread = 0.9, SH(3), .projection = true}, 0,
     NULL, NULL},
    {"compat, projection, position, 2 cameras",
     {.seed = 72, COMPAT, .spread = 0.7, SH(2), .projection = true, .position = true,
      .cameras = 2}, 0, NULL, NULL},
    {"compat, covariances", {.seed = 73, COMPAT, .spread = 0.9, .covariances = true}, 0, NULL,
     NULL},
    {"compat, 8 channels", {.seed = 74, COMPAT, .spread = 0.9, .channels = 8}, 0, NULL, NULL},
    {"compat, sh split", {.seed = 75, COMPAT, .spread = 0.9, SH(2), .sh_split = true}, 0, NULL,
     NULL},
    {"compat, zero quaternions", {.seed = 76, COMPAT, .spread = 0.9}, 0, zero_quaternions, NULL},
};
/* clang-format on */
enum { CASES = sizeof cases / sizeof cases[0] };

static void gradient_is_derivative(void **state) {
    const gradient_case *c = (const gradient_case *)*state;
    gsc_context *context = library_context(1);
    scene s;
    gradients g;
    raster_scene_make(&s, &c->options);
    if (c->prepare) c->prepare(&s);
    if (c->examine) c->examine(&s);
    gradients_alloc(&g, &s);
    raster_scene_upstream(&s, c->upstream ? c->upstream : GRAD_ALL, c->options.seed, &g);
    int wrong = differences_check(c->name, context, &s, &c->options, &g);
    gradients_free(&g);
    scene_free(&s);
    gsc_context_free(context);
    assert_int_equal(wrong, 0);
}

/* Too many for differences: compare with the reference, which the cases above verify. */
static void many_gaussians(void **state) {
    (void)state;
    const raster_scene_options o = {.seed = 56,
                                    .gaussians = 2500,
                                    .cameras = 2,
                                    .width = 70,
                                    .height = 50,
                                    .size_max = 3,
                                    SH(1)};
    gsc_context *context = library_context(3);
    scene s;
    gradients g, wanted;
    raster_scene_make(&s, &o);
    gradients_alloc(&g, &s);
    gradients_alloc(&wanted, &s);
    raster_scene_upstream(&s, GRAD_ALL, 56, &g);
    raster_scene_upstream(&s, GRAD_ALL, 56, &wanted);
    expect_ok(library_backward(context, &s, NULL, &g));
    reference_backward(&s, &wanted);
    assert_int_equal(compare_gradients("many Gaussians", &s, &g, &wanted, LIBRARY_EPSILON), 0);
    gradients_free(&g);
    gradients_free(&wanted);
    scene_free(&s);
    gsc_context_free(context);
}

/* ------------------------------------------------------------- means2d */

/* Moving the principal point moves every mean in the image, and nothing else. */
static void check_means2d(int gaussians, uint32_t flags) {
    const raster_scene_options o = {
        .seed = 60, .gaussians = gaussians, .flags = flags, .spread = 0.8};
    gsc_context *context = library_context(1);
    scene s;
    gradients g;
    raster_scene_make(&s, &o);
    gradients_alloc(&g, &s);
    raster_scene_upstream(&s, GRAD_ALL, 60, &g);
    expect_ok(library_backward(context, &s, NULL, &g));
    for (int axis = 0; axis < 2; axis++) {
        const double one = 1;
        double unit = flags & GSC_RASTER_GRAD2D_NDC ? (axis ? s.height : s.width) / 2.0 : 1;
        double sum = 0, by_centre = difference_along(context, &s, &g, s.intrinsics + 2 + axis, &one,
                                                     1, 1e-3);
        for (int i = 0; i < s.gaussians; i++) {
            sum += g.means2d[2 * i + axis];
            assert_true(g.means2d_abs[2 * i + axis] >= fabs(g.means2d[2 * i + axis]));
        }
        assert_true(fabs(sum - unit * by_centre) < 1e-6 * fabs(unit * by_centre));
    }
    gradients_free(&g);
    scene_free(&s);
    gsc_context_free(context);
}

static void means2d_of_one_splat(void **state) {
    (void)state;
    check_means2d(1, 0);
    check_means2d(1, GSC_RASTER_GRAD2D_NDC);
}

static void means2d_of_many_splats(void **state) {
    (void)state;
    check_means2d(10, 0);
    check_means2d(10, GSC_RASTER_GRAD2D_NDC);
}

/* A round splat outside the image's corner: no pixels whose contributions cancel. */
static void means2d_abs_of_one_side(void **state) {
    (void)state;
    const raster_scene_options o = {.seed = 61, .gaussians = 1, .spread = 0.1};
    gsc_context *context = library_context(1);
    scene s;
    gradients g;
    frame f;
    raster_scene_make(&s, &o);
    for (int k = 0; k < 3; k++) s.scales[k] = 0.5, s.colors[k] = 0.5;
    gradients_alloc(&g, &s);
    g.grad_color = reals_alloc(3 * scene_pixels(&s));
    for (size_t i = 0; i < 3 * scene_pixels(&s); i++) g.grad_color[i] = 1;
    frame_alloc(&f, &s, 1);
    expect_ok(library_forward(context, &s, NULL, &f, NULL));
    s.intrinsics[2] -= f.means2d[0] + 2;
    s.intrinsics[3] -= f.means2d[1] + 2;
    expect_ok(library_forward(context, &s, NULL, &f, NULL));
    expect_ok(library_backward(context, &s, NULL, &g));
    for (int axis = 0; axis < 2; axis++) {
        assert_true(f.means2d[axis] < 0);
        assert_true(g.means2d[axis] > 0);
        double off = fabs(g.means2d_abs[axis] - g.means2d[axis]);
        assert_true(off <= 1e-12 * g.means2d[axis]);
    }
    frame_free(&f);
    gradients_free(&g);
    scene_free(&s);
    gsc_context_free(context);
}

int main(void) {
    static struct CMUnitTest tests[CASES + 4];
    for (int i = 0; i < CASES; i++) {
        tests[i] = (struct CMUnitTest){cases[i].name, gradient_is_derivative, NULL, NULL,
                                       (void *)(uintptr_t)&cases[i]};
    }
    tests[CASES] = (struct CMUnitTest)cmocka_unit_test(means2d_of_one_splat);
    tests[CASES + 1] = (struct CMUnitTest)cmocka_unit_test(means2d_of_many_splats);
    tests[CASES + 2] = (struct CMUnitTest)cmocka_unit_test(means2d_abs_of_one_side);
    tests[CASES + 3] = (struct CMUnitTest)cmocka_unit_test(many_gaussians);
    return _cmocka_run_group_tests("raster differences", tests, CASES + 4, NULL, NULL);
}
