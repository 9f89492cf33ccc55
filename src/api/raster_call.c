#include "raster_call.h"

gsc_status gsc__raster_begin(gsc__raster_call *call, const char *function, gsc_context *context,
                             const gsc_raster_args *args, const gsc_raster_info *info,
                             void *stream) {
    memset(call, 0, sizeof *call);
    GSC__TRY(gsc__call_begin(&call->call, function, context, stream));
    GSC__TRY(gsc__raster_args(&call->call, args, &call->raster));
    return gsc__raster_sizes(call, info, &call->sizes);
}

gsc_status gsc__raster_sizes(const gsc__raster_call *call, const gsc_raster_info *info,
                             gsc_raster_info *sizes) {
    gsc_raster_info known = {.struct_size = sizeof known};
    if (info) {
        known.visible = info->visible;
        known.intersections = info->intersections;
        known.intersections_bytes = info->intersections_bytes;
        known.intersections_min_bytes = info->intersections_min_bytes;
    }
    *sizes = known;
    return call->call.context->backend->raster_sizes(call, sizes);
}

gsc_status gsc__raster_check_layout(const gsc__raster_call *call, const gsc_raster_info *info) {
    if (info->layout == call->sizes.layout) return GSC_OK;
    return gsc__fail(GSC_ERROR_STATE,
                     "%s: layout of info is 0x%llx, expected 0x%llx: it comes from a call with "
                     "other arguments, or from another build",
                     call->call.function, (unsigned long long)info->layout,
                     (unsigned long long)call->sizes.layout);
}

/* ------------------------------------------------------------------ forecasts */

gsc_status gsc__raster_forecast(const gsc__raster_call *call, gsc_raster_info *sizes) {
    gsc_context *context = call->call.context;
    gsc_raster_info expected = {0};
    if (!context->backend->raster_project_blend) return GSC_OK;
    gsc__forecast_read(&context->forecasts, &call->raster, &expected);
    if (expected.visible == 0) return GSC_OK;
    return gsc__raster_sizes(call, &expected, sizes);
}

/* Intersections of the largest frame; info counts those of all cameras. */
static int64_t largest_frame(const gsc__raster_call *call, const gsc_raster_info *info) {
    if (call->raster.cameras == 1) return info->intersections;
    return call->call.context->backend->raster_largest_frame(&call->raster, info);
}

static void remember_frames(const gsc__raster_call *call, const gsc_raster_info *found) {
    gsc_context *context = call->call.context;
    if (!context->backend->raster_project_blend) return;
    gsc__forecast_note(&context->forecasts, &call->raster, found->visible,
                       largest_frame(call, found));
}

/* ---------------------------------------------------------------------- steps */

gsc_status gsc__raster_project(const gsc__raster_call *call, gsc_raster_info *info) {
    GSC__TRY(call->call.context->backend->raster_project(call, info));
    remember_frames(call, info);
    return GSC_OK;
}

/* For a backend that never waits; what is expected only says how large the buffers are. */
static gsc_status project_then_blend(const gsc__raster_call *call, gsc_raster_info *info,
                                     bool *fits) {
    const gsc__backend *backend = call->call.context->backend;
    GSC__TRY(backend->raster_project(call, info));
    *fits = info->intersections_bytes <= call->buffers.intersections_bytes &&
            info->forward_scratch_bytes <= call->buffers.scratch_bytes;
    return *fits ? backend->raster_blend(call, info, NULL) : GSC_OK;
}

/* The buffers are laid out for the frame that was expected.  A frame that fits leaves info saying
 * so: where the records end and, with several cameras, where the lists of each begin. */
gsc_status gsc__raster_project_blend(const gsc__raster_call *call, gsc_raster_info *info,
                                     bool *fits) {
    const gsc__backend *backend = call->call.context->backend;
    gsc_raster_info found = call->sizes;
    if (!backend->raster_project_blend) return project_then_blend(call, info, fits);
    GSC__TRY(backend->raster_project_blend(call, info, &found));
    remember_frames(call, &found);
    *fits =
        found.visible <= info->visible && largest_frame(call, &found) <= largest_frame(call, info);
    if (*fits) {
        gsc_raster_info blended = {.visible = info->visible, .intersections = found.intersections};
        if (call->raster.cameras > 1) blended.intersections_bytes = info->intersections_bytes;
        return gsc__raster_sizes(call, &blended, info);
    }
    *info = found;
    return GSC_OK;
}

/* -------------------------------------------------------------------- forward */

gsc_status gsc__raster_scratch(gsc__raster_call *call, gsc__workspace *workspace,
                               const gsc_raster_info *info) {
    const gsc__backend *backend = call->call.context->backend;
    gsc__raster_buffers *buffers = &call->buffers;
    if (!buffers->scratch && backend->raster_lend_scratch)
        buffers->scratch = backend->raster_lend_scratch(call, info, &buffers->scratch_bytes);
    return gsc__workspace_provide(workspace, "scratch", info->forward_scratch_bytes,
                                  &buffers->scratch, &buffers->scratch_bytes);
}

/* Buffers for project and, if the frame is expected, for blend.  State and intersections then
 * share a block, if there is memory for it: that is one allocation less before the device has
 * work. */
static gsc_status provide_for_project(gsc__raster_call *call, gsc__workspace *workspace,
                                      const gsc_raster_info *info) {
    gsc__raster_buffers *buffers = &call->buffers;
    const size_t state = buffers->state ? 0 : info->state_bytes;
    if (!buffers->intersections && info->visible > 0) {
        gsc__carver carver = {0};
        (void)gsc__carve(&carver, state, 1);
        carver.base = gsc__workspace_try(workspace, carver.at + info->intersections_bytes);
        if (carver.base && state > 0) {
            buffers->state = carver.base;
            buffers->state_bytes = state;
        }
        buffers->intersections_bytes = info->intersections_bytes;
        buffers->intersections = gsc__carve(&carver, info->intersections_bytes, 1);
    }
    return gsc__workspace_provide(workspace, "state", info->state_bytes, &buffers->state,
                                  &buffers->state_bytes);
}

/* Capacity for the whole frame, or for as large a part of it as there is memory for: the frame
 * then is blended in bands. */
static gsc_status take_intersections(gsc__workspace *workspace, const gsc_raster_info *info,
                                     gsc__raster_buffers *buffers) {
    const size_t min_bytes = info->intersections_min_bytes;
    gsc__workspace_drop(workspace, buffers->intersections);
    buffers->intersections = NULL;
    for (size_t bytes = info->intersections_bytes; bytes > min_bytes && !buffers->intersections;
         bytes = bytes / 2 > min_bytes ? bytes / 2 : min_bytes) {
        buffers->intersections = gsc__workspace_try(workspace, bytes);
        buffers->intersections_bytes = bytes;
    }
    if (buffers->intersections) return GSC_OK;
    buffers->intersections_bytes = min_bytes;
    return gsc__workspace_take(workspace, "intersections", min_bytes, &buffers->intersections);
}

static gsc_status provide_scratch(gsc__raster_call *call, gsc__workspace *workspace,
                                  bool with_backward, const gsc_raster_info *info) {
    const size_t forward = info->forward_scratch_bytes, backward = info->backward_scratch_bytes;
    gsc__raster_buffers *buffers = &call->buffers;
    if (!with_backward) return gsc__raster_scratch(call, workspace, info);
    return gsc__workspace_provide(workspace, "scratch", backward > forward ? backward : forward,
                                  &buffers->scratch, &buffers->scratch_bytes);
}

gsc_status gsc__raster_forward(gsc__raster_call *call, gsc__workspace *workspace,
                               bool with_backward, gsc_raster_info *info) {
    gsc__raster_buffers *buffers = &call->buffers;
    const gsc__raster_buffers given = *buffers;
    bool blended = false;
    *info = call->sizes;
    GSC__TRY(gsc__raster_forecast(call, info));
    GSC__TRY(provide_for_project(call, workspace, info));
    GSC__TRY(provide_scratch(call, workspace, with_backward, info));
    if (buffers->intersections == given.intersections)
        GSC__TRY(gsc__raster_project(call, info));
    else
        GSC__TRY(gsc__raster_project_blend(call, info, &blended));
    if (blended) return GSC_OK;

    if (given.intersections)
        GSC__TRY(gsc__workspace_provide(workspace, "intersections", info->intersections_min_bytes,
                                        &buffers->intersections, &buffers->intersections_bytes));
    else
        GSC__TRY(take_intersections(workspace, info, buffers));
    if (!given.scratch && !gsc__workspace_owns(workspace, buffers->scratch))
        buffers->scratch = NULL; /* lent for another frame */
    GSC__TRY(provide_scratch(call, workspace, with_backward, info));
    return call->call.context->backend->raster_blend(call, info, NULL);
}
