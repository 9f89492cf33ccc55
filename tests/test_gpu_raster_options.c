#define _DEFAULT_SOURCE /* setenv */
/* Which kernels the options of the rasterizer lead to on a CUDA device, and what they are told;
 * on a fake driver. */

#include "../cuda/kernels.h"
#include "fake_driver.h"
#include "raster_args_fixture.h"

enum { STATE_BYTES = 1 << 15, LIST_BYTES = 1 << 19 };

static fake_notes *notes;
static gsc_context *context;
static _Alignas(256) unsigned char state_memory[STATE_BYTES], lists_memory[LIST_BYTES];
static view color, depth, touched, weight_sum, weight_count, by_color, by_means, by_background;
static view state, lists;
static gsc_raster_info info;
static gsc_raster_buffers buffers;
static gsc_raster_outputs outputs;
static gsc_raster_grads grads;

static void bytes(view *v, unsigned char *data, int64_t size) {
    VIEW(v, size);
    view_dtype(v, kDLUInt, 8);
    view_device(v, kDLCUDA, 0);
    v->tensor.data = data;
}

static void make_views(void) {
    VIEW(&color, CAMERAS, 3, HEIGHT, WIDTH);
    VIEW(&depth, CAMERAS, HEIGHT, WIDTH);
    VIEW(&touched, CAMERAS, GAUSSIANS);
    VIEW(&weight_sum, CAMERAS, GAUSSIANS);
    VIEW(&weight_count, CAMERAS, GAUSSIANS);
    VIEW(&by_color, CAMERAS, 3, HEIGHT, WIDTH);
    VIEW(&by_means, GAUSSIANS, 3);
    VIEW(&by_background, CAMERAS, 3);
    view_dtype(&touched, kDLInt, 32);
    view_dtype(&weight_count, kDLInt, 32);
    view *const all[] = {&color,        &depth,    &touched,  &weight_sum,
                         &weight_count, &by_color, &by_means, &by_background};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        view_device(all[i], kDLCUDA, 0);
        all[i]->tensor.data = view_memory + 4096 * (i + 1);
    }
    bytes(&state, state_memory, STATE_BYTES);
    bytes(&lists, lists_memory, LIST_BYTES);
}

/* A frame of `intersections` pairs, as project would have counted them. */
static void know(int64_t intersections) {
    info = (gsc_raster_info){.struct_size = sizeof info, .intersections = intersections};
    expect_ok(gsc_raster_sizes(context, &args, &info));
    assert_true(info.state_bytes <= STATE_BYTES && info.intersections_bytes <= LIST_BYTES);
    notes->launch_count = 0;
}

static int open_context(void **unused) {
    fake_driver_reset(notes);
    reset(unused);
    for (int i = 0; i < FIELDS; ++i) view_device(&views[i], kDLCUDA, 0);
    make_views();
    buffers = (gsc_raster_buffers){
        .struct_size = sizeof buffers, .state = &state.tensor, .intersections = &lists.tensor};
    outputs = (gsc_raster_outputs){.struct_size = sizeof outputs, .color = &color.tensor};
    grads = (gsc_raster_grads){
        .struct_size = sizeof grads, .color = &by_color.tensor, .means = &by_means.tensor};
    context = fake_driver_context(0, 0);
    know(100);
    return 0;
}

static int close_context(void **unused) {
    (void)unused;
    assert_int_equal(notes->blocks + notes->async_blocks, 0);
    gsc_context_free(context);
    return 0;
}

static gsc_status render(void) {
    return gsc_raster_render(context, &args, &buffers, &outputs, &info, NULL, NULL);
}

/* ------------------------------------------------------------------- launches */

static int launches_of(const char *kernel) {
    int count = 0;
    for (int i = 0; i < notes->launch_count; ++i)
        count += strcmp(notes->launches[i].kernel, kernel) == 0;
    return count;
}

static void args_of(const char *kernel, int which, void *found, size_t size) {
    for (int i = 0; i < notes->launch_count; ++i) {
        if (strcmp(notes->launches[i].kernel, kernel) != 0 || which-- > 0) continue;
        assert_int_equal(notes->launches[i].args_bytes, size);
        memcpy(found, notes->launches[i].args, size);
        return;
    }
    fail_msg("%s was not launched", kernel);
}
#define ARGS_OF(kernel, which, found) args_of("gsc_" kernel, which, &(found), sizeof(found))

/* ---------------------------------------------------------------------- tests */

static void the_outputs_choose_the_kernel(void **unused) {
    (void)unused;
    expect_ok(render());
    assert_int_equal(launches_of("gsc_blend"), CAMERAS);
    know(100);
    outputs.inv_depth = &depth.tensor;
    expect_ok(render());
    assert_int_equal(launches_of("gsc_blend_depths"), CAMERAS);
    know(100);
    outputs.median_depth = &depth.tensor;
    expect_ok(render());
    assert_int_equal(launches_of("gsc_blend_any"), CAMERAS);
    assert_int_equal(launches_of("gsc_blend") + launches_of("gsc_blend_depths"), 0);
    assert_int_equal(launches_of("gsc_finish_statistics"), 0);
}

/* Sums in fixed point beside the lists, then as floats in the output; each camera its own. */
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
    expect_ok(render());
    assert_int_equal(launches_of("gsc_blend_any"), CAMERAS);
    for (int c = 0; c < CAMERAS; ++c) {
        ARGS_OF("weight_scale", c, scale);
        ARGS_OF("blend_any", c, blend);
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
    expect_ok(render());
    assert_int_equal(launches_of("gsc_weight_scale"), 0);
    assert_int_equal(launches_of("gsc_finish_statistics"), CAMERAS);
}

/* It is read during the call: a copy in the state is what the kernels see. */
static void a_background_on_the_host_is_copied(void **unused) {
    static float values[CAMERAS * 3] = {1, 2, 3, 4, 5, 6};
    gsc_k_blend blend;
    (void)unused;
    expect_ok(render());
    ARGS_OF("blend", 1, blend);
    assert_ptr_equal(blend.background, (float *)views[BACKGROUND].tensor.data + 3);
    view_device(&views[BACKGROUND], kDLCPU, 0);
    views[BACKGROUND].tensor.data = values;
    know(100);
    expect_ok(render());
    for (int c = 0; c < CAMERAS; ++c) {
        ARGS_OF("blend", c, blend);
        const unsigned char *where = (const unsigned char *)blend.background;
        assert_true(where >= state_memory && where < state_memory + STATE_BYTES);
    }
}

static void the_backgrounds_gradient_is_a_sum_over_pixels(void **unused) {
    gsc_k_background_grad sum;
    (void)unused;
    grads.background = &by_background.tensor;
    expect_ok(gsc_raster_backward(context, &args, &buffers, &info, &grads, NULL));
    assert_int_equal(launches_of("gsc_background_grad"), CAMERAS);
    ARGS_OF("background_grad", 1, sum);
    assert_ptr_equal(sum.by_background, (float *)by_background.tensor.data + 3);
    assert_ptr_equal(sum.by_color, (float *)by_color.tensor.data + 3 * WIDTH * HEIGHT);
    assert_int_equal(sum.pixels, WIDTH * HEIGHT);
    know(100);
    grads.color = NULL; /* nothing can come from there */
    expect_ok(gsc_raster_backward(context, &args, &buffers, &info, &grads, NULL));
    assert_int_equal(launches_of("gsc_background_grad"), 0);
}

/* A buffer for a part of the frame: bins are counted first, and blended band by band. */
static void a_small_buffer_makes_bands(void **unused) {
    (void)unused;
    know(40000);
    assert_int_equal(launches_of("gsc_count_bins"), 0);
    expect_ok(render());
    assert_int_equal(launches_of("gsc_count_bins"), 0);
    assert_int_equal(launches_of("gsc_blend"), CAMERAS);

    know(40000);
    const size_t whole = info.intersections_bytes;
    info.intersections_min_bytes = 0; /* of the fullest bin: not known */
    bytes(&lists, lists_memory, (int64_t)(whole / 3));
    expect_ok(render());
    assert_int_equal(launches_of("gsc_count_bins"), CAMERAS);
    assert_int_equal(launches_of("gsc_sum_bins"), CAMERAS);
    assert_true(launches_of("gsc_blend") >= 3 * CAMERAS);
}

static void buffers_below_the_least_are_refused(void **unused) {
    (void)unused;
    bytes(&lists, lists_memory, 256);
    info.intersections_min_bytes = 0;
    assert_int_equal(render(), GSC_ERROR_BUFFER_TOO_SMALL);
    assert_non_null(strstr(gsc_last_error(), "raster_render: intersections has 256 bytes"));
    assert_int_equal(gsc_raster_backward(context, &args, &buffers, &info, &grads, NULL),
                     GSC_ERROR_BUFFER_TOO_SMALL);
    assert_non_null(strstr(gsc_last_error(), "raster_backward: intersections has 256 bytes"));
}

static void images_beyond_the_grid_are_refused(void **unused) {
    gsc_raster_info sizes = {.struct_size = sizeof sizes};
    (void)unused;
    args.width = 100000;
    args.height = 16;
    assert_int_equal(gsc_raster_sizes(context, &args, &sizes), GSC_ERROR_SHAPE); /* the weights */
    drop(WEIGHTS);
    assert_int_equal(gsc_raster_sizes(context, &args, &sizes), GSC_ERROR_UNSUPPORTED);
    assert_non_null(strstr(gsc_last_error(), "the image is 100000 x 16, a CUDA device draws at"));
}

/* What records says on the device: three are visible. */
static void report_three(void) {
    for (int i = notes->launch_count - 1; i >= 0; --i) {
        gsc_k_project records;
        if (strcmp(notes->launches[i].kernel, "gsc_records") != 0) continue;
        memcpy(&records, notes->launches[i].args, sizeof records);
        *records.report = *records.frame.header;
        records.report->visible = 3;
        records.report->magic = 1; /* the kernel that writes it does not run */
        return;
    }
}

static void expect_four_visible(void) {
    info = (gsc_raster_info){.struct_size = sizeof info, .visible = 4, .intersections = 100};
    expect_ok(gsc_raster_sizes(context, &args, &info));
}

/* Everything is queued before the counts are waited for, once; then they are expected of the
 * next frame. */
static void drawing_waits_once_at_the_end(void **unused) {
    static const int per_camera[] = {VIEW_, INTRINSICS, POSITION, BACKGROUND, WEIGHTS, COLORS};
    gsc_raster_info found = {.struct_size = sizeof found};
    (void)unused;
    for (size_t i = 0; i < sizeof per_camera / sizeof per_camera[0]; ++i)
        views[per_camera[i]].shape[0] = 1;
    color.shape[0] = 1;
    expect_ok(gsc_raster_forecast(context, &args, &found));
    assert_int_equal(found.visible, 0);

    expect_four_visible();
    memset(state_memory, 0, sizeof state_memory);
    notes->synchronisations = notes->launch_count = 0;
    expect_ok(gsc_raster_draw(context, &args, &buffers, &outputs, &info, NULL));
    assert_int_equal(notes->synchronisations, 1);
    assert_int_equal(launches_of("gsc_project"), 1);
    assert_int_equal(launches_of("gsc_blend"), 1);
    assert_int_equal(info.visible, 4); /* what the buffers are laid out for */
    expect_ok(gsc_raster_forecast(context, &args, &found));
    assert_true(found.visible >= 1 && found.visible < 3);

    expect_four_visible();
    notes->synchronisations = notes->launch_count = 0;
    notes->on_query = report_three;
    expect_ok(gsc_raster_draw(context, &args, &buffers, &outputs, &info, NULL));
    notes->on_query = NULL;
    assert_int_equal(notes->synchronisations, 0);
    expect_ok(gsc_raster_forecast(context, &args, &found));
    assert_true(found.visible >= 3);

    expect_four_visible();
    setenv("FAKE_CUDA_FAIL", "cuLaunchKernelEx=700", 1);
    assert_int_equal(gsc_raster_draw(context, &args, &buffers, &outputs, &info, NULL),
                     GSC_ERROR_CUDA);
    assert_int_equal(gsc_last_error_cuda(), 700);
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_context, close_context)

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
        TEST(drawing_waits_once_at_the_end),
    };
    (void)cpu;
    (void)out;
    notes = fake_driver_notes();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
