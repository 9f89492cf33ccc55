#define _DEFAULT_SOURCE /* setenv */
/* Work on a stream, on the mock driver: launches, fills, copies, memory. */

#include "context_fixture.h"

#include "../../cuda/kernels.h"

static int close_context(void **state) {
    (void)leave_context(state);
    assert_int_equal(mock->retained[0], 0);
    assert_int_equal(mock->libraries, 0);
    assert_int_equal(mock->pinned, 0);
    assert_int_equal(mock->blocks + mock->async_blocks + mock->pools, 0);
    return 0;
}

static gsc_status take(gsc_context *from, size_t bytes, void *stream, void **data) {
    const gsc__call call = {.function = "knn", .context = from, .stream = stream};
    return gsc__context_alloc(&call, "scratch", bytes, data);
}

static void reopen(uint32_t flags) {
    close_context(NULL);
    enter_context_with(flags);
}

static gsc_status launch(uint32_t grid, void *stream) {
    const gsc_k_mark_visible args = {.gaussians = 1234, .visible = (uint8_t *)mock};
    return LAUNCH(mark_visible, CALL_ON(stream), grid, args);
}

static gsc_status read_bytes(void *host, const void *device, size_t bytes, void *stream) {
    return gsc__gpu_read(CALL_ON(stream), host, device, bytes, bytes, 1);
}

/* -------------------------------------------------------------------- launches */

static void a_launch(void **state) {
    (void)state;
    expect_ok(launch(77, NULL));
    const mock_launch *seen = &mock->launches[0];
    gsc_k_mark_visible args;
    assert_int_equal(mock->launch_count, 1);
    assert_string_equal(seen->kernel, "gsc_mark_visible");
    assert_int_equal(seen->grid[0], 77);
    assert_int_equal(seen->grid[1] * seen->grid[2] * seen->block[1] * seen->block[2], 1);
    assert_int_equal(seen->block[0], 256);
    assert_ptr_equal(seen->context, gsc__gpu_of(context)->device.primary);
    assert_int_equal(seen->args_bytes, sizeof args);
    memcpy(&args, seen->args, sizeof args);
    assert_int_equal(args.gaussians, 1234);
    assert_ptr_equal(args.visible, mock);
    assert_int_equal(mock->synchronisations, 0);
}

/* Where the hardware supports it, and not in a graph. */
static void a_launch_may_overlap_the_one_before_it(void **state) {
    static const struct {
        int major;
        const char *capturing;
        bool early;
    } cases[] = {{9, "0", true}, {12, "0", true}, {8, "0", false}, {9, "1", false}};
    (void)state;
    for (int i = 0; i < 4; ++i) {
        gsc__gpu_of(context)->device.major = cases[i].major;
        setenv("MOCK_DRIVER_CAPTURING", cases[i].capturing, 1);
        expect_ok(launch(1, NULL));
        assert_int_equal(mock->launches[i].early, cases[i].early);
    }
}

static void an_empty_grid_is_no_launch(void **state) {
    (void)state;
    expect_ok(launch(0, NULL));
    assert_int_equal(mock->launch_count, 0);
}

static void streams_are_passed_through(void **state) {
    void *const streams[] = {NULL, (void *)1, (void *)2, &context};
    char block[16];
    (void)state;
    for (int i = 0; i < 4; ++i) {
        expect_ok(launch(1, streams[i]));
        assert_ptr_equal(mock->launches[i].stream, streams[i]);
        expect_ok(gsc__gpu_clear(CALL_ON(streams[i]), block, sizeof block));
        assert_ptr_equal(mock->stream, streams[i]);
        expect_ok(read_bytes(block, block + 8, 8, streams[i]));
        assert_ptr_equal(mock->stream, streams[i]);
        void *data;
        expect_ok(take(context, 100, streams[i], &data));
        assert_ptr_equal(mock->stream, streams[i]);
        gsc__context_release(context, data, 100, NULL);
        assert_null(mock->stream);
    }
}

static void a_launch_that_fails(void **state) {
    (void)state;
    setenv("MOCK_DRIVER_FAIL", "cuLaunchKernelEx=2", 1);
    expect_failure(launch(5, NULL), GSC_ERROR_OUT_OF_MEMORY,
                   "test: launch of kernel mark_visible, 5 blocks of 256 threads: "
                   "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory");
    assert_int_equal(gsc_last_error_cuda(), 2);
}

static void checked_launches(void **state) {
    (void)state;
    reopen(GSC_CONTEXT_SYNC_CHECK);
    expect_ok(launch(5, &scope));
    assert_int_equal(mock->synchronisations, 1);
    assert_ptr_equal(mock->stream, &scope);
    setenv("MOCK_DRIVER_FAIL", "cuStreamSynchronize=700", 1);
    expect_failure(launch(5, NULL), GSC_ERROR_CUDA,
                   "test: kernel mark_visible, 5 blocks of 256 threads: "
                   "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access");
    setenv("MOCK_DRIVER_CAPTURING", "1", 1); /* where waiting would be an error */
    expect_ok(launch(5, NULL));
}

/* --------------------------------------------------------------- fills and reads */

static void fills(void **state) {
    char bytes[40];
    (void)state;
    memset(bytes, 1, sizeof bytes);
    expect_ok(gsc__gpu_clear(CALL_ON(NULL), bytes, 39));
    for (int i = 0; i < 39; ++i) assert_int_equal(bytes[i], 0);
    assert_int_equal(bytes[39], 1);
    setenv("MOCK_DRIVER_FAIL", "cuMemsetD8Async=700", 1);
    assert_int_equal(gsc__gpu_clear(CALL_ON(NULL), bytes, 1), GSC_ERROR_CUDA);
    expect_ok(gsc__gpu_clear(CALL_ON(NULL), bytes, 0));
}

static void reads(void **state) {
    enum { MOST = 2 * GSC__STAGING_BYTES };
    char device[MOST], host[MOST + 1];
    (void)state;
    for (int i = 0; i < MOST; ++i) device[i] = (char)(i * 7);
    const size_t sizes[] = {0, 1, 8, GSC__STAGING_BYTES, GSC__STAGING_BYTES + 1, MOST};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
        memset(host, 99, sizeof host);
        expect_ok(read_bytes(host, device, sizes[i], NULL));
        assert_memory_equal(host, device, sizes[i]);
        assert_int_equal(host[sizes[i]], 99);
    }
    assert_int_equal(mock->synchronisations, 5);
}

/* With one wait, with or without a free slot. */
static void reads_rows(void **state) {
    enum { BYTES = 24, STRIDE = 40, MOST = GSC__STAGING_BYTES / BYTES + 1 };
    char device[MOST * STRIDE], host[MOST * BYTES + 1];
    const int counts[] = {0, 1, MOST - 1, MOST};
    (void)state;
    for (int i = 0; i < MOST * STRIDE; ++i) device[i] = (char)(i * 7);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; ++i) {
        memset(host, 99, sizeof host);
        mock->synchronisations = 0;
        expect_ok(gsc__gpu_read(CALL_ON(NULL), host, device, BYTES, STRIDE, counts[i]));
        assert_int_equal(mock->synchronisations, counts[i] > 0);
        for (int k = 0; k < counts[i]; ++k)
            assert_memory_equal(host + k * BYTES, device + k * STRIDE, BYTES);
        assert_int_equal(host[counts[i] * BYTES], 99);
    }
}

/* A slot that a failure kept would be lost; without slots, reads continue. */
static void slots_come_back(void **state) {
    gsc__gpu_staging *staging = &gsc__gpu_of(context)->staging;
    char device[4] = "abc", host[4];
    (void)state;
    setenv("MOCK_DRIVER_FAIL", "cuStreamSynchronize=700", 1);
    assert_int_equal(read_bytes(host, device, 4, NULL), GSC_ERROR_CUDA);
    setenv("MOCK_DRIVER_FAIL", "cuMemcpyDtoHAsync_v2=700", 1);
    assert_int_equal(read_bytes(host, device, 4, NULL), GSC_ERROR_CUDA);
    for (int i = 0; i < GSC__STAGING_SLOTS; ++i) assert_false(staging->taken[i]);
    unsetenv("MOCK_DRIVER_FAIL");
    for (int i = 0; i < GSC__STAGING_SLOTS; ++i) staging->taken[i] = true;
    expect_ok(read_bytes(host, device, 4, NULL));
    assert_string_equal(host, "abc");
}

static void no_slot_is_taken(void) {
    for (int i = 0; i < GSC__STAGING_SLOTS; ++i)
        assert_false(gsc__gpu_of(context)->staging.taken[i]);
}

static gsc__gpu_report awaited;

/* Row by row, the middle one last. */
static void make_report(void) {
    uint64_t *rows = awaited.data;
    if (mock->queries < 2 || mock->queries > 4) return;
    const int row = (const int[]){0, 2, 1}[mock->queries - 2];
    rows[2 * row + 1] = 8 + (uint64_t)row;
    rows[2 * row] = 7;
}

static void a_report_is_waited_for(void **state) {
    uint64_t host[6] = {0};
    (void)state;
    expect_ok(gsc__gpu_report_begin(CALL_ON(&scope), &awaited, 2 * sizeof *host, 3));
    assert_true(gsc__gpu_of(context)->staging.taken[awaited.slot]);
    mock->on_query = make_report;
    assert_true(gsc__gpu_report_end(CALL_ON(&scope), &awaited, host));
    mock->on_query = NULL;
    assert_ptr_equal(mock->stream, &scope);
    for (uint64_t i = 0; i < 3; ++i) {
        assert_int_equal(host[2 * i], 7);
        assert_int_equal(host[2 * i + 1], 8 + i);
    }
    assert_int_equal(mock->synchronisations, 0);
    no_slot_is_taken();
}

/* A stream that ended or failed without a report, or without one of its rows; a report that arrives
 * last counts. */
static void a_report_may_stay_away(void **state) {
    gsc__gpu_staging *staging = &gsc__gpu_of(context)->staging;
    uint64_t host[2] = {5, 5};
    (void)state;
    expect_ok(gsc__gpu_report_begin(CALL_ON(NULL), &awaited, sizeof *host, 2));
    ((uint64_t *)awaited.data)[0] = 7;
    assert_false(gsc__gpu_report_end(CALL_ON(NULL), &awaited, host));
    expect_ok(gsc__gpu_report_begin(CALL_ON(NULL), &awaited, sizeof *host, 2));
    assert_int_equal(((uint64_t *)awaited.data)[0], 0); /* without bytes of an earlier one */
    setenv("MOCK_DRIVER_FAIL", "cuStreamQuery=700", 1);
    assert_false(gsc__gpu_report_end(CALL_ON(NULL), &awaited, host));
    unsetenv("MOCK_DRIVER_FAIL");
    no_slot_is_taken();
    expect_ok(gsc__gpu_report_begin(CALL_ON(NULL), &awaited, GSC__STAGING_BYTES / 2, 3));
    assert_null(awaited.data);
    for (int i = 0; i < GSC__STAGING_SLOTS; ++i) staging->taken[i] = true;
    expect_ok(gsc__gpu_report_begin(CALL_ON(NULL), &awaited, sizeof *host, 1));
    assert_null(awaited.data);
    assert_false(gsc__gpu_report_end(CALL_ON(NULL), &awaited, host));
    assert_int_equal(host[0] + host[1], 10);
}

static void a_captured_stream_is_not_waited_for(void **state) {
    char host[4];
    (void)state;
    setenv("MOCK_DRIVER_CAPTURING", "1", 1);
    assert_int_equal(read_bytes(host, host, 4, NULL), GSC_ERROR_UNSUPPORTED);
    assert_ptr_equal(strstr(gsc_last_error(), "test: this call waits for the stream"),
                     gsc_last_error());
    assert_int_equal(gsc__gpu_report_begin(CALL_ON(NULL), &awaited, 8, 1), GSC_ERROR_UNSUPPORTED);
    assert_int_equal(mock->synchronisations, 0);
    no_slot_is_taken();
}

static void host_values_travel_as_arguments(void **state) {
    enum { COUNT = 2 * GSC__WRITE_FLOATS + 5 };
    static float host[COUNT], device[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; ++i) host[i] = (float)i + 0.5f;
    expect_ok(gsc__gpu_write(CALL_ON(NULL), device, host, 0));
    assert_int_equal(mock->launch_count, 0);
    expect_ok(gsc__gpu_write(CALL_ON(&scope), device, host, COUNT));
    assert_int_equal(mock->launch_count, 3);
    size_t done = 0;
    for (int i = 0; i < 3; ++i) {
        gsc_k_write args;
        assert_string_equal(mock->launches[i].kernel, "gsc_write");
        assert_ptr_equal(mock->launches[i].stream, &scope);
        assert_int_equal(mock->launches[i].args_bytes, sizeof args);
        memcpy(&args, mock->launches[i].args, sizeof args);
        assert_ptr_equal(args.to, device + done);
        assert_memory_equal(args.values, host + done, args.count * sizeof *host);
        done += args.count;
    }
    assert_int_equal(done, COUNT);
    assert_true(sizeof(gsc_k_write) <= 4096); /* the most that a kernel may take */
}

/* ---------------------------------------------------------------------- memory */

static void memory(void **state) {
    void *data;
    (void)state;
    gsc__gpu_leave(&scope); /* allocation happens outside of operations */
    for (int pools = 0; pools < 2; ++pools) {
        setenv("MOCK_DRIVER_POOLS", pools ? "1" : "0", 1);
        gsc_context *other = mock_context(0, 0);
        expect_ok(take(other, 1000, &scope, &data));
        assert_int_equal(mock->async_blocks, pools);
        assert_int_equal(mock->blocks, !pools);
        memset(data, 0, 1000);
        gsc__context_release(other, data, 1000, &scope);
        setenv("MOCK_DRIVER_FAIL", pools ? "cuMemAllocFromPoolAsync=2" : "cuMemAlloc_v2=2", 1);
        expect_failure(take(other, 1000, &scope, &data), GSC_ERROR_OUT_OF_MEMORY,
                       "knn: scratch: out of memory, 1000 bytes were wanted");
        assert_null(data);
        unsetenv("MOCK_DRIVER_FAIL");
        gsc_context_free(other);
    }
}

/* One pool for each context, on its device, which keeps a sixteenth of the device's memory. */
static void pools(void **state) {
    void *data;
    (void)state;
    gsc_context *other = mock_context(1, 0);
    assert_int_equal(mock->pools, 2);
    assert_ptr_not_equal(gsc__gpu_of(context)->pool, gsc__gpu_of(other)->pool);
    for (int device = 0; device < 2; ++device) {
        gsc_context *owner = device ? other : context;
        expect_ok(take(owner, 1000, &scope, &data));
        assert_int_equal(mock->pool.device, device);
        assert_true(mock->pool.kept == (uint64_t)512 << 20);
        gsc__context_release(owner, data, 1000, &scope);
    }
    gsc_context_free(other);
    assert_int_equal(mock->pools, 1);
}

/* --------------------------------------------------------------------- threads */

enum { THREADS = 8 };

/* cmocka's asserts belong to the main thread. */
static void work_on_a_fresh_thread(void *arg) {
    int *succeeded = arg;
    const gsc__driver *driver = gsc__driver_try();
    gsc_context_desc desc;
    gsc_context *own;
    gsc__gpu_scope inside;
    void *data, *now = &data;
    char device[8] = "threads", host[8] = "";
    gsc_context_desc_init(&desc, (DLDevice){kDLCUDA, 1});
    if (!driver || gsc_context_create(&desc, &own) != GSC_OK) return;
    const gsc__call call = {.function = "test", .context = own};
    bool ok = take(own, 64, NULL, &data) == GSC_OK;
    if (ok) gsc__context_release(own, data, 64, NULL);
    ok = ok && gsc__gpu_enter("test", &gsc__gpu_of(own)->device, &inside) == GSC_OK;
    for (int i = 0; ok && i < 20; ++i)
        ok = gsc__gpu_read(&call, host, device, sizeof device, sizeof device, 1) == GSC_OK;
    const gsc_k_write args = {.count = 0};
    ok = ok && LAUNCH(write, &call, 1, args) == GSC_OK;
    if (ok) gsc__gpu_leave(&inside);
    gsc_context_free(own);
    driver->cuCtxGetCurrent(&now);
    *succeeded = ok && strcmp(host, "threads") == 0 && now == NULL;
}

static void fresh_threads(void **state) {
    gsc__thread *threads[THREADS];
    int succeeded[THREADS] = {0};
    (void)state;
    for (int i = 0; i < THREADS; ++i)
        assert_non_null(threads[i] = gsc__thread_start(work_on_a_fresh_thread, &succeeded[i]));
    for (int i = 0; i < THREADS; ++i) gsc__thread_join(threads[i]);
    for (int i = 0; i < THREADS; ++i) assert_true(succeeded[i]);
    assert_int_equal(mock->launch_count, THREADS);
    assert_int_equal(mock->retained[1], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_launch, enter_context, close_context),
        cmocka_unit_test_setup_teardown(a_launch_may_overlap_the_one_before_it, enter_context,
                                        close_context),
        cmocka_unit_test_setup_teardown(an_empty_grid_is_no_launch, enter_context, close_context),
        cmocka_unit_test_setup_teardown(streams_are_passed_through, enter_context, close_context),
        cmocka_unit_test_setup_teardown(a_launch_that_fails, enter_context, close_context),
        cmocka_unit_test_setup_teardown(checked_launches, enter_context, close_context),
        cmocka_unit_test_setup_teardown(fills, enter_context, close_context),
        cmocka_unit_test_setup_teardown(reads, enter_context, close_context),
        cmocka_unit_test_setup_teardown(reads_rows, enter_context, close_context),
        cmocka_unit_test_setup_teardown(slots_come_back, enter_context, close_context),
        cmocka_unit_test_setup_teardown(a_report_is_waited_for, enter_context, close_context),
        cmocka_unit_test_setup_teardown(a_report_may_stay_away, enter_context, close_context),
        cmocka_unit_test_setup_teardown(a_captured_stream_is_not_waited_for, enter_context,
                                        close_context),
        cmocka_unit_test_setup_teardown(host_values_travel_as_arguments, enter_context,
                                        close_context),
        cmocka_unit_test_setup_teardown(memory, enter_context, close_context),
        cmocka_unit_test_setup_teardown(pools, enter_context, close_context),
        cmocka_unit_test_setup_teardown(fresh_threads, enter_context, close_context),
    };
    mock = mock_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
