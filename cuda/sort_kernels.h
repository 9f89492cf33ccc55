/* Argument struct of the sort's kernels, see kernels.h. */
#ifndef GSC_SORT_KERNELS_H
#define GSC_SORT_KERNELS_H

#include "kernels.h"

/* Where a length is read from: *count (uint32_t), never more than limit. */
typedef struct gsc__gpu_length {
    const uint32_t *count;
    uint32_t limit;
} gsc__gpu_length;

/* Stable radix sort by digits of at most 9 bits, one launch for all passes.  Any grid works; one
 * whose blocks all run at once is best. */
#define GSC__SORT_BLOCK 512
#define GSC__SORT_DIGIT_BITS 9
#define GSC__SORT_DIGITS 512
#define GSC__SORT_PASSES 8
#define GSC__SORT_GROUP 16 /* tiles that add to one group's counts */
/* Keys of a thread: in the largest tile for keys of up to 32 bits and for wider ones, and in the
 * smallest tile. */
#define GSC__SORT_ROUNDS 12
#define GSC__SORT_WIDE_ROUNDS 8
#define GSC__SORT_FEWEST_ROUNDS 4

/* Keys of a thread in a sort of `length` keys: tiles are small where keys are few, because a pass
 * then takes as long as one tile. */
GSC__PURE uint32_t gsc__sort_rounds(uint32_t length, uint32_t tiles, uint32_t most) {
    const uint32_t wanted = (length + GSC__SORT_BLOCK * tiles - 1) / (GSC__SORT_BLOCK * tiles);
    const uint32_t fewest = GSC__SORT_FEWEST_ROUNDS;
    return wanted < fewest ? fewest : wanted > most ? most : wanted;
}

/* Words that many blocks write, each in a cache line of its own. */
typedef struct gsc__gpu_sort_progress {
    uint32_t next, line0[31];
    uint32_t counted, line1[31]; /* chunks of the histograms */
    uint32_t plan, line2[31];    /* a bit per pass to run, once the histograms are complete */
    uint32_t done[GSC__SORT_PASSES], line3[24];              /* tiles */
    uint32_t histograms[GSC__SORT_PASSES][GSC__SORT_DIGITS]; /* then where digits begin */
} gsc__gpu_sort_progress;

/* Pass t of those that run reads work_keys[(t - 1) & 1] and writes work_keys[t & 1], the last
 * one out_keys; the last writes out_values[0], the one before it out_values[1], and so on. */
typedef struct gsc_k_sort {
    gsc__gpu_length length;
    const void *keys;        /* [length], 16, 32 or 64 bits, as are work_keys and out_keys */
    const uint32_t *values;  /* [length], or NULL: the positions */
    const uint32_t *base;    /* subtracted from the keys, none of which is below it; or NULL: 0 */
    void *work_keys[2];      /* [length] */
    void *out_keys;          /* [length], not what the last pass reads, or NULL */
    uint32_t *out_values[2]; /* [length] */
    uint32_t values_below;   /* larger ones become the largest below it; 0: no limit */
    uint32_t passes, digit_bits;
    uint32_t may_skip; /* passes whose digit all keys share */
    uint32_t tiles;    /* wanted at least */
    uint32_t tile_limit;
    gsc__gpu_sort_progress *progress; /* zeroed */
    uint32_t *states[2];              /* look-back: [tile_limit, 512] of tiles, [groups, 2, 512] of
                                         groups, the first one zeroed */
} gsc_k_sort;

#endif
