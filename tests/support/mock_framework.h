/* A mock of a framework whose memory the library uses; it counts its tensors. */
#ifndef GSC_TESTS_MOCK_FRAMEWORK_H
#define GSC_TESTS_MOCK_FRAMEWORK_H

#include "os/system.h"

#include "gsplat_c/bindings.h"

#include <stdlib.h>
#include <string.h>

enum { FRAMEWORK_OFFSET = 256 }; /* of every tensor's data, as byte_offset */

static struct {
    int tensors; /* not deleted yet */
    int made;
    int fail_from; /* the first tensor that fails, with all later ones; 0: none fails */
    int misalign;  /* bytes by which the data is misaligned */
    int fill;      /* what new memory holds */
    DLDevice device;
    int errors; /* calls of set_error */
} framework;

typedef struct framework_tensor {
    DLManagedTensorVersioned managed;
    int64_t shape[1];
    void *memory;
} framework_tensor;

static inline void framework_delete(DLManagedTensorVersioned *managed) {
    framework_tensor *own = managed->manager_ctx;
    --framework.tensors;
    gsc__aligned_free(own->memory);
    free(own);
}

static inline int framework_allocate(DLTensor *prototype, DLManagedTensorVersioned **made,
                                     void *user, gsc_set_error_fn *set_error) {
    assert_int_equal(prototype->ndim, 1);
    assert_int_equal(prototype->dtype.code, kDLUInt);
    assert_int_equal(prototype->dtype.bits, 8);
    assert_int_equal(prototype->dtype.lanes, 1);
    if (framework.fail_from && ++framework.made >= framework.fail_from) {
        set_error(user, "MemoryError", "there is none");
        ++framework.errors;
        return -1;
    }
    framework_tensor *own = calloc(1, sizeof *own);
    assert_non_null(own);
    own->memory = gsc__aligned_alloc((size_t)prototype->shape[0] + 512, 256);
    assert_non_null(own->memory);
    memset(own->memory, framework.fill, (size_t)prototype->shape[0] + 512);
    own->shape[0] = prototype->shape[0];
    own->managed =
        (DLManagedTensorVersioned){.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                                   .manager_ctx = own,
                                   .deleter = framework_delete,
                                   .dl_tensor = *prototype};
    own->managed.dl_tensor.shape = own->shape;
    own->managed.dl_tensor.byte_offset = FRAMEWORK_OFFSET;
    own->managed.dl_tensor.data = (char *)own->memory + framework.misalign;
    framework.device = prototype->device;
    ++framework.tensors;
    *made = &own->managed;
    return 0;
}

/* The first byte of a tensor's buffer. */
static inline char *framework_data(const DLManagedTensorVersioned *managed) {
    return (char *)managed->dl_tensor.data + managed->dl_tensor.byte_offset;
}

#endif
