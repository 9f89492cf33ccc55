/* The radix sort of sort.cu for keys of 64 bits; the scan of the histograms is the same. */
#include "device.cuh"
#include "knn_kernels.h"

#define WARPS (GSC__SORT_BLOCK / 32)
#define ITEMS (GSC__SORT_PIECE / GSC__SORT_BLOCK)
#define DIGITS GSC__SORT_DIGITS

static __device__ __forceinline__ uint32_t digit_of(uint64_t key, uint32_t shift) {
    return (uint32_t)(key >> shift) & (DIGITS - 1);
}

extern "C" __global__ void __launch_bounds__(GSC__SORT_BLOCK)
    gsc_sort64_histograms(const __grid_constant__ gsc_k_sort64 args) {
    __shared__ uint32_t counts[DIGITS];
    const uint32_t length = gsc__length_of(args.length);
    const uint32_t first = blockIdx.x * GSC__SORT_PIECE;
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int k = 0; k < ITEMS; ++k) {
        uint32_t i = first + k * GSC__SORT_BLOCK + threadIdx.x;
        if (i < length) atomicAdd(&counts[digit_of(args.keys[i], args.shift)], 1u);
    }
    __syncthreads();
    args.histograms[threadIdx.x * args.pieces + blockIdx.x] = counts[threadIdx.x];
}

extern "C" __global__ void __launch_bounds__(GSC__SORT_BLOCK)
    gsc_sort64_move(const __grid_constant__ gsc_k_sort64 args) {
    __shared__ uint32_t places[WARPS][DIGITS]; /* counts, then first places */
    __shared__ uint32_t warps[33];
    const uint32_t length = gsc__length_of(args.length);
    const uint32_t warp = threadIdx.x >> 5;
    const uint32_t first = blockIdx.x * GSC__SORT_PIECE + warp * (32 * ITEMS);
    if (blockIdx.x * GSC__SORT_PIECE >= length) return;
    for (int w = 0; w < WARPS; ++w) places[w][threadIdx.x] = 0;
    __syncthreads();
    uint64_t keys[ITEMS];
    uint16_t ranks[ITEMS];
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        uint32_t i = first + k * 32 + gsc__lane();
        keys[k] = i < length ? args.keys[i] : 0;
        /* Past the end: a digit of their own, which 8 bits do not have. */
        uint32_t digit = i < length ? digit_of(keys[k], args.shift) : DIGITS;
        uint32_t same = __match_any_sync(GSC__ALL_LANES, digit);
        uint32_t seen = digit < DIGITS ? places[warp][digit] : 0;
        ranks[k] = (uint16_t)(seen + __popc(same & gsc__lanes_below()));
        __syncwarp();
        if (digit < DIGITS && (same & gsc__lanes_below()) == 0)
            places[warp][digit] = seen + __popc(same);
        __syncwarp();
    }
    __syncthreads();
    uint32_t total, row = args.histograms[DIGITS * args.pieces + threadIdx.x];
    uint32_t place = gsc__block_scan(row, warps, &total) +
                     args.histograms[threadIdx.x * args.pieces + blockIdx.x];
    for (int w = 0; w < WARPS; ++w) {
        uint32_t count = places[w][threadIdx.x];
        places[w][threadIdx.x] = place;
        place += count;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < ITEMS; ++k) {
        uint32_t i = first + k * 32 + gsc__lane();
        if (i >= length) continue;
        uint32_t to = places[warp][digit_of(keys[k], args.shift)] + ranks[k];
        if (args.out_keys) args.out_keys[to] = keys[k];
        args.out_values[to] = args.values ? args.values[i] : i;
    }
}
