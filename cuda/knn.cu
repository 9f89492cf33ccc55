/* Exact k nearest neighbours, a warp for 32 queries that are neighbours on the curve.
 *
 * The warp walks the tree of knn_tree.cu depth first, nearest box first.  Each lane tests one
 * child of a node against the box of the 32 queries and the largest k-th distance among them.  In
 * a leaf, each lane is a query and looks at all points.  If the queries are points, the walk
 * starts with a good bound, from their own leaf and its two neighbours.
 *
 * Where the curve leaves a cluster, the box of 32 queries extends into empty space and covers
 * thousands of leaves that none of them needs.  A node with many children near the box is
 * therefore tested against every query, which also finds the child nearest to a query that still
 * needs it.  In a leaf that few queries need, each lane is a point instead, and the queries come
 * one after the other.
 *
 * Distances are float differences of the original coordinates, squared and added by operations
 * whose results never decrease when a difference grows.  So a box is never rounded to be farther
 * than a point in it, and skipping a box needs no tolerance. */
#include "device.cuh"
#include "knn_kernels.h"

/* A candidate is one number, the bits of its squared distance above its index.  Numbers compare by
 * distance, then by index, because non-negative floats compare as their bits do. */
static __device__ __forceinline__ uint64_t gsc__pack(float distance2, uint32_t index) {
    return (uint64_t)__float_as_uint(distance2) << 32 | index;
}
static __device__ __forceinline__ float gsc__distance2_of(uint64_t key) {
    return __uint_as_float((uint32_t)(key >> 32));
}

/* Fills a list; comes after every real candidate, even one at infinity. */
static __device__ __forceinline__ uint64_t gsc__missing() {
    return gsc__pack(GSC__KNN_INFINITY, GSC__KNN_NONE);
}

/* The k best in registers, sorted; if k < size, the first places stay 0. */
template <int count> struct gsc__short_list {
    static constexpr int size = count, unroll = count <= 3 ? 8 : 2; /* of a leaf's points */
    static constexpr int few_queries = 4; /* that a leaf takes one by one */
    uint64_t keys[size];

    __device__ __forceinline__ void clear(int k) {
#pragma unroll
        for (int i = 0; i < size; ++i) keys[i] = i < size - k ? 0 : gsc__missing();
    }
    __device__ __forceinline__ uint64_t last() const {
        return keys[size - 1];
    }
    /* key must be below the last. */
    __device__ __forceinline__ void insert(uint64_t key, int) {
        keys[size - 1] = key;
#pragma unroll
        for (int i = size - 1; i > 0; --i) {
            const uint64_t a = keys[i - 1], b = keys[i];
            keys[i - 1] = a < b ? a : b;
            keys[i] = a < b ? b : a;
        }
    }
    __device__ __forceinline__ void sort(int) {}
    __device__ __forceinline__ uint64_t at(int i) const {
        return keys[i];
    }
};

/* The k best in memory, as a heap with the last of them on top; lanes side by side. */
struct gsc__long_list {
    static constexpr int size = 0 /* k */, unroll = 2;
    static constexpr int few_queries = 1; /* inserting for one lane at a time is slow */
    uint64_t *keys;                       /* [k, 32], this lane's */
    uint64_t top;

    __device__ __forceinline__ uint64_t &at(int i) const {
        return keys[i * 32];
    }
    __device__ void clear(int k) {
        for (int i = 0; i < k; ++i) at(i) = gsc__missing();
        top = gsc__missing();
    }
    __device__ __forceinline__ uint64_t last() const {
        return top;
    }
    /* Puts key where the top was in a heap of `size`. */
    __device__ void sift(uint64_t key, int size) {
        int i = 0;
        for (int child = 1; child < size; child = 2 * i + 1) {
            uint64_t larger = at(child);
            if (child + 1 < size) {
                const uint64_t other = at(child + 1);
                if (other > larger) larger = other, ++child;
            }
            if (larger <= key) break;
            at(i) = larger;
            i = child;
        }
        at(i) = key;
    }
    __device__ void insert(uint64_t key, int k) {
        sift(key, k);
        top = at(0);
    }
    __device__ void sort(int k) {
        for (int size = k - 1; size > 0; --size) {
            const uint64_t largest = at(0), key = at(size);
            sift(key, size);
            at(size) = largest;
        }
    }
};

#define WARPS (GSC__KNN_BLOCK / 32)
#define LEAF GSC__KNN_LEAF
/* With so many children near the queries' box, each query is tested: that costs as much as two
 * leaves, and a node of a compact group seldom has as many. */
#define MANY_CHILDREN 9

static __device__ __forceinline__ float length2(float x, float y, float z) {
    return __fmaf_rn(z, z, __fmaf_rn(y, y, __fmul_rn(x, x)));
}

/* From a point to the box from a to b. */
static __device__ __forceinline__ float box_distance2(const float4 &a, const float4 &b, float x,
                                                      float y, float z) {
    return length2(fmaxf(fmaxf(a.x - x, x - b.x), 0.0f), fmaxf(fmaxf(a.y - y, y - b.y), 0.0f),
                   fmaxf(fmaxf(a.z - z, z - b.z), 0.0f));
}

static __device__ __forceinline__ uint32_t warp_min(uint32_t x) {
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(GSC__ALL_LANES, x);
#else
    for (int step = 16; step > 0; step /= 2) x = min(x, __shfl_xor_sync(GSC__ALL_LANES, x, step));
    return x;
#endif
}

static __device__ __forceinline__ uint32_t warp_max(uint32_t x) {
    return ~warp_min(~x);
}

/* --------------------------------------------------------------------- search */

/* Of a warp. */
struct warp_memory {
    float4 points[LEAF];  /* of a leaf, or the queries */
    uint64_t lasts[LEAF]; /* last keys of the queries' lists */
    /* Bits of the children's distance to the queries; GSC__KNN_NONE: done or not needed. */
    uint32_t distances2[GSC__KNN_LEVELS][LEAF];
    uint32_t min_indices[GSC__KNN_LEVELS][LEAF];
};

template <class list> struct group {
    const gsc_k_knn_search &args;
    warp_memory &memory;
    list &best;
    float x, y, z;                 /* this lane's query */
    uint32_t self;                 /* its number if it is a point, or GSC__KNN_NONE */
    bool valid;                    /* there is a query, and it is finite */
    float low[3], high[3];         /* box of the warp's queries */
    uint32_t radius, radius_index; /* the largest key of all lists: bits of the distance, index */

    /* What a candidate must be below. */
    __device__ __forceinline__ uint64_t last() const {
        return valid ? best.last() : 0;
    }

    __device__ __forceinline__ void update_radius() {
        const uint64_t mine = last();
        const uint32_t distance2 = (uint32_t)(mine >> 32);
        radius = warp_max(distance2);
        radius_index = warp_max(distance2 == radius ? (uint32_t)mine : 0);
    }

    /* Each lane's query looks at all points of a leaf. */
    __device__ __forceinline__ void look_at_points(const float4 &own) {
        float bound = valid ? gsc__distance2_of(best.last()) : -1.0f;
        __syncwarp(); /* the points of the leaf before have been read */
        memory.points[gsc__lane()] = own;
        __syncwarp();
#pragma unroll list::unroll
        for (int i = 0; i < LEAF; ++i) {
            const float4 point = memory.points[i];
            const float distance2 = length2(point.x - x, point.y - y, point.z - z);
            if (!(distance2 <= bound)) continue;
            const uint32_t index = __float_as_uint(point.w);
            const uint64_t key = gsc__pack(distance2, index);
            if (key >= best.last() || index == self) continue;
            best.insert(key, args.k);
            bound = gsc__distance2_of(best.last());
        }
        __syncwarp();
    }

    /* `queries` look at each lane's point, one after the other. */
    __device__ __forceinline__ void look_at_queries(const float4 &own, uint32_t queries) {
        const uint32_t index = __float_as_uint(own.w);
        for (; queries != 0; queries &= queries - 1) {
            const uint32_t query = (uint32_t)__ffs((int)queries) - 1;
            const float dx = own.x - __shfl_sync(GSC__ALL_LANES, x, query);
            const float dy = own.y - __shfl_sync(GSC__ALL_LANES, y, query);
            const float dz = own.z - __shfl_sync(GSC__ALL_LANES, z, query);
            const uint64_t key = gsc__pack(length2(dx, dy, dz), index);
            const bool other = index != __shfl_sync(GSC__ALL_LANES, self, query);
            const uint64_t bound = __shfl_sync(GSC__ALL_LANES, best.last(), query);
            uint32_t those = __ballot_sync(GSC__ALL_LANES, other && key < bound);
            for (; those != 0; those &= those - 1) {
                const uint64_t found = __shfl_sync(GSC__ALL_LANES, key, __ffs((int)those) - 1);
                if (gsc__lane() == query && found < best.last()) best.insert(found, args.k);
            }
        }
        __syncwarp();
    }

    /* Puts the points of a leaf that are near enough into the lists. */
    __device__ __forceinline__ void visit(uint32_t leaf) {
        const float4 *box = (const float4 *)(args.boxes + args.level_start[0] + leaf);
        const float4 a = box[0], b = box[1];
        const bool needed = gsc__pack(box_distance2(a, b, x, y, z), __float_as_uint(a.w)) < last();
        const uint32_t queries = __ballot_sync(GSC__ALL_LANES, needed);
        if (queries == 0) return;
        const float4 own = ((const float4 *)args.sorted)[(uint64_t)leaf * LEAF + gsc__lane()];
        if (__popc(queries) <= list::few_queries)
            look_at_queries(own, queries);
        else
            look_at_points(own);
        update_radius();
    }

    /* Whether a child may hold something for any query. */
    __device__ __forceinline__ bool in_reach(uint32_t distance2, uint32_t min_index) const {
        return distance2 < radius || (distance2 == radius && min_index < radius_index);
    }

    /* Bits of the smallest distance of this lane's child to a query that needs it. */
    __device__ __forceinline__ uint32_t ask_queries(const float4 &a, const float4 &b) {
        uint32_t nearest = GSC__KNN_NONE;
        __syncwarp(); /* the points of the leaf before have been read */
        memory.points[gsc__lane()] = make_float4(x, y, z, 0.0f);
        memory.lasts[gsc__lane()] = last();
        __syncwarp();
#pragma unroll 4
        for (int i = 0; i < LEAF; ++i) {
            const float4 query = memory.points[i];
            const float distance2 = box_distance2(a, b, query.x, query.y, query.z);
            if (gsc__pack(distance2, __float_as_uint(a.w)) < memory.lasts[i])
                nearest = min(nearest, __float_as_uint(distance2));
        }
        __syncwarp();
        return nearest;
    }

    /* Distances of the children [32 number, 32 number + 32) at a level. */
    __device__ __forceinline__ void open(int level, uint32_t number) {
        const uint64_t child = args.level_start[level] + (uint64_t)number * LEAF + gsc__lane();
        const float4 *box = (const float4 *)(args.boxes + child);
        const float4 a = box[0], b = box[1];
        const float dx = fmaxf(fmaxf(a.x - high[0], low[0] - b.x), 0.0f);
        const float dy = fmaxf(fmaxf(a.y - high[1], low[1] - b.y), 0.0f);
        const float dz = fmaxf(fmaxf(a.z - high[2], low[2] - b.z), 0.0f);
        uint32_t distance2 = __float_as_uint(length2(dx, dy, dz));
        const bool near = in_reach(distance2, __float_as_uint(a.w));
        if (__popc(__ballot_sync(GSC__ALL_LANES, near)) >= MANY_CHILDREN)
            distance2 = ask_queries(a, b);
        memory.distances2[level][gsc__lane()] = distance2;
        memory.min_indices[level][gsc__lane()] = __float_as_uint(a.w);
    }

    /* Walks from the top through every box in reach; leaves [first, end) were visited before. */
    __device__ __forceinline__ void walk(uint32_t first, uint32_t end) {
        int level = args.levels - 1;
        uint32_t number = 0;
        open(level, number);
        for (;;) {
            const uint32_t distance2 = memory.distances2[level][gsc__lane()];
            const bool near = in_reach(distance2, memory.min_indices[level][gsc__lane()]);
            const uint32_t nearest = warp_min(near ? distance2 : GSC__KNN_NONE);
            if (nearest == GSC__KNN_NONE) {
                if (++level == args.levels) return;
                number /= LEAF;
                continue;
            }
            const uint32_t those = __ballot_sync(GSC__ALL_LANES, near && distance2 == nearest);
            const uint32_t child = (uint32_t)__ffs((int)those) - 1;
            if (gsc__lane() == child) memory.distances2[level][child] = GSC__KNN_NONE;
            const uint32_t below = number * LEAF + child;
            if (level == 0) {
                if (below < first || below >= end) visit(below);
            } else {
                number = below;
                open(--level, number);
            }
        }
    }
};

static __device__ __forceinline__ void write_index(const gsc_k_knn_search &args, uint64_t place,
                                                   uint64_t key) {
    const bool exists = (uint32_t)key != GSC__KNN_NONE;
    if (args.indices64)
        ((int64_t *)args.indices)[place] = exists ? (int64_t)(uint32_t)key : -1;
    else
        ((int32_t *)args.indices)[place] = exists ? (int32_t)(uint32_t)key : -1;
}

template <class list>
static __device__ __forceinline__ void write_row(const gsc_k_knn_search &args, uint32_t row,
                                                 const list &best, bool valid) {
    constexpr int unroll = list::size > 0 ? list::size : 1;
    const int places = list::size > 0 ? list::size : args.k, first = places - args.k;
    double sum = 0;
    int found = 0;
#pragma unroll unroll
    for (int i = 0; i < places; ++i) {
        if (i < first) continue;
        const uint64_t key = valid ? best.at(i) : gsc__missing();
        const uint64_t place = (uint64_t)row * args.k + (i - first);
        if (args.indices) write_index(args, place, key);
        if (args.distances2) args.distances2[place] = gsc__distance2_of(key);
        if ((uint32_t)key != GSC__KNN_NONE) sum += gsc__distance2_of(key), ++found;
    }
    if (args.mean2)
        args.mean2[row] = !valid ? GSC__KNN_NAN : found > 0 ? (float)(sum / found) : 0.0f;
}

/* Queries [32 number, 32 number + 32) of the order. */
template <class list>
static __device__ __forceinline__ void search(const gsc_k_knn_search &args, warp_memory &memory,
                                              list &best, uint32_t number) {
    const uint64_t place = (uint64_t)number * LEAF + gsc__lane();
    const bool exists = place < args.count;
    const uint32_t row = exists ? args.query_order[place] : GSC__KNN_NONE;
    group<list> g = {
        args, memory, best, GSC__KNN_NAN, GSC__KNN_NAN, GSC__KNN_NAN, GSC__KNN_NONE, false, {},
        {},   0,      0};
    g.valid = exists && place < args.query_cells->finite;
    if (g.valid && args.queries) {
        const float *q = args.queries + 3 * (uint64_t)row;
        g.x = q[0], g.y = q[1], g.z = q[2];
    } else if (g.valid) {
        const float4 q = ((const float4 *)args.sorted)[place];
        g.x = q.x, g.y = q.y, g.z = q.z;
        g.self = row;
    }
    for (int axis = 0; axis < 3; ++axis) {
        const float x = axis == 0 ? g.x : axis == 1 ? g.y : g.z;
        g.low[axis] = g.valid ? x : GSC__KNN_INFINITY;
        g.high[axis] = g.valid ? x : -GSC__KNN_INFINITY;
        for (int step = 16; step > 0; step /= 2) {
            g.low[axis] = fminf(g.low[axis], __shfl_xor_sync(GSC__ALL_LANES, g.low[axis], step));
            g.high[axis] = fmaxf(g.high[axis], __shfl_xor_sync(GSC__ALL_LANES, g.high[axis], step));
        }
    }
    if (__any_sync(GSC__ALL_LANES, g.valid) && args.leaves > 0) {
        uint32_t first = 0, end = 0;
        best.clear(args.k);
        g.update_radius();
        if (!args.queries) { /* the queries are a leaf, which comes before its neighbours */
            first = number > 0 ? number - 1 : 0;
            end = min(number + 2, args.leaves);
            uint32_t leaf = number;
#pragma unroll 1
            for (uint32_t left = end - first; left > 0; --left) {
                g.visit(leaf);
                leaf = leaf == number ? first : leaf + 1;
                if (leaf == number) ++leaf;
            }
        }
        g.walk(first, end);
        best.sort(args.k);
    } else {
        best.clear(args.k);
    }
    if (exists) write_row(args, row, best, g.valid);
}

#define KERNEL(name, most)                                                              \
    extern "C" __global__ void __launch_bounds__(GSC__KNN_BLOCK)                        \
        name(const __grid_constant__ gsc_k_knn_search args) {                           \
        gsc__begin_kernel();                                                            \
        __shared__ warp_memory memory[WARPS];                                           \
        const uint32_t number = blockIdx.x * WARPS + (threadIdx.x >> 5);                \
        gsc__short_list<most> best;                                                     \
        if (number < args.groups) search(args, memory[threadIdx.x >> 5], best, number); \
    }

KERNEL(gsc_knn_3, 3)
KERNEL(gsc_knn_8, 8)

/* Any k: a warp has one set of lists and takes one group after another. */
extern "C" __global__ void __launch_bounds__(GSC__KNN_BLOCK)
    gsc_knn_any(const __grid_constant__ gsc_k_knn_search args) {
    gsc__begin_kernel();
    __shared__ warp_memory memory[WARPS];
    const uint32_t warp = blockIdx.x * WARPS + (threadIdx.x >> 5);
    gsc__long_list best = {args.lists + (uint64_t)warp * args.k * 32 + gsc__lane(), 0};
    for (uint64_t number = warp; number < args.groups; number += gridDim.x * WARPS)
        search(args, memory[threadIdx.x >> 5], best, (uint32_t)number);
}
