#include "call.h"

#include "context.h"

#include <inttypes.h>

gsc_status gsc__call_begin(gsc__call *call, const char *function, gsc_context *context,
                           void *stream) {
    if (!context) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: context is NULL", function);
    }
    if (stream && context->device.device_type == kDLCPU) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: stream is 0x%" PRIxPTR ", expected NULL on a CPU context", function,
                         (uintptr_t)stream);
    }
    *call = (gsc__call){.function = function, .context = context, .stream = stream};
    return GSC_OK;
}
