/* A DLTensor view that carries its own shape, and memory for it. */
#ifndef GSPLAT_C_TOOLS_ARRAY_H
#define GSPLAT_C_TOOLS_ARRAY_H

#include "gsplat_c.h"

#include <stdbool.h>

/* The view points into the struct: set it up where it stays. */
struct array {
    DLTensor view;
    int64_t shape[4];
    void *owned;     /* NULL: the data is borrowed */
    size_t capacity; /* bytes of owned */
};

/* A dense float32 view of the caller's memory. */
void array_borrow(struct array *array, const float *data, int ndim, const int64_t *shape);
/* Float32 memory of its own, kept while it is large enough; not cleared, but written
 * once so that its pages are there.  False after fail(). */
bool array_allocate(struct array *array, int ndim, const int64_t *shape);
/* The same for `bytes` bytes, 256-byte aligned, as gsc_raster_buffers wants them. */
bool array_reserve(struct array *array, size_t bytes);
void array_free(struct array *array);

#endif
