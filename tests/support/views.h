/* DLTensor views for tests of the argument checks, and ways to break them. */
#ifndef GSC_TESTS_VIEWS_H
#define GSC_TESTS_VIEWS_H

#include "expect.h"

#include "check/fields.h"

#include <stdio.h>

#define REAL_NAME (GSC_REAL_BITS == 64 ? "float64" : "float32")

/* Aligned memory that is large enough for any view of the tests; views share it. */
static _Alignas(256) unsigned char view_memory[1 << 16];

typedef struct view {
    DLTensor tensor;
    int64_t shape[GSC__MAX_DIMS + 1];
    int64_t strides[GSC__MAX_DIMS + 1]; /* in use only after view_strides */
} view;

static inline void view_shape(view *v, int32_t ndim, const int64_t *shape) {
    v->tensor.ndim = ndim;
    if (ndim > 0) memcpy(v->shape, shape, (size_t)ndim * sizeof *shape);
    v->tensor.shape = v->shape;
}

static inline void view_dtype(view *v, uint8_t code, uint8_t bits) {
    v->tensor.dtype = (DLDataType){.code = code, .bits = bits, .lanes = 1};
}

/* A dense tensor of reals on the CPU. */
static inline void view_init(view *v, int32_t ndim, const int64_t *shape) {
    memset(v, 0, sizeof *v);
    v->tensor.data = view_memory;
    v->tensor.device.device_type = kDLCPU;
    view_dtype(v, kDLFloat, GSC_REAL_BITS);
    view_shape(v, ndim, shape);
}

#define VIEW(v, ...)                                                            \
    view_init(v, (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
              (const int64_t[]){__VA_ARGS__})

/* Gives the view dense strides of its own, for a test to change. */
static inline void view_strides(view *v) {
    int64_t stride = 1;
    for (int32_t i = v->tensor.ndim - 1; i >= 0; --i) {
        v->strides[i] = stride;
        stride *= v->shape[i];
    }
    v->tensor.strides = v->strides;
}

static inline void view_device(view *v, int32_t type, int32_t id) {
    v->tensor.device.device_type = (DLDeviceType)type;
    v->tensor.device.device_id = id;
}

#endif
