/* The tree of boxes over points in Hilbert order.
 *
 * Leaf i holds points 16 i to 16 i + 15 of the order; a node holds the boxes of 16 consecutive
 * leaves or of 16 consecutive nodes of the level below.  A child's place follows from its number,
 * so there are no pointers.
 *
 * Boxes are built bottom up, a level at a time.  Each keeps the lowest index inside: among points
 * at equal distance the lower index wins, so a box at exactly the distance of the k-th neighbour
 * can be skipped if its indices are higher.  Without that, clouds of many duplicates would take
 * quadratic time. */
#ifndef GSC_CPU_KNN_TREE_H
#define GSC_CPU_KNN_TREE_H

#include "hilbert.h"

#define GSC__KNN_WIDTH 16 /* points in a leaf, boxes in a node */
#define GSC__KNN_LEVELS 8 /* 16^8 points and more */
#define GSC__KNN_NONE UINT32_MAX

typedef struct gsc__knn_leaf {
    gsc_real position[3][GSC__KNN_WIDTH]; /* infinity beyond the last point */
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

#define NODES_GRAIN 16

typedef struct build_task {
    const gsc_real *points;
    const uint32_t *order;
    const gsc__knn_tree *tree;
    int level;
} build_task;

/* All but the arrays, which must hold leaf_count and level_start[levels] elements. */
static gsc__knn_tree gsc__knn_tree_plan(int64_t count) {
    gsc__knn_tree tree = {.count = count};
    tree.leaf_count = (count + GSC__KNN_WIDTH - 1) / GSC__KNN_WIDTH;
    int64_t children = tree.leaf_count;
    while (children > 1 || (children == 1 && tree.levels == 0)) {
        int64_t nodes = (children + GSC__KNN_WIDTH - 1) / GSC__KNN_WIDTH;
        tree.level_start[tree.levels + 1] = tree.level_start[tree.levels] + nodes;
        ++tree.levels;
        children = nodes;
    }
    return tree;
}

static void clear_child(gsc__knn_node *node, int child) {
    for (int axis = 0; axis < 3; ++axis) {
        node->low[axis][child] = INFINITY;
        node->high[axis][child] = -INFINITY;
    }
    node->min_index[child] = GSC__KNN_NONE;
}

static void fill_leaf(const build_task *task, int64_t leaf_number, gsc__knn_node *node, int child) {
    gsc__knn_leaf *leaf = task->tree->leaves + leaf_number;
    int64_t first = leaf_number * GSC__KNN_WIDTH;
    clear_child(node, child);
    for (int i = 0; i < GSC__KNN_WIDTH; ++i) {
        if (first + i >= task->tree->count) {
            for (int axis = 0; axis < 3; ++axis) leaf->position[axis][i] = INFINITY;
            leaf->index[i] = GSC__KNN_NONE;
            continue;
        }
        uint32_t index = task->order[first + i];
        leaf->index[i] = index;
        if (index < node->min_index[child]) node->min_index[child] = index;
        for (int axis = 0; axis < 3; ++axis) {
            gsc_real x = task->points[3 * (size_t)index + (size_t)axis];
            leaf->position[axis][i] = x;
            if (x < node->low[axis][child]) node->low[axis][child] = x;
            if (x > node->high[axis][child]) node->high[axis][child] = x;
        }
    }
}

static void fill_child(const gsc__knn_node *below, gsc__knn_node *node, int child) {
    clear_child(node, child);
    for (int i = 0; i < GSC__KNN_WIDTH; ++i) {
        if (below->min_index[i] < node->min_index[child])
            node->min_index[child] = below->min_index[i];
        for (int axis = 0; axis < 3; ++axis) {
            gsc_real low = below->low[axis][i], high = below->high[axis][i];
            if (low < node->low[axis][child]) node->low[axis][child] = low;
            if (high > node->high[axis][child]) node->high[axis][child] = high;
        }
    }
}

static void fill_nodes(void *arg, int64_t begin, int64_t end, int thread) {
    const build_task *task = arg;
    const gsc__knn_tree *tree = task->tree;
    int level = task->level;
    int64_t children =
        level == 0 ? tree->leaf_count : tree->level_start[level] - tree->level_start[level - 1];
    (void)thread;
    for (int64_t number = begin; number < end; ++number) {
        gsc__knn_node *node = tree->nodes + tree->level_start[level] + number;
        for (int child = 0; child < GSC__KNN_WIDTH; ++child) {
            int64_t below = number * GSC__KNN_WIDTH + child;
            if (below >= children)
                clear_child(node, child);
            else if (level == 0)
                fill_leaf(task, below, node, child);
            else
                fill_child(tree->nodes + tree->level_start[level - 1] + below, node, child);
        }
    }
}

/* order: the indices of the tree's points in Hilbert order. */
static void gsc__knn_tree_build(gsc__pool *pool, const gsc_real *points, const uint32_t *order,
                                const gsc__knn_tree *tree) {
    build_task task = {.points = points, .order = order, .tree = tree};
    for (task.level = 0; task.level < tree->levels; ++task.level) {
        int64_t nodes = tree->level_start[task.level + 1] - tree->level_start[task.level];
        gsc__parallel_for(pool, nodes, NODES_GRAIN, fill_nodes, &task);
    }
}

#endif
