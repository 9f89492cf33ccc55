#include "gpu.h"

#include <stdlib.h>

/* ---------------------------------------------------------------------- open */

static const char function[] = "context_create";

enum { POOL_SHARE = 16 }; /* the pool keeps at most 1/16 of the device's memory */

static const struct {
    const char *file, *name, *symbol;
} kernels[] = {
#define KERNEL(file, name, args, block) {#file, #name, "gsc_" #name},
    GSC__GPU_KERNELS(KERNEL)
#undef KERNEL
};

static gsc_status load_file(const gsc_context *context, gsc__gpu *gpu, const char *file) {
    const gsc__gpu_device *device = &gpu->device;
    const gsc__kernel_image *image;
    GSC__TRY(gsc__kernel_image_find(function, gsc__kernel_images, gsc__kernel_image_count, file,
                                    device->major, device->minor, &image));
    gsc__kernel_image_target(image, gpu->target);
    if (image->kind == GSC__IMAGE_PTX && gpu->library_count == 0) {
        gsc__log(context, GSC_LOG_WARNING,
                 "%s: no code for compute capability %d.%d, the driver compiles %s", function,
                 device->major, device->minor, gpu->target);
    }
    gsc__cu_result result = device->driver->cuLibraryLoadData(
        &gpu->libraries[gpu->library_count], image->begin, NULL, NULL, 0, NULL, NULL, 0);
    if (result != GSC__CU_OK)
        return gsc__driver_fail(device->driver, result, "%s: %s.cu for %s on a device of %d.%d",
                                function, file, gpu->target, device->major, device->minor);
    ++gpu->library_count;
    return GSC_OK;
}

/* Of the file that was loaded last.  Reading an attribute makes a lazily loading driver load the kernel now: a first launch while a
 * stream is captured, or while one kernel waits for another, is too late. */
static gsc_status load_kernel(gsc__gpu *gpu, int kernel) {
    const gsc__driver *driver = gpu->device.driver;
    void *handle;
    int threads;
    gsc__cu_result result = driver->cuLibraryGetKernel(
        &handle, gpu->libraries[gpu->library_count - 1], kernels[kernel].symbol);
    if (result == GSC__CU_OK) result = driver->cuKernelGetFunction(&gpu->functions[kernel], handle);
    if (result == GSC__CU_OK) {
        result = driver->cuFuncGetAttribute(&threads, GSC__CU_FUNCTION_MAX_THREADS,
                                            gpu->functions[kernel]);
    }
    if (result == GSC__CU_OK) return GSC_OK;
    return gsc__driver_fail(driver, result, "%s: kernel %s", function, kernels[kernel].name);
}

/* The context has a pool of its own.  The device's default pool returns memory at every
 * synchronisation, so each call would pay for mapping it again, and its settings belong to the
 * application. */
static gsc_status open_pool(const gsc_context *context, gsc__gpu *gpu) {
    const gsc__gpu_device *device = &gpu->device;
    const gsc__cu_pool_props props = {
        .type = GSC__CU_ALLOCATION_PINNED,
        .location = {GSC__CU_LOCATION_DEVICE, context->device.device_id}};
    uint64_t kept = (uint64_t)device->memory / POOL_SHARE;
    if (!device->pools) return GSC_OK;
    GSC__DRIVER_TRY(device->driver, function, cuMemPoolCreate, &gpu->pool, &props);
    GSC__DRIVER_TRY(device->driver, function, cuMemPoolSetAttribute, gpu->pool,
                    GSC__CU_POOL_RELEASE_THRESHOLD, &kept);
    return GSC_OK;
}

static gsc_status load_all(const gsc_context *context, gsc__gpu *gpu) {
    GSC__TRY(open_pool(context, gpu));
    for (int i = 0; i < GSC__GPU_KERNEL_COUNT; ++i) {
        if (i == 0 || strcmp(kernels[i].file, kernels[i - 1].file) != 0)
            GSC__TRY(load_file(context, gpu, kernels[i].file));
        GSC__TRY(load_kernel(gpu, i));
    }
    void *pinned = NULL;
    GSC__DRIVER_TRY(gpu->device.driver, function, cuMemHostAlloc, &pinned,
                    (size_t)GSC__STAGING_SLOTS * GSC__STAGING_BYTES, GSC__CU_HOST_MAPPED);
    gpu->staging.data = pinned;
    return GSC_OK;
}

/* Ignores results: at the end of a process the driver may be gone already.  In a child of fork,
 * all of this belongs to the parent. */
static void close_context(gsc_context *context) {
    gsc__gpu *gpu = gsc__gpu_of(context);
    const gsc__driver *driver = gpu->device.driver;
    gsc__gpu_scope scope;
    if (gsc__driver_inherited()) {
        free(gpu);
        return;
    }
    if (gpu->device.primary && gsc__gpu_try_enter(&gpu->device, &scope) == GSC__CU_OK) {
        if (gpu->staging.data) (void)driver->cuMemFreeHost(gpu->staging.data);
        for (int i = 0; i < gpu->library_count; ++i)
            (void)driver->cuLibraryUnload(gpu->libraries[i]);
        if (gpu->pool) (void)driver->cuMemPoolDestroy(gpu->pool);
        gsc__gpu_leave(&scope);
    }
    if (gpu->device.primary) (void)driver->cuDevicePrimaryCtxRelease(gpu->device.handle);
    free(gpu);
}

static gsc_status open_gpu(const gsc_context *context, gsc__gpu *gpu) {
    gsc__gpu_scope scope;
    GSC__TRY(gsc__gpu_device_query(function, context->device.device_id, &gpu->device));
    GSC__DRIVER_TRY(gpu->device.driver, function, cuDevicePrimaryCtxRetain, &gpu->device.primary,
                    gpu->device.handle);
    GSC__TRY(gsc__gpu_enter(function, &gpu->device, &scope));
    gsc_status status = load_all(context, gpu);
    gsc__gpu_leave(&scope);
    return status;
}

static gsc_status open_context(gsc_context *context) {
    gsc__gpu *gpu = calloc(1, sizeof *gpu);
    if (!gpu) return gsc__fail(GSC_ERROR_OUT_OF_MEMORY, "context_create: out of memory");
    context->device_data = gpu;
    gsc_status status = open_gpu(context, gpu);
    if (status != GSC_OK) {
        close_context(context);
        return status;
    }
    gsc__log(context, GSC_LOG_INFO, "context_create: cuda:%d, %s, compute capability %d.%d, %s",
             context->device.device_id, gpu->device.name, gpu->device.major, gpu->device.minor,
             gpu->target);
    return GSC_OK;
}

/* -------------------------------------------------------------------- memory */

/* Without pools (some virtual GPUs) allocation waits for the device. */
static void *alloc_memory(gsc_context *context, size_t bytes, void *stream) {
    const gsc__gpu *gpu = gsc__gpu_of(context);
    const gsc__driver *driver = gpu->device.driver;
    gsc__gpu_scope scope;
    gsc__cu_pointer data = 0;
    if (gsc__gpu_try_enter(&gpu->device, &scope) != GSC__CU_OK) return NULL;
    gsc__cu_result result = gpu->pool
                                ? driver->cuMemAllocFromPoolAsync(&data, bytes, gpu->pool, stream)
                                : driver->cuMemAlloc(&data, bytes);
    gsc__gpu_leave(&scope);
    return result == GSC__CU_OK ? (void *)(uintptr_t)data : NULL;
}

static void free_memory(gsc_context *context, void *data, void *stream) {
    const gsc__gpu *gpu = gsc__gpu_of(context);
    const gsc__cu_pointer pointer = (gsc__cu_pointer)(uintptr_t)data;
    gsc__gpu_scope scope;
    if (gsc__gpu_try_enter(&gpu->device, &scope) != GSC__CU_OK) return;
    if (gpu->pool) {
        (void)gpu->device.driver->cuMemFreeAsync(pointer, stream);
    } else {
        (void)gpu->device.driver->cuMemFree(pointer);
    }
    gsc__gpu_leave(&scope);
}

/* ----------------------------------------------------------------- the table */

/* An operation that runs with the device's context current. */
#define OPERATION(name, of_call, parameters, arguments)                                            \
    static gsc_status name parameters {                                                            \
        const gsc__call *common = of_call;                                                         \
        gsc__gpu_scope scope;                                                                      \
        GSC__TRY(gsc__gpu_enter(common->function, &gsc__gpu_of(common->context)->device, &scope)); \
        const gsc_status status = gsc__gpu_##name arguments;                                       \
        gsc__gpu_leave(&scope);                                                                    \
        return status;                                                                             \
    }

OPERATION(raster_project, &call->call, (const gsc__raster_call *call, gsc_raster_info *info),
          (call, info))
OPERATION(raster_blend, &call->call,
          (const gsc__raster_call *call, const gsc_raster_info *info, int64_t *overflow),
          (call, info, overflow))
OPERATION(raster_project_blend, &call->call,
          (const gsc__raster_call *call, const gsc_raster_info *expected, gsc_raster_info *found),
          (call, expected, found))
OPERATION(raster_backward, &call->call,
          (const gsc__raster_call *call, const gsc_raster_info *info,
           const gsc__raster_grads *grads),
          (call, info, grads))
OPERATION(mark_visible, &call->call, (const gsc__raster_call *call, uint8_t *visible),
          (call, visible))
OPERATION(knn, call, (const gsc__call *call, const gsc__knn *args), (call, args))
OPERATION(ssim_forward, call, (const gsc__call *call, const gsc__ssim *ssim), (call, ssim))
OPERATION(ssim_backward, call, (const gsc__call *call, const gsc__ssim *ssim), (call, ssim))
OPERATION(image_loss, call, (const gsc__call *call, const gsc__image_loss *loss), (call, loss))
OPERATION(adam_step, call, (const gsc__call *call, const gsc__adam *adam), (call, adam))

const gsc__backend gsc__gpu_backend = {
    .name = "cuda",
    .max_side = GSC__MAX_CUDA_SIDE,
    .open = open_context,
    .close = close_context,
    .alloc = alloc_memory,
    .free = free_memory,
    .raster_sizes = gsc__gpu_raster_sizes,
    .raster_largest_frame = gsc__gpu_raster_largest_frame,
    .raster_lend_scratch = gsc__gpu_lend_scratch,
    .raster_project = raster_project,
    .raster_blend = raster_blend,
    .raster_project_blend = raster_project_blend,
    .raster_backward = raster_backward,
    .mark_visible = mark_visible,
    .knn_scratch_bytes = gsc__gpu_knn_scratch_bytes,
    .knn = knn,
    .ssim_forward = ssim_forward,
    .ssim_backward = ssim_backward,
    .image_loss = image_loss,
    .adam_step = adam_step,
};
