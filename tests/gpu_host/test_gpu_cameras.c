#define _DEFAULT_SOURCE /* setenv */
/* Where the lists of several cameras lie and how often they are made, and frames in one step; on
 * the mock driver. */

#include "raster_launches.h"

/* Forward and backward of all cameras, with the lists in the same places: `apart` intersections
 * from one camera to the next. */
static void expect_lists(ptrdiff_t apart, int64_t capacity) {
    gsc_k_blend blend, first;
    gsc_k_blend_backward blend_backward;
    mock->launch_count = 0;
    expect_ok(run_blend());
    expect_ok(gsc_raster_backward(context, &args, &buffers, &info, &grads, NULL));
    ARGS_OF("blend", 0, first);
    for (int c = 0; c < CAMERAS; ++c) {
        ARGS_OF("blend", c, blend);
        ARGS_OF("blend_backward", c, blend_backward);
        assert_ptr_equal(blend_backward.lists, blend.lists);
        assert_ptr_equal(blend_backward.band, blend.band);
        assert_int_equal(blend_backward.capacity, blend.capacity);
        assert_int_equal(blend.lists - first.lists, c * apart);
        assert_int_equal(blend.capacity, capacity);
        assert_int_equal((uintptr_t)blend.lists % 256, 0);
        assert_true((unsigned char *)(blend.lists + capacity) <= lists_memory + lists.shape[0]);
    }
}

/* The lists of a frame were made this many times, each time with a plan. */
static void expect_made(int times) {
    assert_int_equal(launches_of("gsc_emit"), times * CAMERAS);
    assert_int_equal(launches_of("gsc_find_tiles"), times * CAMERAS);
    assert_int_equal(launches_of("gsc_plan_bands"), (times - 1) * CAMERAS);
}

/* 1000 intersections of each camera take a slot of 1024. */
static void lists_stay_where_each_camera_has_a_slot(void **unused) {
    (void)unused;
    know(1000);
    const int64_t whole = (int64_t)info.intersections_bytes, slot = 4 * 1024;
    const int64_t more[] = {0, 1, 2 * slot};
    const int64_t less[] = {1, 256, (CAMERAS - 1) * slot};
    for (int i = 0; i < 3; ++i) {
        bytes(&lists, lists_memory, whole + more[i]);
        expect_lists(1024, 1024);
        expect_made(1);
        bytes(&lists, lists_memory, whole - less[i]);
        expect_lists(0, 1024);
        expect_made(2);
    }
    bytes(&lists, lists_memory, whole - (CAMERAS - 1) * slot - 4);
    info.intersections_min_bytes = 0;
    expect_ok(run_blend());
    assert_true(launches_of("gsc_count_tiles") > 0);
}

static void one_slot_without_backward(void **unused) {
    gsc_k_blend blend[2];
    (void)unused;
    know(1000);
    const size_t kept = info.intersections_bytes;
    args.flags |= GSC_RASTER_FORWARD_ONLY;
    know(1000);
    assert_true(info.intersections_bytes <= kept - 4096);
    expect_ok(run_blend());
    for (int c = 0; c < 2; ++c) ARGS_OF("blend", c, blend[c]);
    assert_ptr_equal(blend[0].lists, blend[1].lists);
    assert_int_equal(blend[0].capacity, 1000);
}

/* The counts that the kernel records would write: three splats are visible to the first camera and
 * one fewer to each next one; each reaches 50 tiles. */
static void report_three(void) {
    for (int i = 0, visible = 3; i < mock->launch_count; ++i) {
        gsc_k_project records;
        if (strcmp(mock->launches[i].kernel, "gsc_records") != 0) continue;
        memcpy(&records, mock->launches[i].args, sizeof records);
        *records.report = *records.frame.header;
        records.report->intersections = 50 * (uint64_t)visible;
        records.report->visible = (uint32_t)visible--;
        records.report->magic = 1; /* the kernel that writes it does not run */
    }
}

static void expect_four_visible(void) {
    info = (gsc_raster_info){.struct_size = sizeof info, .visible = 4, .intersections = 150};
    expect_ok(gsc_raster_sizes(context, &args, &info));
}

/* All work is queued before the one wait for the counts, which then are the forecast of the next
 * frame. */
static void project_blend_waits_once_at_the_end(void **unused) {
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
    mock->synchronisations = mock->launch_count = 0;
    expect_ok(gsc_raster_project_blend(context, &args, &buffers, &outputs, &info, NULL));
    assert_int_equal(mock->synchronisations, 1);
    assert_int_equal(launches_of("gsc_project"), 1);
    assert_int_equal(launches_of("gsc_blend"), 1);
    assert_int_equal(info.visible, 4); /* the frame that the buffers are laid out for */
    expect_ok(gsc_raster_forecast(context, &args, &found));
    assert_true(found.visible >= 1 && found.visible < 3);

    expect_four_visible();
    mock->synchronisations = mock->launch_count = 0;
    mock->on_query = report_three;
    expect_ok(gsc_raster_project_blend(context, &args, &buffers, &outputs, &info, NULL));
    mock->on_query = NULL;
    assert_int_equal(mock->synchronisations, 0);
    expect_ok(gsc_raster_forecast(context, &args, &found));
    assert_true(found.visible >= 3);

    expect_four_visible();
    setenv("MOCK_DRIVER_FAIL", "cuLaunchKernelEx=700", 1);
    assert_int_equal(gsc_raster_project_blend(context, &args, &buffers, &outputs, &info, NULL),
                     GSC_ERROR_CUDA);
    assert_int_equal(gsc_last_error_cuda(), 700);
}

/* Several cameras in one step: their counts arrive together and are added up, and the largest is
 * the forecast for each camera of the next frame. */
static void several_cameras_in_one_step(void **unused) {
    gsc_raster_info found = {.struct_size = sizeof found};
    (void)unused;
    memset(state_memory, 0, sizeof state_memory);
    expect_four_visible();
    const size_t whole = info.intersections_bytes;
    mock->synchronisations = mock->launch_count = 0;
    mock->on_query = report_three;
    expect_ok(gsc_raster_project_blend(context, &args, &buffers, &outputs, &info, NULL));
    mock->on_query = NULL;
    assert_int_equal(mock->synchronisations, 0);
    assert_int_equal(launches_of("gsc_project"), CAMERAS);
    assert_int_equal(launches_of("gsc_blend"), CAMERAS);
    assert_int_equal(launches_of("gsc_emit"), CAMERAS);
    assert_int_equal(info.visible, 4);
    assert_int_equal(info.intersections, 150 + 100);
    assert_int_equal(info.intersections_bytes, whole); /* where the lists are */
    expect_ok(gsc_raster_forecast(context, &args, &found));
    assert_int_equal(found.visible, 3);
    assert_in_range(found.intersections, 150, 150 + 63);
    expect_ok(gsc_raster_backward(context, &args, &buffers, &info, &grads, NULL));
    assert_int_equal(launches_of("gsc_emit"), CAMERAS);

    expect_four_visible(); /* without a report, the counts are read */
    mock->synchronisations = 0;
    expect_ok(gsc_raster_project_blend(context, &args, &buffers, &outputs, &info, NULL));
    assert_int_equal(mock->synchronisations, 1);
}

/* The sum would fit, the largest frame does not. */
static void a_camera_with_more_than_expected(void **unused) {
    (void)unused;
    memset(state_memory, 0, sizeof state_memory);
    info = (gsc_raster_info){.struct_size = sizeof info, .visible = 4, .intersections = 128};
    expect_ok(gsc_raster_sizes(context, &args, &info));
    mock->launch_count = 0;
    mock->on_query = report_three;
    assert_int_equal(gsc_raster_project_blend(context, &args, &buffers, &outputs, &info, NULL),
                     GSC_ERROR_BUFFER_TOO_SMALL);
    mock->on_query = NULL;
    assert_int_equal(info.visible, 3);
    assert_int_equal(info.intersections, 250);
    expect_lists(192, 192); /* blend continues */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(lists_stay_where_each_camera_has_a_slot), TEST(one_slot_without_backward),
        TEST(project_blend_waits_once_at_the_end),     TEST(several_cameras_in_one_step),
        TEST(a_camera_with_more_than_expected),
    };
    (void)cpu;
    (void)out;
    (void)drop;
    mock = mock_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
