/* Exact nearest neighbours on the device: see cuda/knn_tree.cu, knn_clusters.cu and knn.cu. */
#include "../../cuda/knn_kernels.h"
#include "gpu.h"
#include "raster_state.h"
#include "sort.h"

#define LAUNCH(name, grid, block, args)                                                      \
    gsc__gpu_launch(context, GSC__KERNEL_##name, grid, block, &(args), sizeof(args), stream, \
                    function)

static const char function[] = "knn";

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

/* Keys are dead once the points are in order, whose copies take their place; boxes take that
 * of the other values.  Queries are ordered before the points, in the same keys. */
typedef struct scratch_plan {
    tree_plan tree;
    size_t keys, other_keys, sorted;    /* sorted begins where keys do */
    size_t values, other_values, boxes; /* boxes begin where other_values do */
    size_t query_values, query_other_values;
    size_t cells, query_cells, bounds, sort, clusters, lists, bytes;
    uint32_t list_warps; /* of the kernel for any k */
} scratch_plan;

static uint32_t padded(uint32_t count) {
    return gsc__gpu_ceil_div(count, GSC__KNN_LEAF) * GSC__KNN_LEAF;
}

/* The top level has at most as many boxes as a warp has lanes. */
static tree_plan plan_tree(int64_t count) {
    tree_plan plan = {.leaves = gsc__gpu_ceil_div(count, GSC__KNN_LEAF)};
    uint32_t boxes = plan.leaves;
    while (boxes > 0) {
        plan.padded[plan.levels] = padded(boxes);
        plan.start[plan.levels] = plan.boxes;
        plan.boxes += plan.padded[plan.levels];
        ++plan.levels;
        if (boxes <= GSC__KNN_LEAF) break;
        boxes = gsc__gpu_ceil_div(boxes, GSC__KNN_LEAF);
    }
    return plan;
}

static size_t take(size_t *total, size_t bytes) {
    const size_t begin = *total;
    *total = begin + gsc__aligned_bytes(bytes);
    return begin;
}

/* The clusters' counters, their list and the marks of the found ones lie side by side and are
 * cleared at once.  The list has room for every cluster that there can be, and for four times
 * what can be left of them after one division. */
static uint32_t cluster_capacity(int64_t count) {
    return (uint32_t)(count / (GSC__KNN_CLUSTER * GSC__KNN_LEAF) + count / 512 + 64);
}

static uint32_t cluster_words(int64_t count) {
    if (count < GSC__KNN_CLUSTERED_COUNT) return 0;
    const uint32_t found = (uint32_t)(count / (GSC__KNN_CLUSTER * GSC__KNN_LEAF) + 1);
    return (uint32_t)(sizeof(gsc__gpu_clusters) / sizeof(uint32_t)) + 2 * cluster_capacity(count) +
           found;
}

static scratch_plan plan_scratch(const gsc_context *context, const gsc__knn *knn) {
    scratch_plan plan = {.tree = plan_tree(knn->points_count)};
    const size_t points = (size_t)knn->points_count;
    const size_t queries = knn->queries ? (size_t)knn->queries_count : 0;
    const size_t most = points > queries ? points : queries;
    plan.keys = plan.sorted = take(&plan.bytes, most * sizeof(uint64_t));
    plan.other_keys = take(&plan.bytes, most * sizeof(uint64_t));
    const size_t sorted_end =
        plan.sorted + (size_t)plan.tree.leaves * GSC__KNN_LEAF * 4 * sizeof(float);
    if (plan.bytes < sorted_end) plan.bytes = sorted_end;
    plan.values = take(&plan.bytes, points * sizeof(uint32_t));
    const size_t boxes = (size_t)plan.tree.boxes * sizeof(gsc__gpu_box);
    const size_t values = points * sizeof(uint32_t);
    plan.other_values = plan.boxes = take(&plan.bytes, values > boxes ? values : boxes);
    plan.query_values = take(&plan.bytes, queries * sizeof(uint32_t));
    plan.query_other_values = take(&plan.bytes, queries * sizeof(uint32_t));
    plan.cells = take(&plan.bytes, sizeof(gsc__gpu_cells));
    plan.query_cells = take(&plan.bytes, sizeof(gsc__gpu_cells));
    plan.bounds = take(&plan.bytes, GSC__KNN_BOUNDS_BLOCKS * sizeof(gsc__gpu_bounds));
    plan.sort = take(&plan.bytes, gsc__gpu_sort_bytes((int64_t)most, GSC__KNN_KEY_BITS));
    plan.clusters = take(&plan.bytes, cluster_words((int64_t)most) * sizeof(uint32_t));
    if (knn->k > MEDIUM) {
        const uint32_t groups = gsc__gpu_ceil_div(knn->queries_count, GSC__KNN_LEAF);
        const uint32_t warps =
            (uint32_t)gsc__gpu_of(context)->device.multiprocessors * LISTS_PER_PROCESSOR;
        plan.list_warps = gsc__gpu_ceil_div(groups < warps ? groups : warps, WARPS) * WARPS;
        plan.lists = take(&plan.bytes, (size_t)plan.list_warps * GSC__KNN_LEAF * (size_t)knn->k *
                                           sizeof(uint64_t));
    }
    return plan;
}

size_t gsc__gpu_knn_scratch_bytes(const gsc__call *call, const gsc__knn *knn) {
    gsc_context *context = call->context;
    return plan_scratch(context, knn).bytes;
}

/* --------------------------------------------------------------------- order */

/* Puts those points in order that share a cell of the curve. */
static gsc_status order_clusters(gsc_context *context, const gsc_k_knn_keys *keys, uint32_t *order,
                                 uint32_t *other, void *stream) {
    const uint32_t leaves = gsc__gpu_ceil_div(keys->count, GSC__KNN_LEAF);
    gsc__gpu_clusters *clusters = (void *)keys->cleared;
    gsc_k_knn_clusters args = {.points = keys->points,
                               .cells = keys->cells,
                               .count = keys->count,
                               .order = order,
                               .other = other,
                               .clusters = clusters,
                               .list = (void *)(clusters + 1),
                               .capacity = cluster_capacity(keys->count)};
    const uint32_t blocks =
        (uint32_t)gsc__gpu_of(context)->device.multiprocessors * CLUSTER_BLOCKS_PER_PROCESSOR;
    args.found = (void *)(args.list + args.capacity);
    GSC__TRY(
        LAUNCH(knn_find_clusters, gsc__gpu_ceil_div(leaves, GSC__KNN_BLOCK), GSC__KNN_BLOCK, args));
    return LAUNCH(knn_order_clusters, blocks, GSC__KNN_CLUSTERS_BLOCK, args);
}

/* Orders points [count, 3] along the curve, those that are not finite last.  The order is
 * in `values` afterwards. */
static gsc_status order_points(gsc_context *context, const gsc__knn *knn, const scratch_plan *plan,
                               const float *points, int64_t count, size_t cells, size_t values,
                               size_t other_values, void *stream) {
    unsigned char *scratch = knn->scratch;
    const uint32_t blocks = gsc__gpu_ceil_div(count, GSC__KNN_BLOCK);
    gsc_k_knn_bounds bounds = {.points = points,
                               .count = (uint32_t)count,
                               .blocks = blocks,
                               .parts = (void *)(scratch + plan->bounds),
                               .cells = (void *)(scratch + cells)};
    if (bounds.blocks > GSC__KNN_BOUNDS_BLOCKS) bounds.blocks = GSC__KNN_BOUNDS_BLOCKS;
    GSC__TRY(LAUNCH(knn_bounds, bounds.blocks, GSC__KNN_BLOCK, bounds));
    GSC__TRY(LAUNCH(knn_cells, 1, GSC__KNN_BLOCK, bounds));

    uint64_t *key_arrays[2] = {(void *)(scratch + plan->keys),
                               (void *)(scratch + plan->other_keys)};
    uint32_t *order = (void *)(scratch + values), *other = (void *)(scratch + other_values);
    const gsc_k_knn_keys keys = {.points = points,
                                 .cells = bounds.cells,
                                 .count = (uint32_t)count,
                                 .keys = key_arrays[0],
                                 .cleared = (void *)(scratch + plan->clusters),
                                 .cleared_words = cluster_words(count)};
    GSC__TRY(LAUNCH(knn_keys, blocks, GSC__KNN_BLOCK, keys));
    const gsc__gpu_sort_args sort = {.length = {&bounds.cells->count, (uint32_t)count},
                                     .bits = GSC__KNN_KEY_BITS,
                                     .key_bytes = sizeof(uint64_t),
                                     .keys = key_arrays[0],
                                     .work_keys = {key_arrays[1], key_arrays[0]},
                                     .out_values = order,
                                     .work_values = other,
                                     .scratch = scratch + plan->sort};
    GSC__TRY(gsc__gpu_sort(context, &sort, stream, function));
    if (keys.cleared_words == 0) return GSC_OK;
    return order_clusters(context, &keys, order, other, stream);
}

static gsc_status build_tree(gsc_context *context, const gsc__knn *knn, const scratch_plan *plan,
                             void *stream) {
    unsigned char *scratch = knn->scratch;
    const tree_plan *tree = &plan->tree;
    gsc__gpu_box *boxes = (void *)(scratch + plan->boxes);
    const gsc_k_knn_leaves leaves = {.points = knn->points,
                                     .order = (void *)(scratch + plan->values),
                                     .cells = (void *)(scratch + plan->cells),
                                     .leaves = tree->leaves,
                                     .padded_leaves = tree->padded[0],
                                     .sorted = (void *)(scratch + plan->sorted),
                                     .boxes = boxes};
    GSC__TRY(LAUNCH(knn_leaves, gsc__gpu_ceil_div(tree->padded[0], WARPS), GSC__KNN_BLOCK, leaves));
    for (int32_t level = 1; level < tree->levels; ++level) {
        const gsc_k_knn_boxes args = {.below = boxes + tree->start[level - 1],
                                      .padded_below = tree->padded[level - 1],
                                      .padded_boxes = tree->padded[level],
                                      .boxes = boxes + tree->start[level]};
        const uint32_t blocks = gsc__gpu_ceil_div(args.padded_boxes, WARPS);
        GSC__TRY(LAUNCH(knn_boxes, blocks, GSC__KNN_BLOCK, args));
    }
    return GSC_OK;
}

/* -------------------------------------------------------------------- search */

static gsc_status run_search(gsc_context *context, const gsc__knn *knn, const scratch_plan *plan,
                             void *stream) {
    unsigned char *scratch = knn->scratch;
    const bool apart = knn->queries != NULL;
    gsc_k_knn_search args = {
        .queries = knn->queries,
        .query_order = (void *)(scratch + (apart ? plan->query_values : plan->values)),
        .query_cells = (void *)(scratch + (apart ? plan->query_cells : plan->cells)),
        .count = (uint32_t)knn->queries_count,
        .groups = gsc__gpu_ceil_div(knn->queries_count, GSC__KNN_LEAF),
        .sorted = (void *)(scratch + plan->sorted),
        .boxes = (void *)(scratch + plan->boxes),
        .levels = plan->tree.levels,
        .leaves = plan->tree.leaves,
        .k = knn->k,
        .lists = (void *)(scratch + plan->lists),
        .indices = knn->indices,
        .indices64 = knn->indices64,
        .distances2 = knn->distances2,
        .mean2 = knn->mean2};
    memcpy(args.level_start, plan->tree.start, sizeof args.level_start);
    const uint32_t blocks = gsc__gpu_ceil_div(args.groups, WARPS);
    if (knn->k <= SHORT) return LAUNCH(knn_3, blocks, GSC__KNN_BLOCK, args);
    if (knn->k <= MEDIUM) return LAUNCH(knn_8, blocks, GSC__KNN_BLOCK, args);
    return LAUNCH(knn_any, plan->list_warps / WARPS, GSC__KNN_BLOCK, args);
}

gsc_status gsc__gpu_knn(const gsc__call *call, const gsc__knn *knn) {
    gsc_context *context = call->context;
    void *stream = call->stream;
    const scratch_plan plan = plan_scratch(context, knn);
    if (knn->queries_count == 0) return GSC_OK;
    if (knn->queries) {
        GSC__TRY(order_points(context, knn, &plan, knn->queries, knn->queries_count,
                              plan.query_cells, plan.query_values, plan.query_other_values,
                              stream));
    }
    if (knn->points_count > 0) {
        GSC__TRY(order_points(context, knn, &plan, knn->points, knn->points_count, plan.cells,
                              plan.values, plan.other_values, stream));
        GSC__TRY(build_tree(context, knn, &plan, stream));
    }
    return run_search(context, knn, &plan, stream);
}
