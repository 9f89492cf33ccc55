/* Step 1 of the rasterizer: which Gaussians one camera sees, and where.
 *
 * project.c is compiled without contraction to fused multiply-adds: what projection gets wrong by
 * a rounding, each pixel of a splat gets wrong by many, and so every instruction set has the same
 * numbers here. */
#ifndef GSC_CPU_PROJECT_H
#define GSC_CPU_PROJECT_H

#include "raster_state.h"

#define GSC__PASTE2(a, b) a##_##b
#define GSC__PASTE(a, b) GSC__PASTE2(a, b)
#define GSC__ISA_NAME(name) GSC__PASTE(name, GSC_ISA)
#define gsc__project_scratch_bytes GSC__ISA_NAME(gsc__project_scratch_bytes)
#define gsc__project_frame GSC__ISA_NAME(gsc__project_frame)
#define gsc__project_gaussian GSC__ISA_NAME(gsc__project_gaussian)
#define gsc__tile_spans GSC__ISA_NAME(gsc__tile_spans)

size_t gsc__project_scratch_bytes(const gsc__raster *raster, const gsc__state_layout *layout,
                                  int threads);

/* Writes the frame's header, records, order and tile offsets, and the per-Gaussian outputs that
 * are wanted.  Uses the call's scratch.  GSC_ERROR_INVALID_ARGUMENT if a point is outside the
 * planes although the caller set GSC_RASTER_PREFILTERED. */
gsc_status gsc__project_frame(const gsc__raster_call *call, gsc__frame *frame);

/* The activated opacity of Gaussian i. */
static inline gsc_real gsc__gaussian_opacity(const gsc__raster *raster, int64_t i) {
    const gsc_real stored = raster->opacities[i];
    return raster->flags & GSC_RASTER_LOGIT_OPACITIES ? gsc__sigmoid(stored) : stored;
}

/* Geometry of Gaussian i.  False if it is outside the planes or degenerate. */
bool gsc__project_gaussian(const gsc__raster *raster, const gsc__camera *camera, int64_t i,
                           gsc__projection *p);

/* ----------------------------------------------- compiled with contraction, in cpu_isa.c */

#define GSC__SPAN_ROWS 32

typedef struct gsc__span {
    int32_t begin, end; /* tile columns [begin, end); empty if begin >= end */
} gsc__span;

/* Spans of tile rows [row, row + count), which lie inside the record's rectangle, in closed
 * form: each tile row cuts the ellipse as a slab of pixel centres. */
void gsc__tile_spans(const gsc__record *record, int32_t row, int32_t count,
                     gsc__span spans[GSC__SPAN_ROWS]);

#endif
