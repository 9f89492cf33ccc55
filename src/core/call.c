#include "context.h"

#include <inttypes.h>
#include <math.h>

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

/* --------------------------------------------------------------- descriptors */

static gsc_status check_size(const char *function, const char *what, size_t size, size_t minimum) {
    if (size < minimum) {
        return gsc__fail(GSC_ERROR_ABI, "%s: struct_size of %s is %zu, expected at least %zu",
                         function, what, size, minimum);
    }
    if (size > GSC__MAX_STRUCT_SIZE) {
        return gsc__fail(GSC_ERROR_ABI, "%s: struct_size of %s is %zu, expected at most %d",
                         function, what, size, GSC__MAX_STRUCT_SIZE);
    }
    return GSC_OK;
}

static size_t read_size(const void *theirs) {
    size_t size;
    memcpy(&size, theirs, sizeof size);
    return size;
}

gsc_status gsc__args_copy(const char *function, const char *what, void *ours, size_t ours_size,
                          const void *theirs, size_t minimum) {
    if (!theirs) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", function, what);
    }
    return gsc__args_copy_sized(function, what, ours, ours_size, theirs, read_size(theirs),
                                minimum);
}

/* The rule of Linux's extensible system calls: a newer caller is served as long as it
 * uses nothing that this library does not know. */
gsc_status gsc__args_copy_sized(const char *function, const char *what, void *ours,
                                size_t ours_size, const void *theirs, size_t theirs_size,
                                size_t minimum) {
    GSC__TRY(check_size(function, what, theirs_size, minimum));
    const unsigned char *bytes = theirs;
    for (size_t i = ours_size; i < theirs_size; ++i) {
        if (bytes[i]) {
            return gsc__fail(GSC_ERROR_ABI,
                             "%s: byte %zu of %s is set, this library knows %zu bytes of it",
                             function, i, what, ours_size);
        }
    }
    memset(ours, 0, ours_size);
    memcpy(ours, theirs, theirs_size < ours_size ? theirs_size : ours_size);
    return GSC_OK;
}

void gsc__args_return(void *theirs, const void *ours, size_t ours_size) {
    size_t size = read_size(theirs);
    size_t known = size < ours_size ? size : ours_size;
    memcpy((char *)theirs + sizeof size, (const char *)ours + sizeof size, known - sizeof size);
    memset((char *)theirs + known, 0, size - known);
}

gsc_status gsc__args_check_result(const char *function, const char *what, const void *theirs,
                                  size_t minimum) {
    if (!theirs) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", function, what);
    }
    return check_size(function, what, read_size(theirs), minimum);
}

gsc_status gsc__check_flags(const char *function, const char *what, uint32_t flags,
                            uint32_t known) {
    if ((flags & ~known) == 0) return GSC_OK;
    return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: %s is 0x%x, expected bits of 0x%x only",
                     function, what, flags, known);
}

gsc_status gsc__check_finite(const char *function, const char *what, float value) {
    if (isfinite(value)) return GSC_OK;
    return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: %s is %g, expected a finite number", function,
                     what, (double)value);
}

gsc_status gsc__check_not_negative(const char *function, const char *what, float value) {
    GSC__TRY(gsc__check_finite(function, what, value));
    if (value >= 0.0f) return GSC_OK;
    return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: %s is %g, expected 0 or more", function, what,
                     (double)value);
}
