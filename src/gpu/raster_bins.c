#include "raster_bins.h"

#include "sort.h"

#include <stddef.h>

#define LAUNCH(name, grid, block, args)                                                      \
    gsc__gpu_launch(context, GSC__KERNEL_##name, grid, block, &(args), sizeof(args), stream, \
                    function)

#define ENTRIES_MAX (INT64_C(1) << 31) /* positions are 32 bits wide */

#define DEPTH_BITS 32 /* those of positive floats are ordered as they are */

static uint32_t key_bits(const gsc__gpu_grid *grid) {
    uint32_t bits = 1;
    while ((uint32_t)(grid->bins - 1) >> bits) ++bits;
    return bits;
}

/* Scratch of the depth sort: two arrays of keys and one of values. */
static size_t depth_sort_layout(const gsc__gpu_layout *layout, void *base, uint32_t **keys,
                                uint32_t **other_keys, uint32_t **values, void **sort) {
    const size_t bytes = (size_t)layout->room * sizeof(uint32_t);
    gsc__gpu_cut cut = {base, 0};
    *keys = gsc__gpu_take(&cut, bytes);
    *other_keys = gsc__gpu_take(&cut, bytes);
    *values = gsc__gpu_take(&cut, bytes);
    *sort = gsc__gpu_take(&cut, gsc__gpu_sort_bytes(layout->room, DEPTH_BITS));
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
    bins->bin_order = gsc__gpu_take(&cut, ((size_t)layout->grid.bins + 1) * sizeof(uint32_t));
    bins->differences = gsc__gpu_take(&cut, differences_bytes(layout));
    bins->emission = gsc__gpu_take(&cut, emission_bytes(layout));
    bins->keys = gsc__gpu_take(&cut, list);
    bins->other_keys = gsc__gpu_take(&cut, list);
    bins->other_values = gsc__gpu_take(&cut, list);
    bins->sort = gsc__gpu_take(&cut, gsc__gpu_sort_bytes(entries, key_bits(&layout->grid)));
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
    uint32_t *unused[3];
    void *sort;
    return depth_sort_layout(layout, NULL, &unused[0], &unused[1], &unused[2], &sort);
}

size_t gsc__gpu_statistics_bytes(const gsc__gpu_layout *layout) {
    return 4 * 256 + 3 * (size_t)layout->gaussians * sizeof(uint64_t);
}

gsc_status gsc__gpu_sort_depths(gsc_context *context, const gsc__gpu_layout *layout,
                                const gsc__gpu_frame *frame, void *scratch, void *stream,
                                const char *function) {
    uint32_t *keys, *other_keys, *values;
    gsc__gpu_sort_args sort = {.length = {&frame->header->visible, frame->room},
                               .bits = DEPTH_BITS,
                               .keys = frame->depths,
                               .base = (const uint32_t *)(const void *)&frame->camera->near_plane,
                               .out_values = frame->order};
    (void)depth_sort_layout(layout, scratch, &keys, &other_keys, &values, &sort.scratch);
    sort.work_keys[0] = keys;
    sort.work_keys[1] = other_keys;
    sort.work_values = values;
    return gsc__gpu_sort(context, &sort, stream, function);
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
                              const gsc_raster_info *info, bool count, int64_t *overflow, bool add,
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
                                   .cameras = layout->cameras,
                                   .add = add};
    return LAUNCH(plan_bands, 1, 1, plan);
}

gsc_status gsc__gpu_bins_order(gsc_context *context, const gsc__gpu_layout *layout,
                               const gsc__gpu_frame *frame, const gsc__gpu_bins *bins,
                               uint32_t round, void *stream, const char *function) {
    const int multiprocessors = gsc__gpu_of(context)->device.multiprocessors;
    const gsc_k_order_bins order = {.frame = *frame,
                                    .grid = layout->grid,
                                    .band = bins->bands + round,
                                    .long_lists = gsc__gpu_long_lists(layout, multiprocessors),
                                    .bin_order = bins->bin_order};
    return LAUNCH(order_bins, 1, 1024, order);
}

gsc_status gsc__gpu_bins_fill(gsc_context *context, const gsc__gpu_layout *layout,
                              const gsc__gpu_frame *frame, const gsc__gpu_bins *bins,
                              uint32_t round, void *stream, const char *function) {
    const gsc__gpu_band *band = bins->bands + round;
    /* An even number of passes starts in the lists, an odd one beside them. */
    const uint32_t bits = key_bits(&layout->grid), odd = gsc__gpu_sort_passes(bits) & 1;
    uint32_t *values = odd ? bins->other_values : bins->lists;
    uint32_t *sorted_keys = odd ? bins->other_keys : bins->keys;
    const gsc_k_emit emit = {.frame = *frame,
                             .grid = layout->grid,
                             .band = band,
                             .ticket = (uint32_t *)(void *)bins->emission,
                             .blocks = (uint64_t *)(void *)bins->emission + 1,
                             .keys = bins->keys,
                             .values = values};
    GSC__TRY(gsc__gpu_memset(context, bins->emission, 0, emission_bytes(layout), stream, function));
    GSC__TRY(LAUNCH(emit, gsc__gpu_pieces(layout->room, GSC__EMIT_BLOCK), GSC__EMIT_BLOCK, emit));
    const gsc__gpu_sort_args sort = {.length = {&band->entries, bins->capacity},
                                     .bits = bits,
                                     .keys = bins->keys,
                                     .values = values,
                                     .values_below = frame->room,
                                     .work_keys = {bins->other_keys, bins->keys},
                                     .out_keys = bins->rounds == 1 ? sorted_keys : NULL,
                                     .out_values = bins->lists,
                                     .work_values = bins->other_values,
                                     .scratch = bins->sort};
    GSC__TRY(gsc__gpu_sort(context, &sort, stream, function));
    if (bins->rounds == 1) {
        const gsc_k_find_bins find = {*frame, layout->grid, band, sorted_keys};
        GSC__TRY(LAUNCH(find_bins, gsc__gpu_pieces(layout->grid.bins + 1, 256), 256, find));
    }
    return gsc__gpu_bins_order(context, layout, frame, bins, round, stream, function);
}
