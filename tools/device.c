#include "device.h"

#include "os/system.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256 };

bool check_status(gsc_status status) {
    return status == GSC_OK || fail("%s: %s", gsc_status_name(status), gsc_last_error());
}

static const struct cuda_functions *cuda_of(DLDevice where) {
#if GSC_HAVE_CUDART
    if (where.device_type == kDLCUDA) return &device_cuda_functions;
#else
    (void)where;
#endif
    return NULL;
}

int device_runtime_version(void) {
    const struct cuda_functions *cuda = cuda_of((DLDevice){kDLCUDA, 0});
    return cuda ? cuda->version : 0;
}

bool device_supported(DLDevice where) {
    return where.device_type == kDLCPU || cuda_of(where) ||
           fail("--device cuda:%d: this gsplat-c was built without the CUDA Runtime and works on "
                "the CPU only; on Linux 'make build' in the source tree builds one with CUDA",
                where.device_id);
}

bool device_open(device_memory *device, DLDevice where) {
    memset(device, 0, sizeof *device);
    if (!device_supported(where)) return false;
    device->where = where;
    device->cuda = cuda_of(where);
    return !device->cuda || device->cuda->open(device);
}

void device_close(device_memory *device) {
    if (device->cuda) device->cuda->close(device);
    memset(device, 0, sizeof *device);
}

bool device_start(device_memory *device) {
    if (device->cuda) return device->cuda->start(device);
    device->started_ms = gsc__clock_seconds() * 1e3;
    return true;
}

bool device_stop(device_memory *device, double *milliseconds) {
    if (device->cuda) return device->cuda->stop(device, milliseconds);
    *milliseconds = gsc__clock_seconds() * 1e3 - device->started_ms;
    return true;
}

static int compare_runs(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double timing_min(timing *times) {
    qsort(times->runs, times->count, sizeof *times->runs, compare_runs);
    return times->runs[0];
}

double timing_median(timing *times) {
    timing_min(times);
    size_t middle = times->count / 2;
    if (times->count % 2) return times->runs[middle];
    return (times->runs[middle - 1] + times->runs[middle]) / 2;
}

static void *allocate(device_memory *device, size_t bytes) {
    void *data =
        device->cuda ? device->cuda->alloc(device, bytes) : gsc__aligned_alloc(bytes, ALIGNMENT);
    if (!data) return NULL;
    device->bytes += bytes;
    if (device->bytes > device->peak) device->peak = device->bytes;
    return data;
}

static void release(device_memory *device, void *data, size_t bytes) {
    if (!data) return;
    if (device->cuda)
        device->cuda->free(device, data);
    else
        gsc__aligned_free(data);
    device->bytes -= bytes;
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
    release(user, data, bytes);
}

gsc_allocator device_allocator(device_memory *device) {
    GSC_INIT(gsc_allocator, allocator);
    allocator.user = device;
    allocator.alloc = library_alloc;
    allocator.free = library_free;
    return allocator;
}

static void set_view(struct array *array, void *data, DLDevice where, DLDataTypeCode code, int bits,
                     int ndim, const int64_t *shape) {
    for (int i = 0; i < ndim; i++) array->shape[i] = shape[i];
    memset(&array->view, 0, sizeof array->view);
    array->view.data = data;
    array->view.device = where;
    array->view.ndim = ndim;
    array->view.dtype.code = (uint8_t)code;
    array->view.dtype.bits = (uint8_t)bits;
    array->view.dtype.lanes = 1;
    array->view.shape = array->shape;
}

static size_t float_bytes(int ndim, const int64_t *shape) {
    size_t bytes = sizeof(float);
    for (int i = 0; i < ndim; i++) bytes *= (size_t)shape[i];
    return bytes;
}

static bool own(struct array *array, device_memory *device, size_t bytes) {
    if (array->owned && bytes <= array->capacity) return true;
    array_free(array);
    array->owned = allocate(device, bytes);
    if (!array->owned) return fail("no memory for %zu bytes", bytes);
    array->device = device;
    array->capacity = bytes;
    if (device->cuda) return device->cuda->clear(device, array->owned, bytes);
    memset(array->owned, 0, bytes);
    return true;
}

void array_borrow(struct array *array, const float *data, int ndim, const int64_t *shape) {
    union {
        const float *in;
        void *out;
    } pointer = {data}; /* the library does not write to its inputs */
    set_view(array, pointer.out, (DLDevice){kDLCPU, 0}, kDLFloat, 32, ndim, shape);
}

bool array_give(struct array *array, device_memory *device, const float *data, int ndim,
                const int64_t *shape) {
    if (!device->cuda) {
        array_borrow(array, data, ndim, shape);
        return true;
    }
    return array_allocate(array, device, ndim, shape) &&
           device->cuda->to_device(device, array->owned, data, float_bytes(ndim, shape));
}

bool array_allocate(struct array *array, device_memory *device, int ndim, const int64_t *shape) {
    if (!own(array, device, float_bytes(ndim, shape))) return false;
    set_view(array, array->owned, device->where, kDLFloat, 32, ndim, shape);
    return true;
}

bool array_reserve(struct array *array, device_memory *device, size_t bytes) {
    if (!own(array, device, bytes)) return false;
    const int64_t shape[1] = {(int64_t)bytes};
    set_view(array, array->owned, device->where, kDLUInt, 8, 1, shape);
    return true;
}

void array_free(struct array *array) {
    release(array->device, array->owned, array->capacity);
    free(array->mirror);
    memset(array, 0, sizeof *array);
}

size_t array_bytes(const struct array *array) {
    return array->owned ? float_bytes(array->view.ndim, array->shape) : 0;
}

float *array_host(struct array *array) {
    if (!array->device->cuda) return array->owned;
    if (!array->mirror) array->mirror = malloc(array->capacity + 1);
    if (!array->mirror) fail("no memory for %zu bytes", array->capacity);
    return array->mirror;
}

bool array_send(struct array *array) {
    const float *from = array_host(array);
    if (!from) return false;
    return from == array->owned ||
           array->device->cuda->to_device(array->device, array->owned, from, array_bytes(array));
}

const float *array_fetch(struct array *array) {
    float *to = array_host(array);
    if (!to || to == array->owned) return to;
    bool good = array->device->cuda->to_host(array->device, to, array->owned, array_bytes(array));
    return good ? to : NULL;
}
