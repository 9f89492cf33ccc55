#include "gpu.h"

static const struct {
    const char *name;
    size_t args_bytes;
    uint32_t block;
} kernels[] = {
#define KERNEL(file, name, args, block) {#name, sizeof(gsc_k_##args), block},
    GSC__GPU_KERNELS(KERNEL)
#undef KERNEL
};

static const gsc__driver *driver_of(const gsc__call *call) {
    return gsc__gpu_of(call->context)->device.driver;
}

static gsc__cu_pointer device_pointer(const void *data) {
    return (gsc__cu_pointer)(uintptr_t)data;
}

static gsc_status is_captured(const gsc__call *call, bool *captured) {
    int capture = GSC__CU_CAPTURE_NONE;
    GSC__DRIVER_TRY(driver_of(call), call->function, cuStreamIsCapturing, call->stream, &capture);
    *captured = capture != GSC__CU_CAPTURE_NONE;
    return GSC_OK;
}

/* ------------------------------------------------------------------- kernels */

/* A captured stream cannot be waited for. */
static gsc_status sync_check(const gsc__call *call, enum gsc__gpu_kernel kernel, uint32_t grid) {
    bool captured;
    GSC__TRY(is_captured(call, &captured));
    if (captured) return GSC_OK;
    gsc__cu_result result = driver_of(call)->cuStreamSynchronize(call->stream);
    if (result == GSC__CU_OK) return GSC_OK;
    return gsc__driver_fail(driver_of(call), result, "%s: kernel %s, %u blocks of %u threads",
                            call->function, kernels[kernel].name, grid, kernels[kernel].block);
}

/* Whether this launch may overlap the end of the kernel before it on the stream.  Kernels wait for
 * that one themselves, see gsc__begin_kernel: the overlap hides the time that a launch takes to
 * reach the multiprocessors.  Older drivers do not capture such launches into a graph. */
static bool may_overlap(const gsc__gpu *gpu, void *stream) {
    int capture = GSC__CU_CAPTURE_NONE;
    if (gpu->device.major < 9) return false;
    return gpu->device.driver->cuStreamIsCapturing(stream, &capture) == GSC__CU_OK &&
           capture == GSC__CU_CAPTURE_NONE;
}

/* The arguments go as a buffer and not as an array of parameters, since a buffer has a size: the
 * mock driver of the tests copies it. */
gsc_status gsc__gpu_launch(const gsc__call *call, enum gsc__gpu_kernel kernel, uint32_t grid,
                           const void *args) {
    const gsc__gpu *gpu = gsc__gpu_of(call->context);
    const gsc__driver *driver = gpu->device.driver;
    size_t args_bytes = kernels[kernel].args_bytes;
    if (grid == 0) return GSC_OK;
    void *extra[] = {GSC__CU_LAUNCH_BUFFER, (void *)(uintptr_t)args, GSC__CU_LAUNCH_BUFFER_SIZE,
                     &args_bytes, GSC__CU_LAUNCH_END};
    static const gsc__cu_launch_attribute early = {.id = GSC__CU_LAUNCH_BEFORE_END,
                                                   .value = {.flag = 1}};
    const bool overlaps = may_overlap(gpu, call->stream);
    const gsc__cu_launch_config config = {.grid = {grid, 1, 1},
                                          .block = {kernels[kernel].block, 1, 1},
                                          .stream = call->stream,
                                          .attributes = overlaps ? &early : NULL,
                                          .attribute_count = overlaps};
    gsc__cu_result result = driver->cuLaunchKernelEx(&config, gpu->functions[kernel], NULL, extra);
    if (result != GSC__CU_OK) {
        return gsc__driver_fail(driver, result, "%s: launch of kernel %s, %u blocks of %u threads",
                                call->function, kernels[kernel].name, grid, kernels[kernel].block);
    }
    if (!(call->context->flags & GSC_CONTEXT_SYNC_CHECK)) return GSC_OK;
    return sync_check(call, kernel, grid);
}

/* -------------------------------------------------------------------- memory */

gsc_status gsc__gpu_clear(const gsc__call *call, void *data, size_t bytes) {
    if (bytes == 0) return GSC_OK;
    GSC__DRIVER_TRY(driver_of(call), call->function, cuMemsetD8Async, device_pointer(data), 0,
                    bytes, call->stream);
    return GSC_OK;
}

/* The values are kernel parameters: a copy from pinned memory would read it after the call, and a
 * captured copy at every replay. */
gsc_status gsc__gpu_write(const gsc__call *call, float *to, const float *host, size_t count) {
    gsc_k_write args;
    memset(&args, 0, sizeof args);
    for (size_t done = 0; done < count; done += GSC__WRITE_FLOATS) {
        const size_t left = count - done;
        args.count = (uint32_t)(left < GSC__WRITE_FLOATS ? left : GSC__WRITE_FLOATS);
        args.to = to + done;
        memcpy(args.values, host + done, args.count * sizeof *host);
        GSC__TRY(LAUNCH(write, call, 1, args));
    }
    return GSC_OK;
}

/* ---------------------------------------------------------------------- read */

/* NULL if all are taken. */
static char *take_slot(gsc__gpu_staging *staging, int *slot) {
    for (int i = 0; staging->data && i < GSC__STAGING_SLOTS; ++i) {
        if (atomic_exchange(&staging->taken[i], true)) continue;
        *slot = i;
        return staging->data + i * GSC__STAGING_BYTES;
    }
    return NULL;
}

static gsc_status copy_and_wait(const gsc__call *call, char *host, const char *data, size_t bytes,
                                size_t stride, int count) {
    for (size_t i = 0; i < (size_t)count; ++i)
        GSC__DRIVER_TRY(driver_of(call), call->function, cuMemcpyDtoHAsync, host + i * bytes,
                        device_pointer(data + i * stride), bytes, call->stream);
    GSC__DRIVER_TRY(driver_of(call), call->function, cuStreamSynchronize, call->stream);
    return GSC_OK;
}

static gsc_status refuse_capture(const gsc__call *call) {
    bool captured;
    GSC__TRY(is_captured(call, &captured));
    if (!captured) return GSC_OK;
    return gsc__fail(GSC_ERROR_UNSUPPORTED,
                     "%s: this call waits for the stream, but the stream is being captured; "
                     "see the header for how to call without waiting",
                     call->function);
}

/* The driver stages copies to pageable memory itself, and more slowly: hence the slots. */
gsc_status gsc__gpu_read(const gsc__call *call, void *host, const void *data, size_t bytes,
                         size_t stride, int count) {
    gsc__gpu_staging *staging = &gsc__gpu_of(call->context)->staging;
    const size_t all = bytes * (size_t)count;
    int slot = 0;
    if (all == 0) return GSC_OK;
    GSC__TRY(refuse_capture(call));
    char *pinned = all <= GSC__STAGING_BYTES ? take_slot(staging, &slot) : NULL;
    gsc_status status = copy_and_wait(call, pinned ? pinned : host, data, bytes, stride, count);
    if (!pinned) return status;
    if (status == GSC_OK) memcpy(host, pinned, all);
    atomic_store(&staging->taken[slot], false);
    return status;
}

/* -------------------------------------------------------------------- report */

gsc_status gsc__gpu_report_begin(const gsc__call *call, gsc__gpu_report *report, size_t bytes,
                                 int count) {
    const size_t all = bytes * (size_t)count;
    *report = (gsc__gpu_report){.count = count, .bytes = bytes};
    GSC__TRY(refuse_capture(call));
    if (all <= GSC__STAGING_BYTES)
        report->data = take_slot(&gsc__gpu_of(call->context)->staging, &report->slot);
    if (report->data) memset(report->data, 0, all);
    return GSC_OK;
}

/* Looks for about 20 us at most, at each row by itself: rows of different kernels may become
 * visible in any order. */
static bool is_reported(const gsc__gpu_report *report) {
    const char *rows = report->data;
    int found = 0;
    for (int i = 0; i < 500; ++i) {
        while (found < report->count &&
               atomic_load_explicit(
                   (const _Atomic uint64_t *)(const void *)(rows + (size_t)found * report->bytes),
                   memory_order_acquire))
            ++found;
        if (found == report->count) return true;
        gsc__thread_pause();
    }
    return false;
}

bool gsc__gpu_report_end(const gsc__call *call, gsc__gpu_report *report, void *host) {
    bool found, ended = false;
    if (!report->data) return false;
    /* Looks again once the stream has ended: the report may have come in between. */
    while (!(found = is_reported(report)) && !ended)
        ended = driver_of(call)->cuStreamQuery(call->stream) != GSC__CU_NOT_READY;
    if (found) memcpy(host, report->data, report->bytes * (size_t)report->count);
    atomic_store(&gsc__gpu_of(call->context)->staging.taken[report->slot], false);
    return found;
}
