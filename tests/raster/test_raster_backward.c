/* What backward writes, and that its bits depend on nothing but the scene; in float32. */
#include "api/raster_call.h"
#include "expect.h"
#include "library.h"
#include "raster_call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static gsc_context *one, *two, *seven; /* threads */

/* Together they have every gradient, and 3, 4 (loops with constant counts) and more channels. */
static const raster_scene_options variety[] = {
    {.seed = 1,
     .gaussians = 300,
     .width = 90,
     .height = 70,
     SH(3),
     .sh_split = true,
     .position = true,
     .background_rows = 1},
    {.seed = 2,
     .gaussians = 300,
     .width = 90,
     .height = 70,
     .covariances = true,
     .cameras = 2,
     .background_rows = 2,
     .channels = 7,
     .colors_per_camera = true},
    {.seed = 3,
     .gaussians = 1500,
     .width = 90,
     .height = 70,
     .projection = true,
     .size_max = 4,
     .flags = GSC_RASTER_COMPAT_3DGS | GSC_RASTER_ANTIALIAS,
     SH(1)},
};
enum { VARIETY = sizeof variety / sizeof variety[0] };

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
        raster_call_expect_backward(&call);
        const gsc_raster_grads all = call.grads;
        for (int i = 0; i < RASTER_GRADS; i++) {
            gsc_raster_grads fields = all;
            const DLTensor *grad = *raster_call_grad(&fields, i);
            if (!grad) continue;
            float *wanted = raster_call_copy(grad);
            bool any = false;
            for (size_t k = 0; k < raster_call_count(grad); k++) {
                assert_true(isfinite(wanted[k]));
                any = any || wanted[k] != 0;
            }
            assert_true(any);
            for (int k = 0; k < RASTER_GRADS; k++) {
                *raster_call_grad(&call.grads, k) = k == i ? grad : NULL;
            }
            raster_call_expect_backward(&call);
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
    const DLTensor *inputs[] = {call.args.means,  call.args.sh,        call.args.rotations,
                                call.args.view,   call.grads.color,    call.grads.alpha,
                                call.grads.depth, call.grads.inv_depth};
    enum { INPUTS = sizeof inputs / sizeof inputs[0] };
    float *before[INPUTS];
    for (int i = 0; i < INPUTS; i++) before[i] = raster_call_copy(inputs[i]);
    void *state_before = malloc(call.info.state_bytes);
    assert_non_null(state_before);
    memcpy(state_before, call.buffers.state->data, call.info.state_bytes);
    raster_call_expect_backward(&call);
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
    raster_call_expect_backward(&call);
    raster_call_close(&call);
}

/* Without upstream gradients all gradients are zero, also a third column of means2d. */
static void nothing_upstream(void **state) {
    (void)state;
    raster_call call;
    raster_call_open(&call, two, &variety[0], NULL);
    const int64_t n = call.s.gaussians, shape[] = {1, n, 3};
    call.grads.means2d = tensors_output(&call.set, call.g.means2d, 3, shape);
    call.grads.means2d_abs = tensors_output(&call.set, call.g.means2d, 3, shape);
    raster_call_expect_backward(&call);
    float sum = 0;
    for (int64_t i = 0; i < n; i++) {
        assert_true(raster_call_values(call.grads.means2d)[3 * i + 2] == 0);
        assert_true(raster_call_values(call.grads.means2d_abs)[3 * i + 2] == 0);
        sum += raster_call_values(call.grads.means2d_abs)[3 * i];
    }
    assert_true(sum > 0);
    call.grads.color = call.grads.alpha = call.grads.depth = call.grads.inv_depth = NULL;
    raster_call_expect_backward(&call);
    for (int i = 0; i < RASTER_GRADS; i++) {
        const DLTensor *grad = *raster_call_grad(&call.grads, i);
        for (size_t k = 0; grad && k < raster_call_count(grad); k++) {
            assert_true(raster_call_values(grad)[k] == 0);
        }
    }
    raster_call_close(&call);
}

static void gradients_are_added(void **state) {
    (void)state;
    for (int v = 0; v < VARIETY; v++) {
        raster_call call;
        raster_call_open(&call, two, &variety[v], NULL);
        raster_call_expect_backward(&call);
        float *plain[RASTER_GRADS] = {NULL};
        for (int i = 0; i < RASTER_GRADS; i++) {
            const DLTensor *grad = *raster_call_grad(&call.grads, i);
            if (grad) plain[i] = raster_call_copy(grad);
        }
        raster_call_fill(&call.grads, 0.25);
        call.args.flags |= GSC_RASTER_GRAD_ADD;
        expect_ok(
            gsc_raster_backward(two, &call.args, &call.buffers, &call.info, &call.grads, NULL));
        for (int i = 0; i < RASTER_GRADS; i++) {
            const DLTensor *grad = *raster_call_grad(&call.grads, i);
            for (size_t k = 0; grad && k < raster_call_count(grad); k++) {
                float off = fabsf(raster_call_values(grad)[k] - 0.25f - plain[i][k]);
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
            raster_call_expect_backward(&call);
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
        raster_call_expect_backward(&call);
        const uint64_t first = raster_call_hash(&call.grads);
        for (int run = 1; run < 20; run++) {
            raster_call_expect_backward(&call);
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
        raster_call_expect_backward(&call);
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
            raster_call_expect_backward(&call);
            assert_true(raster_call_hash(&call.grads) == first);
        }
        DLTensor cut = raster_call_cut(whole, least - 4, &shape);
        call.buffers.intersections = &cut;
        assert_int_equal(raster_call_backward(&call), GSC_ERROR_BUFFER_TOO_SMALL);
        raster_call_close(&call);
    }
}

/* With less scratch than gsc_raster_sizes asks for, the backend uses more bands. */
static void bits_for_any_scratch(void **state) {
    (void)state;
    for (int v = 0; v < VARIETY; v++) {
        raster_call call;
        gsc__raster_call inner;
        gsc__raster_grads grads;
        raster_call_open(&call, two, &variety[v], NULL);
        raster_call_expect_backward(&call);
        const uint64_t first = raster_call_hash(&call.grads);
        expect_ok(gsc__raster_begin(&inner, "test", two, &call.args, &call.info, NULL));
        expect_ok(gsc__raster_grads_args(&inner.call, &inner.raster, &call.grads, &grads));
        size_t most = call.info.backward_scratch_bytes, done = 0, refused = 0;
        const DLTensor *scratch = tensors_bytes(&call.set, most);
        gsc__raster_buffers *buffers = &inner.buffers;
        *buffers = (gsc__raster_buffers){.state = call.buffers.state->data,
                                         .state_bytes = call.info.state_bytes,
                                         .intersections = call.buffers.intersections->data,
                                         .intersections_bytes = call.info.intersections_bytes,
                                         .scratch = scratch->data};
        for (buffers->scratch_bytes = most; buffers->scratch_bytes > most / 40;
             buffers->scratch_bytes -= most / 40) {
            raster_call_fill(&call.grads, (double)NAN);
            gsc_status status = two->backend->raster_backward(&inner, &call.info, &grads);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_gradient_alone),  cmocka_unit_test(inputs_stay),
        cmocka_unit_test(nothing_asked),        cmocka_unit_test(nothing_upstream),
        cmocka_unit_test(gradients_are_added),  cmocka_unit_test(bits_for_any_threads),
        cmocka_unit_test(bits_of_20_runs),      cmocka_unit_test(bits_for_any_intersections),
        cmocka_unit_test(bits_for_any_scratch),
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
