/* Stable radix sorts of arrays whose length only the device knows.
 *
 * Nothing is read back: the grid depends on the device, and scratch on the limit of the length. */
#ifndef GSC_GPU_SORT_H
#define GSC_GPU_SORT_H

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
    void *out_keys;         /* or NULL: they end in work_keys[(passes - 1) & 1] */
    uint32_t *out_values;
    uint32_t *work_values;
    void *scratch; /* gsc__gpu_sort_bytes */
    bool zeroed;   /* the first gsc__gpu_sort_zeroed_bytes of scratch are zero already */
} gsc__gpu_sort_args;

/* Values other than NULL may stand in an array that the sort overwrites: in out_values if the
 * passes are even, in work_values if they are odd. */
uint32_t gsc__gpu_sort_passes(uint32_t bits);
/* Scratch for at most so many keys. */
size_t gsc__gpu_sort_bytes(int64_t limit, uint32_t bits);
size_t gsc__gpu_sort_zeroed_bytes(int64_t limit, uint32_t bits);
/* One launch, after a fill if scratch is not zeroed. */
gsc_status gsc__gpu_sort(const gsc__call *call, const gsc__gpu_sort_args *sort);

#endif
