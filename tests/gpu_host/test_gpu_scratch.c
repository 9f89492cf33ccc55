#define _DEFAULT_SOURCE /* setenv */
/* Where forward puts scratch that the caller does not pass: in the image, if that is written last;
 * on the mock driver. */

#include "raster_launches.h"

enum { SIDE = 256, PLANE = 3 * SIDE * SIDE, BIG_STATE = 1 << 22 };
static _Alignas(256) unsigned char big_state[BIG_STATE];
static _Alignas(256) float image[CAMERAS * PLANE + 64];

/* Images that are larger than the scratch, from `shift` floats on. */
static void open_large(int shift, int64_t intersections) {
    args.width = args.height = SIDE;
    drop(WEIGHTS);
    VIEW(&color, CAMERAS, 3, SIDE, SIDE);
    view_device(&color, kDLCUDA, 0);
    color.tensor.data = image + shift;
    bytes(&state, big_state, BIG_STATE);
    info = (gsc_raster_info){.struct_size = sizeof info, .intersections = intersections};
    expect_ok(gsc_raster_sizes(context, &args, &info));
    assert_true(info.state_bytes <= BIG_STATE && info.intersections_bytes <= LIST_BYTES);
    assert_true(info.forward_scratch_bytes + 256 <= PLANE * sizeof *image);
    mock->launch_count = 0;
}

/* A part of camera `which`'s scratch. */
static float *scratch_of(int which) {
    gsc_k_emit emit;
    ARGS_OF("emit", which, emit);
    return (float *)(void *)emit.next;
}

/* In the last camera's image, since no image is written after the scratch is used. */
static bool is_in_the_last_image(const float *scratch) {
    const float *begin = (const float *)color.tensor.data + (CAMERAS - 1) * PLANE;
    const ptrdiff_t bytes_used = (ptrdiff_t)info.forward_scratch_bytes;
    if (scratch < begin || scratch >= begin + PLANE) return false;
    assert_true((const char *)(begin + PLANE) - (const char *)scratch <=
                (ptrdiff_t)(PLANE * sizeof *image));
    assert_true((const char *)scratch - (const char *)begin < bytes_used + 256);
    return true;
}

static void the_image_is_scratch_until_it_is_written(void **unused) {
    (void)unused;
    for (int shift = 0; shift <= 64; shift += 16) {
        open_large(shift, 1000);
        expect_ok(run_blend());
        assert_int_equal(launches_of("gsc_emit"), CAMERAS);
        for (int c = 0; c < CAMERAS; ++c) assert_true(is_in_the_last_image(scratch_of(c)));
    }
}

static void the_callers_scratch_is_used(void **unused) {
    static _Alignas(256) unsigned char memory[PLANE * sizeof *image];
    view scratch;
    (void)unused;
    open_large(0, 1000);
    bytes(&scratch, memory, sizeof memory);
    buffers.scratch = &scratch.tensor;
    expect_ok(run_blend());
    assert_false(is_in_the_last_image(scratch_of(0)));
}

/* Cases where the image is too small, or is written while the scratch is in use. */
static void an_image_that_is_not_the_last_is_left_alone(void **unused) {
    (void)unused;
    open_large(0, 1000);
    VIEW(&touched, CAMERAS, GAUSSIANS);
    view_dtype(&touched, kDLInt, 32);
    view_device(&touched, kDLCUDA, 0);
    touched.tensor.data = view_memory;
    outputs.touched = &touched.tensor;
    expect_ok(run_blend());
    assert_false(is_in_the_last_image(scratch_of(0)));
    outputs.touched = NULL;

    open_large(0, 1000);
    bytes(&lists, lists_memory, (int64_t)info.intersections_min_bytes);
    assert_true(info.intersections_min_bytes < info.intersections_bytes);
    expect_ok(run_blend());
    assert_false(is_in_the_last_image(scratch_of(0)));
    bytes(&lists, lists_memory, LIST_BYTES);

    open_large(0, 50000);
    const size_t needed = info.forward_scratch_bytes;
    args.height = 64;
    color.shape[2] = 64;
    info = (gsc_raster_info){.struct_size = sizeof info, .intersections = 50000};
    expect_ok(gsc_raster_sizes(context, &args, &info));
    assert_true(needed > 0 && info.forward_scratch_bytes > PLANE / 4 * sizeof *image);
    mock->launch_count = 0;
    expect_ok(run_blend());
    assert_false(is_in_the_last_image(scratch_of(0)));
}

/* A forward call that allocates all its memory. */
static void forward_alone(void **unused) {
    (void)unused;
    open_large(0, 1000);
    expect_ok(gsc_rasterize(context, &args, &outputs, NULL, NULL));
    mock->launch_count = 0;
    expect_ok(gsc_rasterize(context, &args, &outputs, NULL, NULL));
    assert_true(is_in_the_last_image(scratch_of(0)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(the_image_is_scratch_until_it_is_written),
        TEST(the_callers_scratch_is_used),
        TEST(an_image_that_is_not_the_last_is_left_alone),
        TEST(forward_alone),
    };
    (void)cpu;
    (void)out;
    mock = mock_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
