/* A DLTensor view that carries its own shape, and memory for it. */
#ifndef GSPLAT_C_TOOLS_ARRAY_H
#define GSPLAT_C_TOOLS_ARRAY_H

#include "device_memory.h"

/* The view points into the struct: set it up where it stays. */
struct array {
    DLTensor view;
    int64_t shape[4];
    device_memory *device; /* that has `owned` */
    void *owned;           /* NULL: the data is borrowed */
    size_t capacity;       /* bytes of owned */
    float *mirror;         /* of owned on the host; NULL: none was needed yet */
};

/* A dense float32 view of the caller's memory on the host. */
void array_borrow(struct array *array, const float *data, int ndim, const int64_t *shape);
/* The same values on the device: borrowed where that is the host, else copied.  False
 * after fail(), as all below. */
bool array_give(struct array *array, device_memory *device, const float *data, int ndim,
                const int64_t *shape);
/* Float32 memory of its own, kept while it is large enough; not cleared, but written
 * once so that its pages are there. */
bool array_allocate(struct array *array, device_memory *device, int ndim, const int64_t *shape);
/* The same for `bytes` bytes, 256-byte aligned, as gsc_raster_buffers wants them. */
bool array_reserve(struct array *array, device_memory *device, size_t bytes);
void array_free(struct array *array);

/* Float32 memory of its own, as seen by the host: write there, then send; or fetch. */
float *array_host(struct array *array); /* NULL after fail() */
bool array_send(struct array *array);
const float *array_fetch(struct array *array); /* NULL after fail() */
size_t array_bytes(const struct array *array);

#endif
