/* The tree of boxes over points in Hilbert order.
 *
 * Leaf i holds points 16 i to 16 i + 15 of the order; a node holds the boxes of 16 consecutive
 * leaves or of 16 consecutive nodes of the level below.  A child's place follows from its number,
 * so there are no pointers. */
#ifndef GSC_CPU_KNN_TREE_H
#define GSC_CPU_KNN_TREE_H

#include "hilbert.h"

#define GSC__KNN_WIDTH 16 /* points in a leaf, boxes in a node */
#define GSC__KNN_LEVELS 8 /* 16^8 points and more */
#define GSC__KNN_NONE UINT32_MAX

typedef struct gsc__knn_leaf {
    gsc_real position[3][GSC__KNN_WIDTH]; /* NaN beyond the last point */
    uint32_t index[GSC__KNN_WIDTH];       /* GSC__KNN_NONE beyond the last point */
} gsc__knn_leaf;

/* Beyond the last child low is +inf and high is -inf. */
typedef struct gsc__knn_node {
    gsc_real low[3][GSC__KNN_WIDTH], high[3][GSC__KNN_WIDTH];
    uint32_t min_index[GSC__KNN_WIDTH]; /* of the points below the child */
} gsc__knn_node;

typedef struct gsc__knn_tree {
    gsc__knn_leaf *leaves;
    gsc__knn_node *nodes;
    int64_t count; /* points */
    int64_t leaf_count;
    int levels; /* of nodes; 0 without points; the highest has one node */
    int64_t level_start[GSC__KNN_LEVELS + 1]; /* first node of each level and of the next */
} gsc__knn_tree;

/* All but the arrays, which must hold leaf_count and level_start[levels] elements. */
static gsc__knn_tree gsc__knn_tree_plan(int64_t count);
/* order: the indices of the tree's points in Hilbert order. */
static void gsc__knn_tree_build(gsc__pool *pool, const gsc_real *points, const uint32_t *order,
                                const gsc__knn_tree *tree);

#endif
