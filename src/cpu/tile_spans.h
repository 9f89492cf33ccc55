/* Which tiles a splat reaches. */
#ifndef GSC_CPU_TILE_SPANS_H
#define GSC_CPU_TILE_SPANS_H

#include "isa.h"
#include "raster_state.h"

#define gsc__tile_spans GSC__ISA_NAME(gsc__tile_spans)

#define GSC__SPAN_ROWS 32

typedef struct gsc__span {
    int32_t begin, end; /* tile columns [begin, end); empty if begin >= end */
} gsc__span;

/* Spans of tile rows [row, row + count), which lie inside the record's rectangle, in closed
 * form: each tile row cuts the ellipse as a slab of pixel centres. */
void gsc__tile_spans(const gsc__record *record, int32_t row, int32_t count,
                     gsc__span spans[GSC__SPAN_ROWS]);

#endif
