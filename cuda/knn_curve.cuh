/* Places of points on a Hilbert curve.  The key of fewer bits is the beginning of the key of
 * more. */
#ifndef GSC_KNN_CURVE_CUH
#define GSC_KNN_CURVE_CUH

#include "../src/math/curve_math.h"
#include "device.cuh"
#include "knn_kernels.h"

#define GSC__KNN_NOT_FINITE ((1ull << GSC__KNN_KEY_BITS) - 1)

static __device__ __forceinline__ bool gsc__is_finite(const float *p) {
    return isfinite(p[0]) && isfinite(p[1]) && isfinite(p[2]);
}

static __device__ __forceinline__ gsc__gpu_bounds gsc__no_bounds() {
    return {{GSC__KNN_INFINITY, GSC__KNN_INFINITY, GSC__KNN_INFINITY},
            {-GSC__KNN_INFINITY, -GSC__KNN_INFINITY, -GSC__KNN_INFINITY},
            0};
}

static __device__ __forceinline__ void gsc__add_bounds(gsc__gpu_bounds &sum,
                                                       const gsc__gpu_bounds &other) {
    for (int axis = 0; axis < 3; ++axis) {
        sum.low[axis] = fminf(sum.low[axis], other.low[axis]);
        sum.high[axis] = fmaxf(sum.high[axis], other.high[axis]);
    }
    sum.finite += other.finite;
}

/* The sum of a block's bounds, in thread 0.  parts: one per warp. */
static __device__ gsc__gpu_bounds gsc__block_bounds(gsc__gpu_bounds own, gsc__gpu_bounds *parts) {
    for (int step = 16; step > 0; step /= 2) {
        gsc__gpu_bounds other;
        for (int axis = 0; axis < 3; ++axis) {
            other.low[axis] = __shfl_down_sync(GSC__ALL_LANES, own.low[axis], step);
            other.high[axis] = __shfl_down_sync(GSC__ALL_LANES, own.high[axis], step);
        }
        other.finite = __shfl_down_sync(GSC__ALL_LANES, own.finite, step);
        if (gsc__lane() + step < 32) gsc__add_bounds(own, other);
    }
    if (gsc__lane() == 0) parts[threadIdx.x >> 5] = own;
    __syncthreads();
    if (threadIdx.x == 0)
        for (uint32_t warp = 1; warp < blockDim.x >> 5; ++warp) gsc__add_bounds(own, parts[warp]);
    return own;
}

/* All axes share one scale. */
static __device__ __forceinline__ gsc__gpu_cells gsc__cells_of(const gsc__gpu_bounds &box,
                                                               uint32_t count) {
    gsc__gpu_cells cells = {{0, 0, 0}, 0, box.finite, count};
    float extent = 0;
    for (int axis = 0; axis < 3 && box.finite > 0; ++axis) {
        cells.low[axis] = 0.5f * box.low[axis];
        extent = fmaxf(extent, 0.5f * box.high[axis] - cells.low[axis]);
    }
    const float scale = (float)((1u << GSC__CURVE_BITS) - 1) / extent;
    if (extent > 0.0f && isfinite(scale)) cells.scale = scale;
    return cells;
}

typedef struct gsc__cell {
    uint32_t x, y, z;
} gsc__cell;

/* p is finite. */
static __device__ __forceinline__ gsc__cell gsc__cell_of(const gsc__gpu_cells &cells,
                                                         const float *p) {
    uint32_t cell[3];
    for (int axis = 0; axis < 3; ++axis) {
        const float half = __fmul_rn(0.5f, p[axis]); /* the same rounding in every kernel */
        const float place = __fmul_rn(__fsub_rn(half, cells.low[axis]), cells.scale);
        cell[axis] = (uint32_t)(int32_t)place & ((1u << GSC__CURVE_BITS) - 1);
    }
    return {cell[0], cell[1], cell[2]};
}

/* The key of the highest `bits` of a cell's numbers. */
template <int bits> static __device__ __forceinline__ uint64_t gsc__curve_key(gsc__cell cell) {
    uint32_t x = cell.x >> (GSC__CURVE_BITS - bits), y = cell.y >> (GSC__CURVE_BITS - bits),
             z = cell.z >> (GSC__CURVE_BITS - bits);
#pragma unroll
    for (int bit = bits - 1; bit > 0; --bit) {
        const uint32_t low = (1u << bit) - 1;
        x ^= low & (0 - (x >> bit & 1));
        gsc__undo_rotation(&x, &y, bit);
        gsc__undo_rotation(&x, &z, bit);
    }
    return gsc__curve_place(x, y, z);
}

/* The key that points are sorted by; p is finite.  The last cell joins the one before it. */
static __device__ __forceinline__ uint64_t gsc__place_key(const gsc__gpu_cells &cells,
                                                          const float *p) {
    return min((uint64_t)gsc__curve_key<GSC__CURVE_BITS>(gsc__cell_of(cells, p)),
               (uint64_t)(GSC__KNN_NOT_FINITE - 1));
}

#endif
