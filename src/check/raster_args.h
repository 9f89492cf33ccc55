/* From the rasterizer's public descriptors to what a backend takes: everything is
 * checked, defaults are filled in.  Each function leaves its result in `out`. */
#ifndef GSC_RASTER_ARGS_H
#define GSC_RASTER_ARGS_H

#include "core/backend.h"
#include "tensor.h"

/* The cameras and Gaussians; theirs is the caller's descriptor of any version. */
gsc_status gsc__raster_args(const gsc__call *call, const gsc_raster_args *theirs, gsc__raster *out);
/* Only what gsc_mark_visible reads: view, means and the planes.  visible: [C, N]. */
gsc_status gsc__visible_args(const gsc__call *call, const gsc_raster_args *theirs,
                             const DLTensor *visible, gsc__raster *out, uint8_t **visible_out);

/* theirs NULL: no outputs, which color_required refuses. */
gsc_status gsc__raster_outputs_args(const gsc__call *call, const gsc__raster *raster,
                                    const gsc_raster_outputs *theirs, bool color_required,
                                    gsc__raster_outputs *out);

/* [C, channels, H, W] or [C, H, W, channels] */
gsc__shape gsc__color_shape(const gsc__raster *raster);
/* [C, H, W] */
gsc__shape gsc__pixel_shape(const gsc__raster *raster);
/* [C, N, axes], or [C, N] for 0 axes */
gsc__shape gsc__splat_shape(const gsc__raster *raster, int32_t axes);

gsc_status gsc__raster_grads_args(const gsc__call *call, const gsc__raster *raster,
                                  const gsc_raster_grads *theirs, gsc__raster_grads *out);

/* How many bytes a call needs. */
typedef struct gsc__buffer_needs {
    size_t state, scratch;
    size_t intersections;
    bool uses_intersections;
} gsc__buffer_needs;
/* A scratch that is not given stays NULL.  needs NULL: so does every buffer, and nothing checks
 * their sizes. */
gsc_status gsc__raster_buffers_args(const gsc__call *call, const gsc_raster_buffers *theirs,
                                    const gsc__buffer_needs *needs, gsc__raster_buffers *out);

gsc_status gsc__raster_info_args(const gsc__call *call, const gsc_raster_info *theirs,
                                 gsc_raster_info *out);

#endif
