/* Radix sort from the least significant digit (Knuth, The Art of Computer Programming,
 * volume 3, 5.2.5) on contiguous pieces, one per thread.
 *
 * A pass counts the digits of every piece, turns the counts into places (digit-major,
 * piece-minor, which makes the pass stable) and moves the pairs.  Passes whose digit is
 * the same in all keys are left out.  Short inputs are merge sorted: the histograms would
 * cost more than the pairs. */
#include "sort.h"

#include <string.h>

/* More passes over fewer places win: 256 streams of writes stay within the translation
 * buffer and the caches, 2048 do not. */
#define DIGIT_BITS 8
#define DIGITS (1 << DIGIT_BITS)
/* Pieces are merge sorted from runs of this length, which insertion makes. */
#define RUN 16

static int sort_pieces(int threads, int64_t n) {
    int64_t most = n / (GSC__SORT_PARALLEL / 2);
    if (most < 1) most = 1;
    return most < threads ? (int)most : threads;
}

size_t gsc__sort_scratch_bytes(int threads) {
    /* A histogram and a key's worth of differing bits per piece. */
    return (size_t)threads * (DIGITS * sizeof(uint32_t) + 64);
}

/* Turns counts[piece][digit] into the first place of each piece's pairs of that digit. */
static void scan_counts(uint32_t *counts, int pieces, int digits) {
    uint32_t place = 0;
    for (int digit = 0; digit < digits; ++digit) {
        for (int piece = 0; piece < pieces; ++piece) {
            uint32_t *count = counts + (size_t)piece * DIGITS + digit;
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
