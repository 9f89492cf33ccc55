/* Everything that goes onto a stream: kernels, fills, copies.
 *
 * `function` is the public function's name, for messages.  A stream is passed on as the
 * caller gave it: NULL and 1 are the legacy stream, 2 the thread's own. */
#ifndef GSC_GPU_LAUNCH_H
#define GSC_GPU_LAUNCH_H

#include "core/context.h"
#include "kernel_list.h"

#include <stdatomic.h>

/* Pinned memory for small reads and reports; a slot is one call's. */
enum { GSC__STAGING_SLOTS = 16, GSC__STAGING_BYTES = 1024 };
typedef struct gsc__gpu_staging {
    char *data; /* [GSC__STAGING_SLOTS, GSC__STAGING_BYTES] */
    atomic_bool taken[GSC__STAGING_SLOTS];
} gsc__gpu_staging;

/* args: the kernel's one parameter.  grid 0: nothing to launch. */
gsc_status gsc__gpu_launch(gsc_context *context, enum gsc__gpu_kernel kernel, uint32_t grid,
                           uint32_t block, const void *args, size_t args_bytes, void *stream,
                           const char *function);

/* Sets every byte. */
gsc_status gsc__gpu_memset(gsc_context *context, void *data, uint8_t value, size_t bytes,
                           void *stream, const char *function);
gsc_status gsc__gpu_copy(gsc_context *context, void *to, const void *from, size_t bytes,
                         void *stream, const char *function);
/* Host floats to the device.  They are read during the call, whatever kind of memory they
 * are in, and a captured stream replays the values that they have now. */
gsc_status gsc__gpu_write(gsc_context *context, float *to, const float *host, size_t count,
                          void *stream, const char *function);
/* Device to host: waits for the stream.  GSC_ERROR_UNSUPPORTED while it is captured. */
gsc_status gsc__gpu_read(gsc_context *context, void *host, const void *from, size_t bytes,
                         void *stream, const char *function);
/* The same for rows that are `stride` bytes apart on the device, with one wait; at most
 * GSC__STAGING_BYTES together. */
gsc_status gsc__gpu_read_rows(gsc_context *context, void *host, const void *from, size_t bytes,
                              size_t stride, int count, void *stream, const char *function);

/* What kernels write to the host by themselves, where a copy behind them would hold up the next
 * one: `count` rows, in the first 8 bytes of which is something other than 0 that is written
 * last. */
typedef struct gsc__gpu_report {
    int slot, count;
    size_t bytes; /* of a row */
    void *data;   /* pinned, for the kernels; NULL: no slot was free, or has the room */
} gsc__gpu_report;
gsc_status gsc__gpu_report_begin(gsc_context *context, gsc__gpu_report *report, size_t bytes,
                                 int count, void *stream, const char *function);
/* Always after a report_begin that succeeded.  Waits for all rows, or until nothing that could
 * make them is left on the stream; false: they are not all there. */
bool gsc__gpu_report_end(gsc_context *context, gsc__gpu_report *report, void *host, void *stream);

#endif
