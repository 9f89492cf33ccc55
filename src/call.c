#include "call.h"

#include "limits.h"

gsc_status gsc__begin(const char *function, gsc_context *context, void *stream,
                      gsc__checker *checker) {
    if (!context) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: context is NULL", function);
    }
    if (stream && context->device.device_type == kDLCPU) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: stream is %p, expected NULL on a CPU context", function, stream);
    }
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

gsc_status gsc__raster_sizes(const gsc_context *context, const gsc__raster *raster,
                             const gsc_raster_info *info, gsc_raster_info *sizes) {
    memset(sizes, 0, sizeof *sizes);
    sizes->struct_size = sizeof *sizes;
    if (info) {
        sizes->visible = info->visible;
        sizes->intersections = info->intersections;
        sizes->intersections_bytes = info->intersections_bytes;
        sizes->intersections_min_bytes = info->intersections_min_bytes;
    }
    return context->backend->raster_sizes(context, raster, sizes);
}

gsc_status gsc__raster_begin(gsc__raster_call *call, const char *function, gsc_context *context,
                             const gsc_raster_args *args, const gsc_raster_info *info,
                             void *stream) {
    GSC__TRY(gsc__begin(function, context, stream, &call->checker));
    call->context = context;
    call->stream = stream;
    GSC__TRY(gsc__raster_args(&call->checker, args, &call->raster));
    return gsc__raster_sizes(context, &call->raster, info, &call->sizes);
}

gsc_status gsc__raster_check_layout(const gsc__raster_call *call, const gsc_raster_info *info) {
    if (info->layout == call->sizes.layout) return GSC_OK;
    return gsc__fail(GSC_ERROR_STATE,
                     "%s: layout of info is 0x%llx, expected 0x%llx: it is of a call with other "
                     "arguments, or of another build",
                     call->checker.function, (unsigned long long)info->layout,
                     (unsigned long long)call->sizes.layout);
}
