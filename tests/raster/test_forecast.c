/* The forecast of the next frame from earlier frames. */

#include "views.h"

#include "core/context.h"

static gsc__forecasts forecasts;
static gsc__raster raster;

static int open_forecasts(void **state) {
    (void)state;
    gsc__forecasts_open(&forecasts);
    raster = (gsc__raster){.width = 640, .height = 480, .cameras = 1, .gaussians = 10000};
    return 0;
}

static int close_forecasts(void **state) {
    (void)state;
    gsc__forecasts_close(&forecasts);
    return 0;
}

static void note(int64_t visible, int64_t intersections) {
    gsc__forecast_note(&forecasts, &raster, visible, intersections);
}

static gsc_raster_info expected(void) {
    gsc_raster_info info = {.visible = -1, .intersections = -1};
    gsc__forecast_read(&forecasts, &raster, &info);
    return info;
}

static void expect_counts(int64_t visible, int64_t intersections) {
    const gsc_raster_info info = expected();
    assert_int_equal(info.visible, visible);
    assert_int_equal(info.intersections, intersections);
}

static void nothing_at_first(void **state) {
    (void)state;
    expect_counts(0, 0);
    note(1000, 30000);
    expect_counts(1000, 30000);
    raster.width = 641;
    expect_counts(0, 0);
}

static void the_same_frame_again(void **state) {
    (void)state;
    for (int i = 0; i < 100; ++i) {
        note(1000, 30000);
        expect_counts(1000, 30000);
    }
}

static void larger_at_once_smaller_slowly(void **state) {
    (void)state;
    note(1000, 30000);
    note(1600, 64000);
    expect_counts(1700, 68000);
    note(1600, 64000);
    expect_counts(1700 - 100 / 32, 68000 - 4000 / 32);
    for (int i = 0; i < 500; ++i) note(100, 640);
    const gsc_raster_info info = expected();
    assert_in_range(info.visible, 100, 132);
    assert_in_range(info.intersections, 640, 672);
}

static void another_number_of_gaussians(void **state) {
    (void)state;
    note(1000, 30000);
    raster.gaussians = 15000;
    expect_counts(1501, 45001);
    note(1200, 33000);
    expect_counts(1200, 33000);
    raster.gaussians = 30002;
    expect_counts(0, 0);
    raster.gaussians = 7400;
    expect_counts(0, 0);
    raster.gaussians = 7500;
    expect_counts(601, 16501);
}

static void never_more_visible_than_there_are(void **state) {
    (void)state;
    note(9999, 30000);
    note(10000, 30000);
    assert_int_equal(expected().visible, 10000);
}

/* Both numbers belong to one frame. */
static void cameras_may_come_together(void **state) {
    (void)state;
    raster.cameras = 2;
    note(1000, 30000);
    raster.cameras = 1;
    expect_counts(1000, 30000);
    note(1600, 64000);
    raster.cameras = 5;
    expect_counts(1700, 68000);
}

static void the_oldest_size_is_forgotten(void **state) {
    (void)state;
    for (int i = 0; i <= GSC__FORECASTS; ++i) {
        raster.height = 100 + i;
        note(10 + i, 100);
    }
    raster.height = 100;
    expect_counts(0, 0);
    raster.height = 101;
    expect_counts(11, 100);
}

static void no_gaussians(void **state) {
    (void)state;
    raster.gaussians = 0;
    note(1, 0);
    expect_counts(0, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_forecasts, close_forecasts)

int main(void) {
    const struct CMUnitTest tests[] = {TEST(nothing_at_first),
                                       TEST(the_same_frame_again),
                                       TEST(larger_at_once_smaller_slowly),
                                       TEST(another_number_of_gaussians),
                                       TEST(never_more_visible_than_there_are),
                                       TEST(cameras_may_come_together),
                                       TEST(the_oldest_size_is_forgotten),
                                       TEST(no_gaussians)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
