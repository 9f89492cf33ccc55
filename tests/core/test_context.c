#define _DEFAULT_SOURCE /* setenv */
/* Creating contexts: versions, devices, threads, allocator, log. */

#include "environment.h"
#include "views.h"

#include "cpu/cpu.h"
#include "os/system.h"

#include <stdlib.h>

static gsc_context_desc desc;
static gsc_context *context;

static int reset(void **state) {
    (void)state;
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    context = NULL;
    return 0;
}

static void create(void) {
    expect_ok(gsc_context_create(&desc, &context));
    assert_non_null(context);
}

/* Fails and leaves no context. */
static void expect(gsc_status status, const char *message) {
    context = (gsc_context *)&desc;
    expect_failure(gsc_context_create(&desc, &context), status, message);
    assert_null(context);
}

static void all_processors_by_default(void **state) {
    (void)state;
    create();
    assert_int_equal(context->cpu_threads, gsc__cpu_count());
    assert_int_equal(gsc__pool_threads(gsc__cpu_pool(context)), gsc__cpu_count());
    assert_int_equal(context->log_level, GSC_LOG_WARNING);
    gsc_context_free(context);
    gsc_context_free(NULL);
}

static void as_many_threads_as_wanted(void **state) {
    (void)state;
    desc.cpu_threads = 3;
    create();
    assert_int_equal(gsc__pool_threads(gsc__cpu_pool(context)), 3);
    gsc_context_free(context);
    desc.cpu_threads = -1;
    expect(GSC_ERROR_INVALID_ARGUMENT, "context_create: cpu_threads is -1, expected 0 to 1024");
    desc.cpu_threads = 1025;
    expect(GSC_ERROR_INVALID_ARGUMENT, "context_create: cpu_threads is 1025, expected 0 to 1024");
}

static void versions(void **state) {
    (void)state;
    desc.abi_version = GSC_ABI_VERSION + 1; /* a later minor */
    create();
    gsc_context_free(context);
    static const uint32_t others[] = {0, 2u << 16};
    for (int i = 0; i < 2; ++i) {
        char message[96];
        snprintf(message, sizeof message,
                 "context_create: abi_version is 0x%x, expected 0x%x (major 1)", others[i],
                 GSC_ABI_VERSION);
        desc.abi_version = others[i];
        expect(GSC_ERROR_ABI, message);
    }
    desc.abi_version = GSC_ABI_VERSION;
    desc.struct_size = 16;
    assert_int_equal(gsc_context_create(&desc, &context), GSC_ERROR_ABI);
    expect_failure(gsc_context_create(NULL, &context), GSC_ERROR_INVALID_ARGUMENT,
                   "context_create: desc is NULL");
    expect_failure(gsc_context_create(&desc, NULL), GSC_ERROR_INVALID_ARGUMENT,
                   "context_create: context is NULL");
}

static void devices_without_code(void **state) {
    static const struct {
        int32_t type, id;
        gsc_status status;
        const char *message;
    } cases[] = {
        {kDLCPU, 1, GSC_ERROR_NO_DEVICE, "context_create: device is cpu:1, expected cpu"},
        {kDLROCM, 0, GSC_ERROR_UNSUPPORTED,
         "context_create: device is rocm:0, expected cpu or cuda"},
        {0, 0, GSC_ERROR_UNSUPPORTED,
         "context_create: device is device type 0:0, expected cpu or cuda"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        desc.device.device_type = (DLDeviceType)cases[i].type;
        desc.device.device_id = cases[i].id;
        expect(cases[i].status, cases[i].message);
    }
}

static void cuda_without_a_device(void **state) {
    int32_t count = -1;
    (void)state;
    expect_ok(gsc_device_count(kDLCUDA, &count));
    if (count > 0) skip();
    desc.device.device_type = kDLCUDA;
    context = (gsc_context *)&desc;
    gsc_status status = gsc_context_create(&desc, &context);
    assert_true(status == GSC_ERROR_UNSUPPORTED || status == GSC_ERROR_NO_DRIVER ||
                status == GSC_ERROR_NO_DEVICE);
    assert_null(context);
    assert_ptr_equal(strstr(gsc_last_error(), "context_create: "), gsc_last_error());
}

static void flags_and_levels(void **state) {
    (void)state;
    desc.flags = GSC_CONTEXT_SYNC_CHECK;
    desc.log_level = GSC_LOG_DEBUG;
    create();
    assert_int_equal(context->flags, GSC_CONTEXT_SYNC_CHECK);
    assert_int_equal(context->log_level, GSC_LOG_DEBUG);
    gsc_context_free(context);
    desc.flags = 2;
    expect(GSC_ERROR_INVALID_ARGUMENT, "context_create: flags is 0x2, expected bits of 0x1 only");
    desc.flags = 0;
    desc.log_level = 5;
    expect(GSC_ERROR_INVALID_ARGUMENT, "context_create: log_level is 5, expected 0 to 4");
}

/* -------------------------------------------------------------------- memory */

typedef struct heap {
    int blocks;
    size_t bytes;
    int refuse;
} heap;

static void *heap_alloc(void *user, size_t bytes, size_t alignment, DLDevice device, void *stream) {
    heap *h = user;
    (void)device;
    (void)stream;
    if (h->refuse) return NULL;
    ++h->blocks;
    h->bytes += bytes;
    return gsc__aligned_alloc(bytes, alignment);
}

static void heap_free(void *user, void *data, size_t bytes, DLDevice device, void *stream) {
    heap *h = user;
    (void)device;
    (void)stream;
    --h->blocks;
    h->bytes -= bytes;
    gsc__aligned_free(data);
}

static gsc__call call_on(gsc_context *on) {
    return (gsc__call){.function = "knn", .context = on};
}

static void own_memory_is_aligned(void **state) {
    (void)state;
    void *data = &data;
    create();
    const gsc__call call = call_on(context);
    expect_ok(gsc__context_alloc(&call, "nothing", 0, &data));
    assert_null(data);
    expect_ok(gsc__context_alloc(&call, "something", 1000, &data));
    assert_int_equal((uintptr_t)data % 256, 0);
    memset(data, 1, 1000);
    gsc__context_release(context, data, 1000, NULL);
    gsc__context_release(context, NULL, 0, NULL);
    expect_failure(gsc__context_alloc(&call, "tree", SIZE_MAX / 2, &data), GSC_ERROR_OUT_OF_MEMORY,
                   "knn: tree: out of memory, 9223372036854775807 bytes were wanted");
    assert_null(data);
    gsc_context_free(context);
}

static void the_callers_allocator_is_used(void **state) {
    (void)state;
    heap h = {0};
    gsc_allocator allocator = {sizeof allocator, &h, heap_alloc, heap_free};
    void *data;
    desc.allocator = &allocator;
    create();
    const gsc__call call = call_on(context);
    memset(&allocator, 0, sizeof allocator); /* it was copied */
    expect_ok(gsc__context_alloc(&call, "something", 1000, &data));
    assert_int_equal(h.blocks, 1);
    assert_int_equal(h.bytes, 1000);
    gsc__context_release(context, data, 1000, NULL);
    assert_int_equal(h.blocks, 0);
    assert_int_equal(h.bytes, 0);
    h.refuse = 1;
    expect_failure(gsc__context_alloc(&call, "x", 5, &data), GSC_ERROR_OUT_OF_MEMORY,
                   "knn: x: out of memory, 5 bytes were wanted");
    gsc_context_free(context);
}

static void half_an_allocator_is_refused(void **state) {
    (void)state;
    gsc_allocator allocator = {sizeof allocator, NULL, heap_alloc, NULL};
    desc.allocator = &allocator;
    expect(GSC_ERROR_INVALID_ARGUMENT,
           "context_create: allocator has alloc but no free, expected both or neither");
    allocator = (gsc_allocator){sizeof allocator, NULL, NULL, heap_free};
    expect(GSC_ERROR_INVALID_ARGUMENT,
           "context_create: allocator has free but no alloc, expected both or neither");
    allocator.struct_size = 0;
    assert_int_equal(gsc_context_create(&desc, &context), GSC_ERROR_ABI);
    allocator = (gsc_allocator){sizeof allocator, NULL, NULL, NULL};
    create();
    gsc_context_free(context);
}

/* ----------------------------------------------------------------------- log */

typedef struct logbook {
    int count;
    int32_t level;
    char text[600];
} logbook;

static void write_log(void *user, int32_t level, const char *message) {
    logbook *log = user;
    ++log->count;
    log->level = level;
    snprintf(log->text, sizeof log->text, "%s", message);
}

static void log_has_what_was_asked_for(void **state) {
    (void)state;
    logbook log = {0};
    desc.log = write_log;
    desc.log_user = &log;
    desc.cpu_threads = 2;
    create();
    assert_int_equal(log.count, 0); /* info is more than warnings */
    gsc__log(context, GSC_LOG_WARNING, "%d of %s", 3, "four");
    assert_int_equal(log.count, 1);
    assert_int_equal(log.level, GSC_LOG_WARNING);
    assert_string_equal(log.text, "3 of four");
    gsc__log(context, GSC_LOG_INFO, "no");
    assert_int_equal(log.count, 1);
    gsc_context_free(context);

    desc.log_level = GSC_LOG_INFO;
    create();
    assert_int_equal(log.count, 2);
    assert_non_null(strstr(log.text, "2 threads"));
    assert_non_null(strstr(log.text, context->backend->name));
    gsc_context_free(context);
}

/* -------------------------------------------------------------------- limits */

static void limits(void **state) {
    (void)state;
    create();
    struct {
        gsc_limits known;
        int64_t later;
    } newer;
    memset(&newer, 0xab, sizeof newer); /* a result: only struct_size is read */
    newer.known.struct_size = sizeof newer;
    expect_ok(gsc_context_limits(context, &newer.known));
    assert_int_equal(newer.known.struct_size, sizeof newer);
    assert_int_equal(newer.known.max_gaussians, 2147418112);
    assert_int_equal(newer.known.max_pixels, 2147483647);
    assert_int_equal(newer.known.max_cameras, 65535);
    assert_int_equal(newer.known.max_channels, 512);
    assert_int_equal(newer.known.max_sh_degree, 4);
    assert_int_equal(newer.known.max_knn_k, 256);
    assert_int_equal(newer.known.max_side, 1048560);
    assert_int_equal(newer.later, 0);
    newer.known.struct_size = 8;
    assert_int_equal(gsc_context_limits(context, &newer.known), GSC_ERROR_ABI);
    expect_failure(gsc_context_limits(context, NULL), GSC_ERROR_INVALID_ARGUMENT,
                   "context_limits: limits is NULL");
    expect_failure(gsc_context_limits(NULL, &newer.known), GSC_ERROR_INVALID_ARGUMENT,
                   "context_limits: context is NULL");
    gsc_context_free(context);
}

/* ------------------------------------------------------------ instruction sets */

static int count_isas(void) {
    int count = 0;
    while (gsc__cpu_isa_name(count)) ++count;
    return count;
}

static void environment_narrows_the_instruction_set(void **state) {
    (void)state;
    unsetenv("GSC_CPU_ISA");
    const gsc__backend *widest = gsc__cpu_backend_choose();
    bool reached = false;
    for (int i = 0; i < count_isas(); ++i) {
        const char *name = gsc__cpu_isa_name(i);
        setenv("GSC_CPU_ISA", name, 1);
        const gsc__backend *chosen = gsc__cpu_backend_choose();
        reached = reached || strcmp(name, widest->name) == 0;
        if (!reached) assert_string_equal(chosen->name, name);
        if (strcmp(name, widest->name) == 0) assert_ptr_equal(chosen, widest);
    }
    assert_true(reached);
    setenv("GSC_CPU_ISA", "no such set", 1);
    assert_ptr_equal(gsc__cpu_backend_choose(), widest);
    unsetenv("GSC_CPU_ISA");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup(name, reset)
    const struct CMUnitTest tests[] = {
        TEST(all_processors_by_default),
        TEST(as_many_threads_as_wanted),
        TEST(versions),
        TEST(devices_without_code),
        TEST(cuda_without_a_device),
        TEST(flags_and_levels),
        TEST(own_memory_is_aligned),
        TEST(the_callers_allocator_is_used),
        TEST(half_an_allocator_is_refused),
        TEST(log_has_what_was_asked_for),
        TEST(limits),
        TEST(environment_narrows_the_instruction_set),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
