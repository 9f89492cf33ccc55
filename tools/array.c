#include "array.h"

#include "failure.h"

#include <stdlib.h>
#include <string.h>

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
    array->owned = device_alloc(device, bytes);
    if (!array->owned) return false;
    array->device = device;
    array->capacity = bytes;
    return device_clear(device, array->owned, bytes);
}

void array_borrow(struct array *array, const float *data, int ndim, const int64_t *shape) {
    union {
        const float *in;
        void *out;
    } pointer = {data}; /* the library writes no input */
    set_view(array, pointer.out, (DLDevice){kDLCPU, 0}, kDLFloat, 32, ndim, shape);
}

bool array_give(struct array *array, device_memory *device, const float *data, int ndim,
                const int64_t *shape) {
    if (device->where.device_type == kDLCPU) {
        array_borrow(array, data, ndim, shape);
        return true;
    }
    return array_allocate(array, device, ndim, shape) &&
           device_to_device(device, array->owned, data, float_bytes(ndim, shape));
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
    if (array->owned) device_free(array->device, array->owned, array->capacity);
    free(array->mirror);
    memset(array, 0, sizeof *array);
}

size_t array_bytes(const struct array *array) {
    return array->owned ? float_bytes(array->view.ndim, array->shape) : 0;
}

float *array_host(struct array *array) {
    if (array->device->where.device_type == kDLCPU) return array->owned;
    if (!array->mirror) array->mirror = malloc(array->capacity + 1);
    if (!array->mirror) fail("no memory for %zu bytes", array->capacity);
    return array->mirror;
}

bool array_send(struct array *array) {
    const float *from = array_host(array);
    if (!from) return false;
    return from == array->owned ||
           device_to_device(array->device, array->owned, from, array_bytes(array));
}

const float *array_fetch(struct array *array) {
    float *to = array_host(array);
    if (!to || to == array->owned) return to;
    return device_to_host(array->device, to, array->owned, array_bytes(array)) ? to : NULL;
}
