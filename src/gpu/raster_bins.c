#include "raster_bins.h"

#include "sort.h"

#include <stddef.h>
#include <string.h>

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

/* Of a bin's number in the sort. */
static uint32_t key_bytes(const gsc__gpu_grid *grid) {
    return key_bits(grid) <= 16 ? sizeof(uint16_t) : sizeof(uint32_t);
}

static size_t differences_bytes(const gsc__gpu_layout *layout) {
    return (size_t)layout->grid.bins_y * (size_t)(layout->grid.bins_x + 1) * sizeof(int32_t);
}

/* A ticket and the blocks' look-back states. */
static size_t emission_bytes(const gsc__gpu_layout *layout) {
    return (1 + (size_t)gsc__gpu_pieces(layout->room, GSC__EMIT_BLOCK)) * sizeof(uint64_t);
}

static uint32_t order_pieces(const gsc__gpu_grid *grid) {
    return gsc__gpu_pieces(grid->bins, GSC__ORDER_BLOCK);
}

static size_t order_counts_bytes(const gsc__gpu_grid *grid) {
    return (size_t)order_pieces(grid) * GSC__ORDER_CLASSES * sizeof(uint32_t);
}

/* The arrays of the two sorts share their memory, one is done before the other begins. */
static size_t bins_layout(const gsc__gpu_layout *layout, int64_t entries, uint32_t rounds,
                          void *base, gsc__gpu_bins *bins) {
    const uint32_t bits = key_bits(&layout->grid);
    const size_t list = (size_t)entries * sizeof(uint32_t);
    const size_t keys = (size_t)entries * key_bytes(&layout->grid);
    const size_t depths = (size_t)layout->room * sizeof(uint32_t);
    gsc__gpu_cut cut = {base, 0};
    if (rounds > 1) {
        bins->bands = gsc__gpu_take(&cut, rounds * sizeof *bins->bands);
        bins->differences = gsc__gpu_take(&cut, differences_bytes(layout));
    }
    const size_t zeroed = cut.at;
    bins->emission = bins->zeroed = gsc__gpu_take(&cut, emission_bytes(layout));
    bins->order_board = gsc__gpu_take(&cut, sizeof *bins->order_board);
    bins->order_counts = gsc__gpu_take(&cut, order_counts_bytes(&layout->grid));
    bins->depth_sort = gsc__gpu_take(&cut, gsc__gpu_sort_bytes(layout->room, DEPTH_BITS));
    bins->zeroed_bytes = cut.at - zeroed + gsc__gpu_sort_zeroed_bytes(entries, bits);
    bins->sort = gsc__gpu_take(&cut, gsc__gpu_sort_bytes(entries, bits));
    gsc__gpu_cut before = cut;
    for (int i = 0; i < 2; ++i) bins->depth_keys[i] = gsc__gpu_take(&before, depths);
    bins->depth_values = gsc__gpu_take(&before, depths);
    bins->keys = gsc__gpu_take(&cut, keys);
    bins->other_keys = gsc__gpu_take(&cut, keys);
    bins->other_values = gsc__gpu_take(&cut, list);
    return before.at > cut.at ? before.at : cut.at;
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

/* Where each camera can have one; not where info tells nothing of the frames. */
static bool has_rooms(const gsc__gpu_layout *layout, int64_t buffer_entries,
                      int64_t frame_entries) {
    return layout->rooms > 1 && frame_entries > 0 && frame_entries <= ENTRIES_MAX &&
           frame_entries <= buffer_entries / layout->rooms;
}

gsc_status gsc__gpu_bins_begin(const gsc__gpu_layout *layout, int32_t camera,
                               const gsc__gpu_frame *frame, const gsc__raster_buffers *buffers,
                               const gsc_raster_info *info, gsc__gpu_bins *bins,
                               const char *function) {
    int64_t capacity = gsc__gpu_list_entries(layout, buffers->intersections_bytes);
    /* Of the largest frame: info.intersections counts those of all cameras. */
    const int64_t frame_entries = gsc__gpu_room_entries(layout, info->intersections_bytes);
    const int64_t fullest = gsc__gpu_list_entries(layout, info->intersections_min_bytes);
    const bool rooms = has_rooms(layout, capacity, frame_entries);
    if (capacity > ENTRIES_MAX) capacity = ENTRIES_MAX;
    if (frame_entries > 0 && capacity > frame_entries) capacity = frame_entries;
    const int64_t rounds = rounds_for(frame_entries, capacity);
    if (fullest > capacity || rounds > ROUNDS_ROOM)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "%s: intersections holds %lld entries, the fullest bin has up to %lld",
                         function, (long long)capacity, (long long)fullest);
    memset(bins, 0, sizeof *bins);
    bins->rounds = (uint32_t)rounds;
    bins->capacity = (uint32_t)capacity;
    bins->bands = frame->band;
    bins->lists = (uint32_t *)(void *)((unsigned char *)buffers->intersections + layout->lists);
    if (rooms) bins->lists += camera * frame_entries;
    bins->lists_stay = rounds == 1 && (rooms || layout->cameras == 1);
    return GSC_OK;
}

void gsc__gpu_bins_work_space(const gsc__gpu_layout *layout, void *scratch, gsc__gpu_bins *bins) {
    (void)bins_layout(layout, bins->capacity, bins->rounds, scratch, bins);
}

gsc_status gsc__gpu_bins_clear(gsc_context *context, gsc__gpu_bins *bins, void *stream,
                               const char *function) {
    bins->is_zeroed = true;
    return gsc__gpu_memset(context, bins->zeroed, 0, bins->zeroed_bytes, stream, function);
}

gsc_status gsc__gpu_sort_depths(gsc_context *context, const gsc__gpu_frame *frame,
                                const gsc__gpu_bins *bins, void *stream, const char *function) {
    const gsc__gpu_sort_args sort = {.length = {&frame->header->visible, frame->room},
                                     .bits = DEPTH_BITS,
                                     .key_bytes = sizeof(float),
                                     .keys = frame->depths,
                                     .base =
                                         (const uint32_t *)(const void *)&frame->camera->near_plane,
                                     .work_keys = {bins->depth_keys[0], bins->depth_keys[1]},
                                     .out_values = frame->order,
                                     .work_values = bins->depth_values,
                                     .scratch = bins->depth_sort,
                                     .zeroed = bins->is_zeroed};
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

gsc_k_plan_bands gsc__gpu_plan_args(const gsc__gpu_layout *layout, const gsc__gpu_frame *frame,
                                    const gsc__gpu_bins *bins, int64_t *overflow, bool add) {
    const gsc_k_plan_bands plan = {.frame = *frame,
                                   .grid = layout->grid,
                                   .capacity = bins->capacity,
                                   .rounds = bins->rounds,
                                   .bands = bins->bands,
                                   .overflow = overflow,
                                   .record_bytes = (int64_t)layout->lists,
                                   .cameras = layout->cameras,
                                   .rooms = layout->rooms,
                                   .add = add};
    return plan;
}

gsc_status gsc__gpu_bins_plan(gsc_context *context, const gsc__gpu_layout *layout,
                              const gsc__gpu_frame *frame, const gsc__gpu_bins *bins,
                              const gsc_k_plan_bands *plan, bool count, void *stream,
                              const char *function) {
    if (count && bins->rounds > 1)
        GSC__TRY(count_bins(context, layout, frame, bins, stream, function));
    return LAUNCH(plan_bands, 1, 1, *plan);
}

/* Where the lists begin, if that is not known already, and in what order they are drawn. */
static gsc_status order_bins(gsc_context *context, const gsc__gpu_layout *layout,
                             const gsc__gpu_frame *frame, const gsc__gpu_bins *bins, uint32_t round,
                             const void *sorted_keys, void *stream, const char *function) {
    const int multiprocessors = gsc__gpu_of(context)->device.multiprocessors;
    const gsc_k_order_bins order = {.frame = *frame,
                                    .grid = layout->grid,
                                    .band = bins->bands + round,
                                    .long_lists = gsc__gpu_long_lists(layout, multiprocessors),
                                    .pieces = order_pieces(&layout->grid),
                                    .board = bins->order_board,
                                    .counts = bins->order_counts};
    const uint32_t blocks = 2 * order.pieces;
    if (bins->rounds > 1) return LAUNCH(order_bins, blocks, GSC__ORDER_BLOCK, order);
    const gsc_k_find_bins find = {.order = order,
                                  .keys = sorted_keys,
                                  .narrow = key_bytes(&layout->grid) == sizeof(uint16_t)};
    return LAUNCH(find_bins, bins->capacity / (GSC__FIND_BLOCK * GSC__FIND_KEYS) + 1 + blocks,
                  GSC__FIND_BLOCK, find);
}

gsc_status gsc__gpu_bins_fill(gsc_context *context, const gsc__gpu_layout *layout,
                              const gsc__gpu_frame *frame, gsc__gpu_bins *bins, uint32_t round,
                              void *stream, const char *function) {
    const gsc__gpu_band *band = bins->bands + round;
    /* An even number of passes starts in the lists, an odd one beside them. */
    const uint32_t bits = key_bits(&layout->grid), odd = gsc__gpu_sort_passes(bits) & 1;
    uint32_t *values = odd ? bins->other_values : bins->lists;
    void *sorted_keys = odd ? bins->other_keys : bins->keys;
    const gsc_k_emit emit = {.frame = *frame,
                             .grid = layout->grid,
                             .band = band,
                             .ticket = (uint32_t *)(void *)bins->emission,
                             .blocks = (uint64_t *)(void *)bins->emission + 1,
                             .keys = bins->keys,
                             .narrow = key_bytes(&layout->grid) == sizeof(uint16_t),
                             .values = values};
    if (!bins->is_zeroed) GSC__TRY(gsc__gpu_bins_clear(context, bins, stream, function));
    GSC__TRY(LAUNCH(emit, gsc__gpu_pieces(layout->room, GSC__EMIT_BLOCK), GSC__EMIT_BLOCK, emit));
    const gsc__gpu_sort_args sort = {.length = {&band->entries, bins->capacity},
                                     .bits = bits,
                                     .key_bytes = key_bytes(&layout->grid),
                                     .keys = bins->keys,
                                     .values = values,
                                     .values_below = frame->room,
                                     .work_keys = {bins->other_keys, bins->keys},
                                     .out_keys = bins->rounds == 1 ? sorted_keys : NULL,
                                     .out_values = bins->lists,
                                     .work_values = bins->other_values,
                                     .scratch = bins->sort,
                                     .zeroed = true};
    bins->is_zeroed = false;
    GSC__TRY(gsc__gpu_sort(context, &sort, stream, function));
    return order_bins(context, layout, frame, bins, round, sorted_keys, stream, function);
}
