#include "gpu.h"

#define BLOCKS 2 /* of a multiprocessor, as many as the kernel's registers allow */

/* Two tiles for each multiprocessor of a large device: few rounds of blocks, and short look-backs.
 * The same number on every device, so that scratch does not depend on the device. */
#define TILES 256

static int64_t rounds(uint32_t bits) {
    return bits > 32 ? GSC__SORT_WIDE_ROUNDS : GSC__SORT_ROUNDS;
}

/* Tiles of any length up to the limit: shorter arrays are cut into smaller tiles. */
static uint32_t tile_limit(int64_t limit, uint32_t bits) {
    const int64_t smallest = gsc__gpu_blocks(limit, GSC__SORT_BLOCK * GSC__SORT_FEWEST_ROUNDS);
    const int64_t largest = gsc__gpu_blocks(limit, GSC__SORT_BLOCK * rounds(bits));
    const int64_t most = largest > TILES ? largest : TILES;
    return (uint32_t)(smallest < most ? smallest : most);
}

static size_t states_bytes(int64_t limit, uint32_t bits) {
    const int64_t tiles = tile_limit(limit, bits), groups = gsc__gpu_blocks(tiles, GSC__SORT_GROUP);
    return (size_t)(tiles + 2 * groups) * GSC__SORT_DIGITS * sizeof(uint32_t);
}

uint32_t gsc__gpu_sort_passes(uint32_t bits) {
    return (bits + GSC__SORT_DIGIT_BITS - 1) / GSC__SORT_DIGIT_BITS;
}

size_t gsc__gpu_sort_bytes(int64_t limit, uint32_t bits) {
    return sizeof(gsc__gpu_sort_progress) + 2 * states_bytes(limit, bits);
}

/* The progress and the first states; the kernel clears those of later passes. */
size_t gsc__gpu_sort_zeroed_bytes(int64_t limit, uint32_t bits) {
    return sizeof(gsc__gpu_sort_progress) + states_bytes(limit, bits);
}

gsc_status gsc__gpu_sort(const gsc__call *call, const gsc__gpu_sort_args *sort) {
    const uint32_t passes = gsc__gpu_sort_passes(sort->bits);
    const int64_t limit = sort->kernel.length.limit;
    const size_t bytes = states_bytes(limit, sort->bits);
    unsigned char *states = (unsigned char *)sort->scratch + sizeof(gsc__gpu_sort_progress);
    gsc_k_sort args = sort->kernel;
    args.passes = passes;
    args.tiles = TILES;
    args.tile_limit = tile_limit(limit, sort->bits);
    args.progress = sort->scratch;
    args.states[0] = (void *)states;
    args.states[1] = (void *)(states + bytes);
    /* Given values stand in one of the arrays written to, so the sort has to take as many passes
     * as the caller counts on.  Where it may skip passes, the highest digit is the narrowest: it
     * is the one that all keys tend to share. */
    args.may_skip = args.values == NULL;
    args.digit_bits = args.may_skip ? GSC__SORT_DIGIT_BITS : (sort->bits + passes - 1) / passes;
    if (limit == 0) return GSC_OK;
    uint32_t grid = BLOCKS * (uint32_t)gsc__gpu_of(call->context)->device.multiprocessors;
    const int64_t work =
        (int64_t)gsc__gpu_blocks(limit, GSC__SORT_BLOCK * GSC__SORT_FEWEST_ROUNDS) * passes;
    if (grid > work) grid = (uint32_t)work;
    if (!sort->zeroed)
        GSC__TRY(
            gsc__gpu_clear(call, sort->scratch, gsc__gpu_sort_zeroed_bytes(limit, sort->bits)));
    if (sort->key_bytes == 2) return LAUNCH(sort16, call, grid, args);
    if (sort->key_bytes == 4) return LAUNCH(sort, call, grid, args);
    return LAUNCH(sort64, call, grid, args);
}
