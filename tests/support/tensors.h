/* Tensors for tests, in the library's floating-point type, freed together. */
#ifndef TESTS_TENSORS_H
#define TESTS_TENSORS_H

#include "gsplat_c.h"

#include <stdbool.h>

#define TENSORS_MAX 96

typedef struct tensor {
    DLTensor view;
    int64_t shape[4];
    size_t count;
    void *memory;
} tensor;

typedef struct tensors {
    int count;
    tensor items[TENSORS_MAX];
} tensors;

/* Each returns NULL for values NULL, else a tensor of the set.  A leading dimension of
 * -1 in shape is left out. */
const DLTensor *tensors_input(tensors *set, const double *values, int ndim, const int64_t *shape);
/* NaN, or the lowest integer, in every element, and a guard behind the last. */
const DLTensor *tensors_output(tensors *set, const double *values, int ndim, const int64_t *shape);
const DLTensor *tensors_output_ints(tensors *set, const int32_t *values, int ndim,
                                    const int64_t *shape);
/* Bytes, 256-byte aligned, filled with 0xA5, guarded. */
const DLTensor *tensors_bytes(tensors *set, size_t bytes);
/* Copies back; nothing for NULL. */
void tensors_read(const DLTensor *view, double *values);
void tensors_read_ints(const DLTensor *view, int32_t *values);
/* False, with a message on stderr, if a guard was written over. */
bool tensors_guarded(const tensors *set);
void tensors_free(tensors *set);

#endif
