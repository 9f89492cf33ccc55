/* What the radix sort of sort.cu stands on: how the work is cut, and the digit histograms of
 * all passes. */
#ifndef GSC_SORT_CUH
#define GSC_SORT_CUH

#include "device.cuh"
#include "sort_kernels.h"
#include "words.cuh"

#define BLOCK GSC__SORT_BLOCK
#define WARPS (BLOCK / 32)
#define DIGITS GSC__SORT_DIGITS
#define GROUP GSC__SORT_GROUP

#define PLANNED 0x80000000u

static __device__ __forceinline__ uint32_t gsc__length_of(const gsc__gpu_length &length) {
    uint32_t count = *length.count;
    return count < length.limit ? count : length.limit;
}

template <class Key> struct sort_memory {
    static constexpr uint32_t rounds = sizeof(Key) > sizeof(uint32_t) ? GSC__SORT_WIDE_ROUNDS
                                                                      : GSC__SORT_ROUNDS;
    union {
        uint32_t histograms[WARPS * DIGITS];
        uint32_t counts[WARPS][DIGITS]; /* then ranks of the warps' next keys in the tile */
        Key keys[BLOCK * rounds];
        uint32_t values[BLOCK * rounds];
    };
    uint32_t places[DIGITS]; /* of the tile's keys with a digit, less their ranks */
    uint32_t warps[33];
    uint32_t ticket, plan;
};

/* How the work is cut: the same in every block. */
struct sort_cut {
    uint32_t length;
    uint32_t rounds; /* keys of a thread */
    uint32_t tiles, counters;
};

/* One tile of one pass. */
struct sort_step {
    uint32_t turn, pass; /* number among the passes that are done, among all */
    uint32_t tile;
    uint32_t bits, shift; /* of the digit */
    uint32_t begin;       /* the tile's first key */
    uint32_t first;       /* this lane's first key, of every 32nd */
};

static __device__ __forceinline__ uint32_t pieces(uint32_t count, uint32_t piece) {
    return (count + piece - 1) / piece;
}

static __device__ __forceinline__ sort_cut cut_work(const gsc_k_sort &args, uint32_t most) {
    sort_cut cut;
    cut.length = gsc__length_of(args.length);
    cut.rounds = gsc__sort_rounds(cut.length, args.tiles, most);
    cut.tiles = pieces(cut.length, BLOCK * cut.rounds);
    cut.counters = min(gridDim.x, pieces(cut.length, BLOCK * 8));
    return cut;
}

template <class Key>
static __device__ __forceinline__ uint32_t digit_of(Key key, uint32_t shift, uint32_t bits) {
    return (uint32_t)(key >> shift) & ((1u << bits) - 1);
}

/* Through the second-level cache: other blocks wrote it during this launch. */
template <class Key, class Stored>
static __device__ __forceinline__ Key load_key(const Stored *keys, uint32_t i, uint32_t base) {
    return (Key)__ldcg(keys + i) - base;
}

static __device__ __forceinline__ uint32_t base_of(const gsc_k_sort &args) {
    return args.base ? *args.base : 0;
}

/* ----------------------------------------------------------------- histograms */

/* A warp a pass: counts become places, and a pass that moves nothing leaves the plan. */
static __device__ void finish_histograms(const gsc_k_sort &args, uint32_t length, uint32_t *plan) {
    constexpr int own = DIGITS / 32;
    const uint32_t pass = threadIdx.x >> 5;
    if (threadIdx.x == 0) *plan = (1u << args.passes) - 1;
    __syncthreads();
    if (pass < args.passes) {
        uint32_t *row = args.board->histograms[pass] + gsc__lane() * own;
        uint32_t counts[own], sum = 0;
        bool all = false;
        for (int k = 0; k < own; ++k) {
            counts[k] = __ldcg(row + k);
            all |= counts[k] == length;
            sum += counts[k];
        }
        uint32_t running = gsc__warp_scan(sum) - sum;
        for (int k = 0; k < own; ++k) {
            row[k] = running;
            running += counts[k];
        }
        all = __any_sync(GSC__ALL_LANES, all);
        if (all && args.leave_out && pass > 0 && gsc__lane() == 0) atomicAnd(plan, ~(1u << pass));
    }
    __syncthreads();
    if (threadIdx.x == 0) release_word(&args.board->plan, PLANNED | *plan);
}

template <class Key, class Stored>
static __device__ void count_keys(const gsc_k_sort &args, const sort_cut &cut, uint32_t first,
                                  uint32_t *histograms) {
    const Stored *keys = (const Stored *)args.keys;
    const uint32_t base = base_of(args), stride = cut.counters * BLOCK;
    for (uint32_t i = first * BLOCK + threadIdx.x; i < cut.length; i += 4 * stride) {
        Key four[4];
#pragma unroll
        for (int j = 0; j < 4; ++j)
            four[j] = i + j * stride < cut.length ? load_key<Key>(keys, i + j * stride, base) : 0;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (i + j * stride >= cut.length) break;
#pragma unroll
            for (uint32_t pass = 0; pass < GSC__SORT_PASSES; ++pass) {
                if (pass == args.passes) break;
                const uint32_t shift = pass * args.digit_bits;
                if (shift >= 8 * sizeof(Key)) break;
                const uint32_t digit = digit_of(four[j], shift, args.digit_bits);
                atomicAdd(histograms + pass * DIGITS + digit, 1u);
            }
        }
    }
}

/* Warps share few histograms, so that equal digits of different warps seldom collide. */
template <class Key, class Stored>
static __device__ void count_piece(const gsc_k_sort &args, const sort_cut &cut, uint32_t piece,
                                   sort_memory<Key> &memory) {
    const uint32_t words = args.passes * DIGITS, copies = args.passes <= 4 ? 4 : 2;
    for (uint32_t i = threadIdx.x; i < copies * words; i += BLOCK) memory.histograms[i] = 0;
    __syncthreads();
    const uint32_t copy = (threadIdx.x >> 5) & (copies - 1);
    count_keys<Key, Stored>(args, cut, piece, memory.histograms + copy * words);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < words; i += BLOCK) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k < copies; ++k) sum += memory.histograms[k * words + i];
        if (sum) atomicAdd(&args.board->histograms[0][0] + i, sum);
    }
    __syncthreads();
    if (threadIdx.x == 0) memory.plan = release_add(&args.board->counted, 1) == cut.counters - 1;
    __syncthreads();
    if (!memory.plan) return;
    __threadfence();
    __syncthreads();
    finish_histograms(args, cut.length, &memory.plan);
}

#endif
