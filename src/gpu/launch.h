/* Everything that goes onto a stream: kernels, fills, copies.
 *
 * They use the call's stream as the caller gave it: NULL and 1 are the legacy stream, 2 the
 * thread's own.  The call's context is the one current, see gsc__gpu_enter. */
#ifndef GSC_GPU_LAUNCH_H
#define GSC_GPU_LAUNCH_H

#include "core/context.h"
#include "kernel_list.h"

#include <stdatomic.h>

/* Launches a kernel on `grid` blocks.  Its argument struct is an lvalue of that kernel's type: no
 * other compiles. */
#define LAUNCH(name, call, grid, args)                    \
    gsc__gpu_launch((call), GSC__KERNEL_##name, (grid),   \
                    _Generic((args), gsc__gpu_args_##name \
                             : &(args)))
/* The same for a kernel chosen at run time; grid 0: nothing to launch. */
gsc_status gsc__gpu_launch(const gsc__call *call, enum gsc__gpu_kernel kernel, uint32_t grid,
                           const void *args);

/* Blocks that take `size` elements each. */
static inline uint32_t gsc__gpu_blocks(int64_t count, int64_t size) {
    return (uint32_t)((count + size - 1) / size);
}

gsc_status gsc__gpu_clear(const gsc__call *call, void *data, size_t bytes);
/* Host floats to the device.  The call reads them, whatever kind of memory they are in, and a
 * captured stream replays the values that they have now. */
gsc_status gsc__gpu_write(const gsc__call *call, float *to, const float *host, size_t count);

/* Pinned memory for small reads and reports; a slot belongs to one call. */
enum { GSC__STAGING_SLOTS = 16, GSC__STAGING_BYTES = 1024 };
typedef struct gsc__gpu_staging {
    char *data; /* [GSC__STAGING_SLOTS, GSC__STAGING_BYTES] */
    atomic_bool taken[GSC__STAGING_SLOTS];
} gsc__gpu_staging;

/* Rows on the device, `stride` bytes apart. */
typedef struct gsc__gpu_rows {
    const void *data;
    size_t bytes, stride; /* of a row */
    int count;
} gsc__gpu_rows;
/* Rows to the host, one behind the other, with one wait for the stream.
 * GSC_ERROR_UNSUPPORTED while it is captured. */
gsc_status gsc__gpu_read(const gsc__call *call, void *host, const gsc__gpu_rows *rows);

/* What kernels write to the host themselves, since a copy behind them would delay the next
 * kernel: `count` rows.  The first 8 bytes of each are written last and are not 0. */
typedef struct gsc__gpu_report {
    int slot, count;
    size_t bytes; /* of a row */
    void *data;   /* pinned, for the kernels; NULL: no slot was free, or the rows are too large */
} gsc__gpu_report;
gsc_status gsc__gpu_report_begin(const gsc__call *call, gsc__gpu_report *report, size_t bytes,
                                 int count);
/* Follows every gsc__gpu_report_begin that succeeded.  Waits for all rows, or until nothing left
 * on the stream can write them; false: some are missing. */
bool gsc__gpu_report_end(const gsc__call *call, gsc__gpu_report *report, void *host);

#endif
