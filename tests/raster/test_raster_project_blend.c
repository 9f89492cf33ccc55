/* gsc_raster_project_blend: a frame in one step, in buffers of the expected size; on the CPU, which
 * runs the two steps one after the other. */

#include "expect.h"
#include "raster_call.h"

#include "library.h"
#include "mock_framework.h"

#include <stdlib.h>
#include <string.h>

static const raster_scene_options plain = {
    .seed = 9, .width = 70, .height = 50, .cameras = 1, .gaussians = 80, .channels = 3};

static gsc_context *context;
static raster_call call; /* rasterized in two steps */
static float *color;     /* the image of those two steps */
static size_t color_bytes;

static int open_scene(const raster_scene_options *options) {
    context = library_context(2);
    raster_call_open(&call, context, options, NULL);
    color_bytes = scene_pixels(&call.s) * (size_t)call.s.channels * sizeof(gsc_real);
    color = malloc(color_bytes);
    assert_non_null(color);
    memcpy(color, call.outputs.color->data, color_bytes);
    memset(call.outputs.color->data, 0xff, color_bytes);
    return 0;
}

static int open_call(void **unused) {
    (void)unused;
    return open_scene(&plain);
}

static int close_call(void **unused) {
    (void)unused;
    free(color);
    raster_call_close(&call);
    gsc_context_free(context);
    return 0;
}

static void expect_image(void) {
    assert_memory_equal(color, call.outputs.color->data, color_bytes);
    assert_true(tensors_guarded(&call.set));
}

/* Buffers and info for a frame with these expected counts. */
static gsc_raster_info expect_of_frame(int64_t visible, int64_t intersections) {
    GSC_INIT(gsc_raster_info, info);
    info.visible = visible;
    info.intersections = intersections;
    expect_ok(gsc_raster_sizes(context, &call.args, &info));
    call.buffers.intersections = tensors_bytes(&call.set, info.intersections_bytes);
    call.buffers.scratch = tensors_bytes(&call.set, info.forward_scratch_bytes);
    return info;
}

static gsc_status project_blend(gsc_raster_info *info) {
    return gsc_raster_project_blend(context, &call.args, &call.buffers, &call.outputs, info, NULL);
}

/* ---------------------------------------------------------------------- tests */

static void nothing_is_forecast_where_nothing_waits(void **unused) {
    GSC_INIT(gsc_raster_info, info);
    (void)unused;
    info.visible = info.intersections = 7;
    expect_ok(gsc_raster_forecast(context, &call.args, &info));
    assert_int_equal(info.visible, 0);
    assert_int_equal(info.intersections, 0);
    assert_int_equal(info.state_bytes, call.info.state_bytes);
    assert_int_equal(project_blend(&info), GSC_ERROR_INVALID_ARGUMENT);
    assert_string_equal(
        gsc_last_error(),
        "raster_project_blend: info->visible is 0, expected what raster_forecast says of the "
        "frame; begin with raster_project if it says nothing");
}

static void a_frame_as_expected(void **unused) {
    gsc_raster_info info = expect_of_frame(call.info.visible, call.info.intersections);
    (void)unused;
    expect_ok(project_blend(&info));
    expect_image();
    assert_int_equal(info.intersections, call.info.intersections);
    assert_int_equal(info.intersections_min_bytes, call.info.intersections_min_bytes);
    call.info = info;
    call.buffers.scratch = NULL;
    expect_ok(raster_call_backward(&call));
    assert_true(tensors_guarded(&call.set));
}

static void a_smaller_frame(void **unused) {
    gsc_raster_info info = expect_of_frame(call.info.visible + 9, 3 * call.info.intersections);
    (void)unused;
    expect_ok(project_blend(&info));
    expect_image();
}

static void a_larger_frame_continues_with_blend(void **unused) {
    gsc_raster_info info = expect_of_frame(call.info.visible, call.info.intersections / 4);
    (void)unused;
    assert_int_equal(project_blend(&info), GSC_ERROR_BUFFER_TOO_SMALL);
    assert_non_null(strstr(gsc_last_error(), "raster_project_blend: intersections has "));
    assert_true(tensors_guarded(&call.set));
    assert_int_equal(info.intersections, call.info.intersections);
    assert_int_equal(info.intersections_bytes, call.info.intersections_bytes);
    call.buffers.intersections = tensors_bytes(&call.set, info.intersections_bytes);
    call.buffers.scratch = NULL;
    expect_ok(
        gsc_raster_blend(context, &call.args, &call.buffers, &call.outputs, &info, NULL, NULL));
    expect_image();
}

static void buffers_below_infos_sizes_are_refused(void **unused) {
    gsc_raster_info info = expect_of_frame(call.info.visible, call.info.intersections);
    (void)unused;
    call.buffers.intersections = tensors_bytes(&call.set, info.intersections_bytes - 256);
    assert_int_equal(project_blend(&info), GSC_ERROR_BUFFER_TOO_SMALL);
    call.buffers.intersections = NULL;
    assert_int_equal(project_blend(&info), GSC_ERROR_INVALID_ARGUMENT);
}

static void info_of_other_arguments_is_refused(void **unused) {
    gsc_raster_info info = expect_of_frame(call.info.visible, call.info.intersections);
    (void)unused;
    info.layout ^= 1;
    assert_int_equal(project_blend(&info), GSC_ERROR_STATE);
    assert_int_equal(project_blend(NULL), GSC_ERROR_INVALID_ARGUMENT);
}

static void several_cameras(void **unused) {
    raster_scene_options three = plain;
    (void)unused;
    (void)close_call(unused);
    three.cameras = 3;
    open_scene(&three);
    gsc_raster_info info = expect_of_frame(call.info.visible, call.info.intersections);
    expect_ok(project_blend(&info));
    expect_image();
    assert_int_equal(info.intersections, call.info.intersections);
    assert_int_equal(info.intersections_bytes, call.info.intersections_bytes);
}

/* A taken saved state serves backward like buffers. */
static void a_state_that_is_taken_has_a_backward(void **unused) {
    gsc_context_desc desc;
    gsc_context *lent = NULL;
    gsc_raster_saved *saved = NULL;
    DLManagedTensorVersioned *taken[2];
    (void)unused;
    expect_ok(raster_call_backward(&call));
    const uint64_t expected = raster_call_hash(&call.grads);
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    framework.fill = 0xff;
    expect_ok(gsc_context_create_managed(&desc, framework_allocate, &lent));
    expect_ok(gsc_rasterize(lent, &call.args, &call.outputs, &saved, NULL));
    expect_image();
    expect_ok(gsc_raster_saved_take(saved, taken, &call.info));
    gsc_context_free(lent);
    assert_int_equal(framework.tensors, 2);
    call.buffers.state = &taken[0]->dl_tensor;
    call.buffers.intersections = &taken[1]->dl_tensor;
    expect_ok(raster_call_backward(&call));
    assert_true(raster_call_hash(&call.grads) == expected);
    for (int i = 0; i < 2; ++i) taken[i]->deleter(taken[i]);
    assert_int_equal(framework.tensors, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_call, close_call)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(nothing_is_forecast_where_nothing_waits),
        TEST(a_frame_as_expected),
        TEST(a_smaller_frame),
        TEST(a_larger_frame_continues_with_blend),
        TEST(buffers_below_infos_sizes_are_refused),
        TEST(info_of_other_arguments_is_refused),
        TEST(several_cameras),
        TEST(a_state_that_is_taken_has_a_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
