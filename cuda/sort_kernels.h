/* Argument struct of the sort's kernels, see kernels.h. */
#ifndef GSC_SORT_KERNELS_H
#define GSC_SORT_KERNELS_H

#include "kernels.h"

/* Where a length is read from: *count (uint32_t), never more than limit. */
typedef struct gsc__gpu_length {
    const uint32_t *count;
    uint32_t limit;
} gsc__gpu_length;

/* Stable radix sort by digits of at most 9 bits, one launch for all passes.  The grid is
 * any number of blocks; few enough to run at once is best. */
#define GSC__SORT_BLOCK 512
#define GSC__SORT_DIGIT_BITS 9
#define GSC__SORT_DIGITS 512
#define GSC__SORT_PASSES 8
#define GSC__SORT_GROUP 16 /* tiles that add to one group's counts */
/* Keys of a thread in the largest tile, of up to 32 bits and of more, and in the smallest. */
#define GSC__SORT_ROUNDS 12
#define GSC__SORT_WIDE_ROUNDS 8
#define GSC__SORT_FEWEST_ROUNDS 4

/* Keys of a thread in the sort of `length` keys: small tiles where they are few, because a
 * pass then takes as long as one tile. */
GSC__PURE uint32_t gsc__sort_rounds(uint32_t length, uint32_t tiles, uint32_t most) {
    const uint32_t wanted = (length + GSC__SORT_BLOCK * tiles - 1) / (GSC__SORT_BLOCK * tiles);
    const uint32_t least = GSC__SORT_FEWEST_ROUNDS;
    return wanted < least ? least : wanted > most ? most : wanted;
}

/* Words that many blocks write to stand in cache lines of their own. */
typedef struct gsc__gpu_sort_progress {
    uint32_t next, line0[31];
    uint32_t counted, line1[31];                /* chunks of the histograms */
    uint32_t plan, line2[31];                   /* passes to do, once the histograms are complete */
    uint32_t done[GSC__SORT_PASSES], line3[24]; /* tiles */
    uint32_t histograms[GSC__SORT_PASSES][GSC__SORT_DIGITS]; /* then where digits begin */
} gsc__gpu_sort_progress;

/* Pass t of those done reads work_keys[(t - 1) & 1] and writes work_keys[t & 1], the last
 * one out_keys; the last writes out_values[0], the one before it out_values[1], and so on. */
typedef struct gsc_k_sort {
    gsc__gpu_length length;
    const void *keys;        /* [length], 16, 32 or 64 bits, as are work_keys and out_keys */
    const uint32_t *values;  /* [length], or NULL: the positions */
    const uint32_t *base;    /* no key is below *base, which is taken off, or NULL: 0 */
    void *work_keys[2];      /* [length] */
    void *out_keys;          /* [length], not what the last pass reads, or NULL */
    uint32_t *out_values[2]; /* [length] */
    uint32_t values_below;   /* larger ones are written as the largest below it; 0: any */
    uint32_t passes, digit_bits;
    uint32_t may_skip; /* passes whose digit all keys share, so that fewer may be done */
    uint32_t tiles;    /* as many are wanted at least */
    uint32_t tile_limit;
    gsc__gpu_sort_progress *progress; /* zeroed */
    uint32_t *states[2];              /* look-back: [tile_limit, 512] of tiles, [groups, 2, 512] of
                                         groups, the first one zeroed */
} gsc_k_sort;

#endif
