/* Sums over pixels for each Gaussian, which blending may write.
 *
 * They are added up in one order, whatever the threads do: each intersection has a slot of its
 * own, and a splat's slots are added in tile order. */
#ifndef GSC_CPU_RASTER_STATISTICS_H
#define GSC_CPU_RASTER_STATISTICS_H

#include "blend_forward.h"
#include "core/context.h"

/* Memory that only statistics need; all NULL without them. */
typedef struct gsc__statistics {
    gsc__blend_statistics *entries; /* [intersections of the band] by slot */
    uint32_t *slots;                /* [intersections of the band] */
    uint32_t *slot_offsets;         /* [visible + 1] */
    void *block;
    size_t bytes;
} gsc__statistics;

static void gsc__statistics_clear(const gsc__raster *raster, const gsc__raster_outputs *out);

/* For bands of at most capacity intersections. */
static gsc_status gsc__statistics_open(const gsc__call *call, const gsc__frame *frame,
                                       int64_t capacity, gsc__statistics *statistics);
static void gsc__statistics_close(const gsc__call *call, const gsc__statistics *statistics);

/* Numbers the band's slots and clears them.  False if the state is damaged. */
static bool gsc__statistics_begin(gsc__pool *pool, const gsc__frame *frame,
                                  const gsc__statistics *statistics,
                                  const gsc__listed_splat *splats, gsc__band *band);
/* Adds the band's slots to the outputs. */
static void gsc__statistics_add(gsc__pool *pool, const gsc__raster_outputs *outputs,
                                const gsc__frame *frame, const gsc__statistics *statistics,
                                const gsc__listed_splat *splats, const gsc__band *band);

#endif
