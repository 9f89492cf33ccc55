/* The rasterizer's entry points with memory from the context's allocator. */

#include "raster_call.h"

#include <stdlib.h>

struct gsc_raster_saved {
    gsc_raster_info info;
    gsc__raster_buffers buffers; /* without scratch */
    gsc__workspace workspace;    /* of the buffers */
};

gsc_status gsc_rasterize(gsc_context *context, const gsc_raster_args *args,
                         const gsc_raster_outputs *outputs, gsc_raster_saved **saved,
                         void *stream) {
    gsc__raster_call call;
    if (saved) *saved = NULL;
    GSC__TRY(gsc__raster_begin(&call, "rasterize", context, args, NULL, stream));
    GSC__TRY(gsc__raster_outputs_args(&call.call, &call.raster, outputs, true, &call.outputs));
    if (!saved) {
        call.raster.flags |= GSC_RASTER_FORWARD_ONLY;
        GSC__TRY(gsc__raster_sizes(&call, NULL, &call.sizes));
    }
    gsc_raster_saved made = {.workspace = {.call = call.call}};
    gsc_status status = gsc__raster_forward(&call, &made.workspace, false, &made.info);
    gsc__workspace_drop(&made.workspace, call.buffers.scratch);
    made.buffers = call.buffers;
    made.buffers.scratch = NULL;
    if (status == GSC_OK && saved) {
        *saved = malloc(sizeof **saved);
        if (!*saved) status = gsc__fail(GSC_ERROR_OUT_OF_MEMORY, "rasterize: out of memory");
    }
    if (status == GSC_OK && saved)
        **saved = made;
    else
        gsc__workspace_release(&made.workspace);
    return status;
}

gsc_status gsc_rasterize_backward(gsc_context *context, const gsc_raster_args *args,
                                  const gsc_raster_saved *saved, const gsc_raster_grads *grads,
                                  void *stream) {
    static const char function[] = "rasterize_backward";
    gsc__raster_call call;
    gsc__raster_grads results;
    if (!saved) return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: saved is NULL", function);
    GSC__TRY(gsc__raster_begin(&call, function, context, args, &saved->info, stream));
    if (saved->workspace.call.context != context) {
        return gsc__fail(GSC_ERROR_STATE, "%s: saved belongs to another context", function);
    }
    GSC__TRY(gsc__raster_check_layout(&call, &saved->info));
    GSC__TRY(gsc__raster_grads_args(&call.call, &call.raster, grads, &results));
    gsc__workspace workspace = {.call = call.call};
    call.buffers = saved->buffers;
    GSC__TRY(gsc__workspace_provide(&workspace, "scratch", call.sizes.backward_scratch_bytes,
                                    &call.buffers.scratch, &call.buffers.scratch_bytes));
    gsc_status status = context->backend->raster_backward(&call, &saved->info, &results);
    gsc__workspace_release(&workspace);
    return status;
}

void gsc_raster_saved_free(gsc_raster_saved *saved, void *stream) {
    if (!saved) return;
    saved->workspace.call.stream = stream;
    gsc__workspace_release(&saved->workspace);
    free(saved);
}

gsc_status gsc_raster_saved_take(gsc_raster_saved *saved, DLManagedTensorVersioned **tensors,
                                 gsc_raster_info *info) {
    const gsc__call call = {.function = "raster_saved_take"};
    if (!saved || !tensors)
        return gsc__refuse(&call, GSC_ERROR_INVALID_ARGUMENT, "%s is NULL",
                           saved ? "tensors" : "saved");
    GSC__TRY(
        gsc__args_check_result(&call, "info", info, GSC__SIZE_THROUGH(gsc_raster_info, visible)));
    gsc__managed *managed = &saved->workspace.call.context->managed;
    if (!managed->allocate)
        return gsc__refuse(&call, GSC_ERROR_UNSUPPORTED,
                           "the context's memory is not a framework's");
    /* Intersections that share the block of the state are not found. */
    tensors[1] = gsc__managed_take(managed, saved->buffers.intersections);
    tensors[0] = gsc__managed_take(managed, saved->buffers.state);
    gsc__args_return(info, &saved->info, sizeof saved->info);
    free(saved);
    return GSC_OK;
}
