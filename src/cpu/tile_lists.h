/* The lists: for each tile the splats that reach it, in depth order.  One counting sort makes
 * them. */
#ifndef GSC_CPU_TILE_LISTS_H
#define GSC_CPU_TILE_LISTS_H

#include "project.h"

#include <stdatomic.h>

/* A visible splat and the rectangle of tiles it may reach. */
typedef struct gsc__listed_splat {
    uint32_t gaussian;
    uint16_t x0, x1, y0, y1;
} gsc__listed_splat;

/* A run of tiles whose lists are made and used together. */
typedef struct gsc__band {
    int64_t begin, end;     /* tiles */
    uint32_t *lists;        /* [intersections of the band] Gaussian indices */
    uint32_t *slots;        /* same size; NULL: not wanted.  See gsc__tile_lists_slots */
    uint32_t *slot_offsets; /* [visible + 1] */
} gsc__band;

/* Slots and cursors are 32 bits wide. */
#define GSC__BAND_MAX (INT64_C(1) << 31)

static inline size_t gsc__band_intersections(const gsc__frame *frame, const gsc__band *band) {
    return (size_t)(frame->offsets[band->end] - frame->offsets[band->begin]);
}

/* How many tiles a thread takes at once: two, or the whole band where waking a thread takes
 * longer than blending it. */
static inline int64_t gsc__band_grain(const gsc__frame *frame, const gsc__band *band) {
    const int64_t tiles = band->end - band->begin;
    return tiles <= 32 && gsc__band_intersections(frame, band) <= 32 ? tiles : 2;
}

typedef struct prepare_task {
    const gsc__frame *frame;
    gsc__listed_splat *splats;
    atomic_bool damaged;
} prepare_task;

static void prepare_range(void *arg, int64_t begin, int64_t end, int thread) {
    prepare_task *task = arg;
    const gsc__frame *frame = task->frame;
    (void)thread;
    for (int64_t i = begin; i < end; ++i) {
        uint32_t gaussian = frame->order[i];
        if (!gsc__record_valid(frame, gaussian)) {
            atomic_store_explicit(&task->damaged, true, memory_order_relaxed);
            return;
        }
        const gsc__record *r = &frame->records[gaussian];
        task->splats[i] = (gsc__listed_splat){gaussian, r->x0, r->x1, r->y0, r->y1};
    }
}

/* Writes the visible splats [visible], in depth order.  False if the state is damaged. */
static bool gsc__tile_lists_prepare(gsc__pool *pool, const gsc__frame *frame,
                                    gsc__listed_splat *splats) {
    prepare_task task = {frame, splats, false};
    gsc__parallel_for(pool, frame->header->visible, 8192, prepare_range, &task);
    return !atomic_load(&task.damaged);
}

/* The end of the longest band from tile begin whose lists have at most capacity
 * intersections; begin itself if not even one tile fits. */
static int64_t gsc__band_end(const gsc__frame *frame, int64_t begin, int64_t capacity) {
    const uint64_t limit = frame->offsets[begin] + (uint64_t)capacity;
    int64_t low = begin, high = frame->layout->tiles;
    while (low < high) {
        int64_t middle = low + (high - low + 1) / 2;
        if (frame->offsets[middle] <= limit)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Can the splat's rectangle meet the tiles [begin, end)? */
static bool meets(const gsc__listed_splat *splat, int32_t tiles_x, int64_t begin, int64_t end) {
    int64_t first = (int64_t)splat->y0 * tiles_x + splat->x0;
    int64_t last = (int64_t)(splat->y1 - 1) * tiles_x + splat->x1 - 1;
    return first < end && last >= begin;
}

/* The tile rows of the splat that meet the tiles [begin, end). */
static void rows_in(const gsc__listed_splat *splat, int32_t tiles_x, int64_t begin, int64_t end,
                    int32_t *row_begin, int32_t *row_end) {
    int32_t first = (int32_t)(begin / tiles_x), last = (int32_t)((end - 1) / tiles_x);
    *row_begin = splat->y0 > first ? splat->y0 : first;
    *row_end = splat->y1 - 1 < last ? splat->y1 : last + 1;
}

typedef struct span_walk {
    int32_t tiles_x;
    int64_t begin, end; /* tiles */
} span_walk;

/* The tiles [*first, *last) of a span that the walk covers; returns their number. */
static inline int32_t clip_span(const span_walk *walk, int32_t row, const gsc__span *span,
                                int64_t *first, int64_t *last) {
    int64_t base = (int64_t)row * walk->tiles_x;
    *first = base + span->begin < walk->begin ? walk->begin : base + span->begin;
    *last = base + span->end > walk->end ? walk->end : base + span->end;
    return *first < *last ? (int32_t)(*last - *first) : 0;
}

static uint32_t count_in(const gsc__record *record, const gsc__listed_splat *splat,
                         const span_walk *walk) {
    gsc__span spans[GSC__SPAN_ROWS];
    int32_t row, row_end;
    uint32_t count = 0;
    rows_in(splat, walk->tiles_x, walk->begin, walk->end, &row, &row_end);
    for (; row < row_end; row += GSC__SPAN_ROWS) {
        int32_t rows = row_end - row < GSC__SPAN_ROWS ? row_end - row : GSC__SPAN_ROWS;
        gsc__tile_spans(record, row, rows, spans);
        for (int32_t i = 0; i < rows; ++i) {
            int64_t first, last;
            count += (uint32_t)clip_span(walk, row + i, &spans[i], &first, &last);
        }
    }
    return count;
}

typedef struct fill_task {
    const gsc__frame *frame;
    const gsc__listed_splat *splats;
    const gsc__band *band;
    uint32_t *cursors;
    int64_t parts;
    atomic_bool damaged;
} fill_task;

static void slots_range(void *arg, int64_t begin, int64_t end, int thread) {
    fill_task *task = arg;
    const gsc__frame *frame = task->frame;
    const gsc__band *band = task->band;
    const span_walk walk = {frame->layout->tiles_x, band->begin, band->end};
    bool whole = band->begin == 0 && band->end == frame->layout->tiles;
    (void)thread;
    for (int64_t i = begin; i < end; ++i) {
        const gsc__listed_splat *splat = &task->splats[i];
        const gsc__record *record = &frame->records[splat->gaussian];
        uint32_t count = 0;
        if (whole)
            count = record->tiles;
        else if (meets(splat, walk.tiles_x, band->begin, band->end))
            count = count_in(record, splat, &walk);
        band->slot_offsets[i + 1] = count;
    }
}

/* Numbers the band's intersections splat by splat in depth order, those of one splat in tile
 * order: splat i owns the slots [slot_offsets[i], slot_offsets[i + 1]).  False if the state is
 * damaged. */
static bool gsc__tile_lists_slots(gsc__pool *pool, const gsc__frame *frame,
                                  const gsc__listed_splat *splats, gsc__band *band) {
    fill_task task = {.frame = frame, .splats = splats, .band = band};
    int64_t visible = frame->header->visible;
    uint64_t total = 0; /* 64 bits: the counts of a damaged state must not wrap around */
    band->slot_offsets[0] = 0;
    gsc__parallel_for(pool, visible, 4096, slots_range, &task);
    for (int64_t i = 0; i < visible; ++i) {
        total += band->slot_offsets[i + 1];
        band->slot_offsets[i + 1] = (uint32_t)total;
    }
    return total == gsc__band_intersections(frame, band);
}

/* Puts one splat into the lists of the part's tiles.  Tiles of the band before them only
 * advance the splat's slot.  False if lists or slots are full, which happens only with a
 * damaged state. */
static bool fill_splat(const fill_task *task, int64_t index, const span_walk *part) {
    const gsc__band *band = task->band;
    const gsc__listed_splat *splat = &task->splats[index];
    const gsc__record *record = &task->frame->records[splat->gaussian];
    const uint64_t *offsets = task->frame->offsets;
    const span_walk walk = {part->tiles_x, band->slots ? band->begin : part->begin, part->end};
    uint32_t slot = band->slots ? band->slot_offsets[index] : 0;
    gsc__span spans[GSC__SPAN_ROWS];
    int32_t row, row_end;
    rows_in(splat, walk.tiles_x, walk.begin, walk.end, &row, &row_end);
    for (; row < row_end; row += GSC__SPAN_ROWS) {
        int32_t rows = row_end - row < GSC__SPAN_ROWS ? row_end - row : GSC__SPAN_ROWS;
        gsc__tile_spans(record, row, rows, spans);
        for (int32_t i = 0; i < rows; ++i) {
            int64_t first, last;
            if (!clip_span(&walk, row + i, &spans[i], &first, &last)) continue;
            for (int64_t tile = first; tile < last; ++tile, ++slot) {
                if (tile < part->begin) continue;
                uint32_t at = task->cursors[tile]++;
                if (at >= offsets[tile + 1] - offsets[band->begin]) return false;
                band->lists[at] = splat->gaussian;
                if (!band->slots) continue;
                if (slot >= band->slot_offsets[index + 1]) return false;
                band->slots[at] = slot;
            }
        }
    }
    return true;
}

/* Each part owns a run of tiles and streams all splats in depth order, so the lists come out
 * sorted without a key, whatever the number of parts. */
static bool fill_part(const fill_task *task, const span_walk *part) {
    const gsc__frame *frame = task->frame;
    const uint64_t *offsets = frame->offsets;
    const uint64_t base = offsets[task->band->begin];
    for (int64_t t = part->begin; t < part->end; ++t)
        task->cursors[t] = (uint32_t)(offsets[t] - base);
    for (int64_t i = 0; i < frame->header->visible; ++i)
        if (meets(&task->splats[i], part->tiles_x, part->begin, part->end))
            if (!fill_splat(task, i, part)) return false;
    for (int64_t t = part->begin; t < part->end; ++t)
        if (task->cursors[t] != offsets[t + 1] - base) return false;
    return true;
}

static void fill_parts(void *arg, int64_t begin, int64_t end, int thread) {
    fill_task *task = arg;
    const gsc__frame *frame = task->frame;
    const gsc__band *band = task->band;
    const int64_t total = (int64_t)gsc__band_intersections(frame, band);
    (void)thread;
    for (int64_t part = begin; part < end; ++part) {
        span_walk walk = {frame->layout->tiles_x, band->begin, band->end};
        if (part > 0) walk.begin = gsc__band_end(frame, band->begin, total * part / task->parts);
        if (part + 1 < task->parts)
            walk.end = gsc__band_end(frame, band->begin, total * (part + 1) / task->parts);
        if (walk.begin < walk.end && !fill_part(task, &walk))
            atomic_store_explicit(&task->damaged, true, memory_order_relaxed);
    }
}

#define FILL_ALONE 2048 /* intersections that take less time than waking a thread */

/* Writes lists and, if wanted, slots.  cursors: [tiles] scratch.  False if the state is
 * damaged. */
static bool gsc__tile_lists_fill(gsc__pool *pool, const gsc__frame *frame,
                                 const gsc__listed_splat *splats, const gsc__band *band,
                                 uint32_t *cursors) {
    const int threads = gsc__pool_threads(pool);
    const bool alone = threads == 1 || gsc__band_intersections(frame, band) < FILL_ALONE;
    fill_task task = {frame, splats, band, cursors, alone ? 1 : 2 * threads, false};
    gsc__parallel_for(pool, task.parts, 1, fill_parts, &task);
    return !atomic_load(&task.damaged);
}

#endif
