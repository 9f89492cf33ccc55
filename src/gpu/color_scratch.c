/* Scratch in the memory of the image: it is free until the image is written. */
#include "gpu.h"

/* The last camera's image is the last to be blended, after the last use of scratch: unless there
 * are statistics, which are summed up in scratch, or bands, whose lists are made between one part
 * of the image and the next.  Bands are made of fewer intersections than the frame has, and of
 * more than positions of 32 bits can count. */
void *gsc__gpu_lend_scratch(const gsc__raster_call *call, const gsc_raster_info *info,
                            size_t *bytes) {
    const gsc__raster *raster = &call->raster;
    const gsc__raster_outputs *outputs = &call->outputs;
    const size_t image = (size_t)raster->width * (size_t)raster->height * (size_t)raster->channels *
                         sizeof *outputs->color;
    if (gsc__wants_statistics(outputs) || info->intersections > INT32_MAX ||
        call->buffers.intersections_bytes < info->intersections_bytes)
        return NULL;
    char *begin = (char *)outputs->color + (size_t)(raster->cameras - 1) * image;
    const size_t skipped = (size_t)(-(uintptr_t)begin % GSC__BUFFER_ALIGNMENT);
    if (image < skipped || image - skipped < info->forward_scratch_bytes) return NULL;
    *bytes = image - skipped;
    return begin + skipped;
}
