/* A training step equals the four calls that it combines: forward, image loss, backward, and Adam
 * with the mask radii > 0. */
#include "expect.h"
#include "library.h"
#include "math/real.h"
#include "train_call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BIT(which) (1u << (GSC_PARAMETER_##which - 1))
#define STORED (GSC_RASTER_LOG_SCALES | GSC_RASTER_LOGIT_OPACITIES)

static const train_case cases[] = {
    {.name = "3DGS",
     .scene = {.seed = 1, .gaussians = 300, SH(3), .sh_split = true, .flags = STORED},
     .statistics = true},
    {.name = "degree 1 of 3, bias correction",
     .scene = {.seed = 2, .gaussians = 300, SH_STORED(1, 3), .background_rows = 1},
     .step = 7},
    {.name = "degree 0 of 3, split",
     .scene = {.seed = 3, .gaussians = 50, SH_STORED(0, 3), .sh_split = true, .flags = STORED}},
    {.name = "degree 4",
     .scene = {.seed = 4, .gaussians = 50, SH(4), .flags = GSC_RASTER_LOGIT_OPACITIES}},
    {.name = "more coefficients than any degree has",
     .scene = {.seed = 5, .gaussians = 20, .sh_degree = 4, .sh_coefficients = 60}},
    {.name = "colours, covariances, decoupled decay",
     .scene = {.seed = 6, .gaussians = 300, .covariances = true, .background_rows = 1},
     .flags = GSC_TRAIN_DECOUPLED,
     .weight_decay = 0.01f,
     .bytes = true},
    {.name = "pixel last, decay, mask",
     .scene = {.seed = 7, .gaussians = 100, .flags = GSC_RASTER_PIXEL_LAST | STORED},
     .weight_decay = 0.02f,
     .bytes = true,
     .mask = true},
    {.name = "every row",
     .scene = {.seed = 8, .gaussians = 200, SH_STORED(2, 3), .spread = 3, .flags = STORED},
     .flags = GSC_TRAIN_ALL_ROWS,
     .step = 3},
    {.name = "most of it outside the image",
     .scene = {.seed = 9, .gaussians = 3000, SH(1), .spread = 4, .flags = STORED},
     .step = 1},
    {.name = "compat, antialias, in bands",
     .scene = {.seed = 10,
               .gaussians = 1500,
               SH(1),
               .projection = true,
               .flags = GSC_RASTER_COMPAT_3DGS | GSC_RASTER_ANTIALIAS | STORED,
               .size_max = 4},
     .bands = true},
    {.name = "some parameters only",
     .scene = {.seed = 11, .gaussians = 100, SH(2), .sh_split = true},
     .not_trained = BIT(MEANS) | BIT(SH_DC) | BIT(ROTATIONS)},
    {.name = "geometry under 5 channels",
     .scene = {.seed = 12, .gaussians = 100, .channels = 5, .background_rows = 1},
     .not_trained = BIT(COLORS),
     .statistics = true},
    {.name = "no Gaussian", .scene = {.seed = 13, .gaussians = -1, SH(1)}},
    {.name = "faint and tiny",
     .scene = {.seed = 14,
               .gaussians = 2000,
               .opacity_min = 0.0039,
               .opacity_max = 0.005,
               .size_min = 0.02,
               .size_max = 0.2}},
};
enum { CASES = sizeof cases / sizeof cases[0] };

/* ------------------------------------------------------------------ comparison */

static void must(gsc_status status) {
    if (status != GSC_OK) fail_msg("%s", gsc_last_error());
}

static void assert_same(const char *what, int k, const DLTensor *got, const DLTensor *wanted) {
    const gsc_real *a = got->data, *b = wanted->data;
    for (size_t i = 0; i < train_count(got); i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s %d, element %zu is %.9g, wanted %.9g", what, k, i, (double)a[i],
                     (double)b[i]);
}

static void assert_sides_same(const side *one, const side *four, const gsc_raster_grads *others) {
    assert_same("colour", 0, one->outputs.color, four->outputs.color);
    assert_memory_equal(one->outputs.radii->data, four->outputs.radii->data,
                        train_count(one->outputs.radii) * sizeof(int32_t));
    assert_same("loss", 0, one->loss.loss, four->loss.loss);
    assert_same("parts", 0, one->loss.parts, four->loss.parts);
    for (int k = 0; k < PARAMETERS; k++) {
        if (!one->parameters[k]) continue;
        assert_same("parameter", k, one->parameters[k], four->parameters[k]);
        assert_same("moment1", k, one->moments[k][0], four->moments[k][0]);
        assert_same("moment2", k, one->moments[k][1], four->moments[k][1]);
    }
    const DLTensor *const got[] = {others->means,  others->rotations, others->sh_dc,
                                   others->colors, others->means2d,   others->means2d_abs,
                                   others->view,   others->background};
    const gsc_raster_grads *g = &four->grads;
    const DLTensor *const wanted[] = {g->means,   g->rotations,   g->sh_dc, g->colors,
                                      g->means2d, g->means2d_abs, g->view,  g->background};
    for (int i = 0; i < (int)(sizeof got / sizeof got[0]); i++)
        if (got[i]) assert_same("gradient", i, got[i], wanted[i]);
    assert_true(tensors_guarded(&one->set));
}

/* Checks the case itself: parameters of visible rows change, others do not. */
static void assert_moved(const train_case *c, const side *before, const side *after) {
    const int32_t *radii = after->outputs.radii->data;
    size_t moved = 0, kept = 0;
    const gsc_real *a = before->args.opacities->data, *b = after->args.opacities->data;
    for (size_t i = 0; i < train_count(after->args.opacities); i++) {
        const bool same = a[i] == b[i];
        moved += !same;
        kept += same;
        if (!(c->flags & GSC_TRAIN_ALL_ROWS)) assert_int_equal(!same, radii[i] > 0);
    }
    if (c->scene.gaussians > 0) assert_true(moved > 0);
    if (c->scene.gaussians == 3000) assert_true(kept > 1000);
}

static void one_call_is_four(void **state) {
    const train_case *c = *state;
    gsc_context *context = library_context(2);
    scene input;
    side one, four, before;
    train_call call;
    raster_scene_make(&input, &c->scene);
    side_open(&one, c, &input);
    side_open(&four, c, &input);
    side_open(&before, c, &input);
    train_four_calls(context, c, &four);
    train_call_make(&call, c, &one);
    if (c->bands) train_call_own_buffers(context, &call, &one);
    must(gsc_train_step(context, &call.args, NULL));
    assert_sides_same(&one, &four, &call.grads);
    assert_moved(c, &before, &one);
    assert_true(call.info.visible >= 1 && call.info.backward_scratch_bytes > 0);
    side_close(&before);
    side_close(&four);
    side_close(&one);
    scene_free(&input);
    gsc_context_free(context);
}

static void assert_same_step(const side *got, const side *wanted) {
    for (int k = 0; k < PARAMETERS; k++) {
        if (!wanted->parameters[k]) continue;
        assert_same("parameter", k, got->parameters[k], wanted->parameters[k]);
        assert_same("moment2", k, got->moments[k][1], wanted->moments[k][1]);
    }
}

/* Neither the number of threads, outputs that are not wanted, nor the shape of the radii makes a
 * difference. */
static void outputs_do_not_matter(void **state) {
    const train_case *c = &cases[8];
    gsc_context *context = library_context(2), *seven = library_context(7);
    scene input;
    side full, bare, pairs;
    train_call call;
    (void)state;
    raster_scene_make(&input, &c->scene);
    side_open(&full, c, &input);
    side_open(&bare, c, &input);
    train_call_make(&call, c, &full);
    must(gsc_train_step(context, &call.args, NULL));
    train_call_make(&call, c, &bare);
    call.args.outputs = NULL;
    call.args.grads = NULL;
    call.args.info = NULL;
    bare.loss.loss = bare.loss.parts = NULL;
    must(gsc_train_step(seven, &call.args, NULL));
    assert_same_step(&bare, &full);

    side_open(&pairs, c, &input);
    frame axes = {
        .color = pairs.f.color, .radii = ints_alloc(2 * scene_splats(&input)), .radii_axes = 2};
    library_outputs(&input, NULL, &pairs.set, &axes, &pairs.outputs);
    train_call_make(&call, c, &pairs);
    must(gsc_train_step(context, &call.args, NULL));
    assert_same_step(&pairs, &full);
    free(axes.radii);
    side_close(&pairs);
    side_close(&bare);
    side_close(&full);
    scene_free(&input);
    gsc_context_free(seven);
    gsc_context_free(context);
}

/* Gaussians are fitted to an image of other Gaussians: the loss falls. */
static void training_converges(void **state) {
    const train_case *c = &cases[0];
    gsc_context *context = library_context(2);
    scene input;
    side s;
    train_call call;
    (void)state;
    raster_scene_make(&input, &c->scene);
    side_open(&s, c, &input);
    must(gsc_rasterize(context, &s.args, &s.outputs, NULL, NULL));
    memcpy(s.loss.target->data, s.outputs.color->data,
           train_count(s.outputs.color) * sizeof(gsc_real));
    gsc_real *logits = s.args.opacities->data;
    for (size_t i = 0; i < train_count(s.args.opacities); i++) logits[i] -= GSC_REAL(1.5);
    for (int k = 0; k < PARAMETERS; k++)
        for (int m = 0; m < 2 && s.parameters[k]; m++)
            memset(s.moments[k][m]->data, 0, train_count(s.parameters[k]) * sizeof(gsc_real));
    train_call_make(&call, c, &s);
    double first = 0, last = 0;
    for (int i = 1; i <= 60; i++) {
        for (uint32_t k = 0; k < call.args.group_count; k++) {
            call.groups[k].lr = call.groups[k].parameter == GSC_PARAMETER_OPACITIES ? 0.05f : 1e-4f;
            call.groups[k].step = i;
        }
        must(gsc_train_step(context, &call.args, NULL));
        last = (double)*(gsc_real *)s.loss.loss->data;
        if (i == 1) first = last;
    }
    assert_true(first > 0.05);
    assert_true(last < first / 4);
    side_close(&s);
    scene_free(&input);
    gsc_context_free(context);
}

/* A buffer that is too small changes nothing, and the error names the size needed. */
static void small_buffers(void **state) {
    const train_case *c = &cases[9];
    gsc_context *context = library_context(2);
    scene input;
    side s, before;
    train_call call;
    (void)state;
    assert_true(c->bands);
    raster_scene_make(&input, &c->scene);
    side_open(&s, c, &input);
    side_open(&before, c, &input);
    train_call_make(&call, c, &s);
    train_call_own_buffers(context, &call, &s);
    const gsc_raster_buffers enough = call.buffers;
    const DLTensor **const fields[] = {&call.buffers.state, &call.buffers.intersections,
                                       &call.buffers.scratch};
    const DLTensor *const whole[] = {enough.state, enough.intersections, enough.scratch};
    for (int i = 0; i < 3; i++) {
        int64_t size = whole[i]->shape[0] - 1;
        DLTensor cut = *whole[i];
        cut.shape = &size;
        *fields[i] = &cut;
        assert_int_equal(gsc_train_step(context, &call.args, NULL), GSC_ERROR_BUFFER_TOO_SMALL);
        assert_same("parameter", 0, s.args.means, before.args.means);
        assert_true(call.info.state_bytes > 0);
        if (i > 0) assert_true(call.info.intersections_min_bytes > 0);
        *fields[i] = whole[i];
    }
    must(gsc_train_step(context, &call.args, NULL));
    side_close(&before);
    side_close(&s);
    scene_free(&input);
    gsc_context_free(context);
}

int main(void) {
    struct CMUnitTest tests[CASES + 3];
    for (int i = 0; i < CASES; i++) {
        tests[i] = (struct CMUnitTest){.name = cases[i].name,
                                       .test_func = one_call_is_four,
                                       .initial_state = (void *)(uintptr_t)&cases[i]};
    }
    tests[CASES] = (struct CMUnitTest)cmocka_unit_test(outputs_do_not_matter);
    tests[CASES + 1] = (struct CMUnitTest)cmocka_unit_test(training_converges);
    tests[CASES + 2] = (struct CMUnitTest)cmocka_unit_test(small_buffers);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
