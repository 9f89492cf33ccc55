/* Launches of sort.cu, tile_lists.cu and tile_order.cu. */
#include "raster.h"

#define INTERSECTIONS_MAX (INT64_C(1) << 31) /* positions are 32 bits wide */
#define ROUNDS_MAX 4096                      /* the scratch has memory for so many bands */
#define DEPTH_BITS 32                        /* bits of positive floats have the floats' order */

/* ---------------------------------------------------------------- work space */

static uint32_t key_bits(const gsc__gpu_grid *grid) {
    uint32_t bits = 1;
    while ((uint32_t)(grid->tiles - 1) >> bits) ++bits;
    return bits;
}

/* Of a tile's number in the sort. */
static uint32_t key_bytes(const gsc__gpu_grid *grid) {
    return key_bits(grid) <= 16 ? sizeof(uint16_t) : sizeof(uint32_t);
}

static size_t difference_count(const gsc__gpu_grid *grid) {
    return (size_t)grid->tiles_y * (size_t)(grid->tiles_x + 1);
}

static uint32_t order_chunks(const gsc__gpu_grid *grid) {
    return gsc__gpu_blocks(grid->tiles, GSC__ORDER_BLOCK);
}

/* The arrays of the two sorts share their memory: one ends before the other begins. */
static size_t carve_lists(void *base, const gsc__gpu_layout *layout, int64_t intersections,
                          gsc__gpu_tile_lists *lists) {
    const gsc__gpu_grid *grid = &layout->grid;
    const uint32_t bits = key_bits(grid);
    const size_t records = (size_t)layout->record_capacity, count = (size_t)intersections;
    const size_t emit_blocks = gsc__gpu_blocks(layout->record_capacity, GSC__EMIT_BLOCK);
    gsc__carver carver = {.base = base};
    if (lists->rounds > 1) {
        lists->bands = gsc__carve(&carver, lists->rounds, sizeof *lists->bands);
        lists->differences =
            gsc__carve(&carver, difference_count(grid), sizeof *lists->differences);
    }
    const size_t zeroed = carver.at;
    lists->emit_states = gsc__carve(&carver, 1 + emit_blocks, sizeof *lists->emit_states);
    lists->zeroed = (unsigned char *)lists->emit_states;
    lists->order_progress = gsc__carve(&carver, 1, sizeof *lists->order_progress);
    lists->order_counts = gsc__carve(&carver, (size_t)order_chunks(grid) * GSC__ORDER_CLASSES,
                                     sizeof *lists->order_counts);
    lists->depth_sort =
        gsc__carve(&carver, 1, gsc__gpu_sort_bytes(layout->record_capacity, DEPTH_BITS));
    lists->zeroed_bytes = carver.at - zeroed + gsc__gpu_sort_zeroed_bytes(intersections, bits);
    lists->sort = gsc__carve(&carver, 1, gsc__gpu_sort_bytes(intersections, bits));
    gsc__carver before = carver;
    for (int i = 0; i < 2; ++i)
        lists->depth_keys[i] = gsc__carve(&before, records, sizeof *lists->depth_keys[i]);
    lists->depth_values = gsc__carve(&before, records, sizeof *lists->depth_values);
    lists->keys = gsc__carve(&carver, count, key_bytes(grid));
    lists->other_keys = gsc__carve(&carver, count, key_bytes(grid));
    lists->other_values = gsc__carve(&carver, count, sizeof *lists->other_values);
    return before.at > carver.at ? before.at : carver.at;
}

size_t gsc__gpu_lists_scratch_bytes(const gsc__gpu_layout *layout, int64_t intersections) {
    gsc__gpu_tile_lists lists = {.rounds = ROUNDS_MAX};
    if (intersections > INTERSECTIONS_MAX) intersections = INTERSECTIONS_MAX;
    return carve_lists(NULL, layout, intersections, &lists);
}

void gsc__gpu_lists_work_space(gsc__gpu_pass *pass, void *scratch) {
    (void)carve_lists(scratch, &pass->layout, pass->lists.capacity, &pass->lists);
}

gsc_status gsc__gpu_lists_clear(gsc__gpu_pass *pass) {
    pass->lists.is_zeroed = true;
    return gsc__gpu_clear(pass->call, pass->lists.zeroed, pass->lists.zeroed_bytes);
}

/* --------------------------------------------------------------------- rounds */

/* Rounds that any frame of `total` intersections with lists of at most `capacity` needs when
 * `capacity` fit at once: every two neighbouring bands together exceed the capacity. */
static int64_t rounds_for(int64_t total, int64_t capacity) {
    return total <= capacity ? 1 : 2 * (total / (capacity > 0 ? capacity : 1)) + 2;
}

gsc_status gsc__gpu_lists_begin(gsc__gpu_pass *pass) {
    const gsc__gpu_layout *layout = &pass->layout;
    int64_t capacity = gsc__gpu_list_capacity(layout, pass->buffers->intersections_bytes);
    /* Of the largest frame: info.intersections counts those of all cameras. */
    const int64_t frame = gsc__gpu_slot_capacity(layout, pass->info->intersections_bytes);
    const int64_t fullest = gsc__gpu_list_capacity(layout, pass->info->intersections_min_bytes);
    /* Whether each camera can have a slot; not where info says nothing about the frames. */
    const bool slots = layout->list_slots > 1 && frame > 0 && frame <= INTERSECTIONS_MAX &&
                       frame <= capacity / layout->list_slots;
    if (capacity > INTERSECTIONS_MAX) capacity = INTERSECTIONS_MAX;
    if (frame > 0 && capacity > frame) capacity = frame;
    const int64_t rounds = rounds_for(frame, capacity);
    if (fullest > capacity || rounds > ROUNDS_MAX)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "%s: intersections holds lists of %lld intersections, expected at least "
                         "%lld, the most that a tile may have",
                         pass->call->function, (long long)capacity, (long long)fullest);
    unsigned char *values = (unsigned char *)pass->buffers->intersections + layout->lists;
    pass->lists = (gsc__gpu_tile_lists){.rounds = (uint32_t)rounds,
                                        .capacity = (uint32_t)capacity,
                                        .bands = pass->frame.band,
                                        .values = (uint32_t *)(void *)values,
                                        .stay = rounds == 1 && (slots || layout->cameras == 1)};
    if (slots) pass->lists.values += pass->camera * frame;
    return GSC_OK;
}

gsc_k_plan_bands gsc__gpu_plan_args(const gsc__gpu_pass *pass, int64_t *overflow) {
    return (gsc_k_plan_bands){.frame = pass->frame,
                              .grid = pass->layout.grid,
                              .capacity = pass->lists.capacity,
                              .rounds = pass->lists.rounds,
                              .bands = pass->lists.bands,
                              .overflow = overflow,
                              .record_bytes = (int64_t)pass->layout.lists,
                              .cameras = pass->layout.cameras,
                              .list_slots = pass->layout.list_slots,
                              .add = pass->camera > 0};
}

/* Offsets ahead of the lists. */
static gsc_status count_tiles(const gsc__gpu_pass *pass) {
    const gsc__gpu_grid *grid = &pass->layout.grid;
    int32_t *differences = pass->lists.differences;
    const gsc_k_count_tiles args = {pass->frame, *grid, differences};
    const uint32_t blocks = gsc__gpu_blocks(pass->layout.record_capacity, GSC__COUNT_CHUNK);
    GSC__TRY(gsc__gpu_clear(pass->call, differences, difference_count(grid) * sizeof *differences));
    GSC__TRY(LAUNCH(count_tiles, pass->call, blocks, args));
    return LAUNCH(sum_tiles, pass->call, 1, args);
}

gsc_status gsc__gpu_lists_plan(const gsc__gpu_pass *pass, const gsc_k_plan_bands *plan,
                               bool count) {
    if (count && pass->lists.rounds > 1) GSC__TRY(count_tiles(pass));
    return LAUNCH(plan_bands, pass->call, 1, *plan);
}

/* ---------------------------------------------------------------------- lists */

gsc_status gsc__gpu_sort_depths(const gsc__gpu_pass *pass) {
    const gsc__gpu_frame *frame = &pass->frame;
    const gsc__gpu_tile_lists *lists = &pass->lists;
    const void *near_plane = &frame->camera->near_plane;
    const gsc__gpu_sort_args sort = {
        .kernel = {.length = {&frame->header->visible, frame->record_capacity},
                   .keys = frame->depths,
                   .base = near_plane,
                   .work_keys = {lists->depth_keys[0], lists->depth_keys[1]},
                   .out_values = {frame->order, lists->depth_values}},
        .bits = DEPTH_BITS,
        .key_bytes = sizeof(float),
        .scratch = lists->depth_sort,
        .zeroed = lists->is_zeroed};
    return gsc__gpu_sort(pass->call, &sort);
}

/* Orders the tiles of a round by the length of their lists.  A single round first finds where the
 * lists begin. */
static gsc_status order_tiles(const gsc__gpu_pass *pass, uint32_t round, const void *sorted_keys) {
    const gsc__gpu_layout *layout = &pass->layout;
    const gsc__gpu_tile_lists *lists = &pass->lists;
    const gsc_k_order_tiles order = {.frame = pass->frame,
                                     .grid = layout->grid,
                                     .band = lists->bands + round,
                                     .long_lists =
                                         gsc__gpu_long_lists(layout, pass->multiprocessors),
                                     .chunks = order_chunks(&layout->grid),
                                     .progress = lists->order_progress,
                                     .counts = lists->order_counts};
    const uint32_t order_blocks = 2 * order.chunks;
    if (lists->rounds > 1) return LAUNCH(order_tiles, pass->call, order_blocks, order);
    const gsc_k_find_tiles find = {.order = order,
                                   .keys = sorted_keys,
                                   .narrow = key_bytes(&layout->grid) == sizeof(uint16_t)};
    const uint32_t find_blocks = lists->capacity / (GSC__FIND_BLOCK * GSC__FIND_KEYS) + 1;
    return LAUNCH(find_tiles, pass->call, find_blocks + order_blocks, find);
}

gsc_status gsc__gpu_lists_fill(gsc__gpu_pass *pass, uint32_t round) {
    const gsc__gpu_grid *grid = &pass->layout.grid;
    gsc__gpu_tile_lists *lists = &pass->lists;
    const gsc__gpu_band *band = lists->bands + round;
    /* An even number of passes starts in the lists, an odd one beside them. */
    const uint32_t bits = key_bits(grid), odd = gsc__gpu_sort_passes(bits) & 1;
    uint32_t *values = odd ? lists->other_values : lists->values;
    void *sorted_keys = odd ? lists->other_keys : lists->keys;
    const gsc_k_emit emit = {.frame = pass->frame,
                             .grid = *grid,
                             .band = band,
                             .next = (uint32_t *)(void *)lists->emit_states,
                             .blocks = lists->emit_states + 1,
                             .keys = lists->keys,
                             .narrow = key_bytes(grid) == sizeof(uint16_t),
                             .values = values};
    const uint32_t blocks = gsc__gpu_blocks(pass->layout.record_capacity, GSC__EMIT_BLOCK);
    if (!lists->is_zeroed) GSC__TRY(gsc__gpu_lists_clear(pass));
    GSC__TRY(LAUNCH(emit, pass->call, blocks, emit));
    const gsc__gpu_sort_args sort = {.kernel = {.length = {&band->intersections, lists->capacity},
                                                .keys = lists->keys,
                                                .values = values,
                                                .values_below = pass->frame.record_capacity,
                                                .work_keys = {lists->other_keys, lists->keys},
                                                .out_keys = lists->rounds == 1 ? sorted_keys : NULL,
                                                .out_values = {lists->values, lists->other_values}},
                                     .bits = bits,
                                     .key_bytes = key_bytes(grid),
                                     .scratch = lists->sort,
                                     .zeroed = true};
    lists->is_zeroed = false;
    GSC__TRY(gsc__gpu_sort(pass->call, &sort));
    return order_tiles(pass, round, sorted_keys);
}
