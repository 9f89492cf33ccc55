/* The noting backend as one that need not wait between the steps. */
#ifndef GSC_TESTS_DRAWING_BACKEND_H
#define GSC_TESTS_DRAWING_BACKEND_H

#include "noting_backend.h"

static gsc__backend drawing;
static int64_t found_pairs;

static gsc_status draw(const gsc__raster_call *call, const gsc_raster_info *expected,
                       gsc_raster_info *found) {
    note_raster(call, expected);
    found->visible = 1;
    found->intersections = found_pairs;
    found->intersections_bytes = FRAME_BYTES;
    found->intersections_min_bytes = TILE_BYTES;
    found->forward_scratch_bytes = RENDER_SCRATCH;
    return note("draw");
}

/* From here on PAIRS are expected of a frame, and so many found. */
static void expect_frame(int64_t pairs) {
    const gsc__raster frame = {
        .cameras = 1, .width = args.width, .height = args.height, .gaussians = means.shape[0]};
    drawing = *context.backend;
    drawing.raster_project_blend = draw;
    context.backend = &drawing;
    gsc__forecast_note(&context.forecasts, &frame, 1, PAIRS);
    found_pairs = pairs;
}

#endif
