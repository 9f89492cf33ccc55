/* Gradients for missing, invisible or non-finite Gaussians, and the precision of gradients in
 * float32. */
#include "compare.h"
#include "expect.h"
#include "library.h"
#include "raster_call.h"
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static gsc_context *context;

static const raster_scene_options variety[] = {
    {.seed = 1, .gaussians = 30, SH(3), .sh_split = true, .position = true, .background_rows = 1},
    {.seed = 2,
     .gaussians = 30,
     .covariances = true,
     .cameras = 2,
     .background_rows = 2,
     .channels = 7,
     .colors_per_camera = true},
    {.seed = 3,
     .gaussians = 30,
     .projection = true,
     SH(1),
     .flags = GSC_RASTER_COMPAT_3DGS | GSC_RASTER_ANTIALIAS},
};
enum { VARIETY = sizeof variety / sizeof variety[0] };

/* ------------------------------------------------------ absent and broken */

static void turn_away(scene *s) {
    for (int i = 0; i < 3 * s->gaussians; i++) s->means[i] *= -50;
}

static void assert_zero_but_background(raster_call *call) {
    raster_call_expect_backward(call);
    for (int i = 0; i < RASTER_GRADS; i++) {
        const DLTensor *grad = *raster_call_grad(&call->grads, i);
        for (size_t k = 0; grad && k < raster_call_count(grad); k++) {
            if (grad == call->grads.background) {
                assert_true(isfinite(raster_call_values(grad)[k]) &&
                            raster_call_values(grad)[k] != 0);
            } else {
                assert_true(raster_call_values(grad)[k] == 0);
            }
        }
    }
}

static void no_gaussians(void **state) {
    (void)state;
    for (int v = 0; v < VARIETY; v++) {
        raster_call call;
        raster_scene_options o = variety[v];
        o.gaussians = -1;
        raster_call_open(&call, context, &o, NULL);
        assert_zero_but_background(&call);
        raster_call_close(&call);
    }
}

static void nothing_visible(void **state) {
    (void)state;
    for (int v = 0; v < 2; v++) {
        raster_call call;
        raster_call_open(&call, context, &variety[v], turn_away);
        assert_int_equal(call.info.intersections, 0);
        assert_zero_but_background(&call);
        raster_call_close(&call);
    }
}

/* Ignores one Gaussian's rows of the gradient tensors; the others must match. */
static bool only_row_is_zero(const DLTensor *grad, const float *wanted, size_t n, size_t outer,
                             size_t row, const char *name) {
    size_t size = raster_call_count(grad) / n / outer;
    const float *got = raster_call_values(grad);
    for (size_t i = 0; i < n * outer * size; i++) {
        if (i / size % n == row ? got[i] == 0 : memcmp(&got[i], &wanted[i], 4) == 0) continue;
        print_error("%s[%zu] is %g, without the broken one %g\n", name, i, (double)got[i],
                    (double)wanted[i]);
        return false;
    }
    return true;
}

/* One value of Gaussian 4 is broken: the others must be as if it did not exist. */
static void check_broken(raster_call *call, const char *what, double *values, int at,
                         float *wanted[RASTER_GRADS]) {
    const double kept = values[at], broken[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    size_t n = (size_t)call->s.gaussians;
    for (int b = 0; b < 3; b++) {
        values[at] = broken[b];
        raster_call_forward(call);
        raster_call_expect_backward(call);
        for (int i = 0; i < RASTER_GRADS; i++) {
            const DLTensor *grad = *raster_call_grad(&call->grads, i);
            const char *name = raster_call_grad_name(i);
            if (!grad) continue;
            bool per_camera = i == 8 || i == 9 || (i == 5 && call->s.colors_rows > 1);
            size_t outer = per_camera ? (size_t)call->s.cameras : 1;
            bool good = i < 10 ? only_row_is_zero(grad, wanted[i], n, outer, 4, name)
                               : memcmp(grad->data, wanted[i], raster_call_count(grad) * 4) == 0;
            if (!good)
                fail_msg("%s is not as without Gaussian 4, of which %s[%d] is %g", name, what, at,
                         broken[b]);
        }
    }
    values[at] = kept;
}

static void broken_gaussians(void **state) {
    (void)state;
    const raster_scene_options options[] = {
        {.seed = 21, .gaussians = 40, SH(2), .sh_split = true, .background_rows = 1},
        {.seed = 22, .gaussians = 40, SH(1), .flags = GSC_RASTER_COMPAT_3DGS, .projection = true},
        {.seed = 23, .gaussians = 40, .covariances = true, .channels = 5, .cameras = 2},
    };
    for (int v = 0; v < 3; v++) {
        raster_call call;
        float *wanted[RASTER_GRADS] = {NULL};
        raster_call_open(&call, context, &options[v], NULL);
        scene *s = &call.s;
        const double opacity = s->opacities[4];
        raster_call_expect_backward(&call);
        assert_true(raster_call_values(call.grads.opacities)[4] != 0);
        s->opacities[4] = 0;
        raster_call_forward(&call);
        raster_call_expect_backward(&call);
        for (int i = 0; i < RASTER_GRADS; i++) {
            const DLTensor *grad = *raster_call_grad(&call.grads, i);
            if (grad) wanted[i] = raster_call_copy(grad);
        }
        s->opacities[4] = opacity;
        int columns = s->sh_coefficients * 3;
        for (int k = 0; k < 3; k++) check_broken(&call, "means", s->means, 12 + k, wanted);
        check_broken(&call, "opacities", s->opacities, 4, wanted);
        for (int k = 0; k < 3 && s->scales; k++)
            check_broken(&call, "scales", s->scales, 12 + k, wanted);
        for (int k = 0; k < 4 && s->scales; k++)
            check_broken(&call, "rotations", s->rotations, 16 + k, wanted);
        for (int k = 0; k < 6 && s->covariances; k++) {
            check_broken(&call, "covariances", s->covariances, 24 + k, wanted);
        }
        for (int k = 0; k < 5 && s->colors; k++)
            check_broken(&call, "colors", s->colors, 20 + k, wanted);
        for (int k = 0; k < columns; k++) check_broken(&call, "sh", s->sh, 4 * columns + k, wanted);
        for (int i = 0; i < RASTER_GRADS; i++) free(wanted[i]);
        raster_call_close(&call);
    }
}

/* ---------------------------------------------------------------- precision */

/* Against the reference in double precision, which the float64 build agrees with; scenes
 * where a pixel falls on the other side of a threshold in float32 do not count. */
static void float_is_precise(void **state) {
    (void)state;
    int compared = 0;
    for (uint64_t seed = 100; seed < 112; seed++) {
        raster_scene_options o = {.seed = seed, .gaussians = 30, .background_rows = 1};
        if (seed % 2) o.sh_coefficients = 9, o.sh_degree = 2;
        if (seed % 3 == 0) o.flags = GSC_RASTER_ANTIALIAS;
        if (seed % 4 == 3) o.cameras = 2;
        scene s;
        raster_scene_make(&s, &o);
        s.pixel_weights = reals_alloc(scene_pixels(&s));
        library_round(&s);
        frame got, wanted;
        frame_alloc(&got, &s, 1);
        frame_alloc(&wanted, &s, 1);
        expect_ok(library_forward(context, &s, NULL, &got, NULL));
        reference_rasterize(&s, &wanted);
        if (compare_ints(got.weight_count, wanted.weight_count, scene_splats(&s)) == 0) {
            gradients g, exact;
            gradients_alloc(&g, &s);
            gradients_alloc(&exact, &s);
            raster_scene_upstream(&s, GRAD_ALL, seed, &g);
            raster_scene_upstream(&s, GRAD_ALL, seed, &exact);
            expect_ok(library_backward(context, &s, NULL, &g));
            reference_backward(&s, &exact);
            assert_int_equal(compare_gradients("float32", &s, &g, &exact, 1e-5), 0);
            gradients_free(&g);
            gradients_free(&exact);
            compared++;
        }
        frame_free(&got);
        frame_free(&wanted);
        scene_free(&s);
    }
    assert_true(compared >= 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_gaussians),
        cmocka_unit_test(nothing_visible),
        cmocka_unit_test(broken_gaussians),
        cmocka_unit_test(float_is_precise),
    };
    context = library_context(2);
    int failures = cmocka_run_group_tests_name("raster absent", tests, NULL, NULL);
    gsc_context_free(context);
    return failures;
}
