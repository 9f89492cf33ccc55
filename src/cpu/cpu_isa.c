/* The CPU backend for one instruction set.
 *
 * This file is compiled once for each instruction set, with GSC_ISA as the suffix of its external
 * names.  The functions in the headers that it includes are static, so the copies do not clash.
 * project.c is compiled once for each instruction set too, but on its own (see project.h).  What
 * does not gain from wider vectors is compiled once: raster_state.c, sort.c and dispatch.c, which
 * chooses a table. */
#include "adam.h"
#include "image_ops.h"
#include "knn.h"
#include "math/ellipse_math.h"
#include "raster_forward.h"

enum { SPAN_BATCH = 8 /* rows computed together, even if fewer are wanted */ };

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

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

static gsc_status open_context(gsc_context *context) {
    context->device_data = gsc__pool_create(context->cpu_threads);
    if (!context->device_data) {
        return gsc__fail(GSC_ERROR_OUT_OF_MEMORY,
                         "context_create: out of memory for a pool of %d threads",
                         context->cpu_threads);
    }
    gsc__log(context, GSC_LOG_INFO, "context_create: cpu, %s instructions, %d threads",
             context->backend->name, context->cpu_threads);
    return GSC_OK;
}

static void close_context(gsc_context *context) {
    gsc__pool_destroy(gsc__cpu_pool(context));
}

/* Its name is that of the instruction set: the device already says "cpu". */
extern const gsc__backend GSC__ISA_NAME(gsc__cpu_backend);
const gsc__backend GSC__ISA_NAME(gsc__cpu_backend) = {
    .name = TEXT(GSC_ISA),
    .max_side = GSC__MAX_SIDE,
    .open = open_context,
    .close = close_context,
    .raster_sizes = gsc__cpu_raster_sizes,
    .raster_project = gsc__cpu_raster_project,
    .raster_blend = gsc__cpu_raster_blend,
    .raster_backward = gsc__cpu_raster_backward,
    .mark_visible = gsc__cpu_mark_visible,
    .knn_scratch_bytes = gsc__cpu_knn_scratch_bytes,
    .knn = gsc__cpu_knn,
    .ssim_forward = gsc__cpu_ssim_forward,
    .ssim_backward = gsc__cpu_ssim_backward,
    .image_loss = gsc__cpu_image_loss,
    .adam_step = gsc__cpu_adam_step,
};
