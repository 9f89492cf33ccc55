/* gsc_rasterize, which allocates its own memory, on a mock backend. */

#include "mock_backend.h"

static void forward_keeps_what_backward_needs(void **state) {
    (void)state;
    gsc_raster_saved *saved = NULL;
    expect_ok(gsc_rasterize(&context, &args, &outputs, &saved, NULL));
    assert_non_null(saved);
    assert_string_equal(mock.calls, "sizes project blend ");
    assert_int_equal(mock.buffers.state_bytes, STATE_BYTES);
    assert_int_equal(mock.buffers.intersections_bytes, FRAME_BYTES);
    assert_true(mock.buffers.scratch_bytes >= BLEND_SCRATCH);
    assert_int_equal(heap.blocks, 2);
    assert_int_equal(heap.bytes, STATE_BYTES + FRAME_BYTES);
    expect_ok(gsc_rasterize_backward(&context, &args, saved, &grads, NULL));
    assert_string_equal(mock.calls, "sizes project blend sizes backward ");
    assert_int_equal(mock.info.intersections, INTERSECTIONS);
    assert_int_equal(mock.buffers.scratch_bytes, BACKWARD_SCRATCH);
    assert_int_equal(heap.blocks, 2);
    gsc_raster_saved_free(saved, NULL);
    assert_int_equal(heap.blocks, 0);
    assert_int_equal(heap.bytes, 0);
    gsc_raster_saved_free(NULL, NULL);
}

static void forward_without_saved_keeps_nothing(void **state) {
    (void)state;
    expect_ok(gsc_rasterize(&context, &args, &outputs, NULL, NULL));
    assert_string_equal(mock.calls, "sizes sizes project blend ");
    assert_true(mock.raster.flags & GSC_RASTER_FORWARD_ONLY);
    assert_int_equal(heap.blocks, 0);
    assert_int_equal(heap.bytes, 0);
}

/* A frame as large as the forecast is rasterized in one step and one block; a larger one, or one
 * that does not fit in memory, in two steps. */
static void forward_uses_the_forecast(void **state) {
    static const struct {
        int64_t found;
        size_t largest;
        const char *calls;
        int blocks;
    } frames[] = {{INTERSECTIONS, SIZE_MAX, "sizes sizes project_blend sizes ", 1},
                  {INTERSECTIONS + 1, SIZE_MAX, "sizes sizes project_blend blend ", 2},
                  {INTERSECTIONS, FRAME_BYTES - 1, "sizes sizes project blend ", 2}};
    (void)state;
    for (int i = 0; i < 3; ++i) {
        gsc_raster_saved *saved = NULL;
        reset(state);
        expect_frame(frames[i].found);
        heap.largest = frames[i].largest;
        expect_ok(gsc_rasterize(&context, &args, &outputs, &saved, NULL));
        assert_string_equal(mock.calls, frames[i].calls);
        assert_true(mock.buffers.scratch_bytes >= BLEND_SCRATCH);
        assert_int_equal(heap.blocks, frames[i].blocks);
        gsc_raster_saved_free(saved, NULL);
        assert_int_equal(heap.blocks, 0);
    }
}

/* Each allocation may be the one that fails. */
static void failed_forward_keeps_nothing(void **state) {
    static const char *const steps[] = {"sizes", "project", "blend"};
    for (size_t i = 0; i < 3; ++i) {
        gsc_raster_saved *saved = (gsc_raster_saved *)&context;
        reset(state);
        mock.fail_in = steps[i];
        mock.fail_with = GSC_ERROR_INTERNAL;
        assert_int_equal(gsc_rasterize(&context, &args, &outputs, &saved, NULL),
                         GSC_ERROR_INTERNAL);
        assert_null(saved);
        assert_int_equal(heap.blocks, 0);
    }
    static const char *const messages[] = {
        "rasterize: state: out of memory, 1000 bytes were wanted",
        "rasterize: scratch: out of memory, 500 bytes were wanted",
        "rasterize: intersections: out of memory, 512 bytes were wanted",
        "rasterize: scratch: out of memory, 700 bytes were wanted",
    };
    for (int i = 0; i < 4; ++i) {
        gsc_raster_saved *saved = (gsc_raster_saved *)&context;
        reset(state);
        heap.fail_from = i + 1;
        expect_failure(gsc_rasterize(&context, &args, &outputs, &saved, NULL),
                       GSC_ERROR_OUT_OF_MEMORY, messages[i]);
        assert_null(saved);
        assert_int_equal(heap.blocks, 0);
    }
}

/* A frame that does not fit in memory is done in bands, without a failure. */
static void forward_makes_do_with_less(void **state) {
    (void)state;
    gsc_raster_saved *saved = NULL;
    gsc__fail(GSC_ERROR_INTERNAL, "before");
    heap.largest = 2000;
    expect_ok(gsc_rasterize(&context, &args, &outputs, &saved, NULL));
    assert_int_equal(mock.buffers.intersections_bytes, FRAME_BYTES / 4);
    assert_string_equal(gsc_last_error(), "before");
    gsc_raster_saved_free(saved, NULL);
    assert_int_equal(heap.blocks, 0);
}

static void saved_must_fit(void **state) {
    (void)state;
    gsc_raster_saved *saved = NULL;
    expect_failure(gsc_rasterize_backward(&context, &args, NULL, &grads, NULL),
                   GSC_ERROR_INVALID_ARGUMENT, "rasterize_backward: saved is NULL");
    expect_ok(gsc_rasterize(&context, &args, &outputs, &saved, NULL));
    gsc_context other = context;
    expect_failure(gsc_rasterize_backward(&other, &args, saved, &grads, NULL), GSC_ERROR_STATE,
                   "rasterize_backward: saved belongs to another context");
    args.width = 8;
    VIEW(&color, 3, 4, 8);
    assert_int_equal(gsc_rasterize_backward(&context, &args, saved, &grads, NULL), GSC_ERROR_STATE);
    gsc_raster_saved_free(saved, NULL);
}

static void misaligned_allocators_are_caught(void **state) {
    (void)state;
    heap.misalign = 16;
    assert_int_equal(gsc_rasterize(&context, &args, &outputs, NULL, NULL), GSC_ERROR_LAYOUT);
    assert_non_null(strstr(gsc_last_error(), "rasterize: state: allocator gave memory at"));
    assert_int_equal(heap.blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(forward_keeps_what_backward_needs), TEST(forward_without_saved_keeps_nothing),
        TEST(forward_uses_the_forecast),         TEST(failed_forward_keeps_nothing),
        TEST(forward_makes_do_with_less),        TEST(saved_must_fit),
        TEST(misaligned_allocators_are_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
