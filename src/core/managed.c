#include "context.h"

#include <stdlib.h>

enum { FIRST_CAPACITY = 16 };

void gsc__managed_open(gsc__managed *managed, gsc_allocate_fn *allocate) {
    memset(managed, 0, sizeof *managed);
    managed->allocate = allocate;
    gsc__mutex_init(&managed->mutex);
}

void gsc__managed_close(gsc__managed *managed) {
    gsc__mutex_destroy(&managed->mutex);
    free(managed->blocks);
}

/* The function that asked for memory reports the failure. */
static void no_message(void *user, const char *kind, const char *message) {
    (void)user;
    (void)kind;
    (void)message;
}

static DLManagedTensorVersioned *make_tensor(const gsc__managed *managed, size_t bytes,
                                             DLDevice device) {
    int64_t shape[] = {(int64_t)bytes};
    DLTensor prototype = {.device = device, .ndim = 1, .dtype = {kDLUInt, 8, 1}, .shape = shape};
    DLManagedTensorVersioned *tensor = NULL;
    if (managed->allocate(&prototype, &tensor, NULL, no_message) != 0) return NULL;
    return tensor;
}

static void delete_tensor(DLManagedTensorVersioned *tensor) {
    if (tensor && tensor->deleter) tensor->deleter(tensor);
}

static bool keep(gsc__managed *managed, const void *data, DLManagedTensorVersioned *tensor) {
    gsc__mutex_lock(&managed->mutex);
    if (managed->count == managed->capacity) {
        const size_t capacity = managed->capacity ? 2 * managed->capacity : FIRST_CAPACITY;
        gsc__managed_block *blocks = realloc(managed->blocks, capacity * sizeof *blocks);
        if (blocks) {
            managed->blocks = blocks;
            managed->capacity = capacity;
        }
    }
    const bool fits = managed->count < managed->capacity;
    if (fits) managed->blocks[managed->count++] = (gsc__managed_block){data, tensor};
    gsc__mutex_unlock(&managed->mutex);
    return fits;
}

void *gsc__managed_alloc(void *user, size_t bytes, size_t alignment, DLDevice device,
                         void *stream) {
    gsc__managed *managed = user;
    (void)alignment;
    (void)stream;
    DLManagedTensorVersioned *tensor =
        bytes > INT64_MAX ? NULL : make_tensor(managed, bytes, device);
    if (!tensor) return NULL;
    void *data = (char *)tensor->dl_tensor.data + tensor->dl_tensor.byte_offset;
    if (keep(managed, data, tensor)) return data;
    delete_tensor(tensor);
    return NULL;
}

/* Searches backwards: the latest block usually returns first. */
DLManagedTensorVersioned *gsc__managed_take(gsc__managed *managed, const void *data) {
    DLManagedTensorVersioned *tensor = NULL;
    gsc__mutex_lock(&managed->mutex);
    for (size_t i = managed->count; i-- > 0 && !tensor;) {
        if (managed->blocks[i].data != data) continue;
        tensor = managed->blocks[i].tensor;
        managed->blocks[i] = managed->blocks[--managed->count];
    }
    gsc__mutex_unlock(&managed->mutex);
    return tensor;
}

void gsc__managed_free(void *user, void *data, size_t bytes, DLDevice device, void *stream) {
    (void)bytes;
    (void)device;
    (void)stream;
    delete_tensor(gsc__managed_take(user, data));
}
