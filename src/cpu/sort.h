/* Stable parallel sort of integer keys with a 32-bit value each.
 *
 * A stable sort has one result, so the output is the same for any number of threads. */
#ifndef GSC_CPU_SORT_H
#define GSC_CPU_SORT_H

#include "cpu.h"

#define gsc__sort_scratch_bytes GSC__ISA_NAME(gsc__sort_scratch_bytes)
#define gsc__sort_pairs32 GSC__ISA_NAME(gsc__sort_pairs32)
#define gsc__sort_pairs64 GSC__ISA_NAME(gsc__sort_pairs64)

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

/* From here on a sort is shared among the threads and needs scratch; shorter ones run on
 * the calling thread and may be given NULL for pool and scratch. */
#define GSC__SORT_PARALLEL 4096

/* What the sorts need as scratch, 64-byte aligned, with this many threads: a multiple
 * of 64. */
size_t gsc__sort_scratch_bytes(int threads);

/* Ascending by the lowest `bits` bits of the keys, 1 to the width of a key; the bits above
 * must be zero.  n is below 2^32. */
void gsc__sort_pairs32(gsc__pool *pool, gsc__pairs32 *pairs, int64_t n, int bits, void *scratch);
void gsc__sort_pairs64(gsc__pool *pool, gsc__pairs64 *pairs, int64_t n, int bits, void *scratch);

#endif
