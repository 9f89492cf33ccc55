/* Where the bins' lists begin among the sorted entries, and in what order they are drawn. */
#include "words.cuh"

/* Quarters of an octave of the length, longest first. */
static __device__ __forceinline__ uint32_t class_of(uint64_t length) {
    const uint32_t last = GSC__ORDER_CLASSES - 1;
    return last - min((__float_as_uint((float)length + 1.0f) >> 21) - 508u, last);
}
static __device__ __forceinline__ uint32_t length_class(const uint64_t *offsets, uint32_t bin) {
    return class_of(__ldcg(offsets + bin + 1) - __ldcg(offsets + bin));
}

/* A place for each lane behind those of its class that are taken; a class that is none gets
 * no place.  Neighbours of one class stay neighbours, and cost one addition together. */
static __device__ __forceinline__ uint32_t take_place(uint32_t *taken, uint32_t own) {
    const uint32_t same = __match_any_sync(GSC__ALL_LANES, own);
    const uint32_t below = __popc(same & gsc__lanes_below());
    uint32_t first = 0;
    if (below == 0 && own < GSC__ORDER_CLASSES) first = atomicAdd(taken + own, __popc(same));
    return __shfl_sync(GSC__ALL_LANES, first, __ffs((int)same) - 1) + below;
}

/* The bins of each class: all, and those of the pieces before this one.  Waits for the counts,
 * of which a thread has a few on their way at once. */
#define COUNTS_BATCH 4
static __device__ __forceinline__ void sum_counts(const gsc_k_order_bins &args, uint32_t piece,
                                                  uint32_t *all, uint32_t *before) {
    const uint32_t own = threadIdx.x % GSC__ORDER_CLASSES;
    const uint32_t step = GSC__ORDER_BLOCK / GSC__ORDER_CLASSES;
    uint32_t sum = 0, sum_before = 0, words[COUNTS_BATCH];
    for (uint32_t p = threadIdx.x / GSC__ORDER_CLASSES; p < args.pieces; p += COUNTS_BATCH * step) {
        const uint32_t *from = args.counts + p * GSC__ORDER_CLASSES + own;
#pragma unroll
        for (uint32_t k = 0; k < COUNTS_BATCH; ++k)
            words[k] = p + k * step < args.pieces ? load_word(from + k * GSC__ORDER_BLOCK) : 1;
#pragma unroll
        for (uint32_t k = 0; k < COUNTS_BATCH; ++k) {
            while (words[k] == 0) words[k] = load_word(from + k * GSC__ORDER_BLOCK);
            sum += words[k] - 1;
            if (p + k * step < piece) sum_before += words[k] - 1;
        }
    }
    atomicAdd(all + own, sum);
    atomicAdd(before + own, sum_before);
}

/* A counting sort by class, a bin a thread: one block counts a piece, another one places it and
 * finds the bins' ranks in the piece while the others count.  Numbered in the order in which
 * they start, all that count come before all that place, so that whom one waits for is running,
 * however few blocks the device holds.  Which of two lists of one class comes first may vary,
 * and what counts as long depends on the band: both move work, never results.  Long are the
 * classes above that of the threshold, all of whose lists are longer than it. */
static __device__ void order_bins(const gsc_k_order_bins &args, uint32_t number) {
    __shared__ uint32_t taken[GSC__ORDER_CLASSES], all[GSC__ORDER_CLASSES];
    __shared__ uint32_t before[GSC__ORDER_CLASSES], warps[33];
    const gsc__gpu_band band = *args.band;
    const bool only_counts = number < args.pieces, has_class = threadIdx.x < GSC__ORDER_CLASSES;
    const uint32_t piece = only_counts ? number : number - args.pieces;
    const uint32_t bin = band.begin + piece * GSC__ORDER_BLOCK + threadIdx.x;
    const bool exists = bin < band.end;
    if (has_class) taken[threadIdx.x] = all[threadIdx.x] = before[threadIdx.x] = 0;
    const uint32_t own = exists ? length_class(args.frame.offsets, bin) : GSC__ORDER_CLASSES;
    __syncthreads();
    const uint32_t rank = take_place(taken, own);
    if (only_counts) {
        __syncthreads();
        if (has_class)
            store_word(args.counts + piece * GSC__ORDER_CLASSES + threadIdx.x,
                       taken[threadIdx.x] + 1);
        return;
    }
    sum_counts(args, piece, all, before);
    __syncthreads();
    uint32_t total;
    const uint32_t first = gsc__block_scan(has_class ? all[threadIdx.x] : 0u, warps, &total);
    if (has_class) before[threadIdx.x] += first;
    if (piece == 0 && threadIdx.x == class_of(band.entries / args.long_lists))
        args.frame.bin_order[args.grid.bins] = first;
    __syncthreads();
    if (exists) args.frame.bin_order[before[own] + rank] = bin;
}

extern "C" __global__ void __launch_bounds__(GSC__ORDER_BLOCK)
    gsc_order_bins(const __grid_constant__ gsc_k_order_bins args) {
    gsc__begin_kernel();
    __shared__ uint32_t ticket;
    if (threadIdx.x == 0) ticket = atomicAdd(&args.board->ticket, 1u);
    __syncthreads();
    order_bins(args, ticket);
}

/* Sets offsets[from, to) of each lane; long runs are written by the whole warp. */
static __device__ __forceinline__ void write_offsets(uint64_t *offsets, uint32_t from, uint32_t to,
                                                     uint32_t value) {
    uint32_t longer = __ballot_sync(GSC__ALL_LANES, to > from + 8);
    for (uint32_t left = longer; left; left &= left - 1) {
        const int lane = __ffs((int)left) - 1;
        const uint32_t its_from = __shfl_sync(GSC__ALL_LANES, from, lane);
        const uint32_t its_to = __shfl_sync(GSC__ALL_LANES, to, lane);
        const uint32_t its_value = __shfl_sync(GSC__ALL_LANES, value, lane);
        for (uint32_t bin = its_from + gsc__lane(); bin < its_to; bin += 32)
            offsets[bin] = its_value;
    }
    if (longer >> gsc__lane() & 1) return;
    for (uint32_t bin = from; bin < to; ++bin) offsets[bin] = value;
}

/* This thread's keys, in pieces of 16 bytes where all are there; behind the last one `bins`. */
template <class Key>
static __device__ __forceinline__ void load_keys(const Key *keys, uint32_t first, uint32_t entries,
                                                 uint32_t bins, uint32_t *own) {
    constexpr uint32_t in_one = sizeof(uint4) / sizeof(Key);
    if (first + GSC__FIND_KEYS <= entries) {
#pragma unroll
        for (uint32_t k = 0; k < GSC__FIND_KEYS; k += in_one) {
            const uint4 some = *(const uint4 *)(keys + first + k);
#pragma unroll
            for (uint32_t i = 0; i < in_one; ++i)
                own[k + i] = min((uint32_t)((const Key *)&some)[i], bins);
        }
    } else {
#pragma unroll
        for (uint32_t k = 0; k < GSC__FIND_KEYS; ++k)
            own[k] = first + k < entries ? min((uint32_t)keys[first + k], bins) : bins;
    }
}

/* A bin's list begins at the first key that is not below it: the bins after the key before
 * this thread's and up to each of its own.  Behind the last key stand all that are left.  Many
 * warps have none. */
template <class Key>
static __device__ __forceinline__ void find_bins(const gsc_k_find_bins &args, uint32_t entries,
                                                 uint32_t block) {
    const Key *keys = (const Key *)args.keys;
    const uint32_t bins = (uint32_t)args.order.grid.bins;
    const uint32_t first = (block * GSC__FIND_BLOCK + threadIdx.x) * GSC__FIND_KEYS;
    uint32_t own[GSC__FIND_KEYS];
    uint32_t bin = bins + 1;
    if (first <= entries) bin = first ? min((uint32_t)keys[first - 1], bins) + 1 : 0;
    load_keys(keys, first, entries, bins, own);
    if (!__any_sync(GSC__ALL_LANES, bin <= own[GSC__FIND_KEYS - 1])) return;
#pragma unroll
    for (uint32_t k = 0; k < GSC__FIND_KEYS; ++k) {
        write_offsets(args.order.frame.offsets, bin, own[k] + 1, first + k);
        bin = max(bin, own[k] + 1);
    }
}

/* Blocks take their work in the order in which they start: first the keys, then the bins. */
extern "C" __global__ void __launch_bounds__(GSC__FIND_BLOCK)
    gsc_find_bins(const __grid_constant__ gsc_k_find_bins args) {
    gsc__begin_kernel();
    __shared__ uint32_t ticket;
    gsc__gpu_order_board *board = args.order.board;
    if (threadIdx.x == 0) ticket = atomicAdd(&board->ticket, 1u);
    const uint32_t entries = args.order.band->entries;
    const uint32_t blocks = entries / (GSC__FIND_BLOCK * GSC__FIND_KEYS) + 1;
    __syncthreads();
    const uint32_t number = ticket;
    if (number >= blocks + 2 * args.order.pieces) return;
    if (number >= blocks) {
        if (threadIdx.x == 0) wait_for(&board->found, blocks);
        __syncthreads();
        order_bins(args.order, number - blocks);
        return;
    }
    if (args.narrow)
        find_bins<uint16_t>(args, entries, number);
    else
        find_bins<uint32_t>(args, entries, number);
    __syncthreads();
    if (threadIdx.x == 0) release_add(&board->found, 1);
}
