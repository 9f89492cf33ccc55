/* The CUDA backend's operations, and what a CUDA context holds. */
#ifndef GSC_GPU_GPU_H
#define GSC_GPU_GPU_H

#include "core/context.h"
#include "core/workspace.h"
#include "driver.h"
#include "images.h"
#include "kernel_list.h"

#include <stdatomic.h>

/* Pinned memory for small reads and reports; a slot belongs to one call. */
enum { GSC__STAGING_SLOTS = 16, GSC__STAGING_BYTES = 1024 };
typedef struct gsc__gpu_staging {
    char *data; /* [GSC__STAGING_SLOTS, GSC__STAGING_BYTES] */
    atomic_bool taken[GSC__STAGING_SLOTS];
} gsc__gpu_staging;

/* Immutable once the context is made, except for the staging slots. */
typedef struct gsc__gpu {
    gsc__gpu_device device;
    int library_count;
    void *libraries[GSC__GPU_KERNEL_COUNT]; /* [library_count] of the kernels' files */
    void *functions[GSC__GPU_KERNEL_COUNT];
    char target[GSC__GPU_TARGET_SIZE]; /* of the images in use: "sm_90" */
    void *pool;                        /* of device memory; NULL: the device has none */
    gsc__gpu_staging staging;
} gsc__gpu;

static inline gsc__gpu *gsc__gpu_of(const gsc_context *context) {
    return (gsc__gpu *)context->device_data;
}

extern const gsc__backend gsc__gpu_backend;

/* The operations: the device's context is current while they run. */
gsc_status gsc__gpu_raster_sizes(const gsc__raster_call *call, gsc_raster_info *info);
int64_t gsc__gpu_raster_largest_frame(const gsc__raster *raster, const gsc_raster_info *info);
void *gsc__gpu_lend_scratch(const gsc__raster_call *call, const gsc_raster_info *info,
                            size_t *bytes);
gsc_status gsc__gpu_raster_project(const gsc__raster_call *call, gsc_raster_info *info);
gsc_status gsc__gpu_raster_blend(const gsc__raster_call *call, const gsc_raster_info *info,
                                 int64_t *overflow);
gsc_status gsc__gpu_raster_project_blend(const gsc__raster_call *call,
                                         const gsc_raster_info *expected, gsc_raster_info *found);
gsc_status gsc__gpu_raster_backward(const gsc__raster_call *call, const gsc_raster_info *info,
                                    const gsc__raster_grads *grads);
gsc_status gsc__gpu_mark_visible(const gsc__raster_call *call, uint8_t *visible);
size_t gsc__gpu_knn_scratch_bytes(const gsc__call *call, const gsc__knn *knn);
gsc_status gsc__gpu_knn(const gsc__call *call, const gsc__knn *knn);
gsc_status gsc__gpu_ssim_forward(const gsc__call *call, const gsc__ssim *ssim);
gsc_status gsc__gpu_ssim_backward(const gsc__call *call, const gsc__ssim *ssim);
gsc_status gsc__gpu_image_loss(const gsc__call *call, const gsc__image_loss *loss);
gsc_status gsc__gpu_adam_step(const gsc__call *call, const gsc__adam *adam);

/* ------------------------------------------------------------------- launches */

/* Everything that goes onto a stream: kernels, fills, copies.
 *
 * They use the call's stream as the caller gave it: NULL and 1 are the legacy stream, 2 the
 * thread's own.  The call's context is the one current, see gsc__gpu_enter. */

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

/* `count` rows of `bytes` bytes, `stride` bytes apart, to the host, one behind the other, with one
 * wait for the stream.  GSC_ERROR_UNSUPPORTED while it is captured. */
gsc_status gsc__gpu_read(const gsc__call *call, void *host, const void *data, size_t bytes,
                         size_t stride, int count);

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

/* ----------------------------------------------------------------------- sort */

/* Stable radix sorts of arrays whose length only the device knows.
 *
 * Nothing is read back: the grid depends on the device, and scratch on the limit of the length. */

/* Sorts values by keys below 2^bits. */
typedef struct gsc__gpu_sort_args {
    /* Length, keys and values.  work_keys[1] may be keys; without out_keys the keys end in
     * work_keys[(passes - 1) & 1]. */
    gsc_k_sort kernel;
    uint32_t bits;
    uint32_t key_bytes; /* 2, 4 or 8 */
    void *scratch;      /* gsc__gpu_sort_bytes */
    bool zeroed;        /* the first gsc__gpu_sort_zeroed_bytes of scratch are zero already */
} gsc__gpu_sort_args;

/* Values other than NULL may stand in an array that the sort overwrites: in out_values[0] if the
 * passes are even, in out_values[1] if they are odd. */
uint32_t gsc__gpu_sort_passes(uint32_t bits);
/* Scratch for at most so many keys. */
size_t gsc__gpu_sort_bytes(int64_t limit, uint32_t bits);
size_t gsc__gpu_sort_zeroed_bytes(int64_t limit, uint32_t bits);
/* One launch, after a fill if scratch is not zeroed. */
gsc_status gsc__gpu_sort(const gsc__call *call, const gsc__gpu_sort_args *sort);

/* ----------------------------------------------------------------------- Adam */

/* Whether loads of four elements may begin there. */
static inline bool gsc__gpu_is_aligned(const void *data) {
    return (uintptr_t)data % 16 == 0;
}

#endif
