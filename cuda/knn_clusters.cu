/* Orders points that the cells of the curve cannot distinguish.
 *
 * One far outlier makes the cells large, and thousands of points may share one.  The leaves of such
 * a cluster have no order, so each overlaps all others, and a search would compare all points of
 * the cluster in quadratic time.  A cluster is therefore ordered again, along a curve through its
 * own bounding box.  A large one is first divided by the curve's first bits; a part that is still
 * large gets a bounding box of its own, to any depth.  Points that are all equal need no order.
 *
 * The order within a part depends on the order of atomic additions.  Results do not: candidates
 * are compared by distance and index, never by place. */
#include "knn_curve.cuh"

#define BLOCK GSC__KNN_CLUSTERS_BLOCK
#define LEAF GSC__KNN_LEAF
#define PART_BITS 4 /* per axis */
#define PARTS (1 << 3 * PART_BITS)
#define BATCH 2048 /* points that a block sorts at once */

static __device__ __forceinline__ const float *point_at(const gsc_k_knn_clusters &args,
                                                        uint32_t place) {
    return args.points + 3 * (uint64_t)args.order[place];
}

/* --------------------------------------------------------------------- finding */

static __device__ __forceinline__ bool in_cell(const gsc_k_knn_clusters &args, uint32_t place,
                                               const gsc__gpu_cells &cells, uint64_t key) {
    return gsc__place_key(cells, point_at(args, place)) == key;
}

/* How many places from `first` on, at most `most`, are in a cell; the first one is.  step: 1 goes
 * up, -1 goes down. */
static __device__ uint32_t run_length(const gsc_k_knn_clusters &args, uint32_t first, uint32_t most,
                                      int step, const gsc__gpu_cells &cells, uint64_t key) {
    uint32_t length = 1, end = most + 1; /* `length` places are in the cell, `end` places are not */
    while (end - length > 1) {
        const uint32_t middle = length + (end - length) / 2;
        const uint32_t place = step > 0 ? first + (middle - 1) : first - (middle - 1);
        if (in_cell(args, place, cells, key))
            length = middle;
        else
            end = middle;
    }
    return length;
}

static __device__ void add_cluster(const gsc_k_knn_clusters &args, uint32_t begin, uint32_t end) {
    const uint32_t number = atomicAdd(&args.clusters->added, 1u);
    if (number >= args.capacity) return; /* stays unordered: slower, with the same results */
    atomicAdd(&args.clusters->pending, 1u);
    __threadfence();
    atomicExch((unsigned long long *)args.list + number, (uint64_t)end << 32 | begin);
}

/* A thread per leaf.  The first that finds two different points in its cluster lists it. */
extern "C" __global__ void __launch_bounds__(GSC__KNN_BLOCK)
    gsc_knn_find_clusters(const __grid_constant__ gsc_k_knn_clusters args) {
    gsc__begin_kernel();
    const uint32_t leaf = blockIdx.x * GSC__KNN_BLOCK + threadIdx.x;
    const gsc__gpu_cells cells = *args.cells;
    if (leaf >= cells.finite / LEAF) return;
    const uint32_t first = leaf * LEAF;
    const float *p = point_at(args, first);
    const uint64_t key = gsc__place_key(cells, p);
    if (!in_cell(args, first + LEAF - 1, cells, key)) return;
    bool differ = false;
    for (uint32_t i = 1; i <= LEAF && !differ && first + i < cells.finite; ++i) {
        if (i == LEAF && !in_cell(args, first + i, cells, key)) break;
        const float *q = point_at(args, first + i);
        differ = p[0] != q[0] || p[1] != q[1] || p[2] != q[2];
    }
    if (!differ) return;
    const uint32_t begin = first - (run_length(args, first, first + 1, -1, cells, key) - 1);
    const uint32_t end = first + run_length(args, first, cells.finite - first, 1, cells, key);
    if (end - begin < GSC__KNN_CLUSTER * LEAF) return;
    if (atomicExch(&args.found[begin / (GSC__KNN_CLUSTER * LEAF)], 1u) == 0)
        add_cluster(args, begin, end);
}

/* ---------------------------------------------------------------------- order */

typedef struct cluster_memory {
    uint64_t keys[BATCH];
    uint32_t indices[BATCH];
    uint32_t ends[PARTS]; /* counts, then first places, then the places after the last */
    gsc__gpu_bounds bounds[BLOCK / 32];
    gsc__gpu_cells cells;
    uint32_t warps[33];
    uint32_t begin, end;
} cluster_memory;

/* The next cluster goes to memory.begin and end, which are equal if none is left. */
static __device__ void take_cluster(const gsc_k_knn_clusters &args, cluster_memory &memory) {
    __syncthreads();
    if (threadIdx.x == 0) {
        uint64_t cluster = 0;
        const uint32_t number = atomicAdd(&args.clusters->taken, 1u);
        while (number < args.capacity) {
            /* Nothing pending: no block is left that could add it. */
            const uint32_t pending = atomicAdd(&args.clusters->pending, 0u);
            cluster = atomicAdd((unsigned long long *)args.list + number, 0ull);
            if (cluster != 0 || pending == 0) break;
            __nanosleep(200);
        }
        __threadfence();
        memory.begin = (uint32_t)cluster;
        memory.end = (uint32_t)(cluster >> 32);
    }
    __syncthreads();
}

/* Cells through the cluster's own bounding box; scale 0 if it is one place. */
static __device__ void measure_cluster(const gsc_k_knn_clusters &args, cluster_memory &memory,
                                       uint32_t begin, uint32_t end) {
    gsc__gpu_bounds box = gsc__no_bounds();
#pragma unroll 4
    for (uint32_t i = begin + threadIdx.x; i < end; i += BLOCK) {
        const float *p = point_at(args, i);
        const gsc__gpu_bounds point = {{p[0], p[1], p[2]}, {p[0], p[1], p[2]}, 1};
        gsc__add_bounds(box, point);
    }
    box = gsc__block_bounds(box, memory.bounds);
    if (threadIdx.x == 0) memory.cells = gsc__cells_of(box, end - begin);
    __syncthreads();
}

/* Sorts at most BATCH places by their keys, then by index: a bitonic network. */
static __device__ void sort_batch(const gsc_k_knn_clusters &args, cluster_memory &memory,
                                  uint32_t begin, uint32_t end) {
    uint32_t size = 2;
    while (size < end - begin) size *= 2;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < size; i += BLOCK) {
        const bool exists = i < end - begin;
        memory.indices[i] = exists ? args.order[begin + i] : GSC__KNN_NONE;
        memory.keys[i] = exists ? gsc__curve_key<GSC__CURVE_BITS>(
                                      gsc__cell_of(memory.cells, point_at(args, begin + i)))
                                : ~0ull;
    }
    for (uint32_t run = 2; run <= size; run *= 2) {
        for (uint32_t step = run / 2; step > 0; step /= 2) {
            __syncthreads();
            for (uint32_t i = threadIdx.x; i < size / 2; i += BLOCK) {
                const uint32_t low = 2 * i - (i & (step - 1)), high = low + step;
                const uint64_t a = memory.keys[low], b = memory.keys[high];
                const uint32_t first = memory.indices[low], second = memory.indices[high];
                const bool above = a > b || (a == b && first > second);
                if (above != ((low & run) == 0)) continue;
                memory.keys[low] = b, memory.keys[high] = a;
                memory.indices[low] = second, memory.indices[high] = first;
            }
        }
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < end - begin; i += BLOCK)
        args.order[begin + i] = memory.indices[i];
}

static __device__ __forceinline__ uint32_t part_of(const cluster_memory &memory, const float *p) {
    return (uint32_t)gsc__curve_key<PART_BITS>(gsc__cell_of(memory.cells, p));
}

/* Gathers the points of each part of a cluster; leaves where each part ends in memory.ends. */
static __device__ void divide_cluster(const gsc_k_knn_clusters &args, cluster_memory &memory,
                                      uint32_t begin, uint32_t end) {
    for (uint32_t i = threadIdx.x; i < PARTS; i += BLOCK) memory.ends[i] = 0;
    __syncthreads();
#pragma unroll 4
    for (uint32_t i = begin + threadIdx.x; i < end; i += BLOCK)
        atomicAdd(&memory.ends[part_of(memory, point_at(args, i))], 1u);
    __syncthreads();
    uint32_t place = begin;
    for (uint32_t first = 0; first < PARTS; first += BLOCK) {
        uint32_t total;
        const uint32_t count = memory.ends[first + threadIdx.x];
        memory.ends[first + threadIdx.x] = place + gsc__block_scan(count, memory.warps, &total);
        place += total;
    }
    __syncthreads();
#pragma unroll 4
    for (uint32_t i = begin + threadIdx.x; i < end; i += BLOCK) {
        const uint32_t index = args.order[i];
        const float *p = args.points + 3 * (uint64_t)index;
        args.other[atomicAdd(&memory.ends[part_of(memory, p)], 1u)] = index;
    }
    __syncthreads();
    for (uint32_t i = begin + threadIdx.x; i < end; i += BLOCK) args.order[i] = args.other[i];
    __syncthreads();
}

/* The last part that ends at or before `end`, or -1. */
static __device__ int last_part_before(const cluster_memory &memory, uint32_t end) {
    int part = -1;
    for (int step = PARTS / 2; step > 0; step /= 2)
        if (memory.ends[part + step] <= end) part += step;
    return part + 1 < PARTS && memory.ends[part + 1] <= end ? part + 1 : part;
}

/* Sorts the parts of a divided cluster, many small ones at once; adds large ones to the list. */
static __device__ void order_parts(const gsc_k_knn_clusters &args, cluster_memory &memory,
                                   uint32_t begin, uint32_t end) {
    while (begin < end) {
        const int part = last_part_before(memory, begin + BATCH);
        uint32_t next = part < 0 ? begin : memory.ends[part];
        if (next > begin) {
            sort_batch(args, memory, begin, next);
        } else {
            next = memory.ends[part + 1];
            if (threadIdx.x == 0) {
                __threadfence();
                add_cluster(args, begin, next);
            }
        }
        begin = next;
    }
}

/* Blocks take clusters until none is left. */
extern "C" __global__ void __launch_bounds__(GSC__KNN_CLUSTERS_BLOCK)
    gsc_knn_order_clusters(const __grid_constant__ gsc_k_knn_clusters args) {
    gsc__begin_kernel();
    __shared__ cluster_memory memory;
    for (;;) {
        take_cluster(args, memory);
        const uint32_t begin = memory.begin, end = memory.end;
        if (begin == end) return;
        measure_cluster(args, memory, begin, end);
        if (memory.cells.scale > 0.0f) {
            if (end - begin <= BATCH) {
                sort_batch(args, memory, begin, end);
            } else {
                divide_cluster(args, memory, begin, end);
                order_parts(args, memory, begin, end);
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) atomicSub(&args.clusters->pending, 1u);
    }
}
