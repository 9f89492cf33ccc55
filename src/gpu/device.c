#include "device.h"

int32_t gsc__gpu_device_count(void) {
    const gsc__driver *driver = gsc__driver_try();
    int count = 0;
    if (!driver) return 0;
    return driver->cuDeviceGetCount(&count) == GSC__CU_OK ? count : 0;
}

static gsc_status query_attributes(const char *function, const gsc__driver *driver,
                                   gsc__gpu_device *device) {
    int pools = 0;
    size_t memory = 0;
    GSC__DRIVER_TRY(driver, function, cuDeviceGetAttribute, &device->major,
                    GSC__CU_DEVICE_CAPABILITY_MAJOR, device->handle);
    GSC__DRIVER_TRY(driver, function, cuDeviceGetAttribute, &device->minor,
                    GSC__CU_DEVICE_CAPABILITY_MINOR, device->handle);
    GSC__DRIVER_TRY(driver, function, cuDeviceGetAttribute, &device->multiprocessors,
                    GSC__CU_DEVICE_MULTIPROCESSORS, device->handle);
    GSC__DRIVER_TRY(driver, function, cuDeviceGetAttribute, &pools, GSC__CU_DEVICE_MEMORY_POOLS,
                    device->handle);
    GSC__DRIVER_TRY(driver, function, cuDeviceGetName, device->name, (int)sizeof device->name,
                    device->handle);
    GSC__DRIVER_TRY(driver, function, cuDeviceTotalMem, &memory, device->handle);
    device->name[sizeof device->name - 1] = '\0';
    device->pools = pools != 0;
    device->memory = (int64_t)memory;
    return GSC_OK;
}

gsc_status gsc__gpu_device_query(const char *function, int32_t index, gsc__gpu_device *device) {
    const gsc__driver *driver;
    int count = 0;
    memset(device, 0, sizeof *device);
    GSC__TRY(gsc__driver_get(function, &driver));
    device->driver = driver;
    GSC__DRIVER_TRY(driver, function, cuDeviceGetCount, &count);
    if (index < 0 || index >= count) {
        return gsc__fail(GSC_ERROR_NO_DEVICE, "%s: device is cuda:%d, expected one of %d device%s",
                         function, index, count, count == 1 ? "" : "s");
    }
    GSC__DRIVER_TRY(driver, function, cuDeviceGet, &device->handle, index);
    return query_attributes(function, driver, device);
}

gsc_status gsc__gpu_device_retain(const char *function, gsc__gpu_device *device) {
    GSC__DRIVER_TRY(device->driver, function, cuDevicePrimaryCtxRetain, &device->primary,
                    device->handle);
    return GSC_OK;
}

void gsc__gpu_device_release(gsc__gpu_device *device) {
    if (device->primary) (void)device->driver->cuDevicePrimaryCtxRelease(device->handle);
    device->primary = NULL;
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
