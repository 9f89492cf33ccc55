#define _DEFAULT_SOURCE /* setenv */
/* Opening a CUDA driver, its errors, and contexts on it; on the mock driver. */

#include "mock_device.h"

#include "core/backend.h"

/* A library of the system that is not a driver. */
#if defined(_WIN32)
#define NO_DRIVER "kernel32.dll"
#else
#define NO_DRIVER "libm.so.6"
#endif

static mock_driver_state *mock;
static gsc__driver driver;
static gsc__driver_failure failure;

static int reset(void **state) {
    (void)state;
    mock_reset(mock);
    return 0;
}

static int nothing_left(void **state) {
    (void)state;
    assert_int_equal(mock->retained[0], 0);
    assert_int_equal(mock->retained[1], 0);
    assert_int_equal(mock->libraries, 0);
    assert_int_equal(mock->pinned, 0);
    assert_int_equal(mock->blocks + mock->async_blocks + mock->pools, 0);
    return 0;
}

static void script(const char *failures) {
    setenv("MOCK_DRIVER_FAIL", failures, 1);
}

/* ------------------------------------------------------------------------ open */

static void expect_no_driver(const char *path, gsc_status status, int code, const char *text) {
    assert_int_equal(gsc__driver_open(path, &driver, &failure), status);
    assert_int_equal(failure.status, status);
    assert_int_equal(failure.code, code);
    if (text[0] != '*') {
        assert_string_equal(failure.text, text);
    } else if (!strstr(failure.text, text + 1)) {
        fail_msg("\"%s\" without \"%s\"", failure.text, text + 1);
    }
    assert_null(driver.library);
}

static const char *mock_path(void) {
    return getenv("GSC_CUDA_LIBRARY");
}

static void a_driver(void **state) {
    (void)state;
    assert_int_equal(gsc__driver_open(mock_path(), &driver, &failure), GSC_OK);
    assert_int_equal(driver.version, 12090);
    gsc__library_close(driver.library);
}

static void no_library(void **state) {
    (void)state;
    expect_no_driver("/nowhere/libcuda.so.1", GSC_ERROR_NO_DRIVER, 0,
                     "*no CUDA driver: /nowhere/libcuda.so.1: ");
}

static void a_library_that_is_none(void **state) {
    (void)state;
    expect_no_driver(NO_DRIVER, GSC_ERROR_NO_DRIVER, 0,
                     NO_DRIVER
                     " has no cuInit, expected a CUDA driver of at least CUDA 12.0, which "
                     "is driver 525.60");
}

static void a_stub(void **state) {
    (void)state;
    script("cuInit=34");
    expect_no_driver(mock_path(), GSC_ERROR_NO_DRIVER, 34, "*is the toolkit's stub library");
}

static void a_driver_that_does_not_fit_the_kernel(void **state) {
    (void)state;
    script("cuInit=803");
    expect_no_driver(mock_path(), GSC_ERROR_NO_DRIVER, 803,
                     "the CUDA driver does not start: unknown error (803): no description");
    script("cuInit=999");
    expect_no_driver(mock_path(), GSC_ERROR_CUDA, 999,
                     "the CUDA driver does not start: unknown error (999): no description");
    script("cuDeviceGetCount=700");
    expect_no_driver(mock_path(), GSC_ERROR_CUDA, 700,
                     "the CUDA driver does not start: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal "
                     "memory access");
}

static void too_old(void **state) {
    (void)state;
    setenv("MOCK_DRIVER_VERSION", "11080", 1);
    expect_no_driver(mock_path(), GSC_ERROR_NO_DRIVER, 0,
                     "the CUDA driver is for CUDA 11.8, expected at least CUDA 12.0, which is "
                     "driver 525.60");
    setenv("MOCK_DRIVER_VERSION", "12000", 1);
    assert_int_equal(gsc__driver_open(mock_path(), &driver, &failure), GSC_OK);
    gsc__library_close(driver.library);
    expect_no_driver(getenv("MOCK_DRIVER_INCOMPLETE"), GSC_ERROR_NO_DRIVER, 0,
                     "*has no cuLibraryLoadData, expected a CUDA driver of at least");
}

static void no_device(void **state) {
    (void)state;
    script("cuInit=100");
    expect_no_driver(mock_path(), GSC_ERROR_NO_DEVICE, 100, "the CUDA driver finds no device");
    mock_reset(mock);
    setenv("MOCK_DRIVER_DEVICES", "0", 1);
    expect_no_driver(mock_path(), GSC_ERROR_NO_DEVICE, 0, "the CUDA driver finds no device");
}

static void errors(void **state) {
    static const struct {
        int code;
        gsc_status status;
    } cases[] = {
        {2, GSC_ERROR_OUT_OF_MEMORY},
        {34, GSC_ERROR_NO_DRIVER},
        {100, GSC_ERROR_NO_DEVICE},
        {101, GSC_ERROR_NO_DEVICE},
        {200, GSC_ERROR_NO_KERNEL_IMAGE},
        {209, GSC_ERROR_NO_KERNEL_IMAGE},
        {218, GSC_ERROR_NO_KERNEL_IMAGE},
        {222, GSC_ERROR_NO_KERNEL_IMAGE},
        {1, GSC_ERROR_CUDA},
        {201, GSC_ERROR_CUDA},
        {700, GSC_ERROR_CUDA},
        {719, GSC_ERROR_CUDA},
    };
    const gsc__driver *ours;
    (void)state;
    expect_ok(gsc__driver_get("test", &ours));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        assert_int_equal(gsc__driver_fail(ours, cases[i].code, "f: %d", 7), cases[i].status);
        assert_int_equal(gsc_last_error_cuda(), cases[i].code);
    }
    expect_failure(gsc__driver_fail(ours, 700, "f: %d", 7), GSC_ERROR_CUDA,
                   "f: 7: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access");
    expect_failure(gsc__driver_fail(ours, 719, "g"), GSC_ERROR_CUDA,
                   "g: unknown error (719): no description");
}

/* -------------------------------------------------------------------- contexts */

static gsc_status create(int32_t device, gsc_context **context) {
    gsc_context_desc desc;
    gsc_context_desc_init(&desc, (DLDevice){kDLCUDA, device});
    return gsc_context_create(&desc, context);
}

static void devices(void **state) {
    gsc_context *context;
    int32_t count = -1;
    (void)state;
    expect_ok(gsc_device_count(kDLCUDA, &count));
    assert_int_equal(count, 2);
    expect_failure(create(2, &context), GSC_ERROR_NO_DEVICE,
                   "context_create: device is cuda:2, expected one of 2 devices");
    expect_failure(create(-1, &context), GSC_ERROR_NO_DEVICE,
                   "context_create: device is cuda:-1, expected one of 2 devices");
    context = mock_context(1, 0);
    assert_int_equal(mock->retained[1], 1);
    assert_int_equal(mock->retained[0], 0);
    assert_string_equal(gsc__gpu_of(context)->device.name, "Mock 1");
    gsc_context_free(context);
}

static int file_count(void) {
    static const char *const files[] = {
#define NAME(file, name, args, block) #file,
        GSC__GPU_KERNELS(NAME)
#undef NAME
    };
    int count = 1;
    for (int i = 1; i < GSC__GPU_KERNEL_COUNT; ++i) count += strcmp(files[i], files[i - 1]) != 0;
    return count;
}

static void every_kernel_is_loaded_at_once(void **state) {
    (void)state;
    gsc_context *context = mock_context(0, 0);
    const gsc__gpu *gpu = gsc__gpu_of(context);
    assert_int_equal(mock->libraries, file_count());
    assert_int_equal(mock->functions, GSC__GPU_KERNEL_COUNT);
    assert_int_equal(mock->attributes, GSC__GPU_KERNEL_COUNT);
    assert_string_equal(gpu->functions[GSC__KERNEL_write], "gsc_write");
    assert_string_equal(gpu->functions[GSC__KERNEL_mark_visible], "gsc_mark_visible");
    gsc_context_free(context);
}

static void the_current_context_stays(void **state) {
    const gsc__driver *ours;
    gsc_context *context;
    void *other = &context, *now;
    (void)state;
    expect_ok(gsc__driver_get("test", &ours));
    gsc_context_free(mock_context(0, 0));
    ours->cuCtxGetCurrent(&now);
    assert_null(now);

    ours->cuCtxPushCurrent(other);
    context = mock_context(0, 0);
    ours->cuCtxGetCurrent(&now);
    assert_ptr_equal(now, other);
    gsc__gpu_scope scope;
    expect_ok(gsc__gpu_enter("test", &gsc__gpu_of(context)->device, &scope));
    ours->cuCtxGetCurrent(&now);
    assert_ptr_equal(now, gsc__gpu_of(context)->device.primary);
    gsc__gpu_leave(&scope);
    ours->cuCtxGetCurrent(&now);
    assert_ptr_equal(now, other);

    const int pushes = mock->pushes + 1;
    ours->cuCtxPushCurrent(gsc__gpu_of(context)->device.primary);
    expect_ok(gsc__gpu_enter("test", &gsc__gpu_of(context)->device, &scope));
    gsc__gpu_leave(&scope);
    assert_int_equal(mock->pushes, pushes);
    ours->cuCtxPopCurrent(&now);
    assert_ptr_equal(now, gsc__gpu_of(context)->device.primary);
    gsc_context_free(context);
    ours->cuCtxPopCurrent(&now);
    assert_ptr_equal(now, other);
}

/* A failure at any point of opening releases everything; the fixture checks. */
static void failures_of_creation(void **state) {
    static const struct {
        const char *script;
        gsc_status status;
        const char *message;
    } cases[] = {
        {"cuDevicePrimaryCtxRetain=2", GSC_ERROR_OUT_OF_MEMORY,
         "context_create: cuDevicePrimaryCtxRetain: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"},
        {"cuCtxPushCurrent_v2=700", GSC_ERROR_CUDA,
         "context_create: the device's context: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal "
         "memory "
         "access"},
        {"cuLibraryLoadData=209", GSC_ERROR_NO_KERNEL_IMAGE, NULL},
        {"cuLibraryGetKernel=700", GSC_ERROR_CUDA,
         "context_create: kernel write: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory "
         "access"},
        {"cuKernelGetFunction=700", GSC_ERROR_CUDA, NULL},
        {"cuFuncGetAttribute=700", GSC_ERROR_CUDA, NULL},
        {"cuMemPoolCreate=2", GSC_ERROR_OUT_OF_MEMORY, NULL},
        {"cuMemPoolSetAttribute=700", GSC_ERROR_CUDA, NULL},
        {"cuMemHostAlloc=2", GSC_ERROR_OUT_OF_MEMORY, NULL},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        gsc_context *context;
        script(cases[i].script);
        assert_int_equal(create(0, &context), cases[i].status);
        assert_null(context);
        if (cases[i].message) assert_string_equal(gsc_last_error(), cases[i].message);
        nothing_left(NULL);
    }
}

static char logged[512];

static void log_to_buffer(void *user, int32_t level, const char *message) {
    (void)user;
    if (level == GSC_LOG_WARNING) snprintf(logged, sizeof logged, "%s", message);
}

static void capabilities(void **state) {
    gsc_context_desc desc;
    gsc_context *context;
    (void)state;
    setenv("MOCK_DRIVER_CAPABILITY", "7.0", 1);
    assert_int_equal(create(0, &context), GSC_ERROR_NO_KERNEL_IMAGE);
    assert_non_null(strstr(gsc_last_error(), "compute capability 7.0, but write.cu was compiled"));

    setenv("MOCK_DRIVER_CAPABILITY", "99.0", 1);
    gsc_context_desc_init(&desc, (DLDevice){kDLCUDA, 0});
    desc.log = log_to_buffer;
    expect_ok(gsc_context_create(&desc, &context));
    assert_string_equal(logged, "context_create: no code for compute capability 99.0, the driver "
                                "compiles compute_90");
    gsc_context_free(context);
}

static void report(void **state) {
    char text[1024];
    size_t size = sizeof text;
    (void)state;
    setenv("MOCK_DRIVER_CAPABILITY", "99.0", 1);
    expect_ok(gsc_device_report_json((DLDevice){kDLCUDA, 1}, text, &size));
    assert_non_null(strstr(text, "\"device\":\"cuda:1\""));
    assert_non_null(strstr(text, "\"name\":\"Mock 1\""));
    assert_non_null(strstr(text, "\"compute_capability\":\"99.0\""));
    assert_non_null(strstr(text, "\"image\":\"compute_90\""));
    assert_non_null(strstr(text, "\"driver_cuda_version\":\"12.9\""));
    assert_non_null(strstr(text, "\"memory_bytes\":8589934592"));
    assert_int_equal(mock->retained[1], 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_driver, reset, nothing_left),
        cmocka_unit_test_setup_teardown(no_library, reset, nothing_left),
        cmocka_unit_test_setup_teardown(a_library_that_is_none, reset, nothing_left),
        cmocka_unit_test_setup_teardown(a_stub, reset, nothing_left),
        cmocka_unit_test_setup_teardown(a_driver_that_does_not_fit_the_kernel, reset, nothing_left),
        cmocka_unit_test_setup_teardown(too_old, reset, nothing_left),
        cmocka_unit_test_setup_teardown(no_device, reset, nothing_left),
        cmocka_unit_test_setup_teardown(errors, reset, nothing_left),
        cmocka_unit_test_setup_teardown(devices, reset, nothing_left),
        cmocka_unit_test_setup_teardown(every_kernel_is_loaded_at_once, reset, nothing_left),
        cmocka_unit_test_setup_teardown(the_current_context_stays, reset, nothing_left),
        cmocka_unit_test_setup_teardown(failures_of_creation, reset, nothing_left),
        cmocka_unit_test_setup_teardown(capabilities, reset, nothing_left),
        cmocka_unit_test_setup_teardown(report, reset, nothing_left),
    };
    mock = mock_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
