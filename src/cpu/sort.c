/* Radix sort from the least significant digit (Knuth, The Art of Computer Programming,
 * volume 3, 5.2.5) on contiguous blocks, one per thread.
 *
 * A pass counts the digits of every block, turns the counts into places (digit-major,
 * block-minor, which makes the pass stable) and moves the pairs.  Passes whose digit is
 * the same in all keys are skipped.  Short inputs are merge sorted: the histograms would
 * cost more than the pairs. */
#include "sort.h"

#include <stdbool.h>
#include <string.h>

/* More passes with fewer digits are faster: 256 streams of writes fit the translation buffer
 * and the caches, 2048 do not. */
#define DIGIT_BITS 8
#define DIGITS (1 << DIGIT_BITS)
/* The merge sort begins with runs of this length, which are sorted by insertion. */
#define RUN 16

static int sort_blocks(int threads, int64_t n) {
    int64_t most = n / (GSC__SORT_PARALLEL / 2);
    if (most < 1) most = 1;
    return most < threads ? (int)most : threads;
}

size_t gsc__sort_scratch_bytes(int threads) {
    /* A histogram and a key's worth of differing bits per block. */
    return (size_t)threads * (DIGITS * sizeof(uint32_t) + 64);
}

/* Turns counts[block][digit] into the first place of each block's pairs of that digit. */
static void scan_counts(uint32_t *counts, int blocks, int digits) {
    uint32_t place = 0;
    for (int digit = 0; digit < digits; ++digit) {
        for (int block = 0; block < blocks; ++block) {
            uint32_t *count = counts + (size_t)block * DIGITS + digit;
            uint32_t next = place + *count;
            *count = place;
            place = next;
        }
    }
}

#define KEY uint32_t
#define PAIRS gsc__pairs32
#define NAME(name) name##32
#include "sort_keys.h"
#undef KEY
#undef PAIRS
#undef NAME

#define KEY uint64_t
#define PAIRS gsc__pairs64
#define NAME(name) name##64
#include "sort_keys.h"
#undef KEY
#undef PAIRS
#undef NAME
