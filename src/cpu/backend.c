#include "cpu.h"

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

static gsc_status open_context(gsc_context *context) {
    context->device_data = gsc__pool_create(context->cpu_threads);
    if (!context->device_data) {
        return gsc__fail(GSC_ERROR_OUT_OF_MEMORY,
                         "context_create: out of memory for a pool of %d threads",
                         context->cpu_threads);
    }
    gsc__log(context, GSC_LOG_INFO, "context_create: cpu, %s instructions, %d threads",
             context->backend->name, context->cpu_threads);
    return GSC_OK;
}

static void close_context(gsc_context *context) {
    gsc__pool_destroy(gsc__cpu_pool(context));
}

/* Its name is that of the instruction set: the device already says "cpu". */
const gsc__backend gsc__cpu_backend = {
    .name = TEXT(GSC_ISA),
    .open = open_context,
    .close = close_context,
    .raster_sizes = gsc__cpu_raster_sizes,
    .raster_project = gsc__cpu_raster_project,
    .raster_blend = gsc__cpu_raster_blend,
    .raster_backward = gsc__cpu_raster_backward,
    .mark_visible = gsc__cpu_mark_visible,
    .knn_scratch_bytes = gsc__cpu_knn_scratch_bytes,
    .knn = gsc__cpu_knn,
    .ssim_forward = gsc__cpu_ssim_forward,
    .ssim_backward = gsc__cpu_ssim_backward,
    .image_loss = gsc__cpu_image_loss,
    .adam_step = gsc__cpu_adam_step,
};
