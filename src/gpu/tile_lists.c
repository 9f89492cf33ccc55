#include "tile_lists.h"

#include "sort.h"

#include <stddef.h>
#include <string.h>

#define LAUNCH(name, grid, block, args)                                                      \
    gsc__gpu_launch(context, GSC__KERNEL_##name, grid, block, &(args), sizeof(args), stream, \
                    function)

#define INTERSECTIONS_MAX (INT64_C(1) << 31) /* positions are 32 bits wide */

#define DEPTH_BITS 32 /* those of positive floats are ordered as they are */

static uint32_t key_bits(const gsc__gpu_grid *grid) {
    uint32_t bits = 1;
    while ((uint32_t)(grid->tiles - 1) >> bits) ++bits;
    return bits;
}

/* Of a tile's number in the sort. */
static uint32_t key_bytes(const gsc__gpu_grid *grid) {
    return key_bits(grid) <= 16 ? sizeof(uint16_t) : sizeof(uint32_t);
}

static size_t differences_bytes(const gsc__gpu_layout *layout) {
    return (size_t)layout->grid.tiles_y * (size_t)(layout->grid.tiles_x + 1) * sizeof(int32_t);
}

/* A next and the blocks' look-back states. */
static size_t emission_bytes(const gsc__gpu_layout *layout) {
    return (1 + (size_t)gsc__gpu_ceil_div(layout->record_capacity, GSC__EMIT_BLOCK)) *
           sizeof(uint64_t);
}

static uint32_t order_chunks(const gsc__gpu_grid *grid) {
    return gsc__gpu_ceil_div(grid->tiles, GSC__ORDER_BLOCK);
}

static size_t order_counts_bytes(const gsc__gpu_grid *grid) {
    return (size_t)order_chunks(grid) * GSC__ORDER_CLASSES * sizeof(uint32_t);
}

/* The arrays of the two sorts share their memory, one is done before the other begins. */
static size_t lists_layout(const gsc__gpu_layout *layout, int64_t intersections, uint32_t rounds,
                           void *base, gsc__gpu_tile_lists *lists) {
    const uint32_t bits = key_bits(&layout->grid);
    const size_t list = (size_t)intersections * sizeof(uint32_t);
    const size_t keys = (size_t)intersections * key_bytes(&layout->grid);
    const size_t depths = (size_t)layout->record_capacity * sizeof(uint32_t);
    gsc__gpu_cut cut = {base, 0};
    if (rounds > 1) {
        lists->bands = gsc__gpu_take(&cut, rounds * sizeof *lists->bands);
        lists->differences = gsc__gpu_take(&cut, differences_bytes(layout));
    }
    const size_t zeroed = cut.at;
    lists->emission = lists->zeroed = gsc__gpu_take(&cut, emission_bytes(layout));
    lists->order_progress = gsc__gpu_take(&cut, sizeof *lists->order_progress);
    lists->order_counts = gsc__gpu_take(&cut, order_counts_bytes(&layout->grid));
    lists->depth_sort =
        gsc__gpu_take(&cut, gsc__gpu_sort_bytes(layout->record_capacity, DEPTH_BITS));
    lists->zeroed_bytes = cut.at - zeroed + gsc__gpu_sort_zeroed_bytes(intersections, bits);
    lists->sort = gsc__gpu_take(&cut, gsc__gpu_sort_bytes(intersections, bits));
    gsc__gpu_cut before = cut;
    for (int i = 0; i < 2; ++i) lists->depth_keys[i] = gsc__gpu_take(&before, depths);
    lists->depth_values = gsc__gpu_take(&before, depths);
    lists->keys = gsc__gpu_take(&cut, keys);
    lists->other_keys = gsc__gpu_take(&cut, keys);
    lists->other_values = gsc__gpu_take(&cut, list);
    return before.at > cut.at ? before.at : cut.at;
}

/* Rounds that any frame of `total` intersections with tiles of at most `largest` needs when
 * `capacity` fit at once: every two neighbouring bands together exceed the capacity. */
static int64_t rounds_for(int64_t total, int64_t capacity) {
    return total <= capacity ? 1 : 2 * (total / (capacity > 0 ? capacity : 1)) + 2;
}

#define ROUNDS_MAX 4096 /* bands that the scratch has room for */

size_t gsc__gpu_lists_scratch_bytes(const gsc__gpu_layout *layout, int64_t intersections) {
    gsc__gpu_tile_lists lists;
    if (intersections > INTERSECTIONS_MAX) intersections = INTERSECTIONS_MAX;
    return lists_layout(layout, intersections, ROUNDS_MAX, NULL, &lists);
}

/* Where each camera can have one; not where info tells nothing of the frames. */
static bool has_slots(const gsc__gpu_layout *layout, int64_t buffer_entries,
                      int64_t frame_entries) {
    return layout->list_slots > 1 && frame_entries > 0 && frame_entries <= INTERSECTIONS_MAX &&
           frame_entries <= buffer_entries / layout->list_slots;
}

gsc_status gsc__gpu_lists_begin(const gsc__gpu_layout *layout, int32_t camera,
                                const gsc__gpu_frame *frame, const gsc__raster_buffers *buffers,
                                const gsc_raster_info *info, gsc__gpu_tile_lists *lists,
                                const char *function) {
    int64_t capacity = gsc__gpu_list_capacity(layout, buffers->intersections_bytes);
    /* Of the largest frame: info.intersections counts those of all cameras. */
    const int64_t frame_entries = gsc__gpu_slot_capacity(layout, info->intersections_bytes);
    const int64_t fullest = gsc__gpu_list_capacity(layout, info->intersections_min_bytes);
    const bool rooms = has_slots(layout, capacity, frame_entries);
    if (capacity > INTERSECTIONS_MAX) capacity = INTERSECTIONS_MAX;
    if (frame_entries > 0 && capacity > frame_entries) capacity = frame_entries;
    const int64_t rounds = rounds_for(frame_entries, capacity);
    if (fullest > capacity || rounds > ROUNDS_MAX)
        return gsc__fail(
            GSC_ERROR_BUFFER_TOO_SMALL,
            "%s: intersections holds %lld intersections, the fullest tile has up to %lld", function,
            (long long)capacity, (long long)fullest);
    memset(lists, 0, sizeof *lists);
    lists->rounds = (uint32_t)rounds;
    lists->capacity = (uint32_t)capacity;
    lists->bands = frame->band;
    lists->values = (uint32_t *)(void *)((unsigned char *)buffers->intersections + layout->lists);
    if (rooms) lists->values += camera * frame_entries;
    lists->stay = rounds == 1 && (rooms || layout->cameras == 1);
    return GSC_OK;
}

void gsc__gpu_lists_work_space(const gsc__gpu_layout *layout, void *scratch,
                               gsc__gpu_tile_lists *lists) {
    (void)lists_layout(layout, lists->capacity, lists->rounds, scratch, lists);
}

gsc_status gsc__gpu_lists_clear(gsc_context *context, gsc__gpu_tile_lists *lists, void *stream,
                                const char *function) {
    lists->is_zeroed = true;
    return gsc__gpu_memset(context, lists->zeroed, 0, lists->zeroed_bytes, stream, function);
}

gsc_status gsc__gpu_sort_depths(gsc_context *context, const gsc__gpu_frame *frame,
                                const gsc__gpu_tile_lists *lists, void *stream,
                                const char *function) {
    const gsc__gpu_sort_args sort = {.length = {&frame->header->visible, frame->record_capacity},
                                     .bits = DEPTH_BITS,
                                     .key_bytes = sizeof(float),
                                     .keys = frame->depths,
                                     .base =
                                         (const uint32_t *)(const void *)&frame->camera->near_plane,
                                     .work_keys = {lists->depth_keys[0], lists->depth_keys[1]},
                                     .out_values = frame->order,
                                     .work_values = lists->depth_values,
                                     .scratch = lists->depth_sort,
                                     .zeroed = lists->is_zeroed};
    return gsc__gpu_sort(context, &sort, stream, function);
}

/* Offsets ahead of the lists. */
static gsc_status count_tiles(gsc_context *context, const gsc__gpu_layout *layout,
                              const gsc__gpu_frame *frame, const gsc__gpu_tile_lists *lists,
                              void *stream, const char *function) {
    const gsc_k_count_tiles count = {*frame, layout->grid, lists->differences};
    const gsc_k_sum_tiles sum = {*frame, layout->grid, lists->differences};
    GSC__TRY(gsc__gpu_memset(context, lists->differences, 0, differences_bytes(layout), stream,
                             function));
    GSC__TRY(LAUNCH(count_tiles, gsc__gpu_ceil_div(layout->record_capacity, GSC__COUNT_CHUNK),
                    GSC__COUNT_BLOCK, count));
    return LAUNCH(sum_tiles, 1, 1024, sum);
}

gsc_k_plan_bands gsc__gpu_plan_args(const gsc__gpu_layout *layout, const gsc__gpu_frame *frame,
                                    const gsc__gpu_tile_lists *lists, int64_t *overflow, bool add) {
    const gsc_k_plan_bands plan = {.frame = *frame,
                                   .grid = layout->grid,
                                   .capacity = lists->capacity,
                                   .rounds = lists->rounds,
                                   .bands = lists->bands,
                                   .overflow = overflow,
                                   .record_bytes = (int64_t)layout->lists,
                                   .cameras = layout->cameras,
                                   .list_slots = layout->list_slots,
                                   .add = add};
    return plan;
}

gsc_status gsc__gpu_lists_plan(gsc_context *context, const gsc__gpu_layout *layout,
                               const gsc__gpu_frame *frame, const gsc__gpu_tile_lists *lists,
                               const gsc_k_plan_bands *plan, bool count, void *stream,
                               const char *function) {
    if (count && lists->rounds > 1)
        GSC__TRY(count_tiles(context, layout, frame, lists, stream, function));
    return LAUNCH(plan_bands, 1, 1, *plan);
}

/* Where the lists begin, if that is not known already, and in what order they are drawn. */
static gsc_status order_tiles(gsc_context *context, const gsc__gpu_layout *layout,
                              const gsc__gpu_frame *frame, const gsc__gpu_tile_lists *lists,
                              uint32_t round, const void *sorted_keys, void *stream,
                              const char *function) {
    const int multiprocessors = gsc__gpu_of(context)->device.multiprocessors;
    const gsc_k_order_tiles order = {.frame = *frame,
                                     .grid = layout->grid,
                                     .band = lists->bands + round,
                                     .long_lists = gsc__gpu_long_lists(layout, multiprocessors),
                                     .chunks = order_chunks(&layout->grid),
                                     .progress = lists->order_progress,
                                     .counts = lists->order_counts};
    const uint32_t blocks = 2 * order.chunks;
    if (lists->rounds > 1) return LAUNCH(order_tiles, blocks, GSC__ORDER_BLOCK, order);
    const gsc_k_find_tiles find = {.order = order,
                                   .keys = sorted_keys,
                                   .narrow = key_bytes(&layout->grid) == sizeof(uint16_t)};
    return LAUNCH(find_tiles, lists->capacity / (GSC__FIND_BLOCK * GSC__FIND_KEYS) + 1 + blocks,
                  GSC__FIND_BLOCK, find);
}

gsc_status gsc__gpu_lists_fill(gsc_context *context, const gsc__gpu_layout *layout,
                               const gsc__gpu_frame *frame, gsc__gpu_tile_lists *lists,
                               uint32_t round, void *stream, const char *function) {
    const gsc__gpu_band *band = lists->bands + round;
    /* An even number of passes starts in the lists, an odd one beside them. */
    const uint32_t bits = key_bits(&layout->grid), odd = gsc__gpu_sort_passes(bits) & 1;
    uint32_t *values = odd ? lists->other_values : lists->values;
    void *sorted_keys = odd ? lists->other_keys : lists->keys;
    const gsc_k_emit emit = {.frame = *frame,
                             .grid = layout->grid,
                             .band = band,
                             .next = (uint32_t *)(void *)lists->emission,
                             .blocks = (uint64_t *)(void *)lists->emission + 1,
                             .keys = lists->keys,
                             .narrow = key_bytes(&layout->grid) == sizeof(uint16_t),
                             .values = values};
    if (!lists->is_zeroed) GSC__TRY(gsc__gpu_lists_clear(context, lists, stream, function));
    GSC__TRY(LAUNCH(emit, gsc__gpu_ceil_div(layout->record_capacity, GSC__EMIT_BLOCK),
                    GSC__EMIT_BLOCK, emit));
    const gsc__gpu_sort_args sort = {.length = {&band->intersections, lists->capacity},
                                     .bits = bits,
                                     .key_bytes = key_bytes(&layout->grid),
                                     .keys = lists->keys,
                                     .values = values,
                                     .values_below = frame->record_capacity,
                                     .work_keys = {lists->other_keys, lists->keys},
                                     .out_keys = lists->rounds == 1 ? sorted_keys : NULL,
                                     .out_values = lists->values,
                                     .work_values = lists->other_values,
                                     .scratch = lists->sort,
                                     .zeroed = true};
    lists->is_zeroed = false;
    GSC__TRY(gsc__gpu_sort(context, &sort, stream, function));
    return order_tiles(context, layout, frame, lists, round, sorted_keys, stream, function);
}
