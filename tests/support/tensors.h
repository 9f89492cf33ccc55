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

/* Each returns a tensor of the set, or NULL if values is NULL.  A leading -1 in shape is
 * dropped. */
const DLTensor *tensors_input(tensors *set, const double *values, int ndim, const int64_t *shape);
/* Every element is NaN or the lowest integer, and a guard follows the last one. */
const DLTensor *tensors_output(tensors *set, const double *values, int ndim, const int64_t *shape);
const DLTensor *tensors_output_ints(tensors *set, const int32_t *values, int ndim,
                                    const int64_t *shape);
/* Bytes, aligned to 256, filled with 0xA5 and followed by a guard. */
const DLTensor *tensors_bytes(tensors *set, size_t bytes);
/* Copies back; does nothing for NULL. */
void tensors_read(const DLTensor *view, double *values);
void tensors_read_ints(const DLTensor *view, int32_t *values);
/* False, with a message on stderr, if a guard was overwritten. */
bool tensors_guarded(const tensors *set);
void tensors_free(tensors *set);

#endif
