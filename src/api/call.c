#include "call.h"

#include "core/limits.h"

#include <inttypes.h>

gsc_status gsc__begin(const char *function, gsc_context *context, void *stream, gsc__call *call,
                      gsc__checker *checker) {
    if (!context) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: context is NULL", function);
    }
    if (stream && context->device.device_type == kDLCPU) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: stream is 0x%" PRIxPTR ", expected NULL on a CPU context", function,
                         (uintptr_t)stream);
    }
    *call = (gsc__call){function, context, stream};
    *checker = (gsc__checker){.function = function, .device = context->device};
    return GSC_OK;
}

gsc_status gsc__scratch_provide(gsc__scratch *scratch, gsc_context *context, const char *function,
                                size_t needed, void *stream, void **data, size_t *bytes) {
    *scratch = (gsc__scratch){.context = context, .stream = stream};
    if (*data) return GSC_OK;
    scratch->bytes = needed > GSC__BUFFER_ALIGNMENT ? needed : GSC__BUFFER_ALIGNMENT;
    GSC__TRY(gsc__context_alloc(context, scratch->bytes, function, stream, &scratch->owned));
    *data = scratch->owned;
    *bytes = scratch->bytes;
    return GSC_OK;
}

void gsc__scratch_release(gsc__scratch *scratch) {
    gsc__context_release(scratch->context, scratch->owned, scratch->bytes, scratch->stream);
    scratch->owned = NULL;
}

gsc_status gsc__raster_sizes(const gsc__raster_call *call, const gsc_raster_info *info,
                             gsc_raster_info *sizes) {
    memset(sizes, 0, sizeof *sizes);
    sizes->struct_size = sizeof *sizes;
    if (info) {
        sizes->visible = info->visible;
        sizes->intersections = info->intersections;
        sizes->intersections_bytes = info->intersections_bytes;
        sizes->intersections_min_bytes = info->intersections_min_bytes;
    }
    return call->call.context->backend->raster_sizes(call, sizes);
}

gsc_status gsc__alloc_intersections(gsc_context *context, const gsc_raster_info *info,
                                    const char *what, void *stream, void **data, size_t *bytes) {
    const size_t least = info->intersections_min_bytes;
    *data = NULL;
    for (*bytes = info->intersections_bytes; *bytes > least && !*data;) {
        *data = gsc__context_try_alloc(context, *bytes, stream);
        if (!*data) *bytes = *bytes / 2 > least ? *bytes / 2 : least;
    }
    if (*data) return GSC_OK;
    *bytes = least;
    return gsc__context_alloc(context, least, what, stream, data);
}

gsc_status gsc__raster_begin(gsc__raster_call *call, gsc__checker *checker, const char *function,
                             gsc_context *context, const gsc_raster_args *args,
                             const gsc_raster_info *info, void *stream) {
    memset(call, 0, sizeof *call);
    GSC__TRY(gsc__begin(function, context, stream, &call->call, checker));
    GSC__TRY(gsc__raster_args(checker, args, &call->raster));
    return gsc__raster_sizes(call, info, &call->sizes);
}

gsc_status gsc__raster_forecast(const gsc__raster_call *call, gsc_raster_info *sizes) {
    gsc_context *context = call->call.context;
    gsc_raster_info expected = {0};
    if (!context->backend->raster_project_blend) return GSC_OK;
    gsc__forecast_read(&context->forecasts, &call->raster, &expected);
    if (expected.visible == 0) return GSC_OK;
    return gsc__raster_sizes(call, &expected, sizes);
}

gsc_status gsc__raster_check_expected(const gsc__raster_call *call, const gsc_raster_info *info) {
    const char *function = call->call.function;
    if (info->visible > 0) return GSC_OK;
    return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                     "%s: info->visible is 0: nothing is expected of the frame, begin with project",
                     function);
}

/* The last camera's image is the last to be drawn.  Less than all intersections means bands, and
 * so do more than positions of 32 bits can tell. */
void gsc__scratch_in_color(gsc__raster_call *call, const gsc_raster_info *info) {
    const gsc__raster_outputs *outputs = &call->outputs;
    gsc__raster_buffers *buffers = &call->buffers;
    const gsc__raster *raster = &call->raster;
    const size_t image = (size_t)raster->width * (size_t)raster->height * (size_t)raster->channels *
                         sizeof *outputs->color;
    if (buffers->scratch || !call->call.context->backend->writes_color_last ||
        gsc__wants_statistics(outputs) || info->intersections > INT32_MAX ||
        buffers->intersections_bytes < info->intersections_bytes)
        return;
    char *begin = (char *)outputs->color + (size_t)(raster->cameras - 1) * image;
    const size_t skipped = (size_t)(-(uintptr_t)begin % GSC__BUFFER_ALIGNMENT);
    if (image < skipped || image - skipped < info->forward_scratch_bytes) return;
    buffers->scratch = begin + skipped;
    buffers->scratch_bytes = image - skipped;
}

/* Pairs of the largest frame; info counts those of all cameras. */
static int64_t largest_frame(const gsc__raster_call *call, const gsc_raster_info *info) {
    if (call->raster.cameras == 1) return info->intersections;
    return call->call.context->backend->raster_largest_frame(&call->raster, info);
}

static void note_frames(const gsc__raster_call *call, const gsc_raster_info *found) {
    gsc_context *context = call->call.context;
    if (!context->backend->raster_project_blend) return;
    gsc__forecast_note(&context->forecasts, &call->raster, found->visible,
                       largest_frame(call, found));
}

gsc_status gsc__raster_project(const gsc__raster_call *call, gsc_raster_info *info) {
    GSC__TRY(call->call.context->backend->raster_project(call, info));
    note_frames(call, info);
    return GSC_OK;
}

/* Where nothing waits, what is expected only says how large the buffers are. */
static gsc_status draw_in_steps(const gsc__raster_call *call, gsc_raster_info *info, bool *fits) {
    const gsc__backend *backend = call->call.context->backend;
    const gsc__raster_buffers *buffers = &call->buffers;
    GSC__TRY(backend->raster_project(call, info));
    *fits = info->intersections_bytes <= buffers->intersections_bytes &&
            info->forward_scratch_bytes <= buffers->scratch_bytes;
    return *fits ? backend->raster_blend(call, info, NULL) : GSC_OK;
}

/* What is drawn stands in buffers laid out for what was expected, as its info goes on saying:
 * where the records end, and with several cameras where the lists of each begin. */
gsc_status gsc__raster_project_blend(const gsc__raster_call *call, gsc_raster_info *info,
                                     bool *fits) {
    const gsc__backend *backend = call->call.context->backend;
    gsc_raster_info found = call->sizes;
    if (!backend->raster_project_blend) return draw_in_steps(call, info, fits);
    GSC__TRY(backend->raster_project_blend(call, info, &found));
    note_frames(call, &found);
    *fits =
        found.visible <= info->visible && largest_frame(call, &found) <= largest_frame(call, info);
    if (*fits) {
        gsc_raster_info drawn = {.visible = info->visible, .intersections = found.intersections};
        if (call->raster.cameras > 1) drawn.intersections_bytes = info->intersections_bytes;
        return gsc__raster_sizes(call, &drawn, info);
    }
    *info = found;
    return GSC_OK;
}

gsc_status gsc__raster_check_layout(const gsc__raster_call *call, const gsc_raster_info *info) {
    if (info->layout == call->sizes.layout) return GSC_OK;
    return gsc__fail(GSC_ERROR_STATE,
                     "%s: layout of info is 0x%llx, expected 0x%llx: it is of a call with other "
                     "arguments, or of another build",
                     call->call.function, (unsigned long long)info->layout,
                     (unsigned long long)call->sizes.layout);
}
