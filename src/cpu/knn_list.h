/* The k best candidates of one query.
 *
 * A candidate is one unsigned number, the bits of its squared distance above its index:
 * non-negative floats order as their bits do, so comparing numbers compares by distance
 * and then by index. */
#ifndef GSC_CPU_KNN_LIST_H
#define GSC_CPU_KNN_LIST_H

#include "knn_tree.h"

#include <math.h>
#include <string.h>

#ifdef GSC_DOUBLE
__extension__ typedef unsigned __int128 gsc__knn_key;
#else
typedef uint64_t gsc__knn_key;
#endif

/* A list of at most this many is kept sorted; a longer one collects and selects. */
#define GSC__KNN_SORTED 48

static inline gsc__knn_key gsc__knn_pack(gsc_real distance2, uint32_t index) {
    gsc_real_bits bits;
    memcpy(&bits, &distance2, sizeof bits);
    return (gsc__knn_key)bits << 32 | index;
}

static inline gsc_real gsc__knn_distance2(gsc__knn_key key) {
    gsc_real_bits bits = (gsc_real_bits)(key >> 32);
    gsc_real distance2;
    memcpy(&distance2, &bits, sizeof distance2);
    return distance2;
}

static inline uint32_t gsc__knn_index(gsc__knn_key key) {
    return (uint32_t)key;
}

/* Fills a list that has too few candidates.  Sorts after every real one, even one at infinity. */
static inline gsc__knn_key gsc__knn_missing(void) {
    return gsc__knn_pack(INFINITY, GSC__KNN_NONE);
}

/* Keys that a list of k needs. */
static inline int gsc__knn_capacity(int k) {
    return k <= GSC__KNN_SORTED ? k : 2 * k;
}

/* Puts key, which is below the last one, into the sorted keys [k]; returns the new last. */
static inline gsc__knn_key gsc__knn_insert(gsc__knn_key *keys, int k, gsc__knn_key key) {
    int i = k - 1;
    for (; i > 0 && keys[i - 1] > key; --i) keys[i] = keys[i - 1];
    keys[i] = key;
    return keys[k - 1];
}

static inline void gsc__knn_swap(gsc__knn_key *a, gsc__knn_key *b) {
    gsc__knn_key t = *a;
    *a = *b;
    *b = t;
}

/* Splits keys [count], count >= 3 and all different, at the median of three of them and returns
 * its place.  Lomuto's partition without a branch, which no processor could predict. */
static inline int gsc__knn_split(gsc__knn_key *keys, int count) {
    gsc__knn_key *first = keys, *middle = keys + count / 2, *last = keys + count - 1;
    if (*middle < *first) gsc__knn_swap(middle, first);
    if (*last < *first) gsc__knn_swap(last, first);
    if (*middle < *last) gsc__knn_swap(middle, last); /* the median goes last */
    const gsc__knn_key pivot = *last;
    int below = 0;
    for (int i = 0; i < count - 1; ++i) {
        gsc__knn_key key = keys[i];
        keys[i] = keys[below];
        keys[below] = key;
        below += key < pivot;
    }
    gsc__knn_swap(&keys[below], last);
    return below;
}

static inline void gsc__knn_insertion_sort(gsc__knn_key *keys, int count) {
    for (int i = 1; i < count; ++i) gsc__knn_insert(keys, i + 1, keys[i]);
}

#define GSC__KNN_SHORT 16 /* keys that are sorted by insertion */

static inline void gsc__knn_sort(gsc__knn_key *keys, int count) {
    while (count > GSC__KNN_SHORT) {
        int split = gsc__knn_split(keys, count);
        gsc__knn_sort(keys + split + 1, count - split - 1);
        count = split;
    }
    gsc__knn_insertion_sort(keys, count);
}

/* Moves the k lowest of keys [count] to the front (Hoare's selection) and returns the
 * highest of them.  1 <= k <= count. */
static inline gsc__knn_key gsc__knn_select(gsc__knn_key *keys, int count, int k) {
    int low = 0, high = count;
    while (high - low > GSC__KNN_SHORT) {
        int split = low + gsc__knn_split(keys + low, high - low);
        if (split == k - 1) return keys[split];
        if (split > k - 1)
            high = split;
        else
            low = split + 1;
    }
    gsc__knn_insertion_sort(keys + low, high - low);
    return keys[k - 1];
}

#endif
