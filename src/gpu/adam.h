/* Adam's settings in the form that kernels take. */
#ifndef GSC_GPU_ADAM_H
#define GSC_GPU_ADAM_H

#include "gpu.h"

gsc__gpu_adam_constants gsc__gpu_adam_constants_of(const gsc__adam_group *group);

/* Whether loads of four elements may begin there. */
static inline bool gsc__gpu_is_aligned(const void *data) {
    return (uintptr_t)data % 16 == 0;
}

#endif
