/* Exclusive sum and stable radix sort for lengths that only the device knows.
 *
 * A pass of the sort is three launches: digit histograms of pieces, one scan of them
 * (digit-major, so that the pass is stable), the move.  Inside a piece a warp ranks 32
 * neighbours at a time with match, in order.
 *
 * Source: Merrill & Grimshaw 2011, High Performance and Scalable Radix Sorting. */
#include "device.cuh"

#define SCAN_ITEMS (GSC__SCAN_PIECE / GSC__SCAN_BLOCK)
#define SORT_WARPS (GSC__SORT_BLOCK / 32)
#define SORT_ITEMS (GSC__SORT_PIECE / GSC__SORT_BLOCK)
#define DIGITS GSC__SORT_DIGITS

extern "C" __global__ void __launch_bounds__(GSC__SCAN_BLOCK)
    gsc_scan_sums(const __grid_constant__ gsc_k_scan args) {
    __shared__ uint32_t warps[33];
    const uint32_t length = gsc__length_of(args.length);
    const uint32_t first = blockIdx.x * GSC__SCAN_PIECE;
    uint32_t sum = 0, total;
    for (int k = 0; k < SCAN_ITEMS; ++k) {
        uint32_t i = first + k * GSC__SCAN_BLOCK + threadIdx.x;
        if (i < length) sum += args.input[i];
    }
    gsc__block_scan(sum, warps, &total);
    if (threadIdx.x == 0) args.sums[blockIdx.x] = total;
}

/* One block of 1024 threads: sums becomes its own exclusive scan. */
extern "C" __global__ void __launch_bounds__(1024)
    gsc_scan_top(const __grid_constant__ gsc_k_scan args) {
    __shared__ uint32_t warps[33];
    const uint32_t pieces = (args.length.limit + GSC__SCAN_PIECE - 1) / GSC__SCAN_PIECE;
    uint32_t before = 0, total;
    for (uint32_t first = 0; first < pieces; first += 1024) {
        uint32_t i = first + threadIdx.x;
        uint32_t x = i < pieces ? args.sums[i] : 0;
        uint32_t scanned = gsc__block_scan(x, warps, &total);
        if (i < pieces) args.sums[i] = before + scanned;
        before += total;
    }
}

extern "C" __global__ void __launch_bounds__(GSC__SCAN_BLOCK)
    gsc_scan_pieces(const __grid_constant__ gsc_k_scan args) {
    __shared__ uint32_t warps[33], tile[GSC__SCAN_PIECE];
    const uint32_t length = gsc__length_of(args.length);
    const uint32_t first = blockIdx.x * GSC__SCAN_PIECE;
    if (first >= length) return;
    uint32_t sum = 0, total;
    for (int k = 0; k < SCAN_ITEMS; ++k) {
        uint32_t at = k * GSC__SCAN_BLOCK + threadIdx.x;
        tile[at] = first + at < length ? args.input[first + at] : 0;
    }
    __syncthreads();
    uint32_t *own = tile + threadIdx.x * SCAN_ITEMS;
    for (int k = 0; k < SCAN_ITEMS; ++k) sum += own[k];
    uint32_t running = args.sums[blockIdx.x] + gsc__block_scan(sum, warps, &total);
    for (int k = 0; k < SCAN_ITEMS; ++k) {
        uint32_t x = own[k];
        own[k] = running;
        running += x;
    }
    __syncthreads();
    for (int k = 0; k < SCAN_ITEMS; ++k) {
        uint32_t at = k * GSC__SCAN_BLOCK + threadIdx.x;
        if (first + at < length) args.output[first + at] = tile[at];
    }
}

extern "C" __global__ void __launch_bounds__(GSC__SORT_BLOCK)
    gsc_sort_histograms(const __grid_constant__ gsc_k_sort args) {
    __shared__ uint32_t counts[DIGITS];
    const uint32_t length = gsc__length_of(args.length);
    const uint32_t first = blockIdx.x * GSC__SORT_PIECE;
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (int k = 0; k < SORT_ITEMS; ++k) {
        uint32_t i = first + k * GSC__SORT_BLOCK + threadIdx.x;
        if (i < length) atomicAdd(&counts[args.keys[i] >> args.shift & (DIGITS - 1)], 1u);
    }
    __syncthreads();
    args.histograms[threadIdx.x * args.pieces + blockIdx.x] = counts[threadIdx.x];
}

/* One block a digit: exclusive scan of its row of histograms; the row's total goes to
 * the end of the array. */
extern "C" __global__ void __launch_bounds__(GSC__SORT_BLOCK)
    gsc_sort_rows(const __grid_constant__ gsc_k_sort args) {
    __shared__ uint32_t warps[33];
    uint32_t *row = args.histograms + blockIdx.x * args.pieces;
    uint32_t before = 0, total;
    for (uint32_t first = 0; first < args.pieces; first += GSC__SORT_BLOCK) {
        uint32_t i = first + threadIdx.x;
        uint32_t x = i < args.pieces ? row[i] : 0;
        uint32_t scanned = gsc__block_scan(x, warps, &total);
        if (i < args.pieces) row[i] = before + scanned;
        before += total;
    }
    if (threadIdx.x == 0) args.histograms[DIGITS * args.pieces + blockIdx.x] = before;
}

extern "C" __global__ void __launch_bounds__(GSC__SORT_BLOCK)
    gsc_sort_move(const __grid_constant__ gsc_k_sort args) {
    __shared__ uint32_t places[SORT_WARPS][DIGITS]; /* counts, then first places */
    __shared__ uint32_t warps[33];
    const uint32_t length = gsc__length_of(args.length);
    const uint32_t warp = threadIdx.x >> 5;
    const uint32_t first = blockIdx.x * GSC__SORT_PIECE + warp * (32 * SORT_ITEMS);
    if (blockIdx.x * GSC__SORT_PIECE >= length) return;
    for (int w = 0; w < SORT_WARPS; ++w) places[w][threadIdx.x] = 0;
    __syncthreads();
    uint32_t keys[SORT_ITEMS], same[SORT_ITEMS];
    uint16_t ranks[SORT_ITEMS];
    /* The matches first: they wait for nothing. */
#pragma unroll
    for (int k = 0; k < SORT_ITEMS; ++k) {
        uint32_t i = first + k * 32 + gsc__lane();
        keys[k] = i < length ? args.keys[i] : 0;
        /* Past the end: a digit of their own, which 8 bits do not have. */
        uint32_t digit = i < length ? keys[k] >> args.shift & (DIGITS - 1) : DIGITS;
        same[k] = __match_any_sync(GSC__ALL_LANES, digit);
    }
#pragma unroll
    for (int k = 0; k < SORT_ITEMS; ++k) {
        const bool valid = first + k * 32 + gsc__lane() < length;
        uint32_t digit = keys[k] >> args.shift & (DIGITS - 1);
        uint32_t seen = valid ? places[warp][digit] : 0;
        ranks[k] = (uint16_t)(seen + __popc(same[k] & gsc__lanes_below()));
        __syncwarp();
        if (valid && (same[k] & gsc__lanes_below()) == 0)
            places[warp][digit] = seen + __popc(same[k]);
        __syncwarp();
    }
    __syncthreads();
    uint32_t total, row = args.histograms[DIGITS * args.pieces + threadIdx.x];
    uint32_t place = gsc__block_scan(row, warps, &total) +
                     args.histograms[threadIdx.x * args.pieces + blockIdx.x];
    for (int w = 0; w < SORT_WARPS; ++w) {
        uint32_t count = places[w][threadIdx.x];
        places[w][threadIdx.x] = place;
        place += count;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < SORT_ITEMS; ++k) {
        uint32_t i = first + k * 32 + gsc__lane();
        if (i >= length) continue;
        uint32_t to = places[warp][keys[k] >> args.shift & (DIGITS - 1)] + ranks[k];
        if (args.out_keys) args.out_keys[to] = keys[k];
        args.out_values[to] = args.values ? args.values[i] : i;
    }
}
