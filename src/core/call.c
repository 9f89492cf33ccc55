#include "context.h"

#include <inttypes.h>
#include <stdio.h>

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

gsc__call gsc__call_of_part(const gsc__call *call, const char *path) {
    gsc__call part = *call;
    part.path = path;
    return part;
}

/* --------------------------------------------------------------- descriptors */

enum { NAME_SIZE = 64 };

/* The path of a descriptor without the dot behind it, or `what`. */
static const char *name_of(const gsc__call *call, const char *what, char name[NAME_SIZE]) {
    if (!call->path) return what;
    snprintf(name, NAME_SIZE, "%.*s", (int)strlen(call->path) - 1, call->path);
    return name;
}

static gsc_status check_size(const gsc__call *call, const char *what, size_t size, size_t minimum) {
    char name[NAME_SIZE];
    if (size < minimum) {
        return gsc__refuse(call, GSC_ERROR_ABI, "struct_size of %s is %zu, expected at least %zu",
                           name_of(call, what, name), size, minimum);
    }
    if (size > GSC__MAX_STRUCT_SIZE) {
        return gsc__refuse(call, GSC_ERROR_ABI, "struct_size of %s is %zu, expected at most %d",
                           name_of(call, what, name), size, GSC__MAX_STRUCT_SIZE);
    }
    return GSC_OK;
}

static size_t read_size(const void *theirs) {
    size_t size;
    memcpy(&size, theirs, sizeof size);
    return size;
}

gsc_status gsc__args_check_result(const gsc__call *call, const char *what, const void *theirs,
                                  size_t minimum) {
    char name[NAME_SIZE];
    if (!theirs) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "%s is NULL",
                           name_of(call, what, name));
    }
    return check_size(call, what, read_size(theirs), minimum);
}

gsc_status gsc__args_copy(const gsc__call *call, const char *what, void *ours, size_t ours_size,
                          const void *theirs, size_t minimum) {
    GSC__TRY(gsc__args_check_result(call, what, theirs, minimum));
    return gsc__args_copy_sized(call, what, ours, ours_size, theirs, read_size(theirs), minimum);
}

/* The rule of Linux's extensible system calls: a newer caller is served as long as it
 * uses nothing that this library does not know. */
gsc_status gsc__args_copy_sized(const gsc__call *call, const char *what, void *ours,
                                size_t ours_size, const void *theirs, size_t theirs_size,
                                size_t minimum) {
    GSC__TRY(check_size(call, what, theirs_size, minimum));
    const unsigned char *bytes = theirs;
    for (size_t i = ours_size; i < theirs_size; ++i) {
        if (bytes[i]) {
            char name[NAME_SIZE];
            return gsc__refuse(call, GSC_ERROR_ABI,
                               "byte %zu of %s is set, this library knows %zu bytes of it", i,
                               name_of(call, what, name), ours_size);
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

gsc_status gsc__check_flags(const gsc__call *call, const char *what, uint32_t flags,
                            uint32_t known) {
    if ((flags & ~known) == 0) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "@%s is 0x%x, expected bits of 0x%x only",
                       what, flags, known);
}
