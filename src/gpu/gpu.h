/* The CUDA backend's operations, and what a CUDA context holds. */
#ifndef GSC_GPU_GPU_H
#define GSC_GPU_GPU_H

#include "core/context.h"
#include "core/workspace.h"
#include "device.h"
#include "images.h"
#include "kernel_list.h"
#include "launch.h"

/* Immutable once the context is made, except for the staging slots. */
typedef struct gsc__gpu {
    gsc__gpu_device device;
    void *libraries[GSC__GPU_FILE_COUNT];
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

#endif
