/* The rasterizer's entry points with the caller's buffers. */

#include "call.h"
#include "core/args.h"

/* The caller's buffers, and scratch if it is missing: of the image that info's frame will be
 * drawn into (outputs NULL: none will), or of the context's allocator. */
static gsc_status take_buffers(const gsc__raster_call *call, const gsc_raster_buffers *theirs,
                               const gsc__buffer_needs *needs, const gsc__raster_outputs *outputs,
                               const gsc_raster_info *info, gsc__raster_buffers *buffers,
                               gsc__scratch *scratch) {
    GSC__TRY(gsc__raster_buffers_args(&call->checker, theirs, needs, buffers));
    if (outputs) gsc__scratch_in_color(call, outputs, info, buffers);
    return gsc__scratch_provide(scratch, call->context, call->checker.function, needs->scratch,
                                call->stream, &buffers->scratch, &buffers->scratch_bytes);
}

/* A call about a frame of which info, the caller's, tells something. */
static gsc_status begin_with_info(gsc__raster_call *call, const char *function,
                                  gsc_context *context, const gsc_raster_args *args,
                                  const gsc_raster_info *info, gsc_raster_info *given,
                                  void *stream) {
    GSC__TRY(gsc__begin(function, context, stream, &call->checker));
    GSC__TRY(gsc__raster_info_args(&call->checker, info, given));
    return gsc__raster_begin(call, function, context, args, given, stream);
}

static gsc_status fill_sizes(const char *function, gsc_context *context,
                             const gsc_raster_args *args, bool forecast, gsc_raster_info *info) {
    gsc__checker checker;
    gsc__raster raster;
    gsc_raster_info given, sizes;
    GSC__TRY(gsc__begin(function, context, NULL, &checker));
    checker.shapes_only = true;
    GSC__TRY(gsc__raster_info_args(&checker, info, &given));
    GSC__TRY(gsc__raster_args(&checker, args, &raster));
    GSC__TRY(gsc__raster_sizes(context, &raster, forecast ? NULL : &given, &sizes));
    if (forecast) GSC__TRY(gsc__raster_forecast(context, &raster, &sizes));
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
    gsc__raster_buffers ours;
    gsc__raster_outputs results;
    gsc_raster_info given;
    gsc__scratch scratch;
    GSC__TRY(gsc__raster_begin(&call, "raster_project", context, args, NULL, stream));
    if (info) GSC__TRY(gsc__raster_info_args(&call.checker, info, &given));
    GSC__TRY(gsc__raster_outputs_args(&call.checker, &call.raster, outputs, false, &results));
    const gsc__buffer_needs needs = {.state = call.sizes.state_bytes,
                                     .scratch = call.sizes.forward_scratch_bytes};
    GSC__TRY(take_buffers(&call, buffers, &needs, NULL, NULL, &ours, &scratch));
    gsc_raster_info found = call.sizes;
    gsc_status status = info ? gsc__raster_project(&call, &ours, &results, &found)
                             : context->backend->raster_project(context, &call.raster, &ours,
                                                                &results, NULL, stream);
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
    gsc__raster_buffers ours;
    gsc__raster_outputs results;
    gsc_raster_info given;
    gsc__scratch scratch;
    void *bytes_needed;
    GSC__TRY(begin_with_info(&call, function, context, args, info, &given, stream));
    GSC__TRY(gsc__raster_check_layout(&call, &given));
    GSC__TRY(gsc__raster_outputs_args(&call.checker, &call.raster, outputs, true, &results));
    GSC__TRY(gsc__tensor_dense(&call.checker, "overflow", overflow, GSC__INT64, scalar_shapes, 2,
                               NULL, &bytes_needed));
    const gsc__buffer_needs needs = {.state = call.sizes.state_bytes,
                                     .scratch = call.sizes.forward_scratch_bytes,
                                     .intersections = given.intersections_min_bytes,
                                     .uses_intersections = true};
    GSC__TRY(take_buffers(&call, buffers, &needs, &results, &call.sizes, &ours, &scratch));
    gsc_status status = context->backend->raster_blend(context, &call.raster, &ours, &results,
                                                       &given, bytes_needed, stream);
    gsc__scratch_release(&scratch);
    return status;
}

gsc_status gsc_raster_project_blend(gsc_context *context, const gsc_raster_args *args,
                                    const gsc_raster_buffers *buffers,
                                    const gsc_raster_outputs *outputs, gsc_raster_info *info,
                                    void *stream) {
    static const char function[] = "raster_project_blend";
    gsc__raster_call call;
    gsc__raster_buffers ours;
    gsc__raster_outputs results;
    gsc_raster_info given;
    gsc__scratch scratch;
    GSC__TRY(begin_with_info(&call, function, context, args, info, &given, stream));
    GSC__TRY(gsc__raster_check_expected(&call, &given));
    GSC__TRY(gsc__raster_check_layout(&call, &given));
    GSC__TRY(gsc__raster_outputs_args(&call.checker, &call.raster, outputs, true, &results));
    const gsc__buffer_needs needs = {.state = call.sizes.state_bytes,
                                     .scratch = call.sizes.forward_scratch_bytes,
                                     .intersections = call.sizes.intersections_bytes,
                                     .uses_intersections = true};
    GSC__TRY(take_buffers(&call, buffers, &needs, &results, &call.sizes, &ours, &scratch));
    bool fits = false;
    gsc_status status = gsc__raster_project_blend(&call, &ours, &results, &given, &fits);
    gsc__scratch_release(&scratch);
    if (status != GSC_OK) return status;
    gsc__args_return(info, &given, sizeof given);
    if (fits) return GSC_OK;
    return gsc__fail(
        GSC_ERROR_BUFFER_TOO_SMALL,
        "%s: intersections has %zu bytes, the frame needs %zu: more than info expected", function,
        ours.intersections_bytes, given.intersections_bytes);
}

gsc_status gsc_raster_backward(gsc_context *context, const gsc_raster_args *args,
                               const gsc_raster_buffers *buffers, const gsc_raster_info *info,
                               const gsc_raster_grads *grads, void *stream) {
    static const char function[] = "raster_backward";
    gsc__raster_call call;
    gsc__raster_buffers ours;
    gsc__raster_grads results;
    gsc_raster_info given;
    gsc__scratch scratch;
    GSC__TRY(begin_with_info(&call, function, context, args, info, &given, stream));
    GSC__TRY(gsc__raster_check_layout(&call, &given));
    GSC__TRY(gsc__raster_grads_args(&call.checker, &call.raster, grads, &results));
    const gsc__buffer_needs needs = {.state = call.sizes.state_bytes,
                                     .scratch = call.sizes.backward_scratch_bytes,
                                     .intersections = given.intersections_min_bytes,
                                     .uses_intersections = true};
    GSC__TRY(take_buffers(&call, buffers, &needs, NULL, NULL, &ours, &scratch));
    gsc_status status =
        context->backend->raster_backward(context, &call.raster, &ours, &given, &results, stream);
    gsc__scratch_release(&scratch);
    return status;
}

gsc_status gsc_mark_visible(gsc_context *context, const gsc_raster_args *args,
                            const DLTensor *visible, void *stream) {
    gsc__checker checker;
    gsc__raster raster;
    uint8_t *result;
    GSC__TRY(gsc__begin("mark_visible", context, stream, &checker));
    GSC__TRY(gsc__visible_args(&checker, args, visible, &raster, &result));
    return context->backend->mark_visible(context, &raster, result, stream);
}
