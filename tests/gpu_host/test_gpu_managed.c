#define _DEFAULT_SOURCE /* setenv */
/* A CUDA context on a framework's memory; on the mock driver. */

#include "raster_launches.h"

#include "mock_framework.h"

static gsc_context *lent;

static int open_lent(void **unused) {
    gsc_context_desc desc;
    memset(&framework, 0, sizeof framework);
    (void)open_context(unused);
    gsc_context_desc_init(&desc, (DLDevice){kDLCUDA, 0});
    expect_ok(gsc_context_create_managed(&desc, framework_allocate, &lent));
    return 0;
}

static int close_lent(void **unused) {
    gsc_context_free(lent);
    assert_int_equal(framework.tensors, 0);
    return close_context(unused);
}

static gsc_raster_saved *forward(void) {
    gsc_raster_saved *saved = NULL;
    mock->launch_count = 0;
    expect_ok(gsc_rasterize(lent, &args, &outputs, &saved, NULL));
    assert_int_equal(mock->blocks + mock->async_blocks, 0); /* of the driver's pool */
    return saved;
}

/* The first frame is counted before its lists are made; the next one matches the forecast. */
static void a_state_and_its_lists_are_tensors_on_the_device(void **unused) {
    (void)unused;
    for (int frame = 0; frame < 2; ++frame) {
        DLManagedTensorVersioned *tensors[2];
        gsc_k_blend blend;
        gsc_raster_saved *saved = forward();
        const int count = framework.tensors;
        assert_int_equal(count, frame == 0 ? 2 : 1);
        assert_int_equal(framework.device.device_type, kDLCUDA);
        expect_ok(gsc_raster_saved_take(saved, tensors, &info));
        ARGS_OF("blend", 0, blend);
        char *state_data = framework_data(tensors[0]);
        assert_true((char *)blend.frame.final_t > state_data);
        assert_true((char *)blend.frame.final_t < state_data + info.state_bytes);
        const char *lists_data =
            frame == 0 ? framework_data(tensors[1]) : state_data + info.state_bytes;
        assert_ptr_equal(blend.frame.records, lists_data);
        assert_int_equal(!tensors[1], frame);
        assert_true((size_t)tensors[0]->dl_tensor.shape[0] >=
                    info.state_bytes + (frame == 0 ? 0 : info.intersections_bytes));
        tensors[0]->deleter(tensors[0]);
        if (tensors[1]) tensors[1]->deleter(tensors[1]);
    }
}

static void nothing_is_kept_of_a_frame_without_backward(void **unused) {
    (void)unused;
    for (int frame = 0; frame < 2; ++frame) {
        expect_ok(gsc_rasterize(lent, &args, &outputs, NULL, NULL));
        assert_int_equal(framework.tensors, 0);
        assert_int_equal(mock->blocks + mock->async_blocks, 0);
    }
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_lent, close_lent)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_state_and_its_lists_are_tensors_on_the_device),
        TEST(nothing_is_kept_of_a_frame_without_backward),
    };
    (void)cpu;
    (void)out;
    (void)drop;
    (void)run_blend;
    (void)launches_of;
    mock = mock_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
