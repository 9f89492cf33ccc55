#define _DEFAULT_SOURCE /* unsetenv */
/* The launches that make and order the tile lists: enough blocks, zeroed words, buffers. */
#include "context_fixture.h"

#include "gpu/raster.h"

enum { GUARD = 4096, PER_BLOCK = GSC__FIND_BLOCK * GSC__FIND_KEYS };

typedef struct frame_size {
    int32_t width, height;
    int64_t gaussians, intersections;
} frame_size;

static const frame_size sizes[] = {
    {1, 1, 1, 1},
    {1920, 1080, 3000000, 100},
    {1920, 1080, 3000000, 3 * PER_BLOCK},
    {3840, 2160, 200000, 3 * PER_BLOCK - 1},
    {16 * GSC__ORDER_BLOCK, 16, 100000000, 70000},
    {16 * GSC__ORDER_BLOCK + 1, 16, 100000000, 70000},
};

static bool all_are(const void *data, unsigned char value, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i)
        if (((const unsigned char *)data)[i] != value) return false;
    return true;
}

/* The previous content does not matter. */
static void expect_zeroed_words(const gsc_k_order_tiles *order, const gsc__gpu_tile_lists *lists) {
    const size_t bytes = (size_t)order->chunks * GSC__ORDER_CLASSES * sizeof(uint32_t);
    assert_true(order->chunks * (int64_t)GSC__ORDER_BLOCK >= order->grid.tiles);
    assert_true((order->chunks - 1) * (int64_t)GSC__ORDER_BLOCK < order->grid.tiles);
    assert_true(all_are(order->progress, 0, sizeof *order->progress));
    assert_true(all_are(order->counts, 0, bytes));
    assert_true((unsigned char *)(order->progress + 1) <= (unsigned char *)order->counts);
    assert_true((unsigned char *)order->counts + bytes <= (unsigned char *)lists->depth_sort);
}

/* Queues the lists of the first band with exactly the scratch that they ask for; returns the last
 * launch, which orders them. */
static mock_launch queue(const frame_size *size, bool halves, gsc_k_order_tiles *order) {
    gsc__gpu_header header;
    gsc__gpu_band band;
    gsc__raster raster = {.width = size->width,
                          .height = size->height,
                          .gaussians = size->gaussians,
                          .cameras = 1,
                          .channels = 3};
    gsc__raster_buffers buffers = {.intersections = &band};
    gsc_raster_info info = {.intersections_min_bytes = 0};
    gsc__gpu_pass pass = {.call = CALL_ON(NULL),
                          .raster = &raster,
                          .buffers = &buffers,
                          .info = &info,
                          .multiprocessors = gsc__gpu_of(context)->device.multiprocessors,
                          .frame = {.header = &header, .band = &band}};
    gsc__gpu_layout_plan(&raster, 1000, &pass.layout);
    const size_t records = pass.layout.lists;
    info.intersections_bytes = records + (size_t)size->intersections * sizeof(uint32_t);
    buffers.intersections_bytes =
        records + (size_t)size->intersections / (halves ? 2 : 1) * sizeof(uint32_t);
    expect_ok(gsc__gpu_lists_begin(&pass));
    const size_t bytes = gsc__gpu_lists_scratch_bytes(&pass.layout, pass.lists.capacity);
    unsigned char *scratch = gsc__aligned_alloc(bytes + GUARD, 256);
    assert_non_null(scratch);
    memset(scratch, 0x5a, bytes + GUARD);
    gsc__gpu_lists_work_space(&pass, scratch);
    mock->launch_count = 0;
    expect_ok(gsc__gpu_lists_fill(&pass, 0));
    const mock_launch last = mock->launches[mock->launch_count - 1];
    memcpy(order, last.args, sizeof *order); /* gsc_k_find_tiles begins with it */
    expect_zeroed_words(order, &pass.lists);
    assert_true(all_are(scratch + bytes, 0x5a, GUARD));
    gsc__aligned_free(scratch);
    return last;
}

/* A block for each chunk of keys, and two for each chunk of lists. */
static void tiles_that_are_found(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        gsc_k_order_tiles order;
        const mock_launch last = queue(&sizes[i], false, &order);
        assert_string_equal(last.kernel, "gsc_find_tiles");
        assert_int_equal(last.args_bytes, sizeof(gsc_k_find_tiles));
        assert_int_equal(last.block[0], GSC__FIND_BLOCK);
        assert_int_equal(last.grid[0], sizes[i].intersections / PER_BLOCK + 1 + 2 * order.chunks);
    }
}

static void tiles_that_are_known(void **state) {
    (void)state;
    for (size_t i = 1; i < sizeof sizes / sizeof sizes[0]; ++i) {
        gsc_k_order_tiles order;
        const mock_launch last = queue(&sizes[i], true, &order);
        assert_string_equal(last.kernel, "gsc_order_tiles");
        assert_int_equal(last.args_bytes, sizeof order);
        assert_int_equal(last.block[0], GSC__ORDER_BLOCK);
        assert_int_equal(last.grid[0], 2 * order.chunks);
    }
}

/* For any buffer and info: lists stay within the buffer, and kept lists belong to one camera. */
static void lists_are_inside_the_buffer(void **state) {
    static const uintptr_t base = 1 << 20;
    static const int64_t sizes_of[] = {
        0, 1, 63, 64, 65, 1000, 4096, INT64_C(1) << 31, (INT64_C(1) << 31) + 64, INT64_C(1) << 40};
    enum { SIZES = sizeof sizes_of / sizeof sizes_of[0], CAMERAS_MOST = 5 };
    int slots = 0;
    (void)state;
    for (int i = 0; i < 2 * SIZES * SIZES * CAMERAS_MOST; ++i) {
        const int cameras = i % CAMERAS_MOST + 1, rest = i / CAMERAS_MOST;
        const int64_t given = sizes_of[rest % SIZES], frame = sizes_of[rest / SIZES % SIZES];
        const gsc__raster raster = {.width = 640,
                                    .height = 480,
                                    .channels = 3,
                                    .gaussians = 1000,
                                    .cameras = cameras,
                                    .flags = i % 2 ? GSC_RASTER_FORWARD_ONLY : 0};
        gsc__gpu_layout layout;
        gsc__gpu_layout_plan(&raster, 10, &layout);
        const gsc_raster_info info = {.intersections_bytes = layout.lists + 4 * (size_t)frame};
        const gsc__raster_buffers buffers = {
            .intersections = (void *)base, .intersections_bytes = layout.lists + 4 * (size_t)given};
        gsc__gpu_pass pass = {.call = CALL_ON(NULL),
                              .raster = &raster,
                              .buffers = &buffers,
                              .info = &info,
                              .layout = layout};
        const gsc__gpu_tile_lists *lists = &pass.lists;
        uintptr_t next = layout.lists;
        for (; pass.camera < cameras; ++pass.camera) {
            if (gsc__gpu_lists_begin(&pass)) break;
            const uintptr_t begin = (uintptr_t)lists->values - base,
                            bytes = 4 * (uintptr_t)lists->capacity;
            assert_true(begin >= layout.lists && begin % 256 == 0);
            assert_true(bytes <= buffers.intersections_bytes - begin);
            if (cameras == 1 || !lists->stay) continue;
            assert_true(begin >= next && lists->rounds == 1 && lists->capacity > 0);
            next = begin + bytes;
            slots += pass.camera > 0;
        }
    }
    assert_true(slots > 0);
}

/* Each thread has a tile, and the threads fill whole rows of classes. */
static void blocks_hold_the_classes(void **state) {
    (void)state;
    assert_int_equal(GSC__FIND_BLOCK, GSC__ORDER_BLOCK);
    assert_int_equal(GSC__ORDER_BLOCK % GSC__ORDER_CLASSES, 0);
    assert_int_equal(GSC__FIND_KEYS * sizeof(uint16_t) % 16, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tiles_that_are_found, enter_context, leave_context),
        cmocka_unit_test_setup_teardown(tiles_that_are_known, enter_context, leave_context),
        cmocka_unit_test(lists_are_inside_the_buffer),
        cmocka_unit_test(blocks_hold_the_classes),
    };
    mock = mock_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
