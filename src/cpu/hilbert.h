/* Points in the order of a Hilbert curve: neighbours in the order are neighbours in space.
 *
 * One scale, from the bounding box of the finite points, serves all axes.  A few far outliers
 * make every cell large.  So a cell with more points than a leaf holds is ordered again by a grid
 * of its own, and again if necessary: each round splits it, and clusters of any density end in
 * good order. */
#ifndef GSC_CPU_HILBERT_H
#define GSC_CPU_HILBERT_H

#include "math/curve_math.h"
#include "simd.h"
#include "sort.h"

#include <math.h>

/* Points of one cell, if they are at most this many, may stay in index order. */
#define GSC__HILBERT_RUN 16

#define CELLS (UINT32_C(1) << GSC__CURVE_BITS)
#define NOT_FINITE UINT64_MAX /* sorts last */
#define KEY_BITS 64
#define KEY_BLOCK 16       /* points whose keys are computed together */
#define POINTS_GRAIN 16384 /* points a thread takes at once */
#define RUN_BLOCKS 4       /* of runs, per thread */

typedef struct bounds {
    gsc_real low[3], high[3];
    int64_t finite;
} bounds;

typedef struct cell_grid {
    gsc_real low[3]; /* of half the coordinates: the full extent may overflow */
    gsc_real scale;  /* 0: too small to divide */
} cell_grid;

typedef struct range_task {
    gsc__pool *pool;
    const gsc_real *points;
    gsc__pairs64 *order;
    void *scratch;
    int64_t begin; /* of the range in order */
    cell_grid grid;
    bounds *bounds;       /* [threads] */
    int64_t *block_start; /* [blocks + 1] */
} range_task;

static bool is_finite(const gsc_real *p) {
    return isfinite(p[0]) && isfinite(p[1]) && isfinite(p[2]);
}

/* ------------------------------------------------------------------- bounds */

static const bounds no_bounds = {
    {INFINITY, INFINITY, INFINITY}, {-INFINITY, -INFINITY, -INFINITY}, 0};

static void add_bounds(bounds *sum, const bounds *other) {
    for (int axis = 0; axis < 3; ++axis) {
        if (other->low[axis] < sum->low[axis]) sum->low[axis] = other->low[axis];
        if (other->high[axis] > sum->high[axis]) sum->high[axis] = other->high[axis];
    }
    sum->finite += other->finite;
}

static bounds bounds_of(const gsc_real *points, const uint32_t *values, int64_t count) {
    bounds result = no_bounds;
    for (int64_t i = 0; i < count; ++i) {
        const gsc_real *p = points + 3 * (size_t)values[i];
        if (!is_finite(p)) continue;
        const bounds point = {{p[0], p[1], p[2]}, {p[0], p[1], p[2]}, 1};
        add_bounds(&result, &point);
    }
    return result;
}

static void find_bounds(void *arg, int64_t begin, int64_t end, int thread) {
    range_task *task = arg;
    bounds part = bounds_of(task->points, task->order->values + task->begin + begin, end - begin);
    add_bounds(&task->bounds[thread], &part);
}

static cell_grid grid_of(const bounds *box) {
    cell_grid result = {{0}, 0};
    gsc_real extent = 0;
    for (int axis = 0; axis < 3; ++axis) {
        result.low[axis] = GSC_REAL(0.5) * box->low[axis];
        gsc_real e = GSC_REAL(0.5) * box->high[axis] - result.low[axis];
        if (e > extent) extent = e;
    }
    gsc_real scale = (gsc_real)(CELLS - 1) / extent;
    if (extent > 0 && isfinite(scale)) result.scale = scale;
    return result;
}

/* --------------------------------------------------------------------- keys */

/* Cells [3, KEY_BLOCK] to places on the curve. */
static void curve_keys(uint32_t cell[3][KEY_BLOCK], uint64_t *keys) {
    uint32_t *x = cell[0], *y = cell[1], *z = cell[2];
    for (int bit = GSC__CURVE_BITS - 1; bit > 0; --bit) {
        const uint32_t low = (UINT32_C(1) << bit) - 1;
        for (int i = 0; i < KEY_BLOCK; ++i) x[i] ^= low & (0 - (x[i] >> bit & 1));
        for (int i = 0; i < KEY_BLOCK; ++i) gsc__undo_rotation(&x[i], &y[i], bit);
        for (int i = 0; i < KEY_BLOCK; ++i) gsc__undo_rotation(&x[i], &z[i], bit);
    }
    for (int i = 0; i < KEY_BLOCK; ++i) keys[i] = gsc__curve_place(x[i], y[i], z[i]);
}

static void keys_of(const gsc_real *points, const uint32_t *values, int64_t count,
                    const cell_grid *grid, uint64_t *keys) {
    for (int64_t first = 0; first < count; first += KEY_BLOCK) {
        int size = count - first < KEY_BLOCK ? (int)(count - first) : KEY_BLOCK;
        uint32_t cell[3][KEY_BLOCK] = {{0}};
        uint64_t block_keys[KEY_BLOCK];
        for (int i = 0; i < size; ++i) {
            const gsc_real *p = points + 3 * (size_t)values[first + i];
            if (!is_finite(p)) continue;
            for (int axis = 0; axis < 3; ++axis) {
                gsc_real place = (GSC_REAL(0.5) * p[axis] - grid->low[axis]) * grid->scale;
                cell[axis][i] = (uint32_t)(int32_t)place & (CELLS - 1);
            }
        }
        curve_keys(cell, block_keys);
        for (int i = 0; i < size; ++i) {
            bool finite = is_finite(points + 3 * (size_t)values[first + i]);
            keys[first + i] = finite ? block_keys[i] : NOT_FINITE;
        }
    }
}

static void find_keys(void *arg, int64_t begin, int64_t end, int thread) {
    const range_task *task = arg;
    int64_t first = task->begin + begin;
    (void)thread;
    keys_of(task->points, task->order->values + first, end - begin, &task->grid,
            task->order->keys + first);
}

/* --------------------------------------------------------------------- runs */

static int64_t run_end(const uint64_t *keys, int64_t begin, int64_t end) {
    int64_t i = begin + 1;
    while (i < end && keys[i] == keys[begin]) ++i;
    return i;
}

/* Sorts order[begin, end) and keeps the result in keys and values. */
static void sort_range(gsc__pool *pool, gsc__pairs64 *order, int64_t begin, int64_t end,
                       void *scratch) {
    gsc__pairs64 range = {order->keys + begin, order->other_keys + begin, order->values + begin,
                          order->other_values + begin};
    size_t count = (size_t)(end - begin);
    gsc__sort_pairs64(pool, &range, end - begin, KEY_BITS, scratch);
    if (range.keys == order->keys + begin) return;
    memcpy(order->keys + begin, range.keys, count * sizeof *range.keys);
    memcpy(order->values + begin, range.values, count * sizeof *range.values);
}

static void set_keys(uint64_t *keys, int64_t begin, int64_t end, uint64_t key) {
    for (int64_t i = begin; i < end; ++i) keys[i] = key;
}

/* Orders a range on the calling thread.  Leaves the keys undefined. */
static void order_short_range(const gsc_real *points, gsc__pairs64 *order, int64_t begin,
                              int64_t end) {
    bounds box = bounds_of(points, order->values + begin, end - begin);
    cell_grid grid = grid_of(&box);
    if (grid.scale == 0) return;
    keys_of(points, order->values + begin, end - begin, &grid, order->keys + begin);
    sort_range(NULL, order, begin, end, NULL);
    for (int64_t i = begin, next; i < end; i = next) {
        next = run_end(order->keys, i, end);
        if (next - i > GSC__HILBERT_RUN) order_short_range(points, order, i, next);
    }
}

static void order_short_runs(void *arg, int64_t first, int64_t last, int thread) {
    const range_task *task = arg;
    uint64_t *keys = task->order->keys;
    (void)thread;
    for (int64_t block = first; block < last; ++block) {
        int64_t end = task->block_start[block + 1];
        for (int64_t i = task->block_start[block], next; i < end; i = next) {
            uint64_t key = keys[i];
            next = run_end(keys, i, end);
            if (next - i <= GSC__HILBERT_RUN || next - i >= GSC__SORT_PARALLEL) continue;
            order_short_range(task->points, task->order, i, next);
            set_keys(keys, i, next, key);
        }
    }
}

/* The first place in [begin, end) whose key is above `key`; the keys ascend. */
static int64_t first_above(const uint64_t *keys, int64_t begin, int64_t end, uint64_t key) {
    while (begin < end) {
        int64_t middle = begin + (end - begin) / 2;
        if (keys[middle] > key)
            end = middle;
        else
            begin = middle + 1;
    }
    return begin;
}

static int find_blocks(range_task *task, int64_t end) {
    const uint64_t *keys = task->order->keys;
    int blocks = gsc__pool_threads(task->pool) * RUN_BLOCKS;
    task->block_start = task->scratch;
    task->block_start[0] = task->begin;
    for (int block = 1; block < blocks; ++block) {
        int64_t middle = task->begin + (end - task->begin) / blocks * block;
        int64_t start = middle <= task->begin
                            ? task->begin
                            : first_above(keys, task->begin, end, keys[middle - 1]);
        task->block_start[block] = start;
    }
    task->block_start[blocks] = end;
    return blocks;
}

/* Orders [begin, end) on all threads, points that are not finite last; returns how many are. */
static int64_t order_range(range_task task, int64_t end);

static void order_runs(range_task *task, int64_t end) {
    int blocks = find_blocks(task, end);
    gsc__parallel_for(task->pool, blocks, 1, order_short_runs, task);
    uint64_t *keys = task->order->keys;
    for (int64_t i = task->begin, next; i < end; i = next) {
        uint64_t key = keys[i];
        next = run_end(keys, i, end);
        if (next - i < GSC__SORT_PARALLEL) continue;
        range_task run = *task;
        run.begin = i;
        (void)order_range(run, next);
        set_keys(keys, i, next, key);
    }
}

static bounds range_bounds(range_task *task, int64_t end) {
    int threads = gsc__pool_threads(task->pool);
    task->bounds = task->scratch;
    for (int thread = 0; thread < threads; ++thread) task->bounds[thread] = no_bounds;
    gsc__parallel_for(task->pool, end - task->begin, POINTS_GRAIN, find_bounds, task);
    bounds box = no_bounds;
    for (int thread = 0; thread < threads; ++thread) add_bounds(&box, &task->bounds[thread]);
    return box;
}

static int64_t order_range(range_task task, int64_t end) {
    const bounds box = range_bounds(&task, end);
    task.grid = grid_of(&box);
    if (task.grid.scale == 0 && box.finite == end - task.begin) return box.finite;
    gsc__parallel_for(task.pool, end - task.begin, POINTS_GRAIN, find_keys, &task);
    sort_range(task.pool, task.order, task.begin, end, task.scratch);
    order_runs(&task, task.begin + box.finite);
    return box.finite;
}

static void number_points(void *arg, int64_t begin, int64_t end, int thread) {
    uint32_t *values = arg;
    (void)thread;
    for (int64_t i = begin; i < end; ++i) values[i] = (uint32_t)i;
}

/* Writes the indices of points [count, 3] in curve order to order->values and returns how many
 * points are finite.  Those with a non-finite coordinate come last, in index order.  Points at the
 * same place stay in index order.  The arrays of order hold count elements.  scratch:
 * gsc__sort_scratch_bytes. */
static int64_t gsc__hilbert_order(gsc__pool *pool, const gsc_real *points, int64_t count,
                                  gsc__pairs64 *order, void *scratch) {
    range_task task = {.pool = pool, .points = points, .order = order, .scratch = scratch};
    gsc__parallel_for(pool, count, POINTS_GRAIN, number_points, order->values);
    return order_range(task, count);
}

#endif
