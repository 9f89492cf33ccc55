/* Points in the order of a Hilbert curve, and boxes above them.
 *
 * The keys are those of Skilling, Programming the Hilbert curve (AIP Conference Proceedings
 * 707, 2004), in three dimensions with 21 bits each: runs of neighbours on this curve meet
 * half as many others as along Morton's, because it never jumps.  Leaves are runs of 32
 * points and every box covers 32 boxes below it, so the tree needs no pointers and a warp
 * looks at all children at once.
 *
 * A box keeps the lowest index inside: among points at equal distance the lower index wins,
 * so a box at exactly the distance of the k-th neighbour can be left out once its indices
 * are higher.  Without that, clouds of many duplicates would take quadratic time. */
#include "device.cuh"
#include "knn_kernels.h"

#define BITS 21
#define CELLS (1u << BITS)
#define BLOCK GSC__KNN_BLOCK

static __device__ __forceinline__ bool is_finite(const float *p) {
    return isfinite(p[0]) && isfinite(p[1]) && isfinite(p[2]);
}

static __device__ __forceinline__ gsc__gpu_bounds no_bounds() {
    return {{GSC__KNN_INFINITY, GSC__KNN_INFINITY, GSC__KNN_INFINITY},
            {-GSC__KNN_INFINITY, -GSC__KNN_INFINITY, -GSC__KNN_INFINITY},
            0};
}

static __device__ __forceinline__ void add_bounds(gsc__gpu_bounds &sum,
                                                  const gsc__gpu_bounds &other) {
    for (int axis = 0; axis < 3; ++axis) {
        sum.low[axis] = fminf(sum.low[axis], other.low[axis]);
        sum.high[axis] = fmaxf(sum.high[axis], other.high[axis]);
    }
    sum.finite += other.finite;
}

/* The sum of a block's bounds, for thread 0.  parts: a warp's each. */
static __device__ gsc__gpu_bounds block_bounds(gsc__gpu_bounds own, gsc__gpu_bounds *parts) {
    for (int step = 16; step > 0; step /= 2) {
        gsc__gpu_bounds other;
        for (int axis = 0; axis < 3; ++axis) {
            other.low[axis] = __shfl_down_sync(GSC__ALL_LANES, own.low[axis], step);
            other.high[axis] = __shfl_down_sync(GSC__ALL_LANES, own.high[axis], step);
        }
        other.finite = __shfl_down_sync(GSC__ALL_LANES, own.finite, step);
        if (gsc__lane() + step < 32) add_bounds(own, other);
    }
    if (gsc__lane() == 0) parts[threadIdx.x >> 5] = own;
    __syncthreads();
    if (threadIdx.x == 0)
        for (uint32_t warp = 1; warp < blockDim.x >> 5; ++warp) add_bounds(own, parts[warp]);
    return own;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    gsc_knn_bounds(const __grid_constant__ gsc_k_knn_bounds args) {
    __shared__ gsc__gpu_bounds parts[BLOCK / 32];
    gsc__gpu_bounds own = no_bounds();
    for (uint64_t i = blockIdx.x * BLOCK + threadIdx.x; i < args.count; i += args.blocks * BLOCK) {
        const float *p = args.points + 3 * i;
        if (!is_finite(p)) continue;
        const gsc__gpu_bounds point = {{p[0], p[1], p[2]}, {p[0], p[1], p[2]}, 1};
        add_bounds(own, point);
    }
    own = block_bounds(own, parts);
    if (threadIdx.x == 0) args.parts[blockIdx.x] = own;
}

/* One block.  One scale serves all axes. */
extern "C" __global__ void __launch_bounds__(BLOCK)
    gsc_knn_cells(const __grid_constant__ gsc_k_knn_bounds args) {
    __shared__ gsc__gpu_bounds parts[BLOCK / 32];
    gsc__gpu_bounds box = no_bounds();
    for (uint32_t i = threadIdx.x; i < args.blocks; i += BLOCK) add_bounds(box, args.parts[i]);
    box = block_bounds(box, parts);
    if (threadIdx.x) return;
    gsc__gpu_cells cells = {{0, 0, 0}, 0, box.finite, args.count};
    float extent = 0;
    for (int axis = 0; axis < 3 && box.finite > 0; ++axis) {
        cells.low[axis] = 0.5f * box.low[axis];
        extent = fmaxf(extent, 0.5f * box.high[axis] - cells.low[axis]);
    }
    const float scale = (float)(CELLS - 1) / extent;
    if (extent > 0.0f && isfinite(scale)) cells.scale = scale;
    *args.cells = cells;
}

/* Spreads the low 21 bits so that two zeros stand between any two of them. */
static __device__ __forceinline__ uint64_t spread(uint64_t x) {
    x = (x | x << 32) & 0x001f00000000ffffull;
    x = (x | x << 16) & 0x001f0000ff0000ffull;
    x = (x | x << 8) & 0x100f00f00f00f00full;
    x = (x | x << 4) & 0x10c30c30c30c30c3ull;
    x = (x | x << 2) & 0x1249249249249249ull;
    return x;
}

/* One step of Skilling's loop: `x` inverts or exchanges the low bits of x0. */
static __device__ __forceinline__ void undo_turn(uint32_t &x0, uint32_t &x, int bit) {
    const uint32_t low = (1u << bit) - 1;
    const uint32_t invert = low & (0 - (x >> bit & 1));
    const uint32_t exchange = (x0 ^ x) & (low & ~invert);
    x0 ^= invert | exchange;
    x ^= exchange;
}

static __device__ __forceinline__ uint64_t curve_key(uint32_t x, uint32_t y, uint32_t z) {
#pragma unroll
    for (int bit = BITS - 1; bit > 0; --bit) {
        const uint32_t low = (1u << bit) - 1;
        x ^= low & (0 - (x >> bit & 1));
        undo_turn(x, y, bit);
        undo_turn(x, z, bit);
    }
    y ^= x;
    z ^= y;
    uint32_t turn = z >> 1; /* parity of the bits above each bit */
    turn ^= turn >> 1;
    turn ^= turn >> 2;
    turn ^= turn >> 4;
    turn ^= turn >> 8;
    turn ^= turn >> 16;
    return spread(x ^ turn) << 2 | spread(y ^ turn) << 1 | spread(z ^ turn);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    gsc_knn_keys(const __grid_constant__ gsc_k_knn_keys args) {
    const uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= args.count) return;
    const float *p = args.points + 3 * i;
    const gsc__gpu_cells cells = *args.cells;
    uint32_t cell[3];
    for (int axis = 0; axis < 3; ++axis) {
        const float place = (0.5f * p[axis] - cells.low[axis]) * cells.scale;
        cell[axis] = (uint32_t)(int32_t)place & (CELLS - 1);
    }
    /* The last cell joins the one before it. */
    const uint64_t last = (1ull << GSC__KNN_KEY_BITS) - 1;
    args.keys[i] = is_finite(p) ? min(curve_key(cell[0], cell[1], cell[2]), last - 1) : last;
}

/* ---------------------------------------------------------------------- boxes */

/* The box around the boxes of all lanes, for every lane. */
static __device__ __forceinline__ gsc__gpu_box warp_box(gsc__gpu_box box) {
    for (int step = 16; step > 0; step /= 2) {
        for (int axis = 0; axis < 3; ++axis) {
            box.low[axis] =
                fminf(box.low[axis], __shfl_xor_sync(GSC__ALL_LANES, box.low[axis], step));
            box.high[axis] =
                fmaxf(box.high[axis], __shfl_xor_sync(GSC__ALL_LANES, box.high[axis], step));
        }
        uint32_t other = __shfl_xor_sync(GSC__ALL_LANES, box.least_index, step);
        box.least_index = min(box.least_index, other);
    }
    return box;
}

static __device__ __forceinline__ gsc__gpu_box no_box() {
    return {{GSC__KNN_INFINITY, GSC__KNN_INFINITY, GSC__KNN_INFINITY},
            GSC__KNN_NONE,
            {-GSC__KNN_INFINITY, -GSC__KNN_INFINITY, -GSC__KNN_INFINITY},
            0};
}

static __device__ __forceinline__ void store_box(gsc__gpu_box *to, const gsc__gpu_box &box) {
    ((float4 *)to)[0] = ((const float4 *)&box)[0];
    ((float4 *)to)[1] = ((const float4 *)&box)[1];
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    gsc_knn_leaves(const __grid_constant__ gsc_k_knn_leaves args) {
    const uint32_t leaf = blockIdx.x * (BLOCK / 32) + (threadIdx.x >> 5);
    if (leaf >= args.padded_leaves) return;
    __align__(16) gsc__gpu_box box = no_box();
    const uint64_t place = (uint64_t)leaf * GSC__KNN_LEAF + gsc__lane();
    if (leaf < args.leaves) {
        float4 point =
            make_float4(GSC__KNN_NAN, GSC__KNN_NAN, GSC__KNN_NAN, __uint_as_float(GSC__KNN_NONE));
        if (place < args.cells->finite) {
            const uint32_t index = args.order[place];
            const float *p = args.points + 3 * (uint64_t)index;
            point = make_float4(p[0], p[1], p[2], __uint_as_float(index));
            box = {{p[0], p[1], p[2]}, index, {p[0], p[1], p[2]}, 0};
        }
        ((float4 *)args.sorted)[place] = point;
    }
    box = warp_box(box);
    if (gsc__lane() == 0) store_box(args.boxes + leaf, box);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    gsc_knn_boxes(const __grid_constant__ gsc_k_knn_boxes args) {
    const uint32_t number = blockIdx.x * (BLOCK / 32) + (threadIdx.x >> 5);
    if (number >= args.padded_boxes) return;
    __align__(16) gsc__gpu_box box = no_box();
    const uint64_t child = (uint64_t)number * GSC__KNN_LEAF + gsc__lane();
    if (child < args.padded_below) {
        ((float4 *)&box)[0] = ((const float4 *)(args.below + child))[0];
        ((float4 *)&box)[1] = ((const float4 *)(args.below + child))[1];
    }
    box = warp_box(box);
    if (gsc__lane() == 0) store_box(args.boxes + number, box);
}
