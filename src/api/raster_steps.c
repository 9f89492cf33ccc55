/* The rasterizer's entry points with the caller's buffers. */

#include "call.h"
#include "core/args.h"

/* The caller's buffers, and scratch if it is missing: of the context's allocator, or (in_color) of
 * the image that the frame of call->sizes will be drawn into. */
static gsc_status take_buffers(gsc__raster_call *call, const gsc__checker *checker,
                               const gsc_raster_buffers *theirs, const gsc__buffer_needs *needs,
                               bool in_color, gsc__scratch *scratch) {
    GSC__TRY(gsc__raster_buffers_args(checker, theirs, needs, &call->buffers));
    if (in_color) gsc__scratch_in_color(call, &call->sizes);
    return gsc__scratch_provide(scratch, call->call.context, call->call.function, needs->scratch,
                                call->call.stream, &call->buffers.scratch,
                                &call->buffers.scratch_bytes);
}

/* A call about a frame of which info, the caller's, tells something. */
static gsc_status begin_with_info(gsc__raster_call *call, gsc__checker *checker,
                                  const char *function, gsc_context *context,
                                  const gsc_raster_args *args, const gsc_raster_info *info,
                                  gsc_raster_info *given, void *stream) {
    GSC__TRY(gsc__begin(function, context, stream, &call->call, checker));
    GSC__TRY(gsc__raster_info_args(checker, info, given));
    return gsc__raster_begin(call, checker, function, context, args, given, stream);
}

static gsc_status fill_sizes(const char *function, gsc_context *context,
                             const gsc_raster_args *args, bool forecast, gsc_raster_info *info) {
    gsc__checker checker;
    gsc__raster_call call = {0};
    gsc_raster_info given, sizes;
    GSC__TRY(gsc__begin(function, context, NULL, &call.call, &checker));
    checker.shapes_only = true;
    GSC__TRY(gsc__raster_info_args(&checker, info, &given));
    GSC__TRY(gsc__raster_args(&checker, args, &call.raster));
    GSC__TRY(gsc__raster_sizes(&call, forecast ? NULL : &given, &sizes));
    if (forecast) GSC__TRY(gsc__raster_forecast(&call, &sizes));
    gsc__args_return(info, &sizes, sizeof sizes);
    return GSC_OK;
}

gsc_status gsc_raster_sizes(gsc_context *context, const gsc_raster_args *args,
                            gsc_raster_info *info) {
    return fill_sizes("raster_sizes", context, args, false, info);
}

gsc_status gsc_raster_forecast(gsc_context *context, const gsc_raster_args *args,
                               gsc_raster_info *info) {
    return fill_sizes("raster_forecast", context, args, true, info);
}

gsc_status gsc_raster_project(gsc_context *context, const gsc_raster_args *args,
                              const gsc_raster_buffers *buffers, const gsc_raster_outputs *outputs,
                              gsc_raster_info *info, void *stream) {
    gsc__raster_call call;
    gsc__checker checker;
    gsc_raster_info given;
    gsc__scratch scratch;
    GSC__TRY(gsc__raster_begin(&call, &checker, "raster_project", context, args, NULL, stream));
    if (info) GSC__TRY(gsc__raster_info_args(&checker, info, &given));
    GSC__TRY(gsc__raster_outputs_args(&checker, &call.raster, outputs, false, &call.outputs));
    const gsc__buffer_needs needs = {.state = call.sizes.state_bytes,
                                     .scratch = call.sizes.forward_scratch_bytes};
    GSC__TRY(take_buffers(&call, &checker, buffers, &needs, false, &scratch));
    gsc_raster_info found = call.sizes;
    gsc_status status =
        info ? gsc__raster_project(&call, &found) : context->backend->raster_project(&call, NULL);
    gsc__scratch_release(&scratch);
    if (status == GSC_OK && info) gsc__args_return(info, &found, sizeof found);
    return status;
}

gsc_status gsc_raster_blend(gsc_context *context, const gsc_raster_args *args,
                            const gsc_raster_buffers *buffers, const gsc_raster_outputs *outputs,
                            const gsc_raster_info *info, const DLTensor *overflow, void *stream) {
    static const char function[] = "raster_blend";
    const gsc__shape scalar_shapes[] = {{.ndim = 0}, {.ndim = 1, .dims = {1}}};
    gsc__raster_call call;
    gsc__checker checker;
    gsc_raster_info given;
    gsc__scratch scratch;
    void *bytes_needed;
    GSC__TRY(begin_with_info(&call, &checker, function, context, args, info, &given, stream));
    GSC__TRY(gsc__raster_check_layout(&call, &given));
    GSC__TRY(gsc__raster_outputs_args(&checker, &call.raster, outputs, true, &call.outputs));
    GSC__TRY(gsc__tensor_dense(&checker, "overflow", overflow, GSC__INT64, scalar_shapes, 2, NULL,
                               &bytes_needed));
    const gsc__buffer_needs needs = {.state = call.sizes.state_bytes,
                                     .scratch = call.sizes.forward_scratch_bytes,
                                     .intersections = given.intersections_min_bytes,
                                     .uses_intersections = true};
    GSC__TRY(take_buffers(&call, &checker, buffers, &needs, true, &scratch));
    gsc_status status = context->backend->raster_blend(&call, &given, bytes_needed);
    gsc__scratch_release(&scratch);
    return status;
}

gsc_status gsc_raster_project_blend(gsc_context *context, const gsc_raster_args *args,
                                    const gsc_raster_buffers *buffers,
                                    const gsc_raster_outputs *outputs, gsc_raster_info *info,
                                    void *stream) {
    static const char function[] = "raster_project_blend";
    gsc__raster_call call;
    gsc__checker checker;
    gsc_raster_info given;
    gsc__scratch scratch;
    GSC__TRY(begin_with_info(&call, &checker, function, context, args, info, &given, stream));
    GSC__TRY(gsc__raster_check_expected(&call, &given));
    GSC__TRY(gsc__raster_check_layout(&call, &given));
    GSC__TRY(gsc__raster_outputs_args(&checker, &call.raster, outputs, true, &call.outputs));
    const gsc__buffer_needs needs = {.state = call.sizes.state_bytes,
                                     .scratch = call.sizes.forward_scratch_bytes,
                                     .intersections = call.sizes.intersections_bytes,
                                     .uses_intersections = true};
    GSC__TRY(take_buffers(&call, &checker, buffers, &needs, true, &scratch));
    bool fits = false;
    gsc_status status = gsc__raster_project_blend(&call, &given, &fits);
    gsc__scratch_release(&scratch);
    if (status != GSC_OK) return status;
    gsc__args_return(info, &given, sizeof given);
    if (fits) return GSC_OK;
    return gsc__fail(
        GSC_ERROR_BUFFER_TOO_SMALL,
        "%s: intersections has %zu bytes, the frame needs %zu: more than info expected", function,
        call.buffers.intersections_bytes, given.intersections_bytes);
}

gsc_status gsc_raster_backward(gsc_context *context, const gsc_raster_args *args,
                               const gsc_raster_buffers *buffers, const gsc_raster_info *info,
                               const gsc_raster_grads *grads, void *stream) {
    static const char function[] = "raster_backward";
    gsc__raster_call call;
    gsc__checker checker;
    gsc__raster_grads results;
    gsc_raster_info given;
    gsc__scratch scratch;
    GSC__TRY(begin_with_info(&call, &checker, function, context, args, info, &given, stream));
    GSC__TRY(gsc__raster_check_layout(&call, &given));
    GSC__TRY(gsc__raster_grads_args(&checker, &call.raster, grads, &results));
    const gsc__buffer_needs needs = {.state = call.sizes.state_bytes,
                                     .scratch = call.sizes.backward_scratch_bytes,
                                     .intersections = given.intersections_min_bytes,
                                     .uses_intersections = true};
    GSC__TRY(take_buffers(&call, &checker, buffers, &needs, false, &scratch));
    gsc_status status = context->backend->raster_backward(&call, &given, &results);
    gsc__scratch_release(&scratch);
    return status;
}

gsc_status gsc_mark_visible(gsc_context *context, const gsc_raster_args *args,
                            const DLTensor *visible, void *stream) {
    gsc__raster_call call = {0};
    gsc__checker checker;
    uint8_t *result;
    GSC__TRY(gsc__begin("mark_visible", context, stream, &call.call, &checker));
    GSC__TRY(gsc__visible_args(&checker, args, visible, &call.raster, &result));
    return context->backend->mark_visible(&call, result);
}
