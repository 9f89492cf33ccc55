/* The rasterizer's entry points with memory from the context's allocator. */

#include "call.h"

#include <stdlib.h>

struct gsc_raster_saved {
    gsc_context *context;
    gsc_raster_info info;
    void *state, *intersections;
    size_t state_bytes, intersections_bytes;
};

static void release_blocks(gsc_raster_saved *saved, void *stream) {
    gsc__context_release(saved->context, saved->intersections, saved->intersections_bytes, stream);
    gsc__context_release(saved->context, saved->state, saved->state_bytes, stream);
}

/* What render needs beside the state, once the frame is counted. */
static gsc_status provide_for_render(const gsc__raster_call *call,
                                     const gsc__raster_outputs *outputs,
                                     const gsc_raster_info *info, gsc__raster_buffers *buffers,
                                     gsc__scratch *scratch) {
    GSC__TRY(gsc__alloc_intersections(call->context, info, "raster_forward: intersections",
                                      call->stream, &buffers->intersections,
                                      &buffers->intersections_bytes));
    if (scratch->owned && info->forward_scratch_bytes <= buffers->scratch_bytes) return GSC_OK;
    gsc__scratch_release(scratch);
    buffers->scratch = NULL;
    gsc__scratch_in_color(call, outputs, info, buffers);
    return gsc__scratch_provide(scratch, call->context, "raster_forward: scratch",
                                info->forward_scratch_bytes, call->stream, &buffers->scratch,
                                &buffers->scratch_bytes);
}

static gsc_status draw_frame(const gsc__raster_call *call, const gsc__raster_outputs *outputs,
                             gsc_raster_saved *saved) {
    gsc_context *context = call->context;
    gsc__raster_buffers buffers = {.state = saved->state, .state_bytes = saved->state_bytes};
    gsc__scratch scratch;
    bool projected, drawn;
    GSC__TRY(gsc__raster_forecast(context, &call->raster, &saved->info));
    if (saved->info.visible > 0) {
        buffers.intersections_bytes = saved->info.intersections_bytes; /* if there is the memory */
        gsc__scratch_in_color(call, outputs, &saved->info, &buffers);
    }
    GSC__TRY(gsc__scratch_provide(&scratch, context, "raster_forward: scratch",
                                  saved->info.forward_scratch_bytes, call->stream, &buffers.scratch,
                                  &buffers.scratch_bytes));
    gsc_status status =
        gsc__raster_try_to_draw(call, &buffers, outputs, &saved->info, &projected, &drawn);
    if (status == GSC_OK && !projected)
        status = gsc__raster_project(call, &buffers, outputs, &saved->info);
    if (status == GSC_OK && !drawn)
        status = provide_for_render(call, outputs, &saved->info, &buffers, &scratch);
    if (status == GSC_OK && !drawn)
        status = context->backend->raster_render(context, &call->raster, &buffers, outputs,
                                                 &saved->info, NULL, call->stream);
    saved->intersections = buffers.intersections;
    saved->intersections_bytes = buffers.intersections_bytes;
    gsc__scratch_release(&scratch);
    return status;
}

gsc_status gsc_raster_forward(gsc_context *context, const gsc_raster_args *args,
                              const gsc_raster_outputs *outputs, gsc_raster_saved **saved,
                              void *stream) {
    gsc__raster_call call;
    gsc__raster_outputs results;
    if (saved) *saved = NULL;
    GSC__TRY(gsc__raster_begin(&call, "raster_forward", context, args, NULL, stream));
    GSC__TRY(gsc__raster_outputs_args(&call.checker, &call.raster, outputs, true, &results));
    if (!saved) {
        call.raster.flags |= GSC_RASTER_FORWARD_ONLY;
        GSC__TRY(gsc__raster_sizes(context, &call.raster, NULL, &call.sizes));
    }
    gsc_raster_saved made = {
        .context = context, .info = call.sizes, .state_bytes = call.sizes.state_bytes};
    GSC__TRY(gsc__context_alloc(context, made.state_bytes, "raster_forward: state", stream,
                                &made.state));
    gsc_status status = draw_frame(&call, &results, &made);
    gsc_raster_saved *kept = NULL;
    if (status == GSC_OK && saved) {
        kept = malloc(sizeof *kept);
        if (!kept) status = gsc__fail(GSC_ERROR_OUT_OF_MEMORY, "raster_forward: out of memory");
    }
    if (kept) {
        *kept = made;
        *saved = kept;
    } else {
        release_blocks(&made, stream);
    }
    return status;
}

gsc_status gsc_raster_backward_saved(gsc_context *context, const gsc_raster_args *args,
                                     const gsc_raster_saved *saved, const gsc_raster_grads *grads,
                                     void *stream) {
    static const char function[] = "raster_backward_saved";
    gsc__raster_call call;
    gsc__raster_grads results;
    gsc__scratch scratch;
    if (!saved) return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: saved is NULL", function);
    GSC__TRY(gsc__raster_begin(&call, function, context, args, &saved->info, stream));
    if (saved->context != context) {
        return gsc__fail(GSC_ERROR_STATE, "%s: saved is of another context", function);
    }
    GSC__TRY(gsc__raster_check_layout(&call, &saved->info));
    GSC__TRY(gsc__raster_grads_args(&call.checker, &call.raster, grads, &results));
    gsc__raster_buffers buffers = {.state = saved->state,
                                   .state_bytes = saved->state_bytes,
                                   .intersections = saved->intersections,
                                   .intersections_bytes = saved->intersections_bytes};
    GSC__TRY(gsc__scratch_provide(&scratch, context, "raster_backward_saved: scratch",
                                  call.sizes.backward_scratch_bytes, stream, &buffers.scratch,
                                  &buffers.scratch_bytes));
    gsc_status status = context->backend->raster_backward(context, &call.raster, &buffers,
                                                          &saved->info, &results, stream);
    gsc__scratch_release(&scratch);
    return status;
}

void gsc_raster_saved_free(gsc_raster_saved *saved, void *stream) {
    if (!saved) return;
    release_blocks(saved, stream);
    free(saved);
}
