/* The rasterizer's entry points with memory from the context's allocator. */

#include "call.h"
#include "core/args.h"
#include "core/limits.h"

#include <stdlib.h>

struct gsc_raster_saved {
    gsc_context *context;
    gsc_raster_info info;
    void *state, *intersections;
    size_t state_bytes, intersections_bytes;
    size_t block_bytes; /* of the memory of the state, behind which there may be intersections */
};

/* Intersections that have memory of their own, or NULL. */
static void *own_intersections(const gsc_raster_saved *saved) {
    const uintptr_t begin = (uintptr_t)saved->state, data = (uintptr_t)saved->intersections;
    return data >= begin && data < begin + saved->block_bytes ? NULL : saved->intersections;
}

static void release_blocks(gsc_raster_saved *saved, void *stream) {
    gsc__context_release(saved->context, own_intersections(saved), saved->intersections_bytes,
                         stream);
    gsc__context_release(saved->context, saved->state, saved->block_bytes, stream);
}

/* One block for the state and the intersections that are expected: an allocation less before the
 * device has work.  Without the memory for both, the state alone. */
static gsc_status provide_blocks(const gsc__raster_call *call, gsc_raster_saved *saved) {
    gsc_context *context = call->call.context;
    void *stream = call->call.stream;
    const size_t lists = saved->info.visible > 0 ? saved->info.intersections_bytes : 0;
    saved->block_bytes = gsc__aligned_bytes(saved->state_bytes) + lists;
    if (lists > 0) saved->state = gsc__context_try_alloc(context, saved->block_bytes, stream);
    if (saved->state) {
        saved->intersections = (char *)saved->state + gsc__aligned_bytes(saved->state_bytes);
        saved->intersections_bytes = lists;
        return GSC_OK;
    }
    saved->block_bytes = saved->state_bytes;
    return gsc__context_alloc(context, saved->block_bytes, "rasterize: state", stream,
                              &saved->state);
}

/* What render needs beside the state, once the frame is counted. */
static gsc_status provide_for_render(gsc__raster_call *call, const gsc_raster_info *info,
                                     gsc__scratch *scratch) {
    gsc__raster_buffers *buffers = &call->buffers;
    GSC__TRY(gsc__alloc_intersections(call->call.context, info, "rasterize: intersections",
                                      call->call.stream, &buffers->intersections,
                                      &buffers->intersections_bytes));
    if (scratch->owned && info->forward_scratch_bytes <= buffers->scratch_bytes) return GSC_OK;
    gsc__scratch_release(scratch);
    buffers->scratch = NULL;
    gsc__scratch_in_color(call, info);
    return gsc__scratch_provide(scratch, call->call.context, "rasterize: scratch",
                                info->forward_scratch_bytes, call->call.stream, &buffers->scratch,
                                &buffers->scratch_bytes);
}

static gsc_status draw_frame(gsc__raster_call *call, gsc_raster_saved *saved) {
    gsc_context *context = call->call.context;
    gsc__raster_buffers *buffers = &call->buffers;
    gsc_raster_info *info = &saved->info;
    gsc__scratch scratch;
    bool drawn = false;
    GSC__TRY(gsc__raster_forecast(call, info));
    GSC__TRY(provide_blocks(call, saved));
    buffers->state = saved->state;
    buffers->state_bytes = saved->state_bytes;
    buffers->intersections = saved->intersections;
    buffers->intersections_bytes = saved->intersections_bytes;
    if (buffers->intersections) gsc__scratch_in_color(call, info);
    GSC__TRY(gsc__scratch_provide(&scratch, context, "rasterize: scratch",
                                  info->forward_scratch_bytes, call->call.stream, &buffers->scratch,
                                  &buffers->scratch_bytes));
    gsc_status status = buffers->intersections ? gsc__raster_project_blend(call, info, &drawn)
                                               : gsc__raster_project(call, info);
    if (status == GSC_OK && !drawn) {
        status = provide_for_render(call, info, &scratch);
        saved->intersections = buffers->intersections;
        saved->intersections_bytes = buffers->intersections_bytes;
        if (status == GSC_OK) status = context->backend->raster_blend(call, info, NULL);
    }
    gsc__scratch_release(&scratch);
    return status;
}

gsc_status gsc_rasterize(gsc_context *context, const gsc_raster_args *args,
                         const gsc_raster_outputs *outputs, gsc_raster_saved **saved,
                         void *stream) {
    gsc__raster_call call;
    gsc__checker checker;
    if (saved) *saved = NULL;
    GSC__TRY(gsc__raster_begin(&call, &checker, "rasterize", context, args, NULL, stream));
    GSC__TRY(gsc__raster_outputs_args(&checker, &call.raster, outputs, true, &call.outputs));
    if (!saved) {
        call.raster.flags |= GSC_RASTER_FORWARD_ONLY;
        GSC__TRY(gsc__raster_sizes(&call, NULL, &call.sizes));
    }
    gsc_raster_saved made = {
        .context = context, .info = call.sizes, .state_bytes = call.sizes.state_bytes};
    gsc_status status = draw_frame(&call, &made);
    gsc_raster_saved *kept = NULL;
    if (status == GSC_OK && saved) {
        kept = malloc(sizeof *kept);
        if (!kept) status = gsc__fail(GSC_ERROR_OUT_OF_MEMORY, "rasterize: out of memory");
    }
    if (kept) {
        *kept = made;
        *saved = kept;
    } else {
        release_blocks(&made, stream);
    }
    return status;
}

gsc_status gsc_rasterize_backward(gsc_context *context, const gsc_raster_args *args,
                                  const gsc_raster_saved *saved, const gsc_raster_grads *grads,
                                  void *stream) {
    static const char function[] = "rasterize_backward";
    gsc__raster_call call;
    gsc__checker checker;
    gsc__raster_grads results;
    gsc__scratch scratch;
    if (!saved) return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: saved is NULL", function);
    GSC__TRY(gsc__raster_begin(&call, &checker, function, context, args, &saved->info, stream));
    if (saved->context != context) {
        return gsc__fail(GSC_ERROR_STATE, "%s: saved is of another context", function);
    }
    GSC__TRY(gsc__raster_check_layout(&call, &saved->info));
    GSC__TRY(gsc__raster_grads_args(&checker, &call.raster, grads, &results));
    call.buffers = (gsc__raster_buffers){.state = saved->state,
                                         .state_bytes = saved->state_bytes,
                                         .intersections = saved->intersections,
                                         .intersections_bytes = saved->intersections_bytes};
    GSC__TRY(gsc__scratch_provide(&scratch, context, "rasterize_backward: scratch",
                                  call.sizes.backward_scratch_bytes, stream, &call.buffers.scratch,
                                  &call.buffers.scratch_bytes));
    gsc_status status = context->backend->raster_backward(&call, &saved->info, &results);
    gsc__scratch_release(&scratch);
    return status;
}

void gsc_raster_saved_free(gsc_raster_saved *saved, void *stream) {
    if (!saved) return;
    release_blocks(saved, stream);
    free(saved);
}

gsc_status gsc_raster_saved_take(gsc_raster_saved *saved, DLManagedTensorVersioned **tensors,
                                 gsc_raster_info *info) {
    static const char function[] = "raster_saved_take";
    if (!saved || !tensors)
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", function,
                         saved ? "tensors" : "saved");
    GSC__TRY(gsc__args_check_result(function, "info", info,
                                    GSC__SIZE_THROUGH(gsc_raster_info, visible)));
    gsc__managed *managed = &saved->context->managed;
    if (!managed->allocate)
        return gsc__fail(GSC_ERROR_UNSUPPORTED, "%s: the context's memory is not a framework's",
                         function);
    tensors[1] = gsc__managed_take(managed, own_intersections(saved));
    tensors[0] = gsc__managed_take(managed, saved->state);
    gsc__args_return(info, &saved->info, sizeof saved->info);
    free(saved);
    return GSC_OK;
}
