#include "driver.h"

#include "os/system.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* cuLibraryLoadData and cubins of any 12.x toolkit need this version. */
enum { OLDEST_VERSION = 12000 };
#define OLDEST_TEXT "CUDA 12.0, which is driver 525.60"

#if defined(_WIN32)
#define DEFAULT_LIBRARY "nvcuda.dll"
#else
#define DEFAULT_LIBRARY "libcuda.so.1"
#endif

/* -------------------------------------------------------------------- errors */

static gsc_status status_of(gsc__cu_result result) {
    switch (result) {
    case GSC__CU_OUT_OF_MEMORY: return GSC_ERROR_OUT_OF_MEMORY;
    case GSC__CU_STUB_LIBRARY:
    case GSC__CU_SYSTEM_DRIVER_MISMATCH:
    case GSC__CU_COMPAT_NOT_SUPPORTED: return GSC_ERROR_NO_DRIVER;
    case GSC__CU_NO_DEVICE:
    case GSC__CU_INVALID_DEVICE: return GSC_ERROR_NO_DEVICE;
    case GSC__CU_INVALID_IMAGE:
    case GSC__CU_NO_BINARY_FOR_GPU:
    case GSC__CU_INVALID_PTX:
    case GSC__CU_UNSUPPORTED_PTX_VERSION: return GSC_ERROR_NO_KERNEL_IMAGE;
    default: return GSC_ERROR_CUDA;
    }
}

/* "CUDA_ERROR_NAME (code): the driver's text". */
static void describe(const gsc__driver *driver, gsc__cu_result result,
                     char text[GSC__DRIVER_TEXT_SIZE]) {
    const char *name = NULL, *meaning = NULL;
    driver->cuGetErrorName(result, &name);
    driver->cuGetErrorString(result, &meaning);
    snprintf(text, GSC__DRIVER_TEXT_SIZE, "%s (%d): %s", name ? name : "unknown error", result,
             meaning ? meaning : "no description");
}

gsc_status gsc__driver_fail(const gsc__driver *driver, gsc__cu_result result, const char *format,
                            ...) {
    char what[256], text[GSC__DRIVER_TEXT_SIZE];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    describe(driver, result, text);
    return gsc__fail_cuda(status_of(result), result, "%s: %s", what, text);
}

/* ---------------------------------------------------------------------- open */

GSC__PRINTF(5, 6)
static gsc_status give_up(gsc__driver *driver, gsc__driver_failure *failure, gsc_status status,
                          gsc__cu_result code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(failure->text, sizeof failure->text, format, args);
    va_end(args);
    failure->status = status;
    failure->code = code;
    if (driver->library) gsc__library_close(driver->library);
    memset(driver, 0, sizeof *driver);
    return status;
}

/* The name of the first symbol that is missing, or NULL.  POSIX lets an object pointer hold a
 * function's address; ISO C only lets its bytes be copied. */
static const char *load_symbols(gsc__driver *driver) {
    void *address;
#define LOAD(member, symbol, parameters)                    \
    address = gsc__library_symbol(driver->library, symbol); \
    if (!address) return symbol;                            \
    memcpy(&driver->member, &address, sizeof driver->member);
    GSC__DRIVER_CALLS(LOAD)
#undef LOAD
    return NULL;
}

static gsc_status initialise(gsc__driver *driver, const char *path, gsc__driver_failure *failure) {
    gsc__cu_result result = driver->cuInit(0);
    int count = 0;
    if (result == GSC__CU_STUB_LIBRARY) {
        return give_up(driver, failure, GSC_ERROR_NO_DRIVER, result,
                       "%s is the toolkit's stub library, not a driver", path);
    }
    if (result == GSC__CU_OK) result = driver->cuDeviceGetCount(&count);
    if (result == GSC__CU_NO_DEVICE || (result == GSC__CU_OK && count < 1)) {
        return give_up(driver, failure, GSC_ERROR_NO_DEVICE, result,
                       "the CUDA driver finds no device");
    }
    if (result == GSC__CU_OK) return GSC_OK;
    char text[GSC__DRIVER_TEXT_SIZE];
    describe(driver, result, text);
    const bool missing = status_of(result) == GSC_ERROR_NO_DRIVER;
    return give_up(driver, failure, missing ? GSC_ERROR_NO_DRIVER : GSC_ERROR_CUDA, result,
                   "the CUDA driver does not start: %s", text);
}

/* Checks the version before the symbols, so that the message about an old driver names its version
 * and not the first symbol that it lacks. */
gsc_status gsc__driver_open(const char *path, gsc__driver *driver, gsc__driver_failure *failure) {
    char reason[GSC__DRIVER_TEXT_SIZE / 2] = "";
    memset(driver, 0, sizeof *driver);
    memset(failure, 0, sizeof *failure);
    driver->library = gsc__library_open(path, reason, sizeof reason);
    if (!driver->library) {
        return give_up(driver, failure, GSC_ERROR_NO_DRIVER, 0, "no CUDA driver: %s", reason);
    }
    void *address = gsc__library_symbol(driver->library, "cuDriverGetVersion");
    memcpy(&driver->cuDriverGetVersion, &address, sizeof address);
    int version = 0;
    if (address && driver->cuDriverGetVersion(&version) == GSC__CU_OK && version > 0 &&
        version < OLDEST_VERSION) {
        return give_up(driver, failure, GSC_ERROR_NO_DRIVER, 0,
                       "the CUDA driver is for CUDA %d.%d, expected at least " OLDEST_TEXT,
                       version / 1000, version % 1000 / 10);
    }
    const char *missing = load_symbols(driver);
    if (missing) {
        return give_up(driver, failure, GSC_ERROR_NO_DRIVER, 0,
                       "%s has no %s, expected a CUDA driver of at least " OLDEST_TEXT, path,
                       missing);
    }
    driver->version = version;
    return initialise(driver, path, failure);
}

/* -------------------------------------------------------- the process's driver */

static gsc__once once = GSC__ONCE_INIT;
static gsc__driver the_driver;
static gsc__driver_failure the_failure;
static int64_t the_process; /* that opened it, see gsc__fork_generation */

static void open_the_driver(void) {
    the_process = gsc__fork_generation();
    char *path = gsc__environment("GSC_CUDA_LIBRARY");
    (void)gsc__driver_open(path ? path : DEFAULT_LIBRARY, &the_driver, &the_failure);
    free(path);
}

/* After a fork the driver answers CUDA_ERROR_NOT_INITIALIZED to everything. */
bool gsc__driver_inherited(void) {
    return the_driver.library && the_process != gsc__fork_generation();
}

const gsc__driver *gsc__driver_try(void) {
    gsc__once_run(&once, open_the_driver);
    return the_failure.status == GSC_OK && !gsc__driver_inherited() ? &the_driver : NULL;
}

gsc_status gsc__driver_get(const char *function, const gsc__driver **driver) {
    gsc__once_run(&once, open_the_driver);
    *driver = &the_driver;
    if (gsc__driver_inherited()) {
        return gsc__fail_cuda(GSC_ERROR_CUDA, GSC__CU_NOT_INITIALIZED,
                              "%s: this process was forked from one that had CUDA started; CUDA "
                              "does not work in it",
                              function);
    }
    if (the_failure.status == GSC_OK) return GSC_OK;
    return gsc__fail_cuda(the_failure.status, the_failure.code, "%s: %s", function,
                          the_failure.text);
}

/* --------------------------------------------------------------------- device */

int32_t gsc__gpu_device_count(void) {
    const gsc__driver *driver = gsc__driver_try();
    int count = 0;
    if (!driver) return 0;
    return driver->cuDeviceGetCount(&count) == GSC__CU_OK ? count : 0;
}

gsc_status gsc__gpu_device_query(const char *function, int32_t index, gsc__gpu_device *device) {
    const gsc__driver *driver;
    int count = 0, pools = 0;
    size_t memory = 0;
    memset(device, 0, sizeof *device);
    GSC__TRY(gsc__driver_get(function, &driver));
    device->driver = driver;
    GSC__DRIVER_TRY(driver, function, cuDeviceGetCount, &count);
    if (index < 0 || index >= count) {
        return gsc__fail(GSC_ERROR_NO_DEVICE, "%s: device is cuda:%d, expected one of %d device%s",
                         function, index, count, count == 1 ? "" : "s");
    }
    GSC__DRIVER_TRY(driver, function, cuDeviceGet, &device->handle, index);
    const struct {
        int *value, attribute;
    } wanted[] = {{&device->major, GSC__CU_DEVICE_CAPABILITY_MAJOR},
                  {&device->minor, GSC__CU_DEVICE_CAPABILITY_MINOR},
                  {&device->multiprocessors, GSC__CU_DEVICE_MULTIPROCESSORS},
                  {&pools, GSC__CU_DEVICE_MEMORY_POOLS}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; ++i)
        GSC__DRIVER_TRY(driver, function, cuDeviceGetAttribute, wanted[i].value,
                        wanted[i].attribute, device->handle);
    GSC__DRIVER_TRY(driver, function, cuDeviceGetName, device->name, (int)sizeof device->name,
                    device->handle);
    GSC__DRIVER_TRY(driver, function, cuDeviceTotalMem, &memory, device->handle);
    device->name[sizeof device->name - 1] = '\0';
    device->pools = pools != 0;
    device->memory = (int64_t)memory;
    return GSC_OK;
}

/* In most hosts the context is current already, which saves the push. */
gsc__cu_result gsc__gpu_try_enter(const gsc__gpu_device *device, gsc__gpu_scope *scope) {
    void *current = NULL;
    *scope = (gsc__gpu_scope){.driver = device->driver};
    gsc__cu_result result = device->driver->cuCtxGetCurrent(&current);
    if (result != GSC__CU_OK || current == device->primary) return result;
    result = device->driver->cuCtxPushCurrent(device->primary);
    scope->pushed = result == GSC__CU_OK;
    return result;
}

gsc_status gsc__gpu_enter(const char *function, const gsc__gpu_device *device,
                          gsc__gpu_scope *scope) {
    gsc__cu_result result = gsc__gpu_try_enter(device, scope);
    if (result == GSC__CU_OK) return GSC_OK;
    return gsc__driver_fail(device->driver, result, "%s: the device's context", function);
}

void gsc__gpu_leave(gsc__gpu_scope *scope) {
    void *popped;
    if (scope->pushed) (void)scope->driver->cuCtxPopCurrent(&popped);
    scope->pushed = false;
}
