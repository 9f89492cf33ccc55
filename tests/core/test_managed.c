/* Contexts on a framework's memory, and saved states that become tensors of the framework. */

#include "mock_backend.h"

#include "mock_framework.h"

static int open_framework(void **state) {
    memset(&framework, 0, sizeof framework);
    framework.fill = 0xab;
    reset(state);
    gsc__managed_open(&context.managed, framework_allocate);
    context.allocator = (gsc_allocator){sizeof context.allocator, &context.managed,
                                        gsc__managed_alloc, gsc__managed_free};
    return 0;
}

static int close_framework(void **state) {
    (void)state;
    assert_int_equal(framework.tensors, 0);
    gsc__managed_close(&context.managed);
    return 0;
}

/* ------------------------------------------------------------------- contexts */

static gsc_context *create(gsc_allocate_fn *allocate) {
    gsc_context_desc desc;
    gsc_context *created = NULL;
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    expect_ok(gsc_context_create_managed(&desc, allocate, &created));
    return created;
}

static void memory_is_the_frameworks(void **state) {
    enum { BLOCKS = 50 };
    void *blocks[BLOCKS];
    gsc_context *created = create(framework_allocate);
    const gsc__call call = {.function = "knn", .context = created};
    (void)state;
    for (int i = 0; i < BLOCKS; ++i) {
        const size_t bytes = 100 + (size_t)i;
        expect_ok(gsc__context_alloc(&call, "a block", bytes, &blocks[i]));
        memset(blocks[i], i, bytes);
        assert_int_equal(framework.tensors, i + 1);
        assert_int_equal(framework.device.device_type, kDLCPU);
    }
    for (int i = 0; i < BLOCKS; ++i) { /* in another order */
        const int which = i * 7 % BLOCKS;
        assert_int_equal(*(unsigned char *)blocks[which], which);
        gsc__context_release(created, blocks[which], 100 + (size_t)which, NULL);
        assert_int_equal(framework.tensors, BLOCKS - 1 - i);
    }
    gsc_context_free(created);
}

static void there_is_one_source_of_memory(void **state) {
    gsc_context_desc desc;
    gsc_context *created = &context;
    gsc_allocator allocator = {sizeof allocator, &heap, count_alloc, count_free};
    (void)state;
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    desc.allocator = &allocator;
    expect_failure(gsc_context_create_managed(&desc, framework_allocate, &created),
                   GSC_ERROR_INVALID_ARGUMENT,
                   "context_create_managed: allocator and allocate are set, expected one of them");
    assert_null(created);
}

static void without_a_framework_memory_is_the_librarys(void **state) {
    gsc_context *created = create(NULL);
    void *block;
    (void)state;
    const gsc__call call = {.function = "knn", .context = created};
    expect_ok(gsc__context_alloc(&call, "a block", 100, &block));
    assert_int_equal(framework.tensors, 0);
    gsc__context_release(created, block, 100, NULL);
    gsc_context_free(created);
}

static void without_memory_nothing_is_kept(void **state) {
    const gsc__call call = {.function = "knn", .context = &context};
    void *block;
    (void)state;
    framework.fail_from = 1;
    expect_failure(gsc__context_alloc(&call, "tree", 100, &block), GSC_ERROR_OUT_OF_MEMORY,
                   "knn: tree: out of memory, 100 bytes were wanted");
    assert_int_equal(framework.errors, 1);
    assert_null(gsc__context_try_alloc(&context, SIZE_MAX, NULL));
    assert_int_equal(framework.errors, 1);
    framework.fail_from = 0;
    framework.misalign = 64;
    assert_int_equal(gsc__context_alloc(&call, "tree", 100, &block), GSC_ERROR_LAYOUT);
    assert_int_equal(framework.tensors, 0);
}

/* --------------------------------------------------------------- saved states */

static DLManagedTensorVersioned *tensors[2];
static gsc_raster_info info;

static void take(gsc_raster_saved *saved) {
    info = (gsc_raster_info){.struct_size = sizeof info};
    expect_ok(gsc_raster_saved_take(saved, tensors, &info));
}

static void delete_tensors(void) {
    for (int i = 0; i < 2; ++i)
        if (tensors[i]) tensors[i]->deleter(tensors[i]);
}

static void a_saved_state_becomes_tensors(void **state) {
    gsc_raster_saved *saved = NULL;
    (void)state;
    expect_ok(gsc_rasterize(&context, &args, &outputs, &saved, NULL));
    assert_int_equal(framework.tensors, 2);
    const gsc__raster_buffers used = mock.buffers;
    take(saved);
    assert_int_equal(framework.tensors, 2);
    assert_ptr_equal(framework_data(tensors[0]), used.state);
    assert_ptr_equal(framework_data(tensors[1]), used.intersections);
    assert_int_equal(tensors[0]->dl_tensor.shape[0], STATE_BYTES);
    assert_int_equal(tensors[1]->dl_tensor.shape[0], FRAME_BYTES);
    assert_int_equal(info.intersections, INTERSECTIONS);
    assert_int_equal(info.state_bytes, STATE_BYTES);
    assert_int_equal(context.managed.count, 0);
    delete_tensors();
}

static gsc_raster_saved *rasterize_expected(int64_t intersections) {
    gsc_raster_saved *saved = NULL;
    expect_frame(intersections);
    expect_ok(gsc_rasterize(&context, &args, &outputs, &saved, NULL));
    return saved;
}

static void one_tensor_holds_what_was_expected(void **state) {
    const int64_t begin = 1024; /* the first multiple of 256 behind STATE_BYTES */
    (void)state;
    take(rasterize_expected(INTERSECTIONS));
    assert_string_equal(mock.calls, "sizes sizes project_blend sizes ");
    assert_ptr_equal(framework_data(tensors[0]), mock.buffers.state);
    assert_ptr_equal(framework_data(tensors[0]) + begin, mock.buffers.intersections);
    assert_int_equal(tensors[0]->dl_tensor.shape[0], begin + FRAME_BYTES);
    assert_null(tensors[1]);
    assert_int_equal(framework.tensors, 1);
    delete_tensors();
}

static void what_was_not_expected_has_one_of_its_own(void **state) {
    (void)state;
    take(rasterize_expected(INTERSECTIONS + 1));
    assert_string_equal(mock.calls, "sizes sizes project_blend blend ");
    assert_ptr_equal(framework_data(tensors[0]), mock.buffers.state);
    assert_ptr_equal(framework_data(tensors[1]), mock.buffers.intersections);
    assert_int_equal(tensors[1]->dl_tensor.shape[0], FRAME_BYTES);
    assert_int_equal(framework.tensors, 2);
    delete_tensors();
}

/* Each allocation may be the one that fails. */
static void a_failed_forward_keeps_nothing(void **state) {
    (void)state;
    for (int i = 1; i <= 4; ++i) {
        gsc_raster_saved *saved = (gsc_raster_saved *)&context;
        framework.made = 0;
        framework.fail_from = i;
        assert_int_equal(gsc_rasterize(&context, &args, &outputs, &saved, NULL),
                         GSC_ERROR_OUT_OF_MEMORY);
        assert_null(saved);
        assert_int_equal(framework.tensors, 0);
        assert_int_equal(context.managed.count, 0);
    }
}

static void a_saved_state_that_is_not_taken_is_freed(void **state) {
    gsc_raster_saved *saved = rasterize_expected(INTERSECTIONS);
    (void)state;
    expect_failure(gsc_raster_saved_take(NULL, tensors, &info), GSC_ERROR_INVALID_ARGUMENT,
                   "raster_saved_take: saved is NULL");
    expect_failure(gsc_raster_saved_take(saved, NULL, &info), GSC_ERROR_INVALID_ARGUMENT,
                   "raster_saved_take: tensors is NULL");
    expect_failure(gsc_raster_saved_take(saved, tensors, NULL), GSC_ERROR_INVALID_ARGUMENT,
                   "raster_saved_take: info is NULL");
    assert_int_equal(framework.tensors, 1);
    gsc_raster_saved_free(saved, NULL);
}

static void memory_of_no_framework_stays(void **state) {
    gsc_raster_saved *saved = NULL;
    reset(state);
    expect_ok(gsc_rasterize(&context, &args, &outputs, &saved, NULL));
    info = (gsc_raster_info){.struct_size = sizeof info};
    expect_failure(gsc_raster_saved_take(saved, tensors, &info), GSC_ERROR_UNSUPPORTED,
                   "raster_saved_take: the context's memory is not a framework's");
    expect_ok(gsc_rasterize_backward(&context, &args, saved, &grads, NULL));
    gsc_raster_saved_free(saved, NULL);
    assert_int_equal(heap.blocks, 0);
    gsc__managed_open(&context.managed, NULL);
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_framework, close_framework)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(memory_is_the_frameworks),
        TEST(there_is_one_source_of_memory),
        TEST(without_a_framework_memory_is_the_librarys),
        TEST(without_memory_nothing_is_kept),
        TEST(a_saved_state_becomes_tensors),
        TEST(one_tensor_holds_what_was_expected),
        TEST(what_was_not_expected_has_one_of_its_own),
        TEST(a_failed_forward_keeps_nothing),
        TEST(a_saved_state_that_is_not_taken_is_freed),
        TEST(memory_of_no_framework_stays),
    };
    (void)known_info;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
