#include "array.h"

#include "failure.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256 };

static void set_view(struct array *array, void *data, DLDataTypeCode code, int bits, int ndim,
                     const int64_t *shape) {
    for (int i = 0; i < ndim; i++) array->shape[i] = shape[i];
    memset(&array->view, 0, sizeof array->view);
    array->view.data = data;
    array->view.device.device_type = kDLCPU;
    array->view.ndim = ndim;
    array->view.dtype.code = (uint8_t)code;
    array->view.dtype.bits = (uint8_t)bits;
    array->view.dtype.lanes = 1;
    array->view.shape = array->shape;
}

static bool own(struct array *array, size_t bytes) {
    if (array->owned && bytes <= array->capacity) return true;
    array_free(array);
    size_t capacity = (bytes / ALIGNMENT + 1) * ALIGNMENT;
    if (capacity > bytes) array->owned = aligned_alloc(ALIGNMENT, capacity);
    if (!array->owned) return fail("no memory for %zu bytes", bytes);
    memset(array->owned, 0, capacity);
    array->capacity = capacity;
    return true;
}

void array_borrow(struct array *array, const float *data, int ndim, const int64_t *shape) {
    union {
        const float *in;
        void *out;
    } pointer = {data}; /* the library writes no input */
    set_view(array, pointer.out, kDLFloat, 32, ndim, shape);
}

bool array_allocate(struct array *array, int ndim, const int64_t *shape) {
    size_t bytes = sizeof(float);
    for (int i = 0; i < ndim; i++) bytes *= (size_t)shape[i];
    if (!own(array, bytes)) return false;
    set_view(array, array->owned, kDLFloat, 32, ndim, shape);
    return true;
}

bool array_reserve(struct array *array, size_t bytes) {
    if (!own(array, bytes)) return false;
    const int64_t shape[1] = {(int64_t)bytes};
    set_view(array, array->owned, kDLUInt, 8, 1, shape);
    return true;
}

void array_free(struct array *array) {
    free(array->owned);
    memset(array, 0, sizeof *array);
}
