#include "sort.h"

#define BLOCKS 2 /* of a multiprocessor, as the kernel's registers leave room for */

/* Two tiles for each multiprocessor of a large device: as few rounds of blocks as can be,
 * and short look-backs.  Not that of the device at hand, so that scratch does not depend
 * on it. */
#define TILES 256

static int64_t chunks(int64_t count, int64_t chunk) {
    return (count + chunk - 1) / chunk;
}

static int64_t rounds(uint32_t bits) {
    return bits > 32 ? GSC__SORT_WIDE_ROUNDS : GSC__SORT_ROUNDS;
}

/* Of any length up to the limit: shorter ones are cut into smaller tiles. */
static uint32_t tile_limit(int64_t limit, uint32_t bits) {
    const int64_t smallest = chunks(limit, GSC__SORT_BLOCK * GSC__SORT_FEWEST_ROUNDS);
    const int64_t largest = chunks(limit, GSC__SORT_BLOCK * rounds(bits));
    const int64_t most = largest > TILES ? largest : TILES;
    return (uint32_t)(smallest < most ? smallest : most);
}

static size_t states_bytes(int64_t limit, uint32_t bits) {
    const int64_t tiles = tile_limit(limit, bits), groups = chunks(tiles, GSC__SORT_GROUP);
    return (size_t)(tiles + 2 * groups) * GSC__SORT_DIGITS * sizeof(uint32_t);
}

uint32_t gsc__gpu_sort_passes(uint32_t bits) {
    return (bits + GSC__SORT_DIGIT_BITS - 1) / GSC__SORT_DIGIT_BITS;
}

size_t gsc__gpu_sort_bytes(int64_t limit, uint32_t bits) {
    return sizeof(gsc__gpu_sort_progress) + 2 * states_bytes(limit, bits);
}

/* The progress and the first states: those of later passes are cleared on the way. */
size_t gsc__gpu_sort_zeroed_bytes(int64_t limit, uint32_t bits) {
    return sizeof(gsc__gpu_sort_progress) + states_bytes(limit, bits);
}

static enum gsc__gpu_kernel kernel_of(uint32_t key_bytes) {
    return key_bytes == 2   ? GSC__KERNEL_sort16
           : key_bytes == 4 ? GSC__KERNEL_sort
                            : GSC__KERNEL_sort64;
}

gsc_status gsc__gpu_sort(gsc_context *context, const gsc__gpu_sort_args *sort, void *stream,
                         const char *function) {
    const uint32_t passes = gsc__gpu_sort_passes(sort->bits);
    const int64_t limit = sort->length.limit;
    const size_t bytes = states_bytes(limit, sort->bits);
    unsigned char *states = (unsigned char *)sort->scratch + sizeof(gsc__gpu_sort_progress);
    gsc_k_sort args = {.length = sort->length,
                       .keys = sort->keys,
                       .values = sort->values,
                       .values_below = sort->values_below,
                       .base = sort->base,
                       .work_keys = {sort->work_keys[0], sort->work_keys[1]},
                       .out_keys = sort->out_keys,
                       .out_values = {sort->out_values, sort->work_values},
                       .passes = passes,
                       .tiles = TILES,
                       .tile_limit = tile_limit(limit, sort->bits),
                       .progress = sort->scratch,
                       .states = {(void *)states, (void *)(states + bytes)}};
    /* Values that are given stand in one of the arrays written to, so the passes must be as
     * many as the caller counted on.  Where passes may be left out the highest digit is the
     * narrowest, because it is the one that keys tend to share. */
    args.may_skip = sort->values == NULL;
    args.digit_bits = args.may_skip ? GSC__SORT_DIGIT_BITS : (sort->bits + passes - 1) / passes;
    if (limit == 0) return GSC_OK;
    uint32_t grid = BLOCKS * (uint32_t)gsc__gpu_of(context)->device.multiprocessors;
    const int64_t work = chunks(limit, GSC__SORT_BLOCK * GSC__SORT_FEWEST_ROUNDS) * passes;
    if (grid > work) grid = (uint32_t)work;
    if (!sort->zeroed)
        GSC__TRY(gsc__gpu_memset(context, sort->scratch, 0,
                                 gsc__gpu_sort_zeroed_bytes(limit, sort->bits), stream, function));
    return gsc__gpu_launch(context, kernel_of(sort->key_bytes), grid, GSC__SORT_BLOCK, &args,
                           sizeof args, stream, function);
}
