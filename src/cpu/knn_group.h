/* Sixteen queries, neighbours in space, that go through the tree together: distances from them,
 * one or a few registers at a time, and the k best candidates of each.
 *
 * A candidate is one unsigned number, the bits of its squared distance above its index:
 * non-negative floats order as their bits do, so comparing numbers compares by distance
 * and then by index. */
#ifndef GSC_CPU_KNN_GROUP_H
#define GSC_CPU_KNN_GROUP_H

#include "knn_tree.h"

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

typedef struct gsc__knn_group {
    gsc_real position[3][GSC__KNN_WIDTH];
    gsc_real bound[GSC__KNN_WIDTH]; /* squared distance of the k-th; -1 where there is no query */
    uint32_t bound_index[GSC__KNN_WIDTH]; /* its index, which decides between equal distances */
    gsc__knn_key *keys[GSC__KNN_WIDTH];   /* [capacity] */
    int collected[GSC__KNN_WIDTH];        /* keys in use, of a list that is not kept sorted */
    gsc_real low[3], high[3];             /* the queries' box */
    gsc_real radius;                      /* highest bound */
    uint32_t radius_index;                /* highest bound_index */
    int64_t row[GSC__KNN_WIDTH];          /* of the outputs */
    int size, k, capacity;
} gsc__knn_group;

/* ----------------------------------------------------------------- distances */

/* x^2 + y^2 + z^2 with one order of roundings, so that it never decreases when |x|, |y| or |z|
 * grows.  If the compiler chose which products to fuse, a box could come out farther than a point
 * inside it. */
GSC__INLINE gsc__vec gsc__vlength2(gsc__vec x, gsc__vec y, gsc__vec z) {
    return gsc__vfma(z, z, gsc__vfma(y, y, x * x));
}

/* Bits of the queries of group that need child's box. */
static inline uint32_t gsc__knn_queries_in_reach(const gsc__knn_group *group,
                                                 const gsc__knn_node *node, int child) {
    uint32_t bits = 0;
    const gsc__vec zero = gsc__vset(0);
    for (int v = 0; v < GSC__KNN_WIDTH; v += GSC__LANES) {
        gsc__vec d[3];
        for (int axis = 0; axis < 3; ++axis) {
            gsc__vec q = gsc__vload(&group->position[axis][v]);
            gsc__vec below = gsc__vset(node->low[axis][child]) - q;
            gsc__vec above = q - gsc__vset(node->high[axis][child]);
            d[axis] = gsc__vmax(gsc__vmax(below, above), zero);
        }
        gsc__vec bound = gsc__vload(&group->bound[v]);
        bits |= gsc__mbits(gsc__vge(bound, gsc__vlength2(d[0], d[1], d[2]))) << v;
    }
    return bits;
}

/* Squared distances of node's boxes to the box of group; bits of those within its radius. */
static inline uint32_t gsc__knn_children_in_reach(const gsc__knn_group *group,
                                                  const gsc__knn_node *node, gsc_real *distance2) {
    uint32_t bits = 0;
    const gsc__vec zero = gsc__vset(0), radius = gsc__vset(group->radius);
    for (int v = 0; v < GSC__KNN_WIDTH; v += GSC__LANES) {
        gsc__vec d[3];
        for (int axis = 0; axis < 3; ++axis) {
            gsc__vec below = gsc__vload(&node->low[axis][v]) - gsc__vset(group->high[axis]);
            gsc__vec above = gsc__vset(group->low[axis]) - gsc__vload(&node->high[axis][v]);
            d[axis] = gsc__vmax(gsc__vmax(below, above), zero);
        }
        gsc__vec d2 = gsc__vlength2(d[0], d[1], d[2]);
        gsc__vstore(distance2 + v, d2);
        bits |= gsc__mbits(gsc__vge(radius, d2)) << v;
    }
    return bits;
}

/* Squared distances of leaf's points to a query; bits of those that are at most bound. */
static inline uint32_t gsc__knn_points_in_reach(const gsc__knn_group *group, int query,
                                                const gsc__knn_leaf *leaf, gsc_real *distance2) {
    uint32_t bits = 0;
    const gsc__vec bound = gsc__vset(group->bound[query]);
    for (int v = 0; v < GSC__KNN_WIDTH; v += GSC__LANES) {
        gsc__vec d[3];
        for (int axis = 0; axis < 3; ++axis)
            d[axis] =
                gsc__vload(&leaf->position[axis][v]) - gsc__vset(group->position[axis][query]);
        gsc__vec d2 = gsc__vlength2(d[0], d[1], d[2]);
        gsc__vstore(distance2 + v, d2);
        bits |= gsc__mbits(gsc__vge(bound, d2)) << v;
    }
    return bits;
}

/* ---------------------------------------------------------------- candidates */

static inline void gsc__knn_set_bound(gsc__knn_group *group, int query, gsc__knn_key last) {
    group->bound[query] = gsc__knn_distance2(last);
    group->bound_index[query] = gsc__knn_index(last);
}

static inline void gsc__knn_add(gsc__knn_group *group, int query, gsc__knn_key key) {
    gsc__knn_key *keys = group->keys[query];
    const int k = group->k;
    if (k <= GSC__KNN_SORTED) {
        gsc__knn_set_bound(group, query, gsc__knn_insert(keys, k, key));
        return;
    }
    int count = group->collected[query];
    keys[count++] = key;
    /* The first k make the first bound. */
    bool first = count == k && group->bound_index[query] == GSC__KNN_NONE;
    if (first || count == group->capacity) {
        gsc__knn_set_bound(group, query, gsc__knn_select(keys, count, k));
        count = k;
    }
    group->collected[query] = count;
}

/* Adds the points of bits that are near enough; true if there was one. */
static inline bool gsc__knn_add_all(gsc__knn_group *group, int query, const gsc__knn_leaf *leaf,
                                    const gsc_real *distance2, uint32_t bits) {
    bool added = false;
    for (; bits != 0; bits &= bits - 1) {
        int i = __builtin_ctz(bits);
        gsc__knn_key key = gsc__knn_pack(distance2[i], leaf->index[i]);
        if (key >= gsc__knn_pack(group->bound[query], group->bound_index[query])) continue;
        gsc__knn_add(group, query, key);
        added = true;
    }
    return added;
}

static inline void gsc__knn_update_radius(gsc__knn_group *group) {
    gsc_real radius = group->bound[0];
    uint32_t index = group->bound_index[0];
    for (int i = 1; i < GSC__KNN_WIDTH; ++i) {
        radius = group->bound[i] > radius ? group->bound[i] : radius;
        index = group->bound_index[i] > index ? group->bound_index[i] : index;
    }
    group->radius = radius;
    group->radius_index = index;
}

#endif
