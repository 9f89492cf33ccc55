/* Exact k nearest neighbours.
 *
 * The points are put in Hilbert order (hilbert.h), with boxes above them (knn_tree.h).  Queries go
 * through the tree in groups of 16 neighbours on the curve: a node is tested once, against the
 * box of the group and the farthest k-th distance in it, a leaf against each query.  16 boxes, 16
 * queries or 16 points fill one or a few registers.
 *
 * Distances are float differences of the original coordinates.  Rounding never makes a box farther
 * than a point in it (gsc__vlength2), so skipping a box needs no tolerance. */
#ifndef GSC_CPU_KNN_H
#define GSC_CPU_KNN_H

#include "knn_group.h"

#define WIDTH GSC__KNN_WIDTH
#define GROUPS_GRAIN 8
/* A path leaves at most 15 nodes waiting per level. */
#define STACK (GSC__KNN_LEVELS * WIDTH)

typedef struct search_task {
    const gsc__knn *knn;
    const gsc__knn_tree *tree;
    const uint32_t *query_order; /* NULL: the queries are the points */
    int64_t query_count;         /* finite ones */
    gsc__knn_key *keys;          /* [threads, WIDTH, capacity] */
    int capacity;
} search_task;

typedef struct waiting_node {
    gsc_real distance2;
    int32_t level;
    int64_t number; /* within the level */
} waiting_node;

/* ------------------------------------------------------------------ traversal */

static void visit_leaf(gsc__knn_group *group, const gsc__knn_tree *tree, int64_t number, bool own) {
    const gsc__knn_leaf *leaf = tree->leaves + number;
    const gsc__knn_node *node = tree->nodes + number / WIDTH;
    const int child = (int)(number % WIDTH);
    bool added = false;
    for (uint32_t bits = gsc__knn_queries_in_reach(group, node, child); bits != 0;
         bits &= bits - 1) {
        int query = __builtin_ctz(bits);
        gsc_real distance2[WIDTH];
        uint32_t near = gsc__knn_points_in_reach(group, query, leaf, distance2);
        if (own) near &= ~(UINT32_C(1) << query); /* not its own neighbour */
        if (near != 0) added |= gsc__knn_add_all(group, query, leaf, distance2, near);
    }
    if (added) gsc__knn_update_radius(group);
}

/* Whether a box may hold a better candidate for any query of group. */
static bool group_needs(const gsc__knn_group *group, gsc_real distance2, uint32_t min_index) {
    return distance2 < group->radius ||
           (distance2 == group->radius && min_index < group->radius_index);
}

/* Numbers of the children that group needs, nearest first; those at equal distance in order, which
 * for duplicates is index order. */
static int sorted_children(const gsc__knn_group *group, const gsc__knn_node *node, int *children,
                           gsc_real *distance2) {
    int count = 0;
    uint32_t bits = gsc__knn_children_in_reach(group, node, distance2);
    for (; bits != 0; bits &= bits - 1) {
        int child = __builtin_ctz(bits), i = count;
        if (!group_needs(group, distance2[child], node->min_index[child])) continue;
        for (; i > 0 && distance2[children[i - 1]] > distance2[child]; --i)
            children[i] = children[i - 1];
        children[i] = child;
        ++count;
    }
    return count;
}

static void visit_leaves(gsc__knn_group *group, const gsc__knn_tree *tree, int64_t number,
                         const int64_t seeds[2]) {
    const gsc__knn_node *node = tree->nodes + number;
    gsc_real distance2[WIDTH];
    int children[WIDTH];
    int count = sorted_children(group, node, children, distance2);
    for (int i = 0; i < count; ++i) {
        int child = children[i];
        int64_t leaf = number * WIDTH + child;
        if (leaf >= seeds[0] && leaf < seeds[1]) continue;
        if (group_needs(group, distance2[child], node->min_index[child]))
            visit_leaf(group, tree, leaf, false);
    }
}

/* Visits every leaf within reach, from the root down, except the seeds, which were visited. */
static void search_group(gsc__knn_group *group, const gsc__knn_tree *tree, const int64_t seeds[2]) {
    waiting_node stack[STACK];
    int waiting = 0;
    if (tree->levels == 0) return;
    stack[waiting++] = (waiting_node){0, tree->levels - 1, 0};
    while (waiting > 0) {
        waiting_node next = stack[--waiting];
        if (next.distance2 > group->radius) continue;
        if (next.level == 0) {
            visit_leaves(group, tree, next.number, seeds);
            continue;
        }
        const gsc__knn_node *node = tree->nodes + tree->level_start[next.level] + next.number;
        gsc_real distance2[WIDTH];
        int children[WIDTH];
        for (int i = sorted_children(group, node, children, distance2) - 1; i >= 0; --i)
            stack[waiting++] = (waiting_node){distance2[children[i]], next.level - 1,
                                              next.number * WIDTH + children[i]};
    }
}

/* -------------------------------------------------------------------- results */

static void write_index(const gsc__knn *knn, int64_t place, int64_t index) {
    if (knn->indices64)
        ((int64_t *)knn->indices)[place] = index;
    else
        ((int32_t *)knn->indices)[place] = (int32_t)index;
}

/* keys NULL: the query has a non-finite coordinate. */
static void write_row(const gsc__knn *knn, int64_t row, const gsc__knn_key *keys) {
    double sum = 0;
    int found = 0;
    for (int i = 0; i < knn->k; ++i) {
        const gsc__knn_key key = keys != NULL ? keys[i] : gsc__knn_missing();
        gsc_real distance2 = gsc__knn_distance2(key);
        bool exists = gsc__knn_index(key) != GSC__KNN_NONE;
        int64_t index = exists ? (int64_t)gsc__knn_index(key) : -1;
        if (knn->indices != NULL) write_index(knn, row * knn->k + i, index);
        if (knn->distances2 != NULL) knn->distances2[row * knn->k + i] = distance2;
        if (exists) sum += (double)distance2, ++found;
    }
    const gsc_real none = keys != NULL ? 0 : NAN;
    if (knn->mean2 != NULL) knn->mean2[row] = found > 0 ? (gsc_real)(sum / found) : none;
}

static void write_group(const gsc__knn *knn, gsc__knn_group *group) {
    for (int query = 0; query < group->size; ++query) {
        gsc__knn_key *keys = group->keys[query];
        if (group->k > GSC__KNN_SORTED) {
            int count = group->collected[query];
            if (count > group->k) gsc__knn_select(keys, count, group->k), count = group->k;
            gsc__knn_sort(keys, count);
            while (count < group->k) keys[count++] = gsc__knn_missing();
        }
        write_row(knn, group->row[query], keys);
    }
}

/* --------------------------------------------------------------------- groups */

static void take_points(const search_task *task, int64_t number, gsc__knn_group *group) {
    const gsc__knn_leaf *leaf = task->tree->leaves + number;
    memcpy(group->position, leaf->position, sizeof group->position);
    for (int i = 0; i < group->size; ++i) group->row[i] = leaf->index[i];
}

static void take_queries(const search_task *task, int64_t number, gsc__knn_group *group) {
    for (int i = 0; i < group->size; ++i) {
        uint32_t row = task->query_order[number * WIDTH + i];
        group->row[i] = row;
        for (int axis = 0; axis < 3; ++axis)
            group->position[axis][i] = task->knn->queries[3 * (size_t)row + (size_t)axis];
    }
}

static void start_group(const search_task *task, int64_t number, gsc__knn_key *keys,
                        gsc__knn_group *group) {
    int64_t left = task->query_count - number * WIDTH;
    group->size = left < WIDTH ? (int)left : WIDTH;
    group->k = task->knn->k;
    group->capacity = task->capacity;
    if (task->query_order == NULL)
        take_points(task, number, group);
    else
        take_queries(task, number, group);
    for (int axis = 0; axis < 3; ++axis) {
        gsc_real *x = group->position[axis];
        for (int i = group->size; i < WIDTH; ++i) x[i] = x[0];
        group->low[axis] = group->high[axis] = x[0];
        for (int i = 1; i < WIDTH; ++i) {
            group->low[axis] = x[i] < group->low[axis] ? x[i] : group->low[axis];
            group->high[axis] = x[i] > group->high[axis] ? x[i] : group->high[axis];
        }
    }
    for (int i = 0; i < WIDTH; ++i) {
        group->keys[i] = keys + i * task->capacity;
        group->collected[i] = 0;
        group->bound[i] = i < group->size ? (gsc_real)INFINITY : -1;
        group->bound_index[i] = i < group->size ? GSC__KNN_NONE : 0;
        if (group->k <= GSC__KNN_SORTED)
            for (int j = 0; j < group->k; ++j) group->keys[i][j] = gsc__knn_missing();
    }
    gsc__knn_update_radius(group);
}

static void search_groups(void *arg, int64_t begin, int64_t end, int thread) {
    const search_task *task = arg;
    const gsc__knn_tree *tree = task->tree;
    gsc__knn_key *keys = task->keys + (size_t)thread * WIDTH * (size_t)task->capacity;
    for (int64_t number = begin; number < end; ++number) {
        gsc__knn_group group;
        int64_t seeds[2] = {0, 0};
        start_group(task, number, keys, &group);
        if (task->query_order == NULL) { /* the group is a leaf */
            seeds[0] = number > 0 ? number - 1 : 0;
            seeds[1] = number + 2 < tree->leaf_count ? number + 2 : tree->leaf_count;
            visit_leaf(&group, tree, number, true);
            for (int64_t leaf = seeds[0]; leaf < seeds[1]; ++leaf)
                if (leaf != number) visit_leaf(&group, tree, leaf, false);
        }
        search_group(&group, tree, seeds);
        write_group(task->knn, &group);
    }
}

/* -------------------------------------------------------------------- scratch */

typedef struct knn_scratch {
    gsc__pairs64 points, queries; /* they share the keys; queries are ordered first */
    gsc__knn_leaf *leaves;        /* in place of the keys, which are then no longer needed */
    gsc__knn_node *nodes;
    gsc__knn_key *lists; /* [threads, WIDTH, capacity] */
    void *sort;
} knn_scratch;

static size_t carve_knn(const gsc__knn *knn, int threads, void *base, knn_scratch *s) {
    const size_t points = (size_t)knn->points_count;
    const size_t queries = knn->queries != NULL ? (size_t)knn->queries_count : 0;
    const size_t most = points > queries ? points : queries;
    const gsc__knn_tree tree = gsc__knn_tree_plan(knn->points_count);
    const size_t leaves = (size_t)tree.leaf_count * sizeof *s->leaves;
    gsc__carver carver = {.base = base};
    s->leaves = base;
    s->points.keys = gsc__carve(&carver, most, sizeof *s->points.keys);
    s->points.other_keys = gsc__carve(&carver, most, sizeof *s->points.other_keys);
    if (carver.at < leaves) (void)gsc__carve(&carver, leaves - carver.at, 1);
    s->points.values = gsc__carve(&carver, points, sizeof *s->points.values);
    s->points.other_values = gsc__carve(&carver, points, sizeof *s->points.other_values);
    s->queries.keys = s->points.keys;
    s->queries.other_keys = s->points.other_keys;
    s->queries.values = gsc__carve(&carver, queries, sizeof *s->queries.values);
    s->queries.other_values = gsc__carve(&carver, queries, sizeof *s->queries.other_values);
    s->nodes = gsc__carve(&carver, (size_t)tree.level_start[tree.levels], sizeof *s->nodes);
    s->lists = gsc__carve(&carver, (size_t)threads * WIDTH * (size_t)gsc__knn_capacity(knn->k),
                          sizeof *s->lists);
    s->sort = gsc__carve(&carver, 1, gsc__sort_scratch_bytes(threads));
    return carver.at;
}

static size_t gsc__cpu_knn_scratch_bytes(const gsc__call *call, const gsc__knn *knn) {
    knn_scratch scratch;
    return carve_knn(knn, gsc__pool_threads(gsc__cpu_pool(call->context)), NULL, &scratch);
}

static gsc_status gsc__cpu_knn(const gsc__call *call, const gsc__knn *knn) {
    gsc__pool *pool = gsc__cpu_pool(call->context);
    search_task task = {.knn = knn, .capacity = gsc__knn_capacity(knn->k)};
    knn_scratch scratch;
    (void)carve_knn(knn, gsc__pool_threads(pool), knn->scratch, &scratch);
    if (knn->queries != NULL)
        task.query_count = gsc__hilbert_order(pool, knn->queries, knn->queries_count,
                                              &scratch.queries, scratch.sort);
    const int64_t points =
        gsc__hilbert_order(pool, knn->points, knn->points_count, &scratch.points, scratch.sort);
    gsc__knn_tree tree = gsc__knn_tree_plan(points);
    tree.leaves = scratch.leaves;
    tree.nodes = scratch.nodes;
    gsc__knn_tree_build(pool, knn->points, scratch.points.values, &tree);

    const uint32_t *query_order = scratch.points.values;
    if (knn->queries == NULL)
        task.query_count = points;
    else
        query_order = task.query_order = scratch.queries.values;
    task.tree = &tree;
    task.keys = scratch.lists;
    gsc__parallel_for(pool, (task.query_count + WIDTH - 1) / WIDTH, GROUPS_GRAIN, search_groups,
                      &task);
    for (int64_t i = task.query_count; i < knn->queries_count; ++i)
        write_row(knn, query_order[i], NULL);
    return GSC_OK;
}

#endif
