/* What backward writes, that its bits depend on nothing but the scene, and what becomes of
 * Gaussians that are not there or not finite.  In float32. */
#include "call.h"
#include "compare.h"
#include "library.h"
#include "raster_call.h"
#include "reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define SH(degree) .sh_degree = degree, .sh_coefficients = (degree + 1) * (degree + 1)

static gsc_context *one, *two, *seven; /* threads */

/* Between them, every gradient, 3, 4 (walked with constant counts) and more features. */
static const raster_scene_options variety[] = {
    {.seed = 1, .gaussians = 300, .width = 90, .height = 70, SH(3), .sh_split = true,
     .position = true, .background_rows = 1},
    {.seed = 2, .gaussians = 300, .width = 90, .height = 70, .covariances = true, .cameras = 2,
     .background_rows = 2, .channels = 7, .colors_per_camera = true},
    {.seed = 3, .gaussians = 1500, .width = 90, .height = 70, .projection = true, .size_max = 4,
     .flags = GSC_RASTER_COMPAT_3DGS | GSC_RASTER_ANTIALIAS, SH(1)},
};
enum { VARIETY = sizeof variety / sizeof variety[0] };

static void backward(raster_call *call) {
    gsc_status status = raster_call_backward(call);
    if (status != GSC_OK) print_error("%s\n", gsc_last_error());
    assert_int_equal(status, GSC_OK);
    assert_true(tensors_guarded(&call->set));
}

static float *values_of(const DLTensor *grad) {
    return (float *)grad->data;
}

static float *copy_of(const DLTensor *grad) {
    size_t bytes = raster_call_count(grad) * sizeof(float);
    float *copy = (float *)malloc(bytes + 1);
    assert_non_null(copy);
    memcpy(copy, grad->data, bytes);
    return copy;
}

static void assert_same_bits(const DLTensor *grad, const float *wanted, const char *name) {
    if (memcmp(grad->data, wanted, raster_call_count(grad) * sizeof(float)) == 0) return;
    print_error("%s: other bits\n", name);
    fail();
}

/* ------------------------------------------------------------ what is written */

static void each_gradient_alone(void **state) {
    (void)state;
    for (int v = 0; v < VARIETY; v++) {
        raster_call call;
        raster_call_open(&call, two, &variety[v], NULL);
        backward(&call);
        const gsc_raster_grads all = call.grads;
        for (int i = 0; i < RASTER_GRADS; i++) {
            gsc_raster_grads fields = all;
            const DLTensor *grad = *raster_call_grad(&fields, i);
            if (!grad) continue;
            float *wanted = copy_of(grad);
            bool any = false;
            for (size_t k = 0; k < raster_call_count(grad); k++) {
                assert_true(isfinite(wanted[k]));
                any = any || wanted[k] != 0;
            }
            assert_true(any);
            for (int k = 0; k < RASTER_GRADS; k++) {
                *raster_call_grad(&call.grads, k) = k == i ? grad : NULL;
            }
            backward(&call);
            assert_same_bits(grad, wanted, raster_call_grad_name(i));
            call.grads = all;
            free(wanted);
        }
        raster_call_close(&call);
    }
}

static void inputs_stay(void **state) {
    (void)state;
    raster_call call;
    raster_call_open(&call, two, &variety[0], NULL);
    const DLTensor *inputs[] = {call.args.means, call.args.sh, call.args.rotations,
                                call.args.view, call.grads.color, call.grads.alpha,
                                call.grads.depth, call.grads.inv_depth};
    enum { INPUTS = sizeof inputs / sizeof inputs[0] };
    float *before[INPUTS];
    for (int i = 0; i < INPUTS; i++) before[i] = copy_of(inputs[i]);
    void *state_before = malloc(call.info.state_bytes);
    assert_non_null(state_before);
    memcpy(state_before, call.buffers.state->data, call.info.state_bytes);
    backward(&call);
    for (int i = 0; i < INPUTS; i++) {
        assert_same_bits(inputs[i], before[i], "input");
        free(before[i]);
    }
    assert_memory_equal(state_before, call.buffers.state->data, call.info.state_bytes);
    free(state_before);
    raster_call_close(&call);
}

static void nothing_asked(void **state) {
    (void)state;
    raster_call call;
    raster_call_open(&call, two, &variety[0], NULL);
    for (int i = 0; i < RASTER_GRADS; i++) *raster_call_grad(&call.grads, i) = NULL;
    backward(&call);
    raster_call_close(&call);
}

/* Without upstream gradients all are zero; a third column of means2d is too. */
static void nothing_upstream(void **state) {
    (void)state;
    raster_call call;
    raster_call_open(&call, two, &variety[0], NULL);
    const int64_t n = call.s.gaussians, shape[] = {1, n, 3};
    call.grads.means2d = tensors_output(&call.set, call.g.means2d, 3, shape);
    call.grads.means2d_abs = tensors_output(&call.set, call.g.means2d, 3, shape);
    backward(&call);
    float sum = 0;
    for (int64_t i = 0; i < n; i++) {
        assert_true(values_of(call.grads.means2d)[3 * i + 2] == 0);
        assert_true(values_of(call.grads.means2d_abs)[3 * i + 2] == 0);
        sum += values_of(call.grads.means2d_abs)[3 * i];
    }
    assert_true(sum > 0);
    call.grads.color = call.grads.alpha = call.grads.depth = call.grads.inv_depth = NULL;
    backward(&call);
    for (int i = 0; i < RASTER_GRADS; i++) {
        const DLTensor *grad = *raster_call_grad(&call.grads, i);
        for (size_t k = 0; grad && k < raster_call_count(grad); k++) {
            assert_true(values_of(grad)[k] == 0);
        }
    }
    raster_call_close(&call);
}

static void gradients_are_added(void **state) {
    (void)state;
    for (int v = 0; v < VARIETY; v++) {
        raster_call call;
        raster_call_open(&call, two, &variety[v], NULL);
        backward(&call);
        float *plain[RASTER_GRADS] = {NULL};
        for (int i = 0; i < RASTER_GRADS; i++) {
            const DLTensor *grad = *raster_call_grad(&call.grads, i);
            if (grad) plain[i] = copy_of(grad);
        }
        raster_call_fill(&call.grads, 0.25);
        call.args.flags |= GSC_RASTER_GRAD_ADD;
        assert_int_equal(gsc_raster_backward(two, &call.args, &call.buffers, &call.info,
                                             &call.grads, NULL), GSC_OK);
        for (int i = 0; i < RASTER_GRADS; i++) {
            const DLTensor *grad = *raster_call_grad(&call.grads, i);
            for (size_t k = 0; grad && k < raster_call_count(grad); k++) {
                float off = fabsf(values_of(grad)[k] - 0.25f - plain[i][k]);
                assert_true(off <= 1e-5f * (0.25f + fabsf(plain[i][k])));
            }
            free(plain[i]);
        }
        raster_call_close(&call);
    }
}

/* ------------------------------------------------------------------- bits */

static void bits_for_any_threads(void **state) {
    (void)state;
    gsc_context *contexts[] = {one, two, seven};
    for (int v = 0; v < VARIETY; v++) {
        uint64_t first = 0;
        for (int t = 0; t < 3; t++) {
            raster_call call;
            raster_call_open(&call, contexts[t], &variety[v], NULL);
            backward(&call);
            uint64_t hash = raster_call_hash(&call.grads);
            if (t == 0) first = hash;
            assert_true(hash == first);
            raster_call_close(&call);
        }
    }
}

static void bits_of_20_runs(void **state) {
    (void)state;
    for (int v = 0; v < VARIETY; v++) {
        raster_call call;
        raster_call_open(&call, seven, &variety[v], NULL);
        backward(&call);
        const uint64_t first = raster_call_hash(&call.grads);
        for (int run = 1; run < 20; run++) {
            backward(&call);
            assert_true(raster_call_hash(&call.grads) == first);
        }
        raster_call_close(&call);
    }
}

/* Down to the fullest tile; below it an error. */
static void bits_for_any_intersections(void **state) {
    (void)state;
    for (int v = 0; v < VARIETY; v++) {
        raster_call call;
        raster_call_open(&call, two, &variety[v], NULL);
        backward(&call);
        const uint64_t first = raster_call_hash(&call.grads);
        const DLTensor *whole = call.buffers.intersections;
        const size_t least = call.info.intersections_min_bytes;
        const size_t most = call.info.intersections_bytes;
        int64_t shape;
        assert_true(most > 4 * least);
        for (int step = 0; step <= 16; step++) {
            size_t bytes = least + (most - least) * (size_t)(step * step) / 256;
            DLTensor cut = raster_call_cut(whole, bytes / 4 * 4, &shape);
            call.buffers.intersections = &cut;
            backward(&call);
            assert_true(raster_call_hash(&call.grads) == first);
        }
        DLTensor cut = raster_call_cut(whole, least - 4, &shape);
        call.buffers.intersections = &cut;
        assert_int_equal(raster_call_backward(&call), GSC_ERROR_BUFFER_TOO_SMALL);
        raster_call_close(&call);
    }
}

/* Scratch below what the sizes ask for is the backend's business: it makes more bands. */
static void bits_for_any_scratch(void **state) {
    (void)state;
    for (int v = 0; v < VARIETY; v++) {
        raster_call call;
        gsc__raster_call inner;
        gsc__raster_grads grads;
        raster_call_open(&call, two, &variety[v], NULL);
        backward(&call);
        const uint64_t first = raster_call_hash(&call.grads);
        assert_int_equal(gsc__raster_begin(&inner, "test", two, &call.args, &call.info, NULL),
                         GSC_OK);
        assert_int_equal(gsc__raster_grads_args(&inner.checker, &inner.raster, &call.grads, &grads),
                         GSC_OK);
        size_t most = call.info.backward_scratch_bytes, done = 0, refused = 0;
        const DLTensor *scratch = tensors_bytes(&call.set, most);
        gsc__raster_buffers buffers = {
            .state = call.buffers.state->data,
            .state_bytes = call.info.state_bytes,
            .intersections = call.buffers.intersections->data,
            .intersections_bytes = call.info.intersections_bytes,
            .scratch = scratch->data};
        for (buffers.scratch_bytes = most; buffers.scratch_bytes > most / 40;
             buffers.scratch_bytes -= most / 40) {
            raster_call_fill(&call.grads, (double)NAN);
            gsc_status status =
                two->backend->raster_backward(two, &inner.raster, &buffers, &call.info, &grads, NULL);
            if (status == GSC_OK) {
                assert_int_equal(refused, 0);
                assert_true(raster_call_hash(&call.grads) == first);
                done++;
            } else {
                assert_int_equal(status, GSC_ERROR_BUFFER_TOO_SMALL);
                refused++;
            }
        }
        assert_true(done > 3 && refused > 3);
        assert_true(tensors_guarded(&call.set));
        raster_call_close(&call);
    }
}

/* --------------------------------------------------- absent and broken splats */

static void turn_away(scene *s) {
    for (int i = 0; i < 3 * s->gaussians; i++) s->means[i] *= -50;
}

static void assert_zero_but_background(raster_call *call) {
    backward(call);
    for (int i = 0; i < RASTER_GRADS; i++) {
        const DLTensor *grad = *raster_call_grad(&call->grads, i);
        for (size_t k = 0; grad && k < raster_call_count(grad); k++) {
            if (grad == call->grads.background) {
                assert_true(isfinite(values_of(grad)[k]) && values_of(grad)[k] != 0);
            } else {
                assert_true(values_of(grad)[k] == 0);
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
        raster_call_open(&call, two, &o, NULL);
        assert_zero_but_background(&call);
        raster_call_close(&call);
    }
}

static void nothing_visible(void **state) {
    (void)state;
    for (int v = 0; v < 2; v++) {
        raster_call call;
        raster_call_open(&call, two, &variety[v], turn_away);
        assert_int_equal(call.info.intersections, 0);
        assert_zero_but_background(&call);
        raster_call_close(&call);
    }
}

/* Rows of a Gaussian in the gradient tensors; the others must match. */
static void assert_only_row_zero(const DLTensor *grad, const float *wanted, size_t n,
                                 size_t outer, size_t row, const char *name) {
    size_t size = raster_call_count(grad) / n / outer;
    const float *got = values_of(grad);
    for (size_t i = 0; i < n * outer * size; i++) {
        if (i / size % n == row ? got[i] == 0 : memcmp(&got[i], &wanted[i], 4) == 0) continue;
        print_error("%s[%zu] is %g, without the broken one %g\n", name, i, (double)got[i],
                    (double)wanted[i]);
        fail();
    }
}

/* One value of Gaussian 4 is broken; what is left must be as if it were not there. */
static void check_broken(raster_call *call, const char *what, double *values, int at,
                         float *wanted[RASTER_GRADS]) {
    const double kept = values[at], broken[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    size_t n = (size_t)call->s.gaussians;
    for (int b = 0; b < 3; b++) {
        print_message("%s[%d] = %g\n", what, at, broken[b]);
        values[at] = broken[b];
        raster_call_forward(call);
        backward(call);
        for (int i = 0; i < RASTER_GRADS; i++) {
            const DLTensor *grad = *raster_call_grad(&call->grads, i);
            const char *name = raster_call_grad_name(i);
            if (!grad) continue;
            if (i >= 10) {
                assert_same_bits(grad, wanted[i], name);
            } else {
                bool per_camera = i == 8 || i == 9 || (i == 5 && call->s.colors_rows > 1);
                size_t outer = per_camera ? (size_t)call->s.cameras : 1;
                assert_only_row_zero(grad, wanted[i], n, outer, 4, name);
            }
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
        raster_call_open(&call, two, &options[v], NULL);
        scene *s = &call.s;
        const double opacity = s->opacities[4];
        backward(&call);
        assert_true(values_of(call.grads.opacities)[4] != 0);
        s->opacities[4] = 0;
        raster_call_forward(&call);
        backward(&call);
        for (int i = 0; i < RASTER_GRADS; i++) {
            const DLTensor *grad = *raster_call_grad(&call.grads, i);
            if (grad) wanted[i] = copy_of(grad);
        }
        s->opacities[4] = opacity;
        int columns = s->sh_coefficients * 3;
        for (int k = 0; k < 3; k++) check_broken(&call, "means", s->means, 12 + k, wanted);
        check_broken(&call, "opacities", s->opacities, 4, wanted);
        for (int k = 0; k < 3 && s->scales; k++) check_broken(&call, "scales", s->scales, 12 + k, wanted);
        for (int k = 0; k < 4 && s->scales; k++) check_broken(&call, "rotations", s->rotations, 16 + k, wanted);
        for (int k = 0; k < 6 && s->covariances; k++) {
            check_broken(&call, "covariances", s->covariances, 24 + k, wanted);
        }
        for (int k = 0; k < 5 && s->colors; k++) check_broken(&call, "colors", s->colors, 20 + k, wanted);
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
        assert_int_equal(library_forward(two, &s, NULL, &got, NULL), GSC_OK);
        reference_render(&s, &wanted);
        if (compare_ints(got.weight_count, wanted.weight_count, scene_splats(&s)) == 0) {
            gradients g, exact;
            gradients_alloc(&g, &s);
            gradients_alloc(&exact, &s);
            raster_scene_upstream(&s, BY_ALL, seed, &g);
            raster_scene_upstream(&s, BY_ALL, seed, &exact);
            assert_int_equal(library_backward(two, &s, NULL, &g), GSC_OK);
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
        cmocka_unit_test(each_gradient_alone),
        cmocka_unit_test(inputs_stay),
        cmocka_unit_test(nothing_asked),
        cmocka_unit_test(nothing_upstream),
        cmocka_unit_test(gradients_are_added),
        cmocka_unit_test(bits_for_any_threads),
        cmocka_unit_test(bits_of_20_runs),
        cmocka_unit_test(bits_for_any_intersections),
        cmocka_unit_test(bits_for_any_scratch),
        cmocka_unit_test(no_gaussians),
        cmocka_unit_test(nothing_visible),
        cmocka_unit_test(broken_gaussians),
        cmocka_unit_test(float_is_precise),
    };
    one = library_context(1);
    two = library_context(2);
    seven = library_context(7);
    int failures = cmocka_run_group_tests_name("raster backward", tests, NULL, NULL);
    gsc_context_free(one);
    gsc_context_free(two);
    gsc_context_free(seven);
    return failures;
}
