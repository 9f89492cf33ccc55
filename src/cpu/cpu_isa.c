/* The CPU backend for one instruction set.
 *
 * This file, which includes the others, is compiled once for each instruction set, with GSC_ISA
 * as the suffix of its table.  Everything else in it is static, so the copies do not clash.  What
 * does not gain from wider vectors is compiled once: camera.c, raster_state.c, sort.c and
 * dispatch.c, which chooses a table.  project.c is compiled once for each instruction set too,
 * but on its own (see project.h). */
#include "cpu.h"

#include "adam.c"
#include "blend_backward.c"
#include "blend_forward.c"
#include "hilbert.c"
#include "image_loss.c"
#include "image_pass.c"
#include "knn.c"
#include "knn_tree.c"
#include "project_backward.c"
#include "raster_backward.c"
#include "raster_forward.c"
#include "raster_statistics.c"
#include "ssim.c"
#include "tile_lists.c"
#include "tile_spans.c"

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
extern const gsc__backend GSC__ISA_NAME(gsc__cpu_backend);
const gsc__backend GSC__ISA_NAME(gsc__cpu_backend) = {
    .name = TEXT(GSC_ISA),
    .max_side = GSC__MAX_SIDE,
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
