/* The context: device, backend, allocator, log. */
#ifndef GSC_CONTEXT_H
#define GSC_CONTEXT_H

#include "gsplat_c/bindings.h"

#include "backend.h"
#include "os/system.h"

/* ----------------------------------------------------------------- forecasts */

/* Predict the size of a frame from earlier frames, so that its buffers can be allocated before it is
 * counted. */

/* Frames of one image size, with any number of cameras; gaussians 0: none yet. */
typedef struct gsc__forecast {
    int32_t width, height;
    int64_t gaussians, visible, intersections;
} gsc__forecast;

enum { GSC__FORECASTS = 8 };
typedef struct gsc__forecasts {
    gsc__mutex mutex;
    uint32_t next; /* to be overwritten */
    gsc__forecast entries[GSC__FORECASTS];
} gsc__forecasts;

void gsc__forecasts_open(gsc__forecasts *forecasts);
void gsc__forecasts_close(gsc__forecasts *forecasts);
/* Sets info's visible and intersections, for each of several cameras; 0 if nothing is known. */
void gsc__forecast_read(gsc__forecasts *forecasts, const gsc__raster *raster,
                        gsc_raster_info *info);
/* Records what project found, in the frame with the most of each. */
void gsc__forecast_note(gsc__forecasts *forecasts, const gsc__raster *raster, int64_t visible,
                        int64_t intersections);

/* -------------------------------------------------------- a framework's memory */

typedef struct gsc__managed_block {
    const void *data; /* the address handed out */
    DLManagedTensorVersioned *tensor;
} gsc__managed_block;

/* The blocks in use, found by their address. */
typedef struct gsc__managed {
    gsc_allocate_fn *allocate; /* NULL: there is none */
    gsc__mutex mutex;
    gsc__managed_block *blocks; /* [count] of capacity */
    size_t count, capacity;
} gsc__managed;

void gsc__managed_open(gsc__managed *managed, gsc_allocate_fn *allocate);
void gsc__managed_close(gsc__managed *managed);
/* gsc_allocator.alloc and free; user is a gsc__managed.  The framework chooses the alignment, and
 * the stream. */
void *gsc__managed_alloc(void *user, size_t bytes, size_t alignment, DLDevice device, void *stream);
void gsc__managed_free(void *user, void *data, size_t bytes, DLDevice device, void *stream);
/* Hands the tensor behind `data` to the caller, who then owns it; NULL for NULL. */
DLManagedTensorVersioned *gsc__managed_take(gsc__managed *managed, const void *data);

/* ------------------------------------------------------------------ contexts */

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
