/* The rasterizer's entry points with the caller's buffers. */

#include "raster_call.h"

/* ---------------------------------------------------------------------- sizes */

static gsc_status fill_sizes(const char *function, gsc_context *context,
                             const gsc_raster_args *args, bool forecast, gsc_raster_info *info) {
    gsc__raster_call call = {0};
    gsc_raster_info given, sizes;
    GSC__TRY(gsc__call_begin(&call.call, function, context, NULL));
    call.call.shapes_only = true;
    GSC__TRY(gsc__raster_info_args(&call.call, info, &given));
    GSC__TRY(gsc__raster_args(&call.call, args, &call.raster));
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

/* ---------------------------------------------------------------------- steps */

/* One step on a frame that info describes. */
typedef struct step {
    gsc__raster_call call;
    gsc__workspace workspace;
    gsc_raster_info info; /* a copy of the caller's */
} step;

static gsc_status begin(step *s, const char *function, gsc_context *context,
                        const gsc_raster_args *args, const gsc_raster_info *info, void *stream) {
    GSC__TRY(gsc__call_begin(&s->call.call, function, context, stream));
    GSC__TRY(gsc__raster_info_args(&s->call.call, info, &s->info));
    GSC__TRY(gsc__raster_begin(&s->call, function, context, args, &s->info, stream));
    s->workspace = (gsc__workspace){.call = s->call.call};
    return gsc__raster_check_layout(&s->call, &s->info);
}

static gsc_status provide_scratch(step *s, size_t needed) {
    return gsc__workspace_provide(&s->workspace, "scratch", needed, &s->call.buffers.scratch,
                                  &s->call.buffers.scratch_bytes);
}

static gsc_status end(step *s, gsc_status status) {
    gsc__workspace_release(&s->workspace);
    return status;
}

gsc_status gsc_raster_project(gsc_context *context, const gsc_raster_args *args,
                              const gsc_raster_buffers *buffers, const gsc_raster_outputs *outputs,
                              gsc_raster_info *info, void *stream) {
    step s;
    gsc__raster_call *call = &s.call;
    GSC__TRY(gsc__raster_begin(call, "raster_project", context, args, NULL, stream));
    if (info) GSC__TRY(gsc__raster_info_args(&call->call, info, &s.info));
    GSC__TRY(gsc__raster_outputs_args(&call->call, &call->raster, outputs, false, &call->outputs));
    const gsc__buffer_needs needs = {.state = call->sizes.state_bytes,
                                     .scratch = call->sizes.forward_scratch_bytes};
    GSC__TRY(gsc__raster_buffers_args(&call->call, buffers, &needs, &call->buffers));
    s.workspace = (gsc__workspace){.call = call->call};
    s.info = call->sizes;
    GSC__TRY(provide_scratch(&s, needs.scratch));
    gsc_status status =
        info ? gsc__raster_project(call, &s.info) : context->backend->raster_project(call, NULL);
    if (status == GSC_OK && info) gsc__args_return(info, &s.info, sizeof s.info);
    return end(&s, status);
}

gsc_status gsc_raster_blend(gsc_context *context, const gsc_raster_args *args,
                            const gsc_raster_buffers *buffers, const gsc_raster_outputs *outputs,
                            const gsc_raster_info *info, const DLTensor *overflow, void *stream) {
    step s;
    gsc__raster_call *call = &s.call;
    static const gsc__field bytes_needed = {.name = "overflow", .shapes = "|1", .kind = GSC__INT64};
    gsc__sizes sizes = {0};
    gsc__found found;
    GSC__TRY(begin(&s, "raster_blend", context, args, info, stream));
    GSC__TRY(gsc__raster_outputs_args(&call->call, &call->raster, outputs, true, &call->outputs));
    GSC__TRY(gsc__tensor_check(&call->call, &sizes, &bytes_needed, overflow, &found));
    const gsc__buffer_needs needs = {.state = call->sizes.state_bytes,
                                     .scratch = call->sizes.forward_scratch_bytes,
                                     .intersections = s.info.intersections_min_bytes,
                                     .uses_intersections = true};
    GSC__TRY(gsc__raster_buffers_args(&call->call, buffers, &needs, &call->buffers));
    GSC__TRY(gsc__raster_scratch(call, &s.workspace, &call->sizes));
    return end(&s, context->backend->raster_blend(call, &s.info, found.data));
}

gsc_status gsc_raster_project_blend(gsc_context *context, const gsc_raster_args *args,
                                    const gsc_raster_buffers *buffers,
                                    const gsc_raster_outputs *outputs, gsc_raster_info *info,
                                    void *stream) {
    static const char function[] = "raster_project_blend";
    step s;
    gsc__raster_call *call = &s.call;
    bool fits = false;
    GSC__TRY(begin(&s, function, context, args, info, stream));
    if (s.info.visible == 0)
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: info->visible is 0, expected what raster_forecast says of the frame; "
                         "begin with raster_project if it says nothing",
                         function);
    GSC__TRY(gsc__raster_outputs_args(&call->call, &call->raster, outputs, true, &call->outputs));
    const gsc__buffer_needs needs = {.state = call->sizes.state_bytes,
                                     .scratch = call->sizes.forward_scratch_bytes,
                                     .intersections = call->sizes.intersections_bytes,
                                     .uses_intersections = true};
    GSC__TRY(gsc__raster_buffers_args(&call->call, buffers, &needs, &call->buffers));
    GSC__TRY(gsc__raster_scratch(call, &s.workspace, &call->sizes));
    GSC__TRY(end(&s, gsc__raster_project_blend(call, &s.info, &fits)));
    gsc__args_return(info, &s.info, sizeof s.info);
    if (fits) return GSC_OK;
    return gsc__fail(
        GSC_ERROR_BUFFER_TOO_SMALL,
        "%s: intersections has %zu bytes, the frame needs %zu: more than info expected", function,
        call->buffers.intersections_bytes, s.info.intersections_bytes);
}

gsc_status gsc_raster_backward(gsc_context *context, const gsc_raster_args *args,
                               const gsc_raster_buffers *buffers, const gsc_raster_info *info,
                               const gsc_raster_grads *grads, void *stream) {
    step s;
    gsc__raster_call *call = &s.call;
    gsc__raster_grads results;
    GSC__TRY(begin(&s, "raster_backward", context, args, info, stream));
    GSC__TRY(gsc__raster_grads_args(&call->call, &call->raster, grads, &results));
    const gsc__buffer_needs needs = {.state = call->sizes.state_bytes,
                                     .scratch = call->sizes.backward_scratch_bytes,
                                     .intersections = s.info.intersections_min_bytes,
                                     .uses_intersections = true};
    GSC__TRY(gsc__raster_buffers_args(&call->call, buffers, &needs, &call->buffers));
    GSC__TRY(provide_scratch(&s, needs.scratch));
    return end(&s, context->backend->raster_backward(call, &s.info, &results));
}

gsc_status gsc_mark_visible(gsc_context *context, const gsc_raster_args *args,
                            const DLTensor *visible, void *stream) {
    gsc__raster_call call = {0};
    uint8_t *result;
    GSC__TRY(gsc__call_begin(&call.call, "mark_visible", context, stream));
    GSC__TRY(gsc__visible_args(&call.call, args, visible, &call.raster, &result));
    return context->backend->mark_visible(&call, result);
}
