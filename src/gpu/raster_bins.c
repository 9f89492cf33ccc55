#include "raster_bins.h"

#include <stddef.h>

#define LAUNCH(name, grid, block, args)                                                      \
    gsc__gpu_launch(context, GSC__KERNEL_##name, grid, block, &(args), sizeof(args), stream, \
                    function)

#define ENTRIES_MAX (INT64_C(1) << 31) /* positions are 32 bits wide */

static size_t histogram_words(int64_t count) {
    return (size_t)GSC__SORT_DIGITS * (gsc__gpu_pieces(count, GSC__SORT_PIECE) + 1);
}

/* Scratch of the depth sort: two arrays of keys and one of values. */
static size_t depth_sort_layout(const gsc__gpu_layout *layout, void *base, uint32_t **keys,
                                uint32_t **other_keys, uint32_t **values, uint32_t **histograms) {
    const size_t bytes = (size_t)layout->room * sizeof(uint32_t);
    gsc__gpu_cut cut = {base, 0};
    *keys = gsc__gpu_take(&cut, bytes);
    *other_keys = gsc__gpu_take(&cut, bytes);
    *values = gsc__gpu_take(&cut, bytes);
    *histograms = gsc__gpu_take(&cut, histogram_words(layout->room) * sizeof(uint32_t));
    return cut.at;
}

static size_t differences_bytes(const gsc__gpu_layout *layout) {
    return (size_t)layout->grid.bins_y * (size_t)(layout->grid.bins_x + 1) * sizeof(int32_t);
}

/* A ticket and the blocks' look-back states. */
static size_t emission_bytes(const gsc__gpu_layout *layout) {
    return (1 + (size_t)gsc__gpu_pieces(layout->room, GSC__EMIT_BLOCK)) * sizeof(uint64_t);
}

static size_t bins_layout(const gsc__gpu_layout *layout, int64_t entries, uint32_t rounds,
                          void *base, gsc__gpu_bins *bins) {
    const size_t list = (size_t)entries * sizeof(uint32_t);
    gsc__gpu_cut cut = {base, 0};
    bins->bands = gsc__gpu_take(&cut, rounds * sizeof *bins->bands);
    bins->bin_order = gsc__gpu_take(&cut, (size_t)layout->grid.bins * sizeof(uint32_t));
    bins->differences = gsc__gpu_take(&cut, differences_bytes(layout));
    bins->emission = gsc__gpu_take(&cut, emission_bytes(layout));
    bins->keys = gsc__gpu_take(&cut, list);
    bins->other_keys = gsc__gpu_take(&cut, list);
    bins->other_values = gsc__gpu_take(&cut, list);
    bins->histograms = gsc__gpu_take(&cut, histogram_words(entries) * sizeof(uint32_t));
    bins->rest = cut.base ? cut.base + cut.at : NULL;
    return cut.at;
}

/* Rounds that any frame of `total` entries with bins of at most `largest` needs when
 * `capacity` fit at once: every two neighbouring bands together exceed the capacity. */
static int64_t rounds_for(int64_t total, int64_t capacity) {
    return total <= capacity ? 1 : 2 * (total / (capacity > 0 ? capacity : 1)) + 2;
}

#define ROUNDS_ROOM 4096 /* bands that the scratch has room for */

size_t gsc__gpu_bins_scratch_bytes(const gsc__gpu_layout *layout, int64_t entries) {
    gsc__gpu_bins bins;
    if (entries > ENTRIES_MAX) entries = ENTRIES_MAX;
    return bins_layout(layout, entries, ROUNDS_ROOM, NULL, &bins);
}

size_t gsc__gpu_sort_scratch_bytes(const gsc__gpu_layout *layout) {
    uint32_t *unused[4];
    return depth_sort_layout(layout, NULL, &unused[0], &unused[1], &unused[2], &unused[3]);
}

size_t gsc__gpu_statistics_bytes(const gsc__gpu_layout *layout) {
    return 4 * 256 + 3 * (size_t)layout->gaussians * sizeof(uint64_t);
}

size_t gsc__gpu_sums_bytes(const gsc__gpu_layout *layout) {
    const uint32_t blocks = gsc__gpu_pieces(layout->room, GSC__UNPROJECT_BLOCK);
    return 2 * 256 + (size_t)layout->room * GSC__SUMS * sizeof(float) +
           (size_t)blocks * GSC__CAMERA_SHARES * sizeof(double);
}

/* Stable, by digits of 8 bits from `shift` up to `bits`; keys and values alternate between
 * the two arrays and end in values (passes even) or other_values. */
static gsc_status sort_pass(gsc_context *context, gsc_k_sort *args, void *stream,
                            const char *function) {
    args->pieces = gsc__gpu_pieces(args->length.limit, GSC__SORT_PIECE);
    GSC__TRY(LAUNCH(sort_histograms, args->pieces, GSC__SORT_BLOCK, *args));
    GSC__TRY(LAUNCH(sort_rows, GSC__SORT_DIGITS, GSC__SORT_BLOCK, *args));
    return LAUNCH(sort_move, args->pieces, GSC__SORT_BLOCK, *args);
}

gsc_status gsc__gpu_sort_depths(gsc_context *context, const gsc__gpu_layout *layout,
                                const gsc__gpu_frame *frame, void *scratch, void *stream,
                                const char *function) {
    uint32_t *keys, *other_keys, *values;
    gsc_k_sort sort = {.length = {&frame->header->visible, frame->room}};
    (void)depth_sort_layout(layout, scratch, &keys, &other_keys, &values, &sort.histograms);
    /* The bits of positive floats are ordered as they are. */
    const uint32_t *from_keys[4] = {(const uint32_t *)(const void *)frame->depths, keys, other_keys,
                                    keys};
    uint32_t *to_keys[4] = {keys, other_keys, keys, NULL};
    uint32_t *to_values[4] = {values, frame->order, values, frame->order};
    for (uint32_t pass = 0; pass < 4; ++pass) {
        sort.keys = from_keys[pass];
        sort.values = pass == 0 ? NULL : to_values[pass - 1];
        sort.out_keys = to_keys[pass];
        sort.out_values = to_values[pass];
        sort.shift = 8 * pass;
        GSC__TRY(sort_pass(context, &sort, stream, function));
    }
    return GSC_OK;
}

/* Offsets ahead of the lists. */
static gsc_status count_bins(gsc_context *context, const gsc__gpu_layout *layout,
                             const gsc__gpu_frame *frame, const gsc__gpu_bins *bins, void *stream,
                             const char *function) {
    const gsc_k_count_bins count = {*frame, layout->grid, bins->differences};
    const gsc_k_sum_bins sum = {*frame, layout->grid, bins->differences};
    GSC__TRY(gsc__gpu_memset(context, bins->differences, 0, differences_bytes(layout), stream,
                             function));
    GSC__TRY(LAUNCH(count_bins, gsc__gpu_pieces(layout->room, GSC__COUNT_PIECE), GSC__COUNT_BLOCK,
                    count));
    return LAUNCH(sum_bins, 1, 1024, sum);
}

gsc_status gsc__gpu_bins_plan(gsc_context *context, const gsc__gpu_layout *layout,
                              const gsc__gpu_frame *frame, const gsc__raster_buffers *buffers,
                              const gsc_raster_info *info, bool count, int64_t *overflow,
                              gsc__gpu_bins *bins, void *stream, const char *function) {
    int64_t capacity = gsc__gpu_list_entries(layout, buffers->intersections_bytes);
    /* Of the largest frame: info.intersections counts those of all cameras. */
    const int64_t frame_entries = gsc__gpu_list_entries(layout, info->intersections_bytes);
    const int64_t fullest = gsc__gpu_list_entries(layout, info->intersections_min_bytes);
    if (capacity > ENTRIES_MAX) capacity = ENTRIES_MAX;
    if (frame_entries > 0 && capacity > frame_entries) capacity = frame_entries;
    /* Less scratch than the lists could use makes smaller bands. */
    while (capacity > 0 &&
           bins_layout(layout, capacity, ROUNDS_ROOM, NULL, bins) > buffers->scratch_bytes)
        capacity -= capacity / 8 + 1;
    int64_t rounds = rounds_for(frame_entries, capacity);
    if (fullest > capacity || rounds > ROUNDS_ROOM)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "%s: intersections and scratch hold %lld entries, the fullest bin has "
                         "up to %lld",
                         function, (long long)capacity, (long long)fullest);
    bins->rounds = (uint32_t)rounds;
    bins->capacity = (uint32_t)capacity;
    (void)bins_layout(layout, capacity, ROUNDS_ROOM, buffers->scratch, bins);
    bins->lists = (uint32_t *)(void *)((unsigned char *)buffers->intersections + layout->lists);
    if (count && bins->rounds > 1)
        GSC__TRY(count_bins(context, layout, frame, bins, stream, function));
    const gsc_k_plan_bands plan = {.frame = *frame,
                                   .grid = layout->grid,
                                   .capacity = bins->capacity,
                                   .rounds = bins->rounds,
                                   .bands = bins->bands,
                                   .overflow = overflow,
                                   .record_bytes = (int64_t)layout->lists,
                                   .cameras = layout->cameras};
    return LAUNCH(plan_bands, 1, 1, plan);
}

static uint32_t passes_for(uint32_t bins) {
    uint32_t bits = 1;
    while (bits < 32 && (bins - 1) >> bits) ++bits;
    return (bits + 7) / 8;
}

gsc_status gsc__gpu_bins_order(gsc_context *context, const gsc__gpu_frame *frame,
                               const gsc__gpu_bins *bins, uint32_t round, void *stream,
                               const char *function) {
    const gsc_k_order_bins order = {*frame, bins->bands + round, bins->bin_order};
    return LAUNCH(order_bins, 1, 1024, order);
}

gsc_status gsc__gpu_bins_fill(gsc_context *context, const gsc__gpu_layout *layout,
                              const gsc__gpu_frame *frame, const gsc__gpu_bins *bins,
                              uint32_t round, void *stream, const char *function) {
    const gsc__gpu_band *band = bins->bands + round;
    /* An even number of passes starts in the lists, an odd one beside them. */
    const uint32_t passes = passes_for((uint32_t)layout->grid.bins);
    uint32_t *values[2] = {bins->lists, bins->other_values};
    uint32_t *keys[2] = {bins->keys, bins->other_keys};
    uint32_t at = passes & 1;
    const gsc_k_emit emit = {.frame = *frame,
                             .grid = layout->grid,
                             .band = band,
                             .ticket = (uint32_t *)(void *)bins->emission,
                             .blocks = (uint64_t *)(void *)bins->emission + 1,
                             .keys = keys[at],
                             .values = values[at]};
    GSC__TRY(gsc__gpu_memset(context, bins->emission, 0, emission_bytes(layout), stream, function));
    GSC__TRY(LAUNCH(emit, gsc__gpu_pieces(layout->room, GSC__EMIT_BLOCK), GSC__EMIT_BLOCK, emit));
    gsc_k_sort sort = {.length = {&band->entries, bins->capacity}, .histograms = bins->histograms};
    for (uint32_t pass = 0; pass < passes; ++pass, at ^= 1) {
        sort.keys = keys[at];
        sort.values = values[at];
        sort.out_keys = keys[at ^ 1];
        sort.out_values = values[at ^ 1];
        sort.shift = 8 * pass;
        GSC__TRY(sort_pass(context, &sort, stream, function));
    }
    if (bins->rounds == 1) {
        const gsc_k_find_bins find = {*frame, layout->grid, band, keys[at]};
        GSC__TRY(LAUNCH(find_bins, gsc__gpu_pieces(layout->grid.bins + 1, 256), 256, find));
    }
    return gsc__gpu_bins_order(context, frame, bins, round, stream, function);
}
