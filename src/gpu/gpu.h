/* The CUDA backend's operations, and what a CUDA context holds. */
#ifndef GSC_GPU_GPU_H
#define GSC_GPU_GPU_H

#include "core/context.h"
#include "device.h"
#include "images.h"
#include "kernel_list.h"
#include "launch.h"

/* Immutable once the context is made, the staging slots apart. */
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
gsc_status gsc__gpu_raster_sizes(const gsc_context *context, const gsc__raster *raster,
                                 gsc_raster_info *info);
int64_t gsc__gpu_raster_largest_frame(const gsc__raster *raster, const gsc_raster_info *info);
gsc_status gsc__gpu_raster_project(gsc_context *context, const gsc__raster *raster,
                                   const gsc__raster_buffers *buffers,
                                   const gsc__raster_outputs *outputs, gsc_raster_info *info,
                                   void *stream);
gsc_status gsc__gpu_raster_blend(gsc_context *context, const gsc__raster *raster,
                                 const gsc__raster_buffers *buffers,
                                 const gsc__raster_outputs *outputs, const gsc_raster_info *info,
                                 int64_t *overflow, void *stream);
gsc_status gsc__gpu_raster_project_blend(gsc_context *context, const gsc__raster *raster,
                                         const gsc__raster_buffers *buffers,
                                         const gsc__raster_outputs *outputs,
                                         const gsc_raster_info *expected, gsc_raster_info *found,
                                         void *stream);
gsc_status gsc__gpu_raster_backward(gsc_context *context, const gsc__raster *raster,
                                    const gsc__raster_buffers *buffers, const gsc_raster_info *info,
                                    const gsc__raster_grads *grads, void *stream);
gsc_status gsc__gpu_mark_visible(gsc_context *context, const gsc__raster *raster, uint8_t *visible,
                                 void *stream);
size_t gsc__gpu_knn_scratch_bytes(const gsc_context *context, const gsc__knn *knn);
gsc_status gsc__gpu_knn(gsc_context *context, const gsc__knn *knn, void *stream);
gsc_status gsc__gpu_ssim_forward(gsc_context *context, const gsc__ssim *ssim, void *stream);
gsc_status gsc__gpu_ssim_backward(gsc_context *context, const gsc__ssim *ssim, void *stream);
gsc_status gsc__gpu_image_loss(gsc_context *context, const gsc__image_loss *loss, void *stream);
gsc_status gsc__gpu_adam_step(gsc_context *context, const gsc__adam_group *groups, int32_t count,
                              const gsc__visible_rows *visible, void *stream);

#endif
