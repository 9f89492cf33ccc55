/* Sixteen queries, neighbours in space, that go through the tree together: distances from them,
 * one or a few registers at a time, and the candidates that they keep. */
#ifndef GSC_CPU_KNN_GROUP_H
#define GSC_CPU_KNN_GROUP_H

#include "knn_list.h"
#include "knn_simd.h"

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
