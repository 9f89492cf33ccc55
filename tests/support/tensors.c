#include "tensors.h"

#include "math/real.h"
#include "os/system.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GUARD 64 /* bytes */

static tensor *add(tensors *set, int ndim, const int64_t *shape, size_t element) {
    if (set->count == TENSORS_MAX) {
        fprintf(stderr, "more than %d tensors\n", TENSORS_MAX);
        exit(EXIT_FAILURE);
    }
    tensor *t = &set->items[set->count++];
    memset(t, 0, sizeof *t);
    t->count = 1;
    for (int i = 0; i < ndim; i++) {
        if (shape[i] < 0) continue;
        t->shape[t->view.ndim++] = shape[i];
        t->count *= (size_t)shape[i];
    }
    size_t bytes = t->count * element + GUARD;
    t->memory = gsc__aligned_alloc(bytes, 256);
    if (!t->memory) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(EXIT_FAILURE);
    }
    memset(t->memory, 0xA5, bytes);
    t->view.data = t->memory;
    t->view.device = (DLDevice){kDLCPU, 0};
    t->view.dtype = (DLDataType){kDLFloat, (uint8_t)(8 * element), 1};
    t->view.shape = t->shape;
    return t;
}

const DLTensor *tensors_input(tensors *set, const double *values, int ndim, const int64_t *shape) {
    if (!values) return NULL;
    tensor *t = add(set, ndim, shape, sizeof(gsc_real));
    for (size_t i = 0; i < t->count; i++) ((gsc_real *)t->memory)[i] = (gsc_real)values[i];
    return &t->view;
}

const DLTensor *tensors_output(tensors *set, const double *values, int ndim, const int64_t *shape) {
    if (!values) return NULL;
    tensor *t = add(set, ndim, shape, sizeof(gsc_real));
    for (size_t i = 0; i < t->count; i++) ((gsc_real *)t->memory)[i] = (gsc_real)NAN;
    return &t->view;
}

const DLTensor *tensors_output_ints(tensors *set, const int32_t *values, int ndim,
                                    const int64_t *shape) {
    if (!values) return NULL;
    tensor *t = add(set, ndim, shape, sizeof(int32_t));
    t->view.dtype = (DLDataType){kDLInt, 32, 1};
    for (size_t i = 0; i < t->count; i++) ((int32_t *)t->memory)[i] = INT32_MIN;
    return &t->view;
}

const DLTensor *tensors_bytes(tensors *set, size_t bytes) {
    const int64_t shape = (int64_t)bytes;
    tensor *t = add(set, 1, &shape, 1);
    t->view.dtype = (DLDataType){kDLUInt, 8, 1};
    return &t->view;
}

static size_t elements(const DLTensor *view) {
    size_t count = 1;
    for (int i = 0; i < view->ndim; i++) count *= (size_t)view->shape[i];
    return count;
}

void tensors_read(const DLTensor *view, double *values) {
    for (size_t i = 0; view && i < elements(view); i++) {
        values[i] = (double)((const gsc_real *)view->data)[i];
    }
}

void tensors_read_ints(const DLTensor *view, int32_t *values) {
    if (view) memcpy(values, view->data, elements(view) * sizeof *values);
}

bool tensors_guarded(const tensors *set) {
    for (int i = 0; i < set->count; i++) {
        const tensor *t = &set->items[i];
        const unsigned char *guard =
            (const unsigned char *)t->memory + t->count * (t->view.dtype.bits / 8u);
        for (int k = 0; k < GUARD; k++) {
            if (guard[k] == 0xA5) continue;
            fprintf(stderr, "tensor %d of %d dimensions: written %d bytes past its end\n", i,
                    t->view.ndim, k);
            return false;
        }
    }
    return true;
}

void tensors_free(tensors *set) {
    for (int i = 0; i < set->count; i++) gsc__aligned_free(set->items[i].memory);
    set->count = 0;
}
