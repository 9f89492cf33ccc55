#include "tile_spans.h"

#include "math/ellipse_math.h"

#define SPAN_BATCH 8 /* rows computed together, even if fewer are wanted */

/* Counting and filling must agree to the last bit, so both call this one copy; an inlined second
 * one might be contracted differently.  A rectangle of one row or one column is taken whole: it is
 * the ellipse's own box. */
__attribute__((noinline)) void gsc__tile_spans(const gsc__record *record, int32_t row,
                                               int32_t count, gsc__span spans[GSC__SPAN_ROWS]) {
    if (record->x1 - record->x0 == 1 || record->y1 - record->y0 == 1) {
        for (int32_t i = 0; i < count; ++i) spans[i] = (gsc__span){record->x0, record->x1};
        return;
    }
    const gsc__ellipse e =
        gsc__ellipse_of(record->mean, record->r00, record->r01, record->r11, record->log2_alpha);
    const gsc_real x_min = (gsc_real)(record->x0 * GSC__TILE);
    const gsc_real x_max = (gsc_real)(record->x1 * GSC__TILE - 1);
    for (int32_t i = 0; i < count; i += SPAN_BATCH)
        for (int32_t j = 0; j < SPAN_BATCH; ++j) {
            const gsc_real y = (gsc_real)((row + i + j) * GSC__TILE);
            int32_t first, last;
            gsc__ellipse_slab(&e, y, y + (GSC__TILE - 1), x_min, x_max, &first, &last);
            spans[i + j].begin = first / GSC__TILE;
            spans[i + j].end = last < first ? spans[i + j].begin : last / GSC__TILE + 1;
        }
}
