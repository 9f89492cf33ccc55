/* The context: device, backend, allocator, log. */
#ifndef GSC_CONTEXT_H
#define GSC_CONTEXT_H

#include "backend.h"
#include "error.h"
#include "forecast.h"
#include "managed.h"

struct gsc_context {
    const gsc__backend *backend;
    DLDevice device;
    uint32_t flags;
    int32_t cpu_threads;     /* of a CPU context, at least 1 */
    gsc_allocator allocator; /* alloc NULL: the backend's own */
    gsc__managed managed;    /* its memory if a framework provides it */
    gsc_log_fn *log;
    void *log_user;
    int32_t log_level;
    gsc__forecasts forecasts;
    void *device_data; /* the backend's: the thread pool of a CPU context, gsc__gpu of a CUDA one */
};

/* Memory on the context's device, 256-byte aligned, from the caller's allocator or
 * the backend's own.  `what` names it in the error message.  Sets *data to NULL on
 * failure; bytes 0 gives NULL and success. */
gsc_status gsc__context_alloc(const gsc__call *call, const char *what, size_t bytes, void **data);
/* The same without a message: NULL if there is no memory. */
void *gsc__context_try_alloc(gsc_context *context, size_t bytes, void *stream);
void gsc__context_release(gsc_context *context, void *data, size_t bytes, void *stream);

void gsc__log(const gsc_context *context, int32_t level, const char *format, ...) GSC__PRINTF(3, 4);

#endif
