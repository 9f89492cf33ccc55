/* Where the tiles' lists begin among the sorted intersections, and the order of blending them. */
#include "words.cuh"

/* Classes are quarters of an octave of the length, longest first. */
static __device__ __forceinline__ uint32_t class_of(uint64_t length) {
    const uint32_t last = GSC__ORDER_CLASSES - 1;
    return last - min((__float_as_uint((float)length + 1.0f) >> 21) - 508u, last);
}
static __device__ __forceinline__ uint32_t length_class(const uint64_t *offsets, uint32_t tile) {
    return class_of(__ldcg(offsets + tile + 1) - __ldcg(offsets + tile));
}

/* Gives each lane a place behind those of its class that are taken; GSC__ORDER_CLASSES stands for
 * no class.  Neighbours of one class stay neighbours, and cost one addition together. */
static __device__ __forceinline__ uint32_t take_place(uint32_t *taken, uint32_t own) {
    const uint32_t same = __match_any_sync(GSC__ALL_LANES, own);
    const uint32_t below = __popc(same & gsc__lanes_below());
    uint32_t first = 0;
    if (below == 0 && own < GSC__ORDER_CLASSES) first = atomicAdd(taken + own, __popc(same));
    return __shfl_sync(GSC__ALL_LANES, first, __ffs((int)same) - 1) + below;
}

/* Sums the tiles of each class: all of them, and those of the chunks before this one.  Waits for
 * the counts, of which a thread loads a few at once. */
#define COUNTS_BATCH 4
static __device__ __forceinline__ void sum_counts(const gsc_k_order_tiles &args, uint32_t chunk,
                                                  uint32_t *all, uint32_t *before) {
    const uint32_t own = threadIdx.x % GSC__ORDER_CLASSES;
    const uint32_t step = GSC__ORDER_BLOCK / GSC__ORDER_CLASSES;
    uint32_t sum = 0, sum_before = 0, words[COUNTS_BATCH];
    for (uint32_t p = threadIdx.x / GSC__ORDER_CLASSES; p < args.chunks; p += COUNTS_BATCH * step) {
        const uint32_t *from = args.counts + p * GSC__ORDER_CLASSES + own;
#pragma unroll
        for (uint32_t k = 0; k < COUNTS_BATCH; ++k)
            words[k] = p + k * step < args.chunks ? load_word(from + k * GSC__ORDER_BLOCK) : 1;
#pragma unroll
        for (uint32_t k = 0; k < COUNTS_BATCH; ++k) {
            while (words[k] == 0) words[k] = load_word(from + k * GSC__ORDER_BLOCK);
            sum += words[k] - 1;
            if (p + k * step < chunk) sum_before += words[k] - 1;
        }
    }
    atomicAdd(all + own, sum);
    atomicAdd(before + own, sum_before);
}

/* A counting sort by class, a tile per thread.  One block counts a chunk; another one places it,
 * and finds the tiles' ranks in the chunk while others count.  Blocks are numbered in the order in
 * which they start, and all that count come before all that place, so every block that one waits
 * for is running, however few the device holds.  Which of two lists of one class comes first may
 * vary, and which lists are long depends on the band: both move work, never results.  Long lists
 * are those of the classes above the threshold's, all of which are longer than it. */
static __device__ void order_tiles(const gsc_k_order_tiles &args, uint32_t number) {
    __shared__ uint32_t taken[GSC__ORDER_CLASSES], all[GSC__ORDER_CLASSES];
    __shared__ uint32_t before[GSC__ORDER_CLASSES], warps[33];
    const gsc__gpu_band band = *args.band;
    const bool only_counts = number < args.chunks, has_class = threadIdx.x < GSC__ORDER_CLASSES;
    const uint32_t chunk = only_counts ? number : number - args.chunks;
    const uint32_t tile = band.begin + chunk * GSC__ORDER_BLOCK + threadIdx.x;
    const bool exists = tile < band.end;
    if (has_class) taken[threadIdx.x] = all[threadIdx.x] = before[threadIdx.x] = 0;
    const uint32_t own = exists ? length_class(args.frame.offsets, tile) : GSC__ORDER_CLASSES;
    __syncthreads();
    const uint32_t rank = take_place(taken, own);
    if (only_counts) {
        __syncthreads();
        if (has_class)
            store_word(args.counts + chunk * GSC__ORDER_CLASSES + threadIdx.x,
                       taken[threadIdx.x] + 1);
        return;
    }
    sum_counts(args, chunk, all, before);
    __syncthreads();
    uint32_t total;
    const uint32_t first = gsc__block_scan(has_class ? all[threadIdx.x] : 0u, warps, &total);
    if (has_class) before[threadIdx.x] += first;
    if (chunk == 0 && threadIdx.x == class_of(band.intersections / args.long_lists))
        args.frame.tile_order[args.grid.tiles] = first;
    __syncthreads();
    if (exists) args.frame.tile_order[before[own] + rank] = tile;
}

extern "C" __global__ void __launch_bounds__(GSC__ORDER_BLOCK)
    gsc_order_tiles(const __grid_constant__ gsc_k_order_tiles args) {
    gsc__begin_kernel();
    __shared__ uint32_t next;
    if (threadIdx.x == 0) next = atomicAdd(&args.progress->next, 1u);
    __syncthreads();
    order_tiles(args, next);
}

/* Sets offsets[from, to) of each lane; the whole warp writes long runs. */
static __device__ __forceinline__ void write_offsets(uint64_t *offsets, uint32_t from, uint32_t to,
                                                     uint32_t value) {
    uint32_t longer = __ballot_sync(GSC__ALL_LANES, to > from + 8);
    for (uint32_t left = longer; left; left &= left - 1) {
        const int lane = __ffs((int)left) - 1;
        const uint32_t its_from = __shfl_sync(GSC__ALL_LANES, from, lane);
        const uint32_t its_to = __shfl_sync(GSC__ALL_LANES, to, lane);
        const uint32_t its_value = __shfl_sync(GSC__ALL_LANES, value, lane);
        for (uint32_t tile = its_from + gsc__lane(); tile < its_to; tile += 32)
            offsets[tile] = its_value;
    }
    if (longer >> gsc__lane() & 1) return;
    for (uint32_t tile = from; tile < to; ++tile) offsets[tile] = value;
}

/* Loads this thread's keys, 16 bytes at once where all exist; `tiles` follows the last one. */
template <class Key>
static __device__ __forceinline__ void
load_keys(const Key *keys, uint32_t first, uint32_t intersections, uint32_t tiles, uint32_t *own) {
    constexpr uint32_t in_one = sizeof(uint4) / sizeof(Key);
    if (first + GSC__FIND_KEYS <= intersections) {
#pragma unroll
        for (uint32_t k = 0; k < GSC__FIND_KEYS; k += in_one) {
            const uint4 some = *(const uint4 *)(keys + first + k);
#pragma unroll
            for (uint32_t i = 0; i < in_one; ++i)
                own[k + i] = min((uint32_t)((const Key *)&some)[i], tiles);
        }
    } else {
#pragma unroll
        for (uint32_t k = 0; k < GSC__FIND_KEYS; ++k)
            own[k] = first + k < intersections ? min((uint32_t)keys[first + k], tiles) : tiles;
    }
}

/* A tile's list begins at the first key that is not below the tile.  A thread writes the tiles
 * after the key before its own, up to each of its own keys; all tiles that are left begin behind
 * the last key.  Many warps have none. */
template <class Key>
static __device__ __forceinline__ void find_tiles(const gsc_k_find_tiles &args,
                                                  uint32_t intersections, uint32_t block) {
    const Key *keys = (const Key *)args.keys;
    const uint32_t tiles = (uint32_t)args.order.grid.tiles;
    const uint32_t first = (block * GSC__FIND_BLOCK + threadIdx.x) * GSC__FIND_KEYS;
    uint32_t own[GSC__FIND_KEYS];
    uint32_t tile = tiles + 1;
    if (first <= intersections) tile = first ? min((uint32_t)keys[first - 1], tiles) + 1 : 0;
    load_keys(keys, first, intersections, tiles, own);
    if (!__any_sync(GSC__ALL_LANES, tile <= own[GSC__FIND_KEYS - 1])) return;
#pragma unroll
    for (uint32_t k = 0; k < GSC__FIND_KEYS; ++k) {
        write_offsets(args.order.frame.offsets, tile, own[k] + 1, first + k);
        tile = max(tile, own[k] + 1);
    }
}

/* Blocks take their work in the order in which they start: first the keys, then the tiles. */
extern "C" __global__ void __launch_bounds__(GSC__FIND_BLOCK)
    gsc_find_tiles(const __grid_constant__ gsc_k_find_tiles args) {
    gsc__begin_kernel();
    __shared__ uint32_t next;
    gsc__gpu_order_progress *progress = args.order.progress;
    if (threadIdx.x == 0) next = atomicAdd(&progress->next, 1u);
    const uint32_t intersections = args.order.band->intersections;
    const uint32_t blocks = intersections / (GSC__FIND_BLOCK * GSC__FIND_KEYS) + 1;
    __syncthreads();
    const uint32_t number = next;
    if (number >= blocks + 2 * args.order.chunks) return;
    if (number >= blocks) {
        if (threadIdx.x == 0) wait_for(&progress->found, blocks);
        __syncthreads();
        order_tiles(args.order, number - blocks);
        return;
    }
    if (args.narrow)
        find_tiles<uint16_t>(args, intersections, number);
    else
        find_tiles<uint32_t>(args, intersections, number);
    __syncthreads();
    if (threadIdx.x == 0) release_add(&progress->found, 1);
}
