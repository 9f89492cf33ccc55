/* Weak placeholders until each operation's file is in the build. */
#include "gpu.h"

#define MISSING gsc__fail(GSC_ERROR_UNSUPPORTED, "%s: not there yet", __func__)
#define WEAK __attribute__((weak))

WEAK gsc_status gsc__gpu_raster_sizes(const gsc_context *c, const gsc__raster *r,
                                      gsc_raster_info *i) {
    (void)c;
    (void)r;
    (void)i;
    return MISSING;
}
WEAK gsc_status gsc__gpu_raster_project(gsc_context *c, const gsc__raster *r,
                                        const gsc__raster_buffers *b, const gsc__raster_outputs *o,
                                        gsc_raster_info *i, void *s) {
    (void)c;
    (void)r;
    (void)b;
    (void)o;
    (void)i;
    (void)s;
    return MISSING;
}
WEAK gsc_status gsc__gpu_raster_render(gsc_context *c, const gsc__raster *r,
                                       const gsc__raster_buffers *b, const gsc__raster_outputs *o,
                                       const gsc_raster_info *i, int64_t *f, void *s) {
    (void)c;
    (void)r;
    (void)b;
    (void)o;
    (void)i;
    (void)f;
    (void)s;
    return MISSING;
}
WEAK gsc_status gsc__gpu_raster_backward(gsc_context *c, const gsc__raster *r,
                                         const gsc__raster_buffers *b, const gsc_raster_info *i,
                                         const gsc__raster_grads *g, void *s) {
    (void)c;
    (void)r;
    (void)b;
    (void)i;
    (void)g;
    (void)s;
    return MISSING;
}
WEAK gsc_status gsc__gpu_mark_visible(gsc_context *c, const gsc__raster *r, uint8_t *v, void *s) {
    (void)c;
    (void)r;
    (void)v;
    (void)s;
    return MISSING;
}
WEAK size_t gsc__gpu_knn_scratch_bytes(const gsc_context *c, const gsc__knn *k) {
    (void)c;
    (void)k;
    return 0;
}
WEAK gsc_status gsc__gpu_knn(gsc_context *c, const gsc__knn *k, void *s) {
    (void)c;
    (void)k;
    (void)s;
    return MISSING;
}
WEAK gsc_status gsc__gpu_ssim_forward(gsc_context *c, const gsc__ssim *x, void *s) {
    (void)c;
    (void)x;
    (void)s;
    return MISSING;
}
WEAK gsc_status gsc__gpu_ssim_backward(gsc_context *c, const gsc__ssim *x, void *s) {
    (void)c;
    (void)x;
    (void)s;
    return MISSING;
}
WEAK gsc_status gsc__gpu_image_loss(gsc_context *c, const gsc__image_loss *x, void *s) {
    (void)c;
    (void)x;
    (void)s;
    return MISSING;
}
WEAK gsc_status gsc__gpu_adam_step(gsc_context *c, const gsc__adam_group *g, int32_t n,
                                   const gsc__visible_rows *v, void *s) {
    (void)c;
    (void)g;
    (void)n;
    (void)v;
    (void)s;
    return MISSING;
}
