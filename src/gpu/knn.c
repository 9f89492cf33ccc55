/* Exact nearest neighbours on the device: see cuda/knn_tree.cu, knn_clusters.cu and knn.cu. */
#include "gpu.h"

enum {
    WARPS = GSC__KNN_BLOCK / 32,
    SHORT = 3,
    MEDIUM = 8,
    LISTS_PER_PROCESSOR = 16,
    CLUSTER_BLOCKS_PER_PROCESSOR = 2
};

/* Boxes of all levels, the leaves' first; each level is padded to whole nodes. */
typedef struct tree_plan {
    uint32_t leaves;
    int32_t levels;
    uint32_t padded[GSC__KNN_LEVELS]; /* boxes of a level */
    uint64_t start[GSC__KNN_LEVELS];
    uint64_t boxes;
} tree_plan;

/* Points or queries in the order of the curve. */
typedef struct point_order {
    const float *points; /* [count, 3] */
    int64_t count;
    uint32_t *order, *other; /* [count]; other is work space */
    gsc__gpu_cells *cells;
} point_order;

/* Keys are dead once the points are in order: the sorted copies take their place, and the boxes
 * that of the points' other values.  Queries are ordered before the points, with the same keys. */
typedef struct knn_scratch {
    tree_plan tree;
    point_order points, queries;
    uint64_t *keys[2];
    float *sorted;       /* begins where the keys do */
    gsc__gpu_box *boxes; /* begin where points.other does */
    gsc__gpu_bounds *bounds;
    void *sort;
    uint32_t *clusters;  /* [cluster_words] */
    uint32_t list_warps; /* of the kernel for any k */
    uint64_t *lists;
} knn_scratch;

static uint32_t multiprocessors_of(const gsc__call *call) {
    return (uint32_t)gsc__gpu_of(call->context)->device.multiprocessors;
}

/* The top level has at most as many boxes as a warp has lanes. */
static tree_plan plan_tree(int64_t count) {
    tree_plan plan = {.leaves = gsc__gpu_blocks(count, GSC__KNN_LEAF)};
    uint32_t boxes = plan.leaves;
    while (boxes > 0) {
        const uint32_t nodes = gsc__gpu_blocks(boxes, GSC__KNN_LEAF);
        plan.padded[plan.levels] = nodes * GSC__KNN_LEAF;
        plan.start[plan.levels] = plan.boxes;
        plan.boxes += plan.padded[plan.levels];
        ++plan.levels;
        if (boxes <= GSC__KNN_LEAF) break;
        boxes = nodes;
    }
    return plan;
}

/* The list holds every cluster that there can be, and four times what can be left of them after
 * one division. */
static uint32_t cluster_capacity(int64_t count) {
    return (uint32_t)(count / (GSC__KNN_CLUSTER * GSC__KNN_LEAF) + count / 512 + 64);
}

/* The counters of the clusters, their list and the marks of the found ones: one array, which is
 * cleared at once. */
static uint32_t cluster_words(int64_t count) {
    if (count < GSC__KNN_CLUSTERED_COUNT) return 0;
    const uint32_t found = (uint32_t)(count / (GSC__KNN_CLUSTER * GSC__KNN_LEAF) + 1);
    return (uint32_t)(sizeof(gsc__gpu_clusters) / sizeof(uint32_t)) + 2 * cluster_capacity(count) +
           found;
}

static size_t carve_scratch(void *base, const gsc__call *call, const gsc__knn *knn,
                            knn_scratch *s) {
    const size_t points = (size_t)knn->points_count;
    const size_t queries = knn->queries ? (size_t)knn->queries_count : 0;
    const size_t most = points > queries ? points : queries;
    gsc__carver carver = {.base = base}, keys = carver;
    *s = (knn_scratch){.tree = plan_tree(knn->points_count),
                       .points = {.points = knn->points, .count = knn->points_count},
                       .queries = {.points = knn->queries, .count = (int64_t)queries}};
    for (int i = 0; i < 2; ++i) s->keys[i] = gsc__carve(&keys, most, sizeof *s->keys[i]);
    s->sorted = gsc__carve(&carver, (size_t)s->tree.leaves * GSC__KNN_LEAF * 4, sizeof *s->sorted);
    if (carver.at < keys.at) carver.at = keys.at;
    s->points.order = gsc__carve(&carver, points, sizeof *s->points.order);
    const size_t boxes = (size_t)s->tree.boxes * sizeof *s->boxes;
    const size_t other = points * sizeof *s->points.other;
    s->boxes = gsc__carve(&carver, 1, other > boxes ? other : boxes);
    s->points.other = (void *)s->boxes;
    s->queries.order = gsc__carve(&carver, queries, sizeof *s->queries.order);
    s->queries.other = gsc__carve(&carver, queries, sizeof *s->queries.other);
    s->points.cells = gsc__carve(&carver, 1, sizeof *s->points.cells);
    s->queries.cells = gsc__carve(&carver, 1, sizeof *s->queries.cells);
    s->bounds = gsc__carve(&carver, GSC__KNN_BOUNDS_BLOCKS, sizeof *s->bounds);
    s->sort = gsc__carve(&carver, 1, gsc__gpu_sort_bytes((int64_t)most, GSC__KNN_KEY_BITS));
    s->clusters = gsc__carve(&carver, cluster_words((int64_t)most), sizeof *s->clusters);
    if (knn->k <= MEDIUM) return carver.at;
    /* Lists of the kernel for any k, in as many warps as the device keeps busy. */
    const uint32_t groups = gsc__gpu_blocks(knn->queries_count, GSC__KNN_LEAF);
    const uint32_t warps = multiprocessors_of(call) * LISTS_PER_PROCESSOR;
    s->list_warps = gsc__gpu_blocks(groups < warps ? groups : warps, WARPS) * WARPS;
    s->lists = gsc__carve(&carver, (size_t)s->list_warps * GSC__KNN_LEAF * (size_t)knn->k,
                          sizeof *s->lists);
    return carver.at;
}

size_t gsc__gpu_knn_scratch_bytes(const gsc__call *call, const gsc__knn *knn) {
    knn_scratch scratch;
    return carve_scratch(NULL, call, knn, &scratch);
}

/* --------------------------------------------------------------------- order */

/* Orders the points that share a cell of the curve. */
static gsc_status order_clusters(const gsc__call *call, const knn_scratch *s,
                                 const point_order *points) {
    const uint32_t leaves = gsc__gpu_blocks(points->count, GSC__KNN_LEAF);
    gsc__gpu_clusters *clusters = (void *)s->clusters;
    gsc_k_knn_clusters args = {.points = points->points,
                               .cells = points->cells,
                               .count = (uint32_t)points->count,
                               .order = points->order,
                               .other = points->other,
                               .clusters = clusters,
                               .list = (void *)(clusters + 1),
                               .capacity = cluster_capacity(points->count)};
    args.found = (void *)(args.list + args.capacity);
    GSC__TRY(LAUNCH(knn_find_clusters, call, gsc__gpu_blocks(leaves, GSC__KNN_BLOCK), args));
    return LAUNCH(knn_order_clusters, call, multiprocessors_of(call) * CLUSTER_BLOCKS_PER_PROCESSOR,
                  args);
}

/* Sorts points along the curve, those that are not finite last. */
static gsc_status order_points(const gsc__call *call, const knn_scratch *s,
                               const point_order *points) {
    const uint32_t count = (uint32_t)points->count, blocks = gsc__gpu_blocks(count, GSC__KNN_BLOCK);
    const gsc_k_knn_bounds bounds = {
        .points = points->points,
        .count = count,
        .blocks = blocks < GSC__KNN_BOUNDS_BLOCKS ? blocks : GSC__KNN_BOUNDS_BLOCKS,
        .parts = s->bounds,
        .cells = points->cells};
    GSC__TRY(LAUNCH(knn_bounds, call, bounds.blocks, bounds));
    GSC__TRY(LAUNCH(knn_cells, call, 1, bounds));
    const gsc_k_knn_keys keys = {.points = points->points,
                                 .cells = points->cells,
                                 .count = count,
                                 .keys = s->keys[0],
                                 .cleared = s->clusters,
                                 .cleared_words = cluster_words(count)};
    GSC__TRY(LAUNCH(knn_keys, call, blocks, keys));
    const gsc__gpu_sort_args sort = {.kernel = {.length = {&points->cells->count, count},
                                                .keys = s->keys[0],
                                                .work_keys = {s->keys[1], s->keys[0]},
                                                .out_values = {points->order, points->other}},
                                     .bits = GSC__KNN_KEY_BITS,
                                     .key_bytes = sizeof(uint64_t),
                                     .scratch = s->sort};
    GSC__TRY(gsc__gpu_sort(call, &sort));
    return keys.cleared_words ? order_clusters(call, s, points) : GSC_OK;
}

static gsc_status build_tree(const gsc__call *call, const knn_scratch *s) {
    const tree_plan *tree = &s->tree;
    const gsc_k_knn_leaves leaves = {.points = s->points.points,
                                     .order = s->points.order,
                                     .cells = s->points.cells,
                                     .leaves = tree->leaves,
                                     .padded_leaves = tree->padded[0],
                                     .sorted = s->sorted,
                                     .boxes = s->boxes};
    GSC__TRY(LAUNCH(knn_leaves, call, gsc__gpu_blocks(tree->padded[0], WARPS), leaves));
    for (int32_t level = 1; level < tree->levels; ++level) {
        const gsc_k_knn_boxes args = {.below = s->boxes + tree->start[level - 1],
                                      .padded_below = tree->padded[level - 1],
                                      .padded_boxes = tree->padded[level],
                                      .boxes = s->boxes + tree->start[level]};
        GSC__TRY(LAUNCH(knn_boxes, call, gsc__gpu_blocks(args.padded_boxes, WARPS), args));
    }
    return GSC_OK;
}

/* -------------------------------------------------------------------- search */

static gsc_status run_search(const gsc__call *call, const gsc__knn *knn, const knn_scratch *s) {
    const point_order *queries = knn->queries ? &s->queries : &s->points;
    gsc_k_knn_search args = {.queries = knn->queries,
                             .query_order = queries->order,
                             .query_cells = queries->cells,
                             .count = (uint32_t)knn->queries_count,
                             .groups = gsc__gpu_blocks(knn->queries_count, GSC__KNN_LEAF),
                             .sorted = s->sorted,
                             .boxes = s->boxes,
                             .levels = s->tree.levels,
                             .leaves = s->tree.leaves,
                             .k = knn->k,
                             .lists = s->lists,
                             .indices = knn->indices,
                             .indices64 = knn->indices64,
                             .distances2 = knn->distances2,
                             .mean2 = knn->mean2};
    memcpy(args.level_start, s->tree.start, sizeof args.level_start);
    const uint32_t blocks = gsc__gpu_blocks(args.groups, WARPS);
    if (knn->k <= SHORT) return LAUNCH(knn_3, call, blocks, args);
    if (knn->k <= MEDIUM) return LAUNCH(knn_8, call, blocks, args);
    return LAUNCH(knn_any, call, s->list_warps / WARPS, args);
}

gsc_status gsc__gpu_knn(const gsc__call *call, const gsc__knn *knn) {
    knn_scratch scratch;
    carve_scratch(knn->scratch, call, knn, &scratch);
    if (knn->queries_count == 0) return GSC_OK;
    if (knn->queries) GSC__TRY(order_points(call, &scratch, &scratch.queries));
    if (knn->points_count > 0) {
        GSC__TRY(order_points(call, &scratch, &scratch.points));
        GSC__TRY(build_tree(call, &scratch));
    }
    return run_search(call, knn, &scratch);
}
