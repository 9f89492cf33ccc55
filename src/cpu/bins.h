/* Which tiles a splat reaches, and the lists of splats per tile. */
#ifndef GSC_CPU_BINS_H
#define GSC_CPU_BINS_H

#include "raster_state.h"

#define gsc__tile_spans GSC__ISA_NAME(gsc__tile_spans)
#define gsc__bins_prepare GSC__ISA_NAME(gsc__bins_prepare)
#define gsc__bins_slots GSC__ISA_NAME(gsc__bins_slots)
#define gsc__bins_fill GSC__ISA_NAME(gsc__bins_fill)
#define gsc__band_end GSC__ISA_NAME(gsc__band_end)

#define GSC__SPAN_ROWS 32

typedef struct gsc__span {
    int32_t begin, end; /* tile columns [begin, end); empty if begin >= end */
} gsc__span;

/* Spans of tile rows [row, row + count), which lie inside the record's rectangle, in
 * closed form: each tile row is cut from the ellipse as a slab of pixel centres. */
void gsc__tile_spans(const gsc__record *record, int32_t row, int32_t count,
                     gsc__span spans[GSC__SPAN_ROWS]);

/* The visible splats in depth order with their tile rectangles, to be streamed. */
typedef struct gsc__bin_item {
    uint32_t gaussian;
    uint16_t x0, x1, y0, y1;
} gsc__bin_item;

/* Fills items [visible] from the frame.  False if the state is damaged. */
bool gsc__bins_prepare(gsc__pool *pool, const gsc__frame *frame, int64_t gaussians,
                       gsc__bin_item *items);

/* A run of tiles whose lists are made and used at once. */
typedef struct gsc__band {
    int64_t begin, end;     /* tiles */
    uint32_t *lists;        /* [offsets[end] - offsets[begin]] Gaussian indices */
    uint32_t *slots;        /* same size; NULL: not wanted.  See gsc__bins_slots */
    uint32_t *slot_offsets; /* [visible + 1] */
} gsc__band;

/* Tiles of a piece of work: two, or all of a band where waking another thread takes longer
 * than blending it. */
static inline int64_t gsc__band_grain(const gsc__frame *frame, const gsc__band *band) {
    const int64_t tiles = band->end - band->begin;
    const uint64_t entries = frame->offsets[band->end] - frame->offsets[band->begin];
    return tiles <= 32 && entries <= 32 ? tiles : 2;
}

/* The longest band from tile begin on whose lists have at most capacity entries;
 * begin itself if not even one tile fits. */
int64_t gsc__band_end(const gsc__frame *frame, int64_t begin, int64_t capacity);

/* Numbers the band's list entries splat by splat in depth order, each splat's own in
 * tile order: splat i owns [slot_offsets[i], slot_offsets[i + 1]).  False if the state is
 * damaged. */
bool gsc__bins_slots(gsc__pool *pool, const gsc__frame *frame, const gsc__bin_item *items,
                     gsc__band *band);

/* Writes lists and, if wanted, slots.  cursors: [tiles] scratch.  False if the state
 * is damaged. */
bool gsc__bins_fill(gsc__pool *pool, const gsc__frame *frame, const gsc__bin_item *items,
                    const gsc__band *band, uint32_t *cursors);

#endif
