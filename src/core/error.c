#include "call.h"

#include "os/system.h"

#include <stdarg.h>
#include <stdio.h>

/* 512 bytes hold a function, a tensor's name and two shapes. */
typedef struct failure {
    char message[512];
    int32_t cuda_code;
} failure;
_Static_assert(sizeof(failure) <= GSC__THREAD_STORAGE_BYTES, "it fits a thread's storage");

#define GSC__STATUSES(X)          \
    X(GSC_OK)                     \
    X(GSC_ERROR_INVALID_ARGUMENT) \
    X(GSC_ERROR_SHAPE)            \
    X(GSC_ERROR_DTYPE)            \
    X(GSC_ERROR_LAYOUT)           \
    X(GSC_ERROR_DEVICE)           \
    X(GSC_ERROR_ABI)              \
    X(GSC_ERROR_UNSUPPORTED)      \
    X(GSC_ERROR_OUT_OF_MEMORY)    \
    X(GSC_ERROR_BUFFER_TOO_SMALL) \
    X(GSC_ERROR_NO_DRIVER)        \
    X(GSC_ERROR_NO_DEVICE)        \
    X(GSC_ERROR_NO_KERNEL_IMAGE)  \
    X(GSC_ERROR_CUDA)             \
    X(GSC_ERROR_OVERFLOW)         \
    X(GSC_ERROR_STATE)            \
    X(GSC_ERROR_INTERNAL)

const char *gsc_status_name(gsc_status status) {
    switch (status) {
#define GSC__STATUS_CASE(name) \
    case name: return #name;
        GSC__STATUSES(GSC__STATUS_CASE)
#undef GSC__STATUS_CASE
    default: return "GSC_ERROR_UNKNOWN";
    }
}

const char *gsc_last_error(void) {
    const failure *last = gsc__thread_storage();
    return last ? last->message : "";
}

int32_t gsc_last_error_cuda(void) {
    const failure *last = gsc__thread_storage();
    return last ? last->cuda_code : 0;
}

gsc_status gsc__refuse(const gsc__call *call, gsc_status status, const char *format, ...) {
    char text[sizeof((failure *)0)->message], whole[2 * sizeof text];
    const char *path = call->path ? call->path : "";
    size_t used = 0;
    va_list args;
    va_start(args, format);
    if (vsnprintf(text, sizeof text, format, args) < 0) text[0] = '\0';
    va_end(args);
    for (const char *at = text; *at && used + strlen(path) + 1 < sizeof whole; ++at) {
        if (*at == '@')
            used += (size_t)snprintf(whole + used, sizeof whole - used, "%s", path);
        else
            whole[used++] = *at;
    }
    whole[used] = '\0';
    return gsc__fail(status, "%s: %s", call->function, whole);
}

/* Formats beside the buffer first, as an argument may be the last message itself. */
gsc_status gsc__fail_cuda(gsc_status status, int32_t code, const char *format, ...) {
    failure *last = gsc__thread_storage();
    char text[sizeof last->message];
    va_list args;
    if (!last) return status;
    va_start(args, format);
    if (vsnprintf(text, sizeof text, format, args) < 0) text[0] = '\0';
    va_end(args);
    memcpy(last->message, text, strlen(text) + 1);
    last->cuda_code = code;
    return status;
}
