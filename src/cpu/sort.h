/* Stable parallel sort of integer keys with a 32-bit value each.
 *
 * A stable sort has one result, so the output is the same for any number of threads. */
#ifndef GSC_CPU_SORT_H
#define GSC_CPU_SORT_H

#include "os/parallel.h"

#include <stddef.h>

/* Two arrays of keys and two of values, [n] each.  Input and result are keys and values;
 * the others are work space.  The sort may exchange keys with other_keys and values with
 * other_values, so read the result through the struct. */
typedef struct gsc__pairs32 {
    uint32_t *keys, *other_keys;
    uint32_t *values, *other_values;
} gsc__pairs32;
typedef struct gsc__pairs64 {
    uint64_t *keys, *other_keys;
    uint32_t *values, *other_values;
} gsc__pairs64;

/* A sort of at least this many pairs runs on all threads and needs scratch; a shorter one runs
 * on the calling thread, and pool and scratch may be NULL. */
#define GSC__SORT_PARALLEL 4096

/* Bytes of scratch, 64-byte aligned, that a sort on this many threads needs. */
size_t gsc__sort_scratch_bytes(int threads);

/* Ascending by the lowest `bits` bits of the keys, 1 to the width of a key.  The bits above
 * must be zero.  n is below 2^32. */
void gsc__sort_pairs32(gsc__pool *pool, gsc__pairs32 *pairs, int64_t n, int bits, void *scratch);
void gsc__sort_pairs64(gsc__pool *pool, gsc__pairs64 *pairs, int64_t n, int bits, void *scratch);

#endif
