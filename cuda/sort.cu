/* Stable radix sort in one launch, for lengths that only the device knows.
 *
 * The work is numbered: first chunks of the digit histograms of all passes, then the tiles of
 * pass 0, those of pass 1, and so on.  A tile is a run of keys that one block moves.  Blocks take
 * numbers from a counter until none is left, so the grid need not grow with the limit of the
 * length.  A tile waits for the whole pass before it: for lower numbers only, and so for blocks
 * that run.
 *
 * A tile counts its digits warp by warp, publishes the counts, ranks its keys while the counts of
 * others arrive, looks back for what is before it, and writes runs of equal digits through shared
 * memory.  The tiles of a pass run almost in step, so a plain look-back would walk half of them.
 * Sixteen tiles therefore also add to the counts of a group, and the look-back goes tile by tile
 * within its group, then group by group.
 *
 * A pass whose digit all keys share moves nothing and is skipped.
 *
 * Source: Adinets & Merrill 2022, Onesweep: A Faster Least Significant Digit Radix Sort for
 * GPUs. */
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
        uint32_t counts[WARPS][DIGITS]; /* then the ranks in the tile of the warps' next keys */
        Key keys[BLOCK * rounds];
        uint32_t values[BLOCK * rounds];
    };
    uint32_t places[DIGITS]; /* where the tile's keys with a digit go, minus their ranks */
    uint32_t warps[33];
    uint32_t next, plan;
};

/* How the work is divided, the same in every block. */
struct sort_cut {
    uint32_t length;
    uint32_t rounds; /* keys of a thread */
    uint32_t tiles, counters;
};

/* One tile of one pass. */
struct sort_step {
    uint32_t ordinal, pass; /* number among the passes that run, and among all */
    uint32_t tile;
    uint32_t bits, shift; /* of the digit */
    uint32_t begin;       /* the tile's first key */
    uint32_t first;       /* this lane's first key; it has every 32nd */
};

static __device__ __forceinline__ uint32_t chunks(uint32_t count, uint32_t chunk) {
    return (count + chunk - 1) / chunk;
}

static __device__ __forceinline__ sort_cut cut_work(const gsc_k_sort &args, uint32_t most) {
    sort_cut cut;
    cut.length = gsc__length_of(args.length);
    cut.rounds = gsc__sort_rounds(cut.length, args.tiles, most);
    cut.tiles = chunks(cut.length, BLOCK * cut.rounds);
    cut.counters = min(gridDim.x, chunks(cut.length, BLOCK * 8));
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

/* A warp per pass turns counts into places, and takes a pass that moves nothing off the plan. */
static __device__ void finish_histograms(const gsc_k_sort &args, uint32_t length, uint32_t *plan) {
    constexpr int own = DIGITS / 32;
    const uint32_t pass = threadIdx.x >> 5;
    if (threadIdx.x == 0) *plan = (1u << args.passes) - 1;
    __syncthreads();
    if (pass < args.passes) {
        uint32_t *row = args.progress->histograms[pass] + gsc__lane() * own;
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
        if (all && args.may_skip && pass > 0 && gsc__lane() == 0) atomicAnd(plan, ~(1u << pass));
    }
    __syncthreads();
    if (threadIdx.x == 0) release_word(&args.progress->plan, PLANNED | *plan);
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

/* Several copies of a histogram, so that equal digits of different warps seldom collide. */
template <class Key, class Stored>
static __device__ void count_chunk(const gsc_k_sort &args, const sort_cut &cut, uint32_t chunk,
                                   sort_memory<Key> &memory) {
    const uint32_t words = args.passes * DIGITS, copies = args.passes <= 4 ? 4 : 2;
    for (uint32_t i = threadIdx.x; i < copies * words; i += BLOCK) memory.histograms[i] = 0;
    __syncthreads();
    const uint32_t copy = (threadIdx.x >> 5) & (copies - 1);
    count_keys<Key, Stored>(args, cut, chunk, memory.histograms + copy * words);
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < words; i += BLOCK) {
        uint32_t sum = 0;
        for (uint32_t k = 0; k < copies; ++k) sum += memory.histograms[k * words + i];
        if (sum) atomicAdd(&args.progress->histograms[0][0] + i, sum);
    }
    __syncthreads();
    if (threadIdx.x == 0) memory.plan = release_add(&args.progress->counted, 1) == cut.counters - 1;
    __syncthreads();
    if (!memory.plan) return;
    __threadfence();
    __syncthreads();
    finish_histograms(args, cut.length, &memory.plan);
}

#define WINDOW 8 /* words that a look-back loads at once */

/* A tile's word for a digit: 0, then count + 1, then FINAL | number of keys with the digit up to
 * the tile's end.  Sums are modulo 2^31; those that place a key are below it. */
#define FINAL 0x80000000u
/* A group's word: how many tiles have added to it, and how many of their keys have the digit. */
#define ONE_TILE (1u << 20)

static __device__ __forceinline__ uint32_t *tile_words(const gsc_k_sort &args, uint32_t ordinal,
                                                       uint32_t tile) {
    return args.states[ordinal & 1] + (uint64_t)tile * DIGITS;
}
static __device__ __forceinline__ uint32_t *group_words(const gsc_k_sort &args, uint32_t ordinal,
                                                        uint32_t group) {
    return args.states[ordinal & 1] + (args.tile_limit + 2 * (uint64_t)group) * DIGITS;
}

/* The number of keys with the digit in the tiles before this one. */
static __device__ uint32_t look_back(const gsc_k_sort &args, uint32_t ordinal, uint32_t tile,
                                     uint32_t digit) {
    uint32_t sum = 0, words[WINDOW], finals[WINDOW];
    for (uint32_t left = tile % GROUP; left > 0; left -= min(left, (uint32_t)WINDOW)) {
        const uint32_t *from = tile_words(args, ordinal, tile / GROUP * GROUP + left - 1) + digit;
#pragma unroll
        for (uint32_t k = 0; k < WINDOW; ++k)
            words[k] = k < left ? load_word(from - k * DIGITS) : 1;
#pragma unroll
        for (uint32_t k = 0; k < WINDOW; ++k) {
            while (words[k] == 0) words[k] = load_word(from - k * DIGITS);
            if (words[k] & FINAL) return sum + words[k];
            sum += words[k] - 1;
        }
    }
    for (uint32_t left = tile / GROUP; left > 0; left -= min(left, (uint32_t)WINDOW)) {
        const uint32_t *from = group_words(args, ordinal, left - 1) + digit;
#pragma unroll
        for (uint32_t k = 0; k < WINDOW; ++k) {
            words[k] = k < left ? load_word(from - 2 * k * DIGITS) : GROUP * ONE_TILE;
            finals[k] = k < left ? load_word(from - 2 * k * DIGITS + DIGITS) : 0;
        }
#pragma unroll
        for (uint32_t k = 0; k < WINDOW; ++k) {
            while (words[k] < GROUP * ONE_TILE && !finals[k]) {
                words[k] = load_word(from - 2 * k * DIGITS);
                finals[k] = load_word(from - 2 * k * DIGITS + DIGITS);
            }
            if (finals[k]) return sum + finals[k];
            sum += words[k] & (ONE_TILE - 1);
        }
    }
    return sum;
}

/* Lanes with the same digit, by ballots: with __match_any_sync the whole sort took up to 1.4 times
 * as long. */
static __device__ __forceinline__ uint32_t match(uint32_t digit, uint32_t bits) {
    uint32_t same = GSC__ALL_LANES;
#pragma unroll
    for (uint32_t bit = 0; bit < GSC__SORT_DIGIT_BITS; ++bit) {
        if (bit == bits) break;
        const bool set = digit >> bit & 1;
        const uint32_t those = __ballot_sync(GSC__ALL_LANES, set);
        same &= set ? those : ~those;
    }
    return same;
}

/* A thread per digit turns the warps' counts into ranks in the tile, and publishes the tile's
 * count. Returns the count and the first rank. */
static __device__ __forceinline__ uint2 share_counts(const gsc_k_sort &args, const sort_step &step,
                                                     uint32_t (*counts)[DIGITS], uint32_t *warps) {
    const uint32_t digit = threadIdx.x;
    uint32_t before[WARPS], count = 0, total;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
        before[w] = count;
        count += counts[w][digit];
    }
    if (digit < 1u << step.bits) {
        store_word(tile_words(args, step.ordinal, step.tile) + digit, count + 1);
        atomicAdd(group_words(args, step.ordinal, step.tile / GROUP) + digit, ONE_TILE + count);
    }
    const uint32_t rank = gsc__block_scan(count, warps, &total);
#pragma unroll
    for (int w = 0; w < WARPS; ++w) counts[w][digit] = rank + before[w];
    return make_uint2(count, rank);
}

/* A thread per digit finds where the tile's keys go. */
static __device__ __forceinline__ void find_place(const gsc_k_sort &args, const sort_step &step,
                                                  uint2 own, uint32_t *places) {
    const uint32_t digit = threadIdx.x, group = step.tile / GROUP;
    if (digit >= 1u << step.bits) return;
    const uint32_t first = __ldcg(&args.progress->histograms[step.pass][digit]);
    const uint32_t before = look_back(args, step.ordinal, step.tile, digit);
    const uint32_t end = FINAL | (before + own.x);
    store_word(tile_words(args, step.ordinal, step.tile) + digit, end);
    if (step.tile % GROUP == GROUP - 1)
        store_word(group_words(args, step.ordinal, group) + DIGITS + digit, end);
    places[digit] = first + (before & ~FINAL) - own.y;
}

/* For the pass after this one, which uses the other states. */
static __device__ __forceinline__ void clear_next_states(const gsc_k_sort &args, uint32_t ordinal,
                                                         uint32_t tile) {
    tile_words(args, ordinal + 1, tile)[threadIdx.x] = 0;
    if (tile % GROUP) return;
    group_words(args, ordinal + 1, tile / GROUP)[threadIdx.x] = 0;
    group_words(args, ordinal + 1, tile / GROUP)[DIGITS + threadIdx.x] = 0;
}

/* Finds the pass that is number `ordinal` of those that run, and waits until the one before it is
 * complete.  False: fewer passes run. */
static __device__ __forceinline__ bool begin_pass(const gsc_k_sort &args, uint32_t tiles,
                                                  uint32_t ordinal, uint32_t *shared_plan,
                                                  uint32_t *pass) {
    *pass = 0;
    if (ordinal > 0) {
        if (threadIdx.x == 0) *shared_plan = wait_for(&args.progress->plan, PLANNED);
        __syncthreads();
        uint32_t plan = *shared_plan & ~PLANNED;
        if (ordinal >= __popc(plan)) return false;
        for (uint32_t k = 0; k < ordinal; ++k) plan &= plan - 1;
        *pass = (uint32_t)__ffs((int)plan) - 1;
        if (threadIdx.x == 0) wait_for(&args.progress->done[ordinal - 1], tiles);
    }
    __syncthreads();
    return true;
}

/* Keys past the end come last of all, with ranks from the tile's count on. */
template <class Key, class Stored>
static __device__ __forceinline__ void load_keys(const gsc_k_sort &args, const sort_cut &cut,
                                                 const sort_step &step, Key *keys) {
    const void *source = step.ordinal ? args.work_keys[(step.ordinal - 1) & 1] : args.keys;
    const Stored *from = (const Stored *)source;
    const uint32_t base = step.ordinal ? 0 : base_of(args);
#pragma unroll
    for (int k = 0; k < sort_memory<Key>::rounds; ++k) {
        const bool exists = k < cut.rounds && step.first + k * 32 < cut.length;
        keys[k] = exists ? load_key<Key>(from, step.first + k * 32, base) : ~(Key)0;
    }
}

/* Two ranks share a register. */
static __device__ __forceinline__ uint32_t rank_of(const uint32_t *ranks, int k) {
    return k % 2 ? ranks[k / 2] >> 16 : ranks[k / 2] & 0xffff;
}

/* The keys' ranks in the tile, 32 neighbours at a time; counts: next ones of the warp. */
template <class Key>
static __device__ __forceinline__ void rank_keys(const sort_step &step, uint32_t rounds,
                                                 const Key *keys, uint32_t *counts,
                                                 uint32_t *ranks) {
#pragma unroll
    for (int k = 0; k < sort_memory<Key>::rounds; ++k) {
        if (k == rounds) break;
        const uint32_t digit = digit_of(keys[k], step.shift, step.bits);
        const uint32_t same = match(digit, step.bits);
        const uint32_t below = __popc(same & gsc__lanes_below());
        const uint32_t next = counts[digit];
        __syncwarp();
        if (below == 0) counts[digit] = next + __popc(same);
        __syncwarp();
        ranks[k / 2] = k % 2 ? ranks[k / 2] | (next + below) << 16 : next + below;
    }
}

/* Writes keys, which are in shared memory by rank, and then values to where they belong.  after:
 * passes still to come. */
template <class Key, class Stored>
static __device__ __forceinline__ void write_tile(const gsc_k_sort &args, const sort_cut &cut,
                                                  const sort_step &step, uint32_t after,
                                                  const uint32_t *ranks, sort_memory<Key> &memory) {
    constexpr int most = sort_memory<Key>::rounds;
    const uint32_t count = min(cut.length - step.begin, cut.rounds * BLOCK);
    const uint32_t *from = step.ordinal == 0 ? args.values : args.out_values[(after + 1) & 1];
    Stored *to_keys = (Stored *)(after > 0 ? args.work_keys[step.ordinal & 1] : args.out_keys);
    uint32_t *to_values = args.out_values[after & 1];
    uint32_t values[most], to[most];
#pragma unroll
    for (int k = 0; k < most; ++k) {
        const uint32_t i = step.first + k * 32;
        values[k] = i;
        if (from && k < cut.rounds && i < cut.length)
            values[k] = min(__ldcg(from + i), args.values_below - 1);
    }
#pragma unroll
    for (int k = 0; k < most; ++k) {
        const uint32_t i = k * BLOCK + threadIdx.x;
        if (k >= cut.rounds || i >= count) continue;
        const Key key = memory.keys[i];
        to[k] = memory.places[digit_of(key, step.shift, step.bits)] + i;
        if (to_keys) to_keys[to[k]] = (Stored)key;
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < most; ++k)
        if (k < cut.rounds) memory.values[rank_of(ranks, k)] = values[k];
    __syncthreads();
#pragma unroll
    for (int k = 0; k < most; ++k) {
        const uint32_t i = k * BLOCK + threadIdx.x;
        if (k < cut.rounds && i < count) to_values[to[k]] = memory.values[i];
    }
}

/* Leaves the block's next number in memory.next.  False: there is no such pass. */
template <class Key, class Stored>
static __device__ bool sort_tile(const gsc_k_sort &args, const sort_cut &cut, uint32_t ordinal,
                                 uint32_t tile, sort_memory<Key> &memory) {
    constexpr int most = sort_memory<Key>::rounds;
    const uint32_t warp = threadIdx.x >> 5;
    sort_step step = {ordinal, 0, tile, args.digit_bits, 0, tile * cut.rounds * BLOCK, 0};
    for (uint32_t w = 0; w < WARPS; ++w) memory.counts[w][threadIdx.x] = 0;
    if (!begin_pass(args, cut.tiles, ordinal, &memory.plan, &step.pass)) return false;
    step.shift = step.pass * step.bits;
    step.first = step.begin + warp * cut.rounds * 32 + gsc__lane();
    Key keys[most];
    uint32_t ranks[most / 2];
    load_keys<Key, Stored>(args, cut, step, keys);
#pragma unroll
    for (int k = 0; k < most; ++k)
        if (k < cut.rounds)
            atomicAdd(&memory.counts[warp][digit_of(keys[k], step.shift, step.bits)], 1u);
    __syncthreads();
    const uint2 own = share_counts(args, step, memory.counts, memory.warps);
    __syncthreads();
    rank_keys(step, cut.rounds, keys, memory.counts[warp], ranks);
    if (ordinal == 0 && threadIdx.x == 0) memory.plan = wait_for(&args.progress->plan, PLANNED);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < most; ++k)
        if (k < cut.rounds) memory.keys[rank_of(ranks, k)] = keys[k];
    const uint32_t after = __popc(memory.plan & ~PLANNED) - 1 - ordinal;
    find_place(args, step, own, memory.places);
    if (threadIdx.x == 0) memory.next = atomicAdd(&args.progress->next, 1u);
    __syncthreads();
    write_tile<Key, Stored>(args, cut, step, after, ranks, memory);
    if (after > 0) clear_next_states(args, ordinal, tile);
    __syncthreads();
    if (after > 0 && threadIdx.x == 0) release_add(&args.progress->done[ordinal], 1);
    return true;
}

/* Blocks that could only wait for the tiles of others return at once. */
template <class Key, class Stored>
static __device__ __forceinline__ void sort(const gsc_k_sort &args) {
    __shared__ sort_memory<Key> memory;
    const sort_cut cut = cut_work(args, sort_memory<Key>::rounds);
    if (blockIdx.x >= 2 * cut.tiles) return;
    if (threadIdx.x == 0) memory.next = atomicAdd(&args.progress->next, 1u);
    __syncthreads();
    while (memory.next < cut.counters) {
        count_chunk<Key, Stored>(args, cut, memory.next, memory);
        __syncthreads();
        if (threadIdx.x == 0) memory.next = atomicAdd(&args.progress->next, 1u);
        __syncthreads();
    }
    for (;;) {
        const uint32_t number = memory.next - cut.counters;
        const uint32_t ordinal = number / cut.tiles, tile = number % cut.tiles;
        if (ordinal >= args.passes || !sort_tile<Key, Stored>(args, cut, ordinal, tile, memory))
            return;
    }
}

#define KERNEL(name, Key, Stored)                                    \
    extern "C" __global__ void __launch_bounds__(GSC__SORT_BLOCK, 2) \
        name(const __grid_constant__ gsc_k_sort args) {              \
        gsc__begin_kernel();                                         \
        sort<Key, Stored>(args);                                     \
    }

KERNEL(gsc_sort, uint32_t, uint32_t)
KERNEL(gsc_sort16, uint32_t, uint16_t)
KERNEL(gsc_sort64, uint64_t, uint64_t)
