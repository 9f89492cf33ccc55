#define _DEFAULT_SOURCE /* setenv */
/* The launches of backward, on the mock driver: which gradients the kernels store or add to, and
 * which are zeroed before. */

#include "context_fixture.h"

#include "gpu/raster.h"

#include <stdlib.h>

enum { N = 600, WIDTH = 40, HEIGHT = 24, PIXELS = WIDTH * HEIGHT, CAMERAS = 2 };
#define UNTOUCHED 7.0f

static gsc__raster raster;
static gsc__raster_grads grads;
static gsc_raster_info info;
static gsc__raster_buffers buffers;
static float memory[12][CAMERAS * N * 12]; /* of the gradients */
static _Alignas(16) float upstream[CAMERAS * PIXELS * 4];

static int open_context(void **state) {
    (void)enter_context(state);
    for (int i = 0; i < 12; ++i)
        for (size_t k = 0; k < sizeof memory[i] / sizeof(float); ++k) memory[i][k] = UNTOUCHED;
    raster = (gsc__raster){.width = WIDTH,
                           .height = HEIGHT,
                           .channels = 3,
                           .sh_degree = 1,
                           .cameras = CAMERAS,
                           .gaussians = N,
                           .scale_modifier = 1,
                           .sh_coefficients = 4,
                           .camera = {.view = upstream},
                           .means = upstream,
                           .opacities = upstream,
                           .scales = upstream,
                           .rotations = upstream,
                           .sh = upstream};
    grads = (gsc__raster_grads){.color = upstream,
                                .means = memory[0],
                                .opacities = memory[1],
                                .scales = memory[2],
                                .rotations = memory[3],
                                .sh = memory[4],
                                .means2d = memory[5],
                                .means2d_axes = 3,
                                .view = memory[6]};
    return 0;
}

static void close_buffers(void) {
    free(buffers.state);
    free(buffers.scratch);
    free(buffers.intersections);
    memset(&buffers, 0, sizeof buffers);
}

static int close_context(void **state) {
    close_buffers();
    return leave_context(state);
}

static void *take(size_t bytes) {
    void *data = calloc(1, bytes + 1);
    assert_non_null(data);
    return data;
}

static gsc__raster_call call_now(void) {
    return (gsc__raster_call){.call = {.function = "raster_backward", .context = context},
                              .raster = raster,
                              .buffers = buffers};
}

static gsc_status backward(void) {
    gsc__raster_call call = call_now();
    memset(&info, 0, sizeof info);
    info.visible = N;
    info.intersections = 1000;
    expect_ok(gsc__gpu_raster_sizes(&call, &info));
    buffers = (gsc__raster_buffers){.state = take(info.state_bytes),
                                    .intersections = take(info.intersections_bytes),
                                    .scratch = take(info.backward_scratch_bytes),
                                    .state_bytes = info.state_bytes,
                                    .intersections_bytes = info.intersections_bytes,
                                    .scratch_bytes = info.backward_scratch_bytes};
    call.buffers = buffers;
    return gsc__gpu_raster_backward(&call, &info, &grads);
}

static gsc_k_project_backward project_backward_of(int camera) {
    gsc_k_project_backward args;
    const mock_launch *seen = mock_find_launch(mock, "gsc_project_backward", camera);
    assert_non_null(seen);
    assert_int_equal(seen->args_bytes, sizeof args);
    assert_int_equal(seen->grid[0], (N + GSC__CHUNK - 1) / GSC__CHUNK);
    assert_int_equal(seen->block[0], GSC__PROJECT_BACKWARD_BLOCK);
    memcpy(&args, seen->args, sizeof args);
    return args;
}

static gsc__gpu_gradient gradient_of(const gsc_k_project_backward *args, const float *to) {
    for (uint32_t i = 0; i < args->gradients; ++i)
        if (args->gradient[i].to == to) return args->gradient[i];
    for (uint32_t i = 0; i < args->sh_gradients; ++i)
        if (args->sh_gradient[i].to == to) return args->sh_gradient[i];
    fail_msg("a gradient is missing");
    return args->gradient[0];
}

static void expect_filled(const float *gradient, size_t count, float value) {
    for (size_t i = 0; i < count; ++i) assert_true(gradient[i] == value);
}

/* The kernels do nothing here: if memory is not UNTOUCHED, the host filled it. */
static void stored_gradients_are_not_filled(void **state) {
    (void)state;
    expect_ok(backward());
    for (int i = 0; i < 6; ++i) expect_filled(memory[i], N, UNTOUCHED);
    expect_filled(memory[6], CAMERAS * 16, 0);
    assert_true(memory[6][CAMERAS * 16] == UNTOUCHED);
    for (int camera = 0; camera < CAMERAS; ++camera) {
        const gsc_k_project_backward args = project_backward_of(camera);
        assert_int_equal(args.gradients, 5);
        assert_int_equal(args.sh_gradients, 1);
        for (int i = 0; i < 5; ++i)
            assert_int_equal(gradient_of(&args, memory[i]).overwrite, camera == 0);
        const gsc__gpu_gradient means2d = gradient_of(&args, memory[5] + camera * 3 * N);
        assert_true(means2d.overwrite);
        assert_int_equal(means2d.width, 3);
        assert_int_equal(means2d.used, 2);
        assert_int_equal(gradient_of(&args, memory[4]).width, 12);
        assert_int_equal(gradient_of(&args, memory[4]).used, 12);
    }
}

static void added_gradients_are_neither_filled_nor_stored(void **state) {
    (void)state;
    raster.flags = GSC_RASTER_GRAD_ADD;
    expect_ok(backward());
    for (int i = 0; i < 7; ++i) expect_filled(memory[i], N, UNTOUCHED);
    for (int camera = 0; camera < CAMERAS; ++camera) {
        const gsc_k_project_backward args = project_backward_of(camera);
        for (uint32_t i = 0; i < args.gradients; ++i) assert_false(args.gradient[i].overwrite);
        assert_false(args.sh_gradient[0].overwrite);
    }
}

static void with_colors(int32_t channels, bool own) {
    raster.sh = NULL;
    raster.colors = upstream;
    raster.channels = channels;
    raster.colors_stride = own ? (int64_t)N * channels : 0;
    grads.sh = NULL;
    grads.colors = memory[7];
}

static void colors_of_each_camera_are_stored(void **state) {
    (void)state;
    with_colors(3, true);
    expect_ok(backward());
    expect_filled(memory[7], CAMERAS * N * 3, UNTOUCHED);
    for (int camera = 0; camera < CAMERAS; ++camera) {
        const gsc_k_project_backward args = project_backward_of(camera);
        assert_true(gradient_of(&args, memory[7] + camera * 3 * N).overwrite);
    }
}

/* Each pixel adds to these. */
static void other_channels_are_filled(void **state) {
    (void)state;
    with_colors(4, false);
    expect_ok(backward());
    expect_filled(memory[7], N * 4, 0);
    assert_true(memory[7][N * 4] == UNTOUCHED);
    assert_int_equal(project_backward_of(0).gradients, 5);
    assert_int_equal(project_backward_of(0).sh_gradients, 0);
}

static void harmonics_in_two_arrays(void **state) {
    (void)state;
    raster.sh_dc = upstream;
    raster.sh_coefficients = 15;
    grads.sh_dc = memory[7];
    expect_ok(backward());
    const gsc_k_project_backward args = project_backward_of(0);
    assert_int_equal(args.sh_gradients, 2);
    const gsc__gpu_gradient rest = gradient_of(&args, memory[4]),
                            dc = gradient_of(&args, memory[7]);
    assert_int_equal(rest.width, 45);
    assert_int_equal(rest.used, 9);
    assert_int_equal(rest.result, GSC__RESULT_BASIS + 1);
    assert_int_equal(dc.width, 3);
    assert_int_equal(dc.result, GSC__RESULT_BASIS);
}

static void sums_are_cleared_by_the_device(void **state) {
    (void)state;
    expect_ok(backward());
    gsc_k_clear_sums clear;
    gsc_k_blend_backward blend_backward;
    const mock_launch *first = mock_find_launch(mock, "gsc_clear_sums", 0),
                      *then = mock_find_launch(mock, "gsc_blend_backward", 0);
    assert_non_null(first);
    assert_non_null(then);
    assert_true(first < then);
    memcpy(&clear, first->args, sizeof clear);
    memcpy(&blend_backward, then->args, sizeof blend_backward);
    assert_ptr_equal(clear.to, blend_backward.sums);
    assert_ptr_equal(clear.frame.header, blend_backward.frame.header);
    assert_int_equal(clear.quads * 4, GSC__SUMS);
}

static void expect_next(int *at, const char *kernel) {
    while (*at < mock->launch_count && strcmp(mock->launches[*at].kernel, kernel)) ++*at;
    if (*at == mock->launch_count) fail_msg("no %s, or not where it is expected", kernel);
    ++*at;
}

/* The second pass needs the first one's results, whose integers become floats before it reads
 * them. */
static void reproducible_sums_take_two_passes(void **state) {
    (void)state;
    raster.cameras = 1;
    raster.flags = GSC_RASTER_DETERMINISTIC;
    for (int variant = 0; variant < 3; ++variant) {
        int at = mock->launch_count = 0;
        if (variant == 1) grads.depth = upstream;
        if (variant == 2) with_colors(4, false);
        expect_ok(backward());
        for (int i = 0; i < (variant == 2 ? 4 : 2); ++i) expect_next(&at, "gsc_clear_sums");
        expect_next(&at, variant == 0   ? "gsc_blend_backward_largest"
                         : variant == 1 ? "gsc_blend_backward_all_largest"
                                        : "gsc_blend_backward_many_largest");
        gsc_k_blend_backward first, second;
        memcpy(&first, mock->launches[at - 1].args, sizeof first);
        expect_next(&at, variant == 0   ? "gsc_blend_backward_fixed"
                         : variant == 1 ? "gsc_blend_backward_all_fixed"
                                        : "gsc_blend_backward_many_fixed");
        memcpy(&second, mock->launches[at - 1].args, sizeof second);
        assert_non_null(first.fixed);
        assert_int_equal(first.color_sums != NULL, variant == 2);
        assert_int_equal(first.color_width, variant == 2 ? 4 : 0);
        assert_memory_equal(&first, &second, sizeof first);
        expect_next(&at, "gsc_finish_sums");
        if (variant == 2) expect_next(&at, "gsc_finish_colors");
        expect_next(&at, "gsc_project_backward");
        if (variant < 2) close_buffers();
    }
}

static void reproducible_sums_need_more_scratch(void **state) {
    (void)state;
    expect_ok(backward());
    const size_t before = info.backward_scratch_bytes;
    close_buffers();
    raster.flags = GSC_RASTER_DETERMINISTIC;
    expect_ok(backward());
    assert_true(info.backward_scratch_bytes >= before + N * GSC__SUMS * sizeof(uint64_t));
    buffers.scratch_bytes = N * GSC__SUMS * (sizeof(float) + sizeof(uint64_t));
    const gsc__raster_call call = call_now();
    assert_int_equal(gsc__gpu_raster_backward(&call, &info, &grads), GSC_ERROR_BUFFER_TOO_SMALL);
    assert_non_null(strstr(gsc_last_error(), "raster_backward: scratch has "));
}

/* Steps take the place of gradients, and are launched along with the other gradients. */
static void steps_instead_of_gradients(void **state) {
    static const int32_t radii[N];
    static gsc__raster_steps steps;
    (void)state;
    memset(&steps, 0, sizeof steps);
    raster.cameras = 1;
    raster.sh_dc = upstream;
    raster.sh_coefficients = 15;
    raster.flags = GSC_RASTER_LOG_SCALES;
    steps.radii = radii;
    steps.radii_axes = 1;
    const struct {
        int parameter;
        int64_t width;
        uint32_t used, result;
        bool harmonics, vectors;
    } wanted[] = {{GSC_PARAMETER_MEANS, 3, 3, GSC__RESULT_MEAN, false, false},
                  {GSC_PARAMETER_ROTATIONS, 4, 4, GSC__RESULT_ROTATION, false, true},
                  {GSC_PARAMETER_SH, 45, 9, GSC__RESULT_BASIS + 1, true, false},
                  {GSC_PARAMETER_SH_DC, 3, 3, GSC__RESULT_BASIS, true, false}};
    for (int i = 0; i < 4; ++i)
        steps.groups[wanted[i].parameter - 1] = (gsc__adam_group){.parameter = upstream,
                                                                  .moment1 = upstream + 4,
                                                                  .moment2 = upstream + 8,
                                                                  .rows = N,
                                                                  .row_size = wanted[i].width,
                                                                  .lr = i + 1,
                                                                  .beta1 = 0.9,
                                                                  .beta2 = 0.99};
    grads = (gsc__raster_grads){
        .color = upstream, .scales = memory[2], .view = memory[6], .steps = &steps};
    expect_ok(backward());
    gsc_k_project_backward_step args;
    const mock_launch *seen = mock_find_launch(mock, "gsc_project_backward_step", 0);
    assert_null(mock_find_launch(mock, "gsc_project_backward", 0));
    assert_non_null(seen);
    assert_int_equal(seen->args_bytes, sizeof args);
    assert_int_equal(seen->grid[0], (N + GSC__CHUNK - 1) / GSC__CHUNK);
    memcpy(&args, seen->args, sizeof args);
    assert_int_equal(args.project_backward.gradients, 1);
    assert_ptr_equal(args.project_backward.gradient[0].to, memory[2]);
    assert_true(args.project_backward.log_scales && !args.project_backward.logit_opacities);
    assert_ptr_equal(args.radii, radii);
    assert_int_equal(args.steps, 4);
    for (int i = 0; i < 4; ++i) {
        const gsc__gpu_step *step = &args.step[i];
        assert_int_equal(step->width, wanted[i].width);
        assert_int_equal(step->used, wanted[i].used);
        assert_int_equal(step->result, wanted[i].result);
        assert_int_equal(step->harmonics, wanted[i].harmonics);
        assert_int_equal(step->vectors, wanted[i].vectors);
        assert_ptr_equal(step->moment2, upstream + 8);
        assert_true(step->constants.step_size == (float)(i + 1));
        assert_true(step->constants.complement2 == (float)(1 - 0.99));
    }
    assert_non_null(mock_find_launch(mock, "gsc_camera_grad", 0));
}

static void nothing_wanted(void **state) {
    (void)state;
    grads = (gsc__raster_grads){.color = upstream};
    expect_ok(backward());
    assert_null(mock_find_launch(mock, "gsc_project_backward", 0));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_context, close_context)
    const struct CMUnitTest tests[] = {
        TEST(stored_gradients_are_not_filled),
        TEST(added_gradients_are_neither_filled_nor_stored),
        TEST(colors_of_each_camera_are_stored),
        TEST(other_channels_are_filled),
        TEST(harmonics_in_two_arrays),
        TEST(sums_are_cleared_by_the_device),
        TEST(reproducible_sums_take_two_passes),
        TEST(reproducible_sums_need_more_scratch),
        TEST(steps_instead_of_gradients),
        TEST(nothing_wanted),
    };
    mock = mock_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
