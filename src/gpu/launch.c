#include "launch.h"

#include "../../cuda/kernels.h"
#include "gpu.h"

static const char *const kernel_names[] = {
#define NAME(file, name, args, block) #name,
    GSC__GPU_KERNELS(NAME)
#undef NAME
};

static gsc__cu_pointer device_pointer(const void *data) {
    return (gsc__cu_pointer)(uintptr_t)data;
}

/* ------------------------------------------------------------------- kernels */

/* A captured stream cannot be waited for. */
static gsc_status sync_check(const gsc__driver *driver, enum gsc__gpu_kernel kernel, uint32_t grid,
                             uint32_t block, void *stream, const char *function) {
    int capture = GSC__CU_CAPTURE_NONE;
    GSC__DRIVER_TRY(driver, function, cuStreamIsCapturing, stream, &capture);
    if (capture != GSC__CU_CAPTURE_NONE) return GSC_OK;
    gsc__cu_result result = driver->cuStreamSynchronize(stream);
    if (result == GSC__CU_OK) return GSC_OK;
    return gsc__driver_fail(driver, result, "%s: kernel %s, %u blocks of %u threads", function,
                            kernel_names[kernel], grid, block);
}

/* Whether this launch may overlap the end of the kernel before it on the stream.  Kernels
 * wait for that by themselves, see gsc__begin_kernel, so that only the time in which a
 * launch reaches the multiprocessors is saved.  Not in a graph, which older drivers do not
 * capture such launches into. */
static bool may_overlap(const gsc__gpu *gpu, void *stream) {
    int capture = GSC__CU_CAPTURE_NONE;
    if (gpu->device.major < 9) return false;
    return gpu->device.driver->cuStreamIsCapturing(stream, &capture) == GSC__CU_OK &&
           capture == GSC__CU_CAPTURE_NONE;
}

/* As a buffer and not as an array of parameters, so that its size goes along: the tests'
 * driver keeps a copy. */
gsc_status gsc__gpu_launch(gsc_context *context, enum gsc__gpu_kernel kernel, uint32_t grid,
                           uint32_t block, const void *args, size_t args_bytes, void *stream,
                           const char *function) {
    const gsc__gpu *gpu = gsc__gpu_of(context);
    const gsc__driver *driver = gpu->device.driver;
    if (grid == 0) return GSC_OK;
    void *extra[] = {GSC__CU_LAUNCH_BUFFER, (void *)(uintptr_t)args, GSC__CU_LAUNCH_BUFFER_SIZE,
                     &args_bytes, GSC__CU_LAUNCH_END};
    static const gsc__cu_launch_attribute early = {.id = GSC__CU_LAUNCH_BEFORE_END,
                                                   .value = {.flag = 1}};
    const bool overlaps = may_overlap(gpu, stream);
    const gsc__cu_launch_config config = {.grid = {grid, 1, 1},
                                          .block = {block, 1, 1},
                                          .stream = stream,
                                          .attributes = overlaps ? &early : NULL,
                                          .attribute_count = overlaps};
    gsc__cu_result result = driver->cuLaunchKernelEx(&config, gpu->functions[kernel], NULL, extra);
    if (result != GSC__CU_OK) {
        return gsc__driver_fail(driver, result, "%s: launch of kernel %s, %u blocks of %u threads",
                                function, kernel_names[kernel], grid, block);
    }
    if (!(context->flags & GSC_CONTEXT_SYNC_CHECK)) return GSC_OK;
    return sync_check(driver, kernel, grid, block, stream, function);
}

/* -------------------------------------------------------------------- memory */

gsc_status gsc__gpu_memset(gsc_context *context, void *data, uint8_t value, size_t bytes,
                           void *stream, const char *function) {
    if (bytes == 0) return GSC_OK;
    GSC__DRIVER_TRY(gsc__gpu_of(context)->device.driver, function, cuMemsetD8Async,
                    device_pointer(data), value, bytes, stream);
    return GSC_OK;
}

gsc_status gsc__gpu_copy(gsc_context *context, void *to, const void *from, size_t bytes,
                         void *stream, const char *function) {
    if (bytes == 0) return GSC_OK;
    GSC__DRIVER_TRY(gsc__gpu_of(context)->device.driver, function, cuMemcpyDtoDAsync,
                    device_pointer(to), device_pointer(from), bytes, stream);
    return GSC_OK;
}

/* By kernel parameters: a copy from pinned memory would read it after the call, and a
 * captured one at every replay. */
gsc_status gsc__gpu_write(gsc_context *context, float *to, const float *host, size_t count,
                          void *stream, const char *function) {
    gsc_k_write args;
    memset(&args, 0, sizeof args);
    for (size_t done = 0; done < count; done += GSC__WRITE_FLOATS) {
        const size_t left = count - done;
        args.count = (uint32_t)(left < GSC__WRITE_FLOATS ? left : GSC__WRITE_FLOATS);
        args.to = to + done;
        memcpy(args.values, host + done, args.count * sizeof *host);
        GSC__TRY(gsc__gpu_launch(context, GSC__KERNEL_write, 1, GSC__WRITE_BLOCK, &args,
                                 sizeof args, stream, function));
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

static gsc_status copy_and_wait(const gsc__driver *driver, char *host, const char *from,
                                size_t bytes, size_t stride, int count, void *stream,
                                const char *function) {
    for (int i = 0; i < count; ++i)
        GSC__DRIVER_TRY(driver, function, cuMemcpyDtoHAsync, host + (size_t)i * bytes,
                        device_pointer(from + (size_t)i * stride), bytes, stream);
    GSC__DRIVER_TRY(driver, function, cuStreamSynchronize, stream);
    return GSC_OK;
}

static gsc_status refuse_capture(const gsc__driver *driver, void *stream, const char *function) {
    int capture = GSC__CU_CAPTURE_NONE;
    GSC__DRIVER_TRY(driver, function, cuStreamIsCapturing, stream, &capture);
    if (capture == GSC__CU_CAPTURE_NONE) return GSC_OK;
    return gsc__fail(GSC_ERROR_UNSUPPORTED,
                     "%s: this call waits for the stream, but the stream is being captured; "
                     "see the header for how to call without waiting",
                     function);
}

/* A copy to pageable memory costs the driver a round of its own staging, hence the slots. */
gsc_status gsc__gpu_read_rows(gsc_context *context, void *host, const void *from, size_t bytes,
                              size_t stride, int count, void *stream, const char *function) {
    gsc__gpu *gpu = gsc__gpu_of(context);
    const gsc__driver *driver = gpu->device.driver;
    const size_t all = bytes * (size_t)count;
    int slot = 0;
    if (all == 0) return GSC_OK;
    GSC__TRY(refuse_capture(driver, stream, function));
    char *pinned = all <= GSC__STAGING_BYTES ? take_slot(&gpu->staging, &slot) : NULL;
    if (!pinned) return copy_and_wait(driver, host, from, bytes, stride, count, stream, function);
    gsc_status status = copy_and_wait(driver, pinned, from, bytes, stride, count, stream, function);
    if (status == GSC_OK) memcpy(host, pinned, all);
    atomic_store(&gpu->staging.taken[slot], false);
    return status;
}

gsc_status gsc__gpu_read(gsc_context *context, void *host, const void *from, size_t bytes,
                         void *stream, const char *function) {
    return gsc__gpu_read_rows(context, host, from, bytes, bytes, 1, stream, function);
}

/* -------------------------------------------------------------------- report */

gsc_status gsc__gpu_report_begin(gsc_context *context, gsc__gpu_report *report, size_t bytes,
                                 int count, void *stream, const char *function) {
    gsc__gpu *gpu = gsc__gpu_of(context);
    const size_t all = bytes * (size_t)count;
    *report = (gsc__gpu_report){.count = count, .bytes = bytes};
    GSC__TRY(refuse_capture(gpu->device.driver, stream, function));
    if (all <= GSC__STAGING_BYTES) report->data = take_slot(&gpu->staging, &report->slot);
    if (report->data) memset(report->data, 0, all);
    return GSC_OK;
}

/* For about 20 us at most.  Each row by itself: the order in which rows of different kernels
 * become visible is not relied on. */
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

bool gsc__gpu_report_end(gsc_context *context, gsc__gpu_report *report, void *host, void *stream) {
    gsc__gpu *gpu = gsc__gpu_of(context);
    bool found, ended = false;
    if (!report->data) return false;
    /* Once more when it has ended: the report may have come in between. */
    while (!(found = is_reported(report)) && !ended)
        ended = gpu->device.driver->cuStreamQuery(stream) != GSC__CU_NOT_READY;
    if (found) memcpy(host, report->data, report->bytes * (size_t)report->count);
    atomic_store(&gpu->staging.taken[report->slot], false);
    return found;
}
