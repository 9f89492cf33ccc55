/* Points in the order of a Hilbert curve, and boxes above them.
 *
 * Leaves are runs of 32 points, and every box covers 32 boxes below it, so the tree needs no
 * pointers and a warp looks at all children at once.
 *
 * A box keeps the lowest index inside.  Among points at equal distance the lower index wins, so a
 * box at exactly the distance of the k-th neighbour can be skipped if its indices are higher.
 * Without that, clouds with many duplicates would take quadratic time. */
#include "knn_curve.cuh"

#define BLOCK GSC__KNN_BLOCK

extern "C" __global__ void __launch_bounds__(GSC__KNN_BLOCK)
    gsc_knn_bounds(const __grid_constant__ gsc_k_knn_bounds args) {
    gsc__begin_kernel();
    __shared__ gsc__gpu_bounds parts[BLOCK / 32];
    gsc__gpu_bounds own = gsc__no_bounds();
    for (uint64_t i = blockIdx.x * BLOCK + threadIdx.x; i < args.count; i += args.blocks * BLOCK) {
        const float *p = args.points + 3 * i;
        if (!gsc__is_finite(p)) continue;
        const gsc__gpu_bounds point = {{p[0], p[1], p[2]}, {p[0], p[1], p[2]}, 1};
        gsc__add_bounds(own, point);
    }
    own = gsc__block_bounds(own, parts);
    if (threadIdx.x == 0) args.parts[blockIdx.x] = own;
}

/* One block. */
extern "C" __global__ void __launch_bounds__(GSC__KNN_BLOCK)
    gsc_knn_cells(const __grid_constant__ gsc_k_knn_bounds args) {
    gsc__begin_kernel();
    __shared__ gsc__gpu_bounds parts[BLOCK / 32];
    gsc__gpu_bounds box = gsc__no_bounds();
    for (uint32_t i = threadIdx.x; i < args.blocks; i += BLOCK) gsc__add_bounds(box, args.parts[i]);
    box = gsc__block_bounds(box, parts);
    if (threadIdx.x == 0) *args.cells = gsc__cells_of(box, args.count);
}

extern "C" __global__ void __launch_bounds__(GSC__KNN_BLOCK)
    gsc_knn_keys(const __grid_constant__ gsc_k_knn_keys args) {
    gsc__begin_kernel();
    const uint64_t i = (uint64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i < args.cleared_words) args.cleared[i] = 0;
    if (i >= args.count) return;
    const float *p = args.points + 3 * i;
    args.keys[i] = gsc__is_finite(p) ? gsc__place_key(*args.cells, p) : GSC__KNN_NOT_FINITE;
}

/* ---------------------------------------------------------------------- boxes */

/* The box around the boxes of all lanes, in every lane. */
static __device__ __forceinline__ gsc__gpu_box warp_box(gsc__gpu_box box) {
    for (int step = 16; step > 0; step /= 2) {
        for (int axis = 0; axis < 3; ++axis) {
            box.low[axis] =
                fminf(box.low[axis], __shfl_xor_sync(GSC__ALL_LANES, box.low[axis], step));
            box.high[axis] =
                fmaxf(box.high[axis], __shfl_xor_sync(GSC__ALL_LANES, box.high[axis], step));
        }
        uint32_t other = __shfl_xor_sync(GSC__ALL_LANES, box.min_index, step);
        box.min_index = min(box.min_index, other);
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

extern "C" __global__ void __launch_bounds__(GSC__KNN_BLOCK)
    gsc_knn_leaves(const __grid_constant__ gsc_k_knn_leaves args) {
    gsc__begin_kernel();
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

extern "C" __global__ void __launch_bounds__(GSC__KNN_BLOCK)
    gsc_knn_boxes(const __grid_constant__ gsc_k_knn_boxes args) {
    gsc__begin_kernel();
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
