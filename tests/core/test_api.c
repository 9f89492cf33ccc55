/* The entry points on a mock backend: memory, sizes, order of calls. */

#include "mock_backend.h"

/* --------------------------------------------------------------- two phases */

static void sizes_read_no_data(void **state) {
    (void)state;
    gsc_raster_info info = {.struct_size = sizeof info};
    means.tensor.data = colors.tensor.data = cameras.tensor.data = NULL;
    expect_ok(gsc_raster_sizes(&context, &args, &info));
    assert_int_equal(info.struct_size, sizeof info);
    assert_int_equal(info.layout, 7 << 8 | 0xabc);
    assert_int_equal(info.state_bytes, STATE_BYTES);
    assert_int_equal(info.forward_scratch_bytes, PROJECT_SCRATCH);
    assert_int_equal(info.backward_scratch_bytes, BACKWARD_SCRATCH);
    assert_int_equal(info.intersections_bytes, 0);
    info.intersections = INTERSECTIONS;
    expect_ok(gsc_raster_sizes(&context, &args, &info));
    assert_int_equal(info.intersections, INTERSECTIONS);
    assert_int_equal(info.intersections_bytes, FRAME_BYTES);
    expect_failure(gsc_raster_project(&context, &args, &buffers, &outputs, &info, NULL),
                   GSC_ERROR_INVALID_ARGUMENT, "raster_project: data of view is NULL");
}

static void project_completes_info(void **state) {
    (void)state;
    gsc_raster_info info = {.struct_size = sizeof info};
    expect_ok(gsc_raster_project(&context, &args, &buffers, NULL, &info, NULL));
    assert_string_equal(mock.calls, "sizes project ");
    assert_true(mock.info_given);
    assert_int_equal(info.intersections, INTERSECTIONS);
    assert_int_equal(info.layout, 7 << 8 | 0xabc);
    assert_int_equal(info.intersections_min_bytes, TILE_BYTES);
    assert_ptr_equal(mock.buffers.state, view_memory);
    assert_ptr_equal(mock.buffers.scratch, view_memory + 16384);
    assert_null(mock.buffers.intersections);
    assert_int_equal(heap.allocations, 0);
    expect_ok(gsc_raster_project(&context, &args, &buffers, NULL, NULL, NULL));
    assert_false(mock.info_given);
}

static void failed_project_leaves_info_alone(void **state) {
    (void)state;
    gsc_raster_info info = {.struct_size = sizeof info, .intersections = 3};
    const gsc_raster_info before = info;
    mock.fail_in = "project";
    mock.fail_with = GSC_ERROR_INTERNAL;
    buffers.scratch = NULL;
    expect_failure(gsc_raster_project(&context, &args, &buffers, &outputs, &info, NULL),
                   GSC_ERROR_INTERNAL, "project failed");
    assert_memory_equal(&info, &before, sizeof info);
    assert_int_equal(heap.blocks, 0);
}

static void scratch_comes_from_the_allocator(void **state) {
    (void)state;
    const gsc_raster_info info = known_info();
    buffers.scratch = NULL;
    expect_ok(gsc_raster_project(&context, &args, &buffers, &outputs, NULL, NULL));
    assert_int_equal(mock.buffers.scratch_bytes, PROJECT_SCRATCH);
    expect_ok(gsc_raster_blend(&context, &args, &buffers, &outputs, &info, NULL, NULL));
    assert_int_equal(mock.buffers.scratch_bytes, BLEND_SCRATCH);
    expect_ok(gsc_raster_backward(&context, &args, &buffers, &info, &grads, NULL));
    assert_int_equal(mock.buffers.scratch_bytes, BACKWARD_SCRATCH);
    assert_int_equal(heap.allocations, 3);
    assert_int_equal(heap.blocks, 0);
    assert_int_equal(heap.bytes, 0);

    heap.largest = 600;
    expect_failure(gsc_raster_blend(&context, &args, &buffers, &outputs, &info, NULL, NULL),
                   GSC_ERROR_OUT_OF_MEMORY,
                   "raster_blend: scratch: out of memory, 700 bytes were wanted");
}

static void buffers_too_small(void **state) {
    (void)state;
    const gsc_raster_info info = known_info();
    VIEW(&state_view, 999);
    view_dtype(&state_view, kDLUInt, 8);
    expect_failure(gsc_raster_project(&context, &args, &buffers, &outputs, NULL, NULL),
                   GSC_ERROR_BUFFER_TOO_SMALL,
                   "raster_project: state has 999 bytes, expected at least 1000");
    reset(NULL);
    lists.shape[0] = 511;
    expect_failure(gsc_raster_blend(&context, &args, &buffers, &outputs, &info, NULL, NULL),
                   GSC_ERROR_BUFFER_TOO_SMALL,
                   "raster_blend: intersections has 511 bytes, expected at least 512");
    lists.shape[0] = 512; /* a tile at a time */
    expect_ok(gsc_raster_blend(&context, &args, &buffers, &outputs, &info, NULL, NULL));
    scratch.shape[0] = 899;
    expect_failure(gsc_raster_backward(&context, &args, &buffers, &info, &grads, NULL),
                   GSC_ERROR_BUFFER_TOO_SMALL,
                   "raster_backward: scratch has 899 bytes, expected at least 900");
}

static void info_of_other_arguments_is_refused(void **state) {
    (void)state;
    gsc_raster_info info = known_info();
    info.layout = 0x123;
    assert_int_equal(gsc_raster_blend(&context, &args, &buffers, &outputs, &info, NULL, NULL),
                     GSC_ERROR_STATE);
    assert_non_null(strstr(gsc_last_error(), "raster_blend: layout of info is 0x123"));
    assert_int_equal(gsc_raster_backward(&context, &args, &buffers, &info, &grads, NULL),
                     GSC_ERROR_STATE);
    assert_non_null(strstr(gsc_last_error(), "raster_backward: layout of info is 0x123"));
    expect_failure(gsc_raster_blend(&context, &args, &buffers, &outputs, NULL, NULL, NULL),
                   GSC_ERROR_INVALID_ARGUMENT, "raster_blend: info is NULL");
}

static void overflow_is_an_int64_scalar(void **state) {
    (void)state;
    const gsc_raster_info info = known_info();
    view overflow;
    VIEW(&overflow, 1);
    expect_failure(
        gsc_raster_blend(&context, &args, &buffers, &outputs, &info, &overflow.tensor, NULL),
        GSC_ERROR_DTYPE,
        GSC_REAL_BITS == 64 ? "raster_blend: overflow is float64, expected int64"
                            : "raster_blend: overflow is float32, expected int64");
    view_dtype(&overflow, kDLInt, 64);
    expect_ok(gsc_raster_blend(&context, &args, &buffers, &outputs, &info, &overflow.tensor, NULL));
    assert_ptr_equal(mock.overflow, view_memory);
    VIEW(&overflow, 2);
    view_dtype(&overflow, kDLInt, 64);
    expect_failure(
        gsc_raster_blend(&context, &args, &buffers, &outputs, &info, &overflow.tensor, NULL),
        GSC_ERROR_SHAPE, "raster_blend: overflow is [2], expected [] or [1]");
}

/* -------------------------------------------------------------------- others */

static void knn_takes_or_makes_scratch(void **state) {
    (void)state;
    gsc_knn_args knn_args = {.struct_size = sizeof knn_args, .points = &means.tensor};
    size_t bytes = 0;
    expect_ok(gsc_knn_scratch_bytes(&context, &knn_args, &bytes));
    assert_int_equal(bytes, KNN_SCRATCH);
    expect_failure(gsc_knn_scratch_bytes(&context, &knn_args, NULL), GSC_ERROR_INVALID_ARGUMENT,
                   "knn_scratch_bytes: bytes is NULL");
    expect_ok(gsc_knn(&context, &knn_args, NULL));
    assert_int_equal(mock.knn.scratch_bytes, KNN_SCRATCH);
    assert_int_equal(heap.allocations, 1);
    assert_int_equal(heap.blocks, 0);
    knn_args.scratch = &scratch.tensor;
    expect_ok(gsc_knn(&context, &knn_args, NULL));
    assert_ptr_equal(mock.knn.scratch, view_memory + 16384);
    assert_int_equal(heap.allocations, 1);
    scratch.shape[0] = 299;
    expect_failure(gsc_knn(&context, &knn_args, NULL), GSC_ERROR_BUFFER_TOO_SMALL,
                   "knn: scratch has 299 bytes, expected at least 300");
}

static void the_other_operations_reach_the_backend(void **state) {
    (void)state;
    view image, scalar, visible;
    VIEW(&image, 1, 1, 4, 7);
    VIEW(&scalar, 1);
    VIEW(&visible, 5);
    view_dtype(&visible, kDLInt, 32);
    gsc_ssim_args ssim = {.struct_size = sizeof ssim,
                          .image = &image.tensor,
                          .target = &image.tensor,
                          .grad_mean = &scalar.tensor};
    gsc_image_loss_args loss = {
        .struct_size = sizeof loss, .image = &image.tensor, .target = &image.tensor};
    gsc_adam_group group = {.parameter = &means.tensor,
                            .gradient = &means.tensor,
                            .moment1 = &means.tensor,
                            .moment2 = &means.tensor};
    gsc_adam_args adam = {.struct_size = sizeof adam,
                          .group_count = 1,
                          .groups = &group,
                          .group_stride = sizeof group,
                          .visible = &visible.tensor};
    expect_ok(gsc_ssim_forward(&context, &ssim, NULL));
    expect_ok(gsc_ssim_backward(&context, &ssim, NULL));
    expect_ok(gsc_image_loss(&context, &loss, NULL));
    expect_ok(gsc_adam_step(&context, &adam, NULL));
    VIEW(&visible, 5);
    view_dtype(&visible, kDLBool, 8);
    expect_ok(gsc_mark_visible(&context, &args, &visible.tensor, NULL));
    assert_string_equal(mock.calls,
                        "ssim_forward ssim_backward image_loss adam_step mark_visible ");
    assert_int_equal(mock.group.rows, 5);
    assert_int_equal(mock.group.row_size, 3);
    assert_int_equal(mock.visible.bytes, 4);
    adam.group_count = 0;
    adam.groups = NULL;
    mock.calls[0] = '\0';
    expect_ok(gsc_adam_step(&context, &adam, NULL));
    assert_string_equal(mock.calls, "");
}

static void context_and_stream_are_checked_everywhere(void **state) {
    (void)state;
    void *stream = &context;
    gsc_raster_info info = known_info();
    gsc_raster_saved *saved = NULL;
    size_t bytes;
    view any;
    VIEW(&any, 5);
#define BOTH(name, call)                                                             \
    do {                                                                             \
        gsc_context *used = NULL;                                                    \
        stream = NULL;                                                               \
        expect_failure(call, GSC_ERROR_INVALID_ARGUMENT, name ": context is NULL");  \
        used = &context;                                                             \
        stream = &context;                                                           \
        assert_int_equal(call, GSC_ERROR_INVALID_ARGUMENT);                          \
        assert_non_null(strstr(gsc_last_error(), name ": stream is 0x"));            \
        assert_non_null(strstr(gsc_last_error(), "expected NULL on a CPU context")); \
    } while (0)
    gsc_knn_args knn_args = {.struct_size = sizeof knn_args, .points = &means.tensor};
    gsc_ssim_args ssim = {.struct_size = sizeof ssim};
    gsc_image_loss_args loss = {.struct_size = sizeof loss};
    gsc_adam_args adam = {.struct_size = sizeof adam};
    BOTH("raster_project", gsc_raster_project(used, &args, &buffers, &outputs, &info, stream));
    BOTH("raster_blend", gsc_raster_blend(used, &args, &buffers, &outputs, &info, NULL, stream));
    BOTH("raster_backward", gsc_raster_backward(used, &args, &buffers, &info, &grads, stream));
    BOTH("rasterize", gsc_rasterize(used, &args, &outputs, &saved, stream));
    BOTH("mark_visible", gsc_mark_visible(used, &args, &any.tensor, stream));
    BOTH("knn", gsc_knn(used, &knn_args, stream));
    BOTH("ssim_forward", gsc_ssim_forward(used, &ssim, stream));
    BOTH("ssim_backward", gsc_ssim_backward(used, &ssim, stream));
    BOTH("image_loss", gsc_image_loss(used, &loss, stream));
    BOTH("adam_step", gsc_adam_step(used, &adam, stream));
    expect_failure(gsc_raster_sizes(NULL, &args, &info), GSC_ERROR_INVALID_ARGUMENT,
                   "raster_sizes: context is NULL");
    expect_failure(gsc_knn_scratch_bytes(NULL, &knn_args, &bytes), GSC_ERROR_INVALID_ARGUMENT,
                   "knn_scratch_bytes: context is NULL");
    assert_string_equal(mock.calls, "");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(sizes_read_no_data),
        TEST(project_completes_info),
        TEST(failed_project_leaves_info_alone),
        TEST(scratch_comes_from_the_allocator),
        TEST(buffers_too_small),
        TEST(info_of_other_arguments_is_refused),
        TEST(overflow_is_an_int64_scalar),
        TEST(knn_takes_or_makes_scratch),
        TEST(the_other_operations_reach_the_backend),
        TEST(context_and_stream_are_checked_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
