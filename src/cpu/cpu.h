/* The CPU backend's operations.
 *
 * Every .c file of this folder but dispatch.c is compiled once per instruction set,
 * with GSC_ISA set to the suffix of its symbols (baseline, avx2, avx512, neon), and
 * dispatch.c picks a table when a context is created. */
#ifndef GSC_CPU_H
#define GSC_CPU_H

#include "core/context.h"
#include "os/parallel.h"

#define GSC__PASTE2(a, b) a##_##b
#define GSC__PASTE(a, b) GSC__PASTE2(a, b)
#define GSC__ISA_NAME(name) GSC__PASTE(name, GSC_ISA)

#ifdef GSC_ISA
#define gsc__cpu_backend GSC__ISA_NAME(gsc__cpu_backend)
#define gsc__cpu_raster_sizes GSC__ISA_NAME(gsc__cpu_raster_sizes)
#define gsc__cpu_raster_project GSC__ISA_NAME(gsc__cpu_raster_project)
#define gsc__cpu_raster_blend GSC__ISA_NAME(gsc__cpu_raster_blend)
#define gsc__cpu_raster_backward GSC__ISA_NAME(gsc__cpu_raster_backward)
#define gsc__cpu_mark_visible GSC__ISA_NAME(gsc__cpu_mark_visible)
#define gsc__cpu_knn_scratch_bytes GSC__ISA_NAME(gsc__cpu_knn_scratch_bytes)
#define gsc__cpu_knn GSC__ISA_NAME(gsc__cpu_knn)
#define gsc__cpu_ssim_forward GSC__ISA_NAME(gsc__cpu_ssim_forward)
#define gsc__cpu_ssim_backward GSC__ISA_NAME(gsc__cpu_ssim_backward)
#define gsc__cpu_image_loss GSC__ISA_NAME(gsc__cpu_image_loss)
#define gsc__cpu_adam_step GSC__ISA_NAME(gsc__cpu_adam_step)

extern const gsc__backend gsc__cpu_backend;

gsc_status gsc__cpu_raster_sizes(const gsc__raster_call *call, gsc_raster_info *info);
gsc_status gsc__cpu_raster_project(const gsc__raster_call *call, gsc_raster_info *info);
gsc_status gsc__cpu_raster_blend(const gsc__raster_call *call, const gsc_raster_info *info,
                                 int64_t *overflow);
gsc_status gsc__cpu_raster_backward(const gsc__raster_call *call, const gsc_raster_info *info,
                                    const gsc__raster_grads *grads);
gsc_status gsc__cpu_mark_visible(const gsc__raster_call *call, uint8_t *visible);
size_t gsc__cpu_knn_scratch_bytes(const gsc__call *call, const gsc__knn *knn);
gsc_status gsc__cpu_knn(const gsc__call *call, const gsc__knn *knn);
gsc_status gsc__cpu_ssim_forward(const gsc__call *call, const gsc__ssim *ssim);
gsc_status gsc__cpu_ssim_backward(const gsc__call *call, const gsc__ssim *ssim);
gsc_status gsc__cpu_image_loss(const gsc__call *call, const gsc__image_loss *loss);
gsc_status gsc__cpu_adam_step(const gsc__call *call, const gsc__adam *adam);

#endif

static inline gsc__pool *gsc__cpu_pool(const gsc_context *context) {
    return (gsc__pool *)context->device_data;
}

/* The widest instruction set of this build that the processor has; the environment
 * variable GSC_CPU_ISA (baseline, avx2, avx512, neon) narrows the choice. */
const gsc__backend *gsc__cpu_backend_choose(void);
/* The instruction sets of this build from narrow to wide; NULL past the last. */
const char *gsc__cpu_isa_name(int index);

#endif
