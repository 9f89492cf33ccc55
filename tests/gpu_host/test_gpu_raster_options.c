#define _DEFAULT_SOURCE /* setenv */
/* Which kernels the options of the rasterizer launch, and with which arguments; on the mock
 * driver. */

#include "raster_launches.h"

static void the_outputs_choose_the_kernel(void **unused) {
    (void)unused;
    expect_ok(run_blend());
    assert_int_equal(launches_of("gsc_blend"), CAMERAS);
    know(100);
    outputs.inv_depth = &depth.tensor;
    expect_ok(run_blend());
    assert_int_equal(launches_of("gsc_blend_depths"), CAMERAS);
    know(100);
    outputs.median_depth = &depth.tensor;
    expect_ok(run_blend());
    assert_int_equal(launches_of("gsc_blend_details"), CAMERAS);
    assert_int_equal(launches_of("gsc_blend") + launches_of("gsc_blend_depths"), 0);
    assert_int_equal(launches_of("gsc_finish_statistics"), 0);
}

/* For each camera, sums in fixed point next to the lists, then as floats in the output. */
static void statistics_are_summed_and_finished(void **unused) {
    gsc_k_blend blend;
    gsc_k_weight_scale scale;
    gsc_k_finish_statistics finish;
    (void)unused;
    outputs.touched = &touched.tensor;
    outputs.weight_sum = &weight_sum.tensor;
    outputs.weight_count = &weight_count.tensor;
    memset(touched.tensor.data, 0xff, sizeof(int32_t) * CAMERAS * GAUSSIANS);
    memset(weight_count.tensor.data, 0xff, sizeof(int32_t) * CAMERAS * GAUSSIANS);
    expect_ok(run_blend());
    assert_int_equal(launches_of("gsc_blend_details"), CAMERAS);
    for (int c = 0; c < CAMERAS; ++c) {
        ARGS_OF("weight_scale", c, scale);
        ARGS_OF("blend_details", c, blend);
        ARGS_OF("finish_statistics", c, finish);
        const float *weights = args.pixel_weights->data;
        assert_ptr_equal(scale.pixel_weights, weights + c * WIDTH * HEIGHT);
        assert_ptr_equal(blend.weight_scale, scale.scale);
        assert_ptr_equal(finish.weight_scale, scale.scale);
        assert_ptr_equal(blend.touched, (int32_t *)touched.tensor.data + c * GAUSSIANS);
        assert_ptr_equal(finish.fixed_sum, blend.weight_sum);
        assert_ptr_equal(finish.weight_sum, (float *)weight_sum.tensor.data + c * GAUSSIANS);
        assert_null(finish.weight_blend);
    }
    const int32_t *counts = touched.tensor.data, *others = weight_count.tensor.data;
    for (int i = 0; i < CAMERAS * GAUSSIANS; ++i) assert_int_equal(counts[i] | others[i], 0);
}

static void counting_alone_looks_at_no_weights(void **unused) {
    (void)unused;
    outputs.touched = &touched.tensor;
    expect_ok(run_blend());
    assert_int_equal(launches_of("gsc_weight_scale"), 0);
    assert_int_equal(launches_of("gsc_finish_statistics"), CAMERAS);
}

/* It is read during the call: the kernels see a copy in the state. */
static void a_background_on_the_host_is_copied(void **unused) {
    static float values[CAMERAS * 3] = {1, 2, 3, 4, 5, 6};
    gsc_k_blend blend;
    (void)unused;
    expect_ok(run_blend());
    ARGS_OF("blend", 1, blend);
    assert_ptr_equal(blend.background, (float *)views[BACKGROUND].tensor.data + 3);
    view_device(&views[BACKGROUND], kDLCPU, 0);
    views[BACKGROUND].tensor.data = values;
    know(100);
    expect_ok(run_blend());
    for (int c = 0; c < CAMERAS; ++c) {
        ARGS_OF("blend", c, blend);
        const unsigned char *where = (const unsigned char *)blend.background;
        assert_true(where >= state_memory && where < state_memory + STATE_BYTES);
    }
}

static void the_backgrounds_gradient_is_a_sum_over_pixels(void **unused) {
    gsc_k_background_grad sum;
    (void)unused;
    grads.background = &grad_background.tensor;
    expect_ok(gsc_raster_backward(context, &args, &buffers, &info, &grads, NULL));
    assert_int_equal(launches_of("gsc_background_grad"), CAMERAS);
    ARGS_OF("background_grad", 1, sum);
    assert_ptr_equal(sum.grad_background, (float *)grad_background.tensor.data + 3);
    assert_ptr_equal(sum.grad_color, (float *)grad_color.tensor.data + 3 * WIDTH * HEIGHT);
    assert_int_equal(sum.pixels, WIDTH * HEIGHT);
    know(100);
    grads.color = NULL; /* it cannot contribute */
    expect_ok(gsc_raster_backward(context, &args, &buffers, &info, &grads, NULL));
    assert_int_equal(launches_of("gsc_background_grad"), 0);
}

/* A buffer for part of the frame: tiles are counted first, then blended band by band. */
static void a_small_buffer_makes_bands(void **unused) {
    (void)unused;
    know(40000);
    assert_int_equal(launches_of("gsc_count_tiles"), 0);
    expect_ok(run_blend());
    assert_int_equal(launches_of("gsc_count_tiles"), 0);
    assert_int_equal(launches_of("gsc_blend"), CAMERAS);

    know(40000);
    const size_t whole = info.intersections_bytes;
    info.intersections_min_bytes = 0; /* of the fullest tile: unknown */
    bytes(&lists, lists_memory, (int64_t)(whole / 3));
    expect_ok(run_blend());
    assert_int_equal(launches_of("gsc_count_tiles"), CAMERAS);
    assert_int_equal(launches_of("gsc_sum_tiles"), CAMERAS);
    assert_true(launches_of("gsc_blend") >= 3 * CAMERAS);
}

static void buffers_below_the_least_are_refused(void **unused) {
    (void)unused;
    bytes(&lists, lists_memory, 256);
    info.intersections_min_bytes = 0;
    assert_int_equal(run_blend(), GSC_ERROR_BUFFER_TOO_SMALL);
    assert_non_null(strstr(gsc_last_error(), "raster_blend: intersections has 256 bytes"));
    assert_int_equal(gsc_raster_backward(context, &args, &buffers, &info, &grads, NULL),
                     GSC_ERROR_BUFFER_TOO_SMALL);
    assert_non_null(strstr(gsc_last_error(), "raster_backward: intersections has 256 bytes"));
}

static void images_beyond_the_grid_are_refused(void **unused) {
    gsc_raster_info sizes = {.struct_size = sizeof sizes};
    (void)unused;
    args.width = 100000;
    args.height = 16;
    expect_failure(gsc_raster_sizes(context, &args, &sizes), GSC_ERROR_OVERFLOW,
                   "raster_sizes: width x height is 100000 x 16, expected sides of at most 65536");
    gsc_limits limits = {.struct_size = sizeof limits};
    expect_ok(gsc_context_limits(context, &limits));
    assert_int_equal(limits.max_side, 65536);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_outputs_choose_the_kernel),
        TEST(statistics_are_summed_and_finished),
        TEST(counting_alone_looks_at_no_weights),
        TEST(a_background_on_the_host_is_copied),
        TEST(the_backgrounds_gradient_is_a_sum_over_pixels),
        TEST(a_small_buffer_makes_bands),
        TEST(buffers_below_the_least_are_refused),
        TEST(images_beyond_the_grid_are_refused),
    };
    (void)cpu;
    (void)out;
    mock = mock_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
