/* A framework's tensors as the memory of a context. */
#ifndef GSC_MANAGED_H
#define GSC_MANAGED_H

#include "gsplat_c/bindings.h"

#include "os/system.h"

typedef struct gsc__managed_block {
    const void *data; /* the address handed out */
    DLManagedTensorVersioned *tensor;
} gsc__managed_block;

/* The blocks in use, found by their address. */
typedef struct gsc__managed {
    gsc_allocate_fn *allocate; /* NULL: there is none */
    gsc__mutex mutex;
    gsc__managed_block *blocks; /* [count] of capacity */
    size_t count, capacity;
} gsc__managed;

void gsc__managed_open(gsc__managed *managed, gsc_allocate_fn *allocate);
void gsc__managed_close(gsc__managed *managed);
/* gsc_allocator.alloc and free; user is a gsc__managed.  The framework chooses the alignment, and
 * the stream. */
void *gsc__managed_alloc(void *user, size_t bytes, size_t alignment, DLDevice device, void *stream);
void gsc__managed_free(void *user, void *data, size_t bytes, DLDevice device, void *stream);
/* Hands the tensor behind `data` to the caller, who then owns it; NULL for NULL. */
DLManagedTensorVersioned *gsc__managed_take(gsc__managed *managed, const void *data);

#endif
