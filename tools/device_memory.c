#include "device_memory.h"

#include "failure.h"

#include <string.h>

int device_runtime_version(void) {
#if GSC_HAVE_CUDART
    return device_cuda_version;
#else
    return 0;
#endif
}

static const struct device_functions *functions_of(DLDevice where) {
    if (where.device_type == kDLCPU) return &device_host_functions;
#if GSC_HAVE_CUDART
    if (where.device_type == kDLCUDA) return &device_cuda_functions;
#endif
    return NULL;
}

bool device_supported(DLDevice where) {
    return functions_of(where) || fail("--device cuda:%d: this gsplat-c was built without the CUDA "
                                       "Runtime and works on the CPU only",
                                       where.device_id);
}

bool device_open(device_memory *device, DLDevice where) {
    memset(device, 0, sizeof *device);
    if (!device_supported(where)) return false;
    device->where = where;
    device->functions = functions_of(where);
    return device->functions->open(device);
}

void device_close(device_memory *device) {
    if (device->functions) device->functions->close(device);
    memset(device, 0, sizeof *device);
}

static void *allocate(device_memory *device, size_t bytes) {
    void *data = device->functions->alloc(device, bytes);
    if (!data) return NULL;
    device->bytes += bytes;
    if (device->bytes > device->peak) device->peak = device->bytes;
    return data;
}

void *device_alloc(device_memory *device, size_t bytes) {
    void *data = allocate(device, bytes);
    if (!data) fail("no memory for %zu bytes", bytes);
    return data;
}

void device_free(device_memory *device, void *data, size_t bytes) {
    if (!data) return;
    device->functions->free(device, data);
    device->bytes -= bytes;
}

void device_reset_peak(device_memory *device) {
    device->peak = device->bytes;
}

static void *library_alloc(void *user, size_t bytes, size_t alignment, DLDevice where,
                           void *stream) {
    (void)alignment;
    (void)where;
    (void)stream;
    return allocate(user, bytes);
}

static void library_free(void *user, void *data, size_t bytes, DLDevice where, void *stream) {
    (void)where;
    (void)stream;
    device_free(user, data, bytes);
}

gsc_allocator device_allocator(device_memory *device) {
    GSC_INIT(gsc_allocator, allocator);
    allocator.user = device;
    allocator.alloc = library_alloc;
    allocator.free = library_free;
    return allocator;
}

bool device_clear(device_memory *device, void *data, size_t bytes) {
    return device->functions->clear(device, data, bytes);
}

bool device_to_device(device_memory *device, void *to, const void *from, size_t bytes) {
    return device->functions->to_device(device, to, from, bytes);
}

bool device_to_host(device_memory *device, void *to, const void *from, size_t bytes) {
    return device->functions->to_host(device, to, from, bytes);
}

bool device_start(device_memory *device) {
    return device->functions->start(device);
}

bool device_stop(device_memory *device, double *milliseconds) {
    return device->functions->stop(device, milliseconds);
}
