/* The lists: for each tile the splats that reach it, in depth order. */
#ifndef GSC_CPU_TILE_LISTS_H
#define GSC_CPU_TILE_LISTS_H

#include "os/parallel.h"
#include "raster_state.h"

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

/* Writes the visible splats [visible], in depth order.  False if the state is damaged. */
static bool gsc__tile_lists_prepare(gsc__pool *pool, const gsc__frame *frame,
                                    gsc__listed_splat *splats);

/* The end of the longest band from tile begin whose lists have at most capacity
 * intersections; begin itself if not even one tile fits. */
static int64_t gsc__band_end(const gsc__frame *frame, int64_t begin, int64_t capacity);

/* Numbers the band's intersections splat by splat in depth order, those of one splat in tile
 * order: splat i owns the slots [slot_offsets[i], slot_offsets[i + 1]).  False if the state is
 * damaged. */
static bool gsc__tile_lists_slots(gsc__pool *pool, const gsc__frame *frame,
                                  const gsc__listed_splat *splats, gsc__band *band);

/* Writes lists and, if wanted, slots.  cursors: [tiles] scratch.  False if the state is
 * damaged. */
static bool gsc__tile_lists_fill(gsc__pool *pool, const gsc__frame *frame,
                                 const gsc__listed_splat *splats, const gsc__band *band,
                                 uint32_t *cursors);

#endif
