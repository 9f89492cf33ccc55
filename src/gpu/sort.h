/* Stable radix sorts of arrays whose length the device knows.
 *
 * Nothing is read back: grids depend on the device, scratch on the limits alone. */
#ifndef GSC_GPU_SORT_H
#define GSC_GPU_SORT_H

#include "../../cuda/sort_kernels.h"
#include "gpu.h"

/* Sorts values by keys below 2^bits.  Arrays hold length.limit elements. */
typedef struct gsc__gpu_sort_args {
    gsc__gpu_length length;
    uint32_t bits;
    uint32_t key_bytes; /* 2, 4 or 8 */
    const void *keys;
    const uint32_t *values; /* or NULL: the positions */
    uint32_t values_below;  /* larger ones become the largest below it; 0: any */
    const uint32_t *base;   /* on the device, no key is below it; or NULL */
    void *work_keys[2];     /* the second one may be keys */
    void *out_keys;         /* or NULL: those at [(passes - 1) & 1] of the above will do */
    uint32_t *out_values;
    uint32_t *work_values;
    void *scratch; /* gsc__gpu_sort_bytes */
    bool zeroed;   /* the first gsc__gpu_sort_zeroed_bytes of scratch are zero already */
} gsc__gpu_sort_args;

/* Values other than NULL may be where they are read before that is written over: in
 * out_values if this is even, in work_values if it is odd. */
uint32_t gsc__gpu_sort_passes(uint32_t bits);
/* Scratch for at most so many keys. */
size_t gsc__gpu_sort_bytes(int64_t limit, uint32_t bits);
size_t gsc__gpu_sort_zeroed_bytes(int64_t limit, uint32_t bits);
/* A launch, after a fill if scratch is not zeroed. */
gsc_status gsc__gpu_sort(gsc_context *context, const gsc__gpu_sort_args *sort, void *stream,
                         const char *function);

#endif
