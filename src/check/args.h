/* From the public descriptors to what a backend takes: everything is checked, defaults are filled in.
 * `theirs` is the caller's descriptor of any version; each function leaves its result in `out`. */
#ifndef GSC_CHECK_ARGS_H
#define GSC_CHECK_ARGS_H

#include "fields.h"

/* ----------------------------------------------------------------- rasterizer */

/* The cameras and Gaussians; theirs is the caller's descriptor of any version. */
gsc_status gsc__raster_args(const gsc__call *call, const gsc_raster_args *theirs, gsc__raster *out);
/* Only what gsc_mark_visible reads: view, means and the planes.  visible: [C, N]. */
gsc_status gsc__visible_args(const gsc__call *call, const gsc_raster_args *theirs,
                             const DLTensor *visible, gsc__raster *out, uint8_t **visible_out);

/* theirs NULL: no outputs, which color_required refuses. */
gsc_status gsc__raster_outputs_args(const gsc__call *call, const gsc__raster *raster,
                                    const gsc_raster_outputs *theirs, bool color_required,
                                    gsc__raster_outputs *out);

/* What the letters of the outputs' and gradients' shapes stand for: C cameras, N Gaussians, D
 * channels, H, W, K coefficients of harmonics; X, Y and Z are the dimensions of a colour; E and B
 * the cameras of colors and background, if each has its own. */
void gsc__raster_sizes_of(const gsc__raster *raster, gsc__sizes *sizes);
/* The gradient with respect to GSC_PARAMETER_*, which has the parameter's name and shape. */
const gsc__field *gsc__parameter_field(int32_t parameter);

/* GSC_ERROR_INVALID_ARGUMENT for arguments whose forward leaves nothing for backward. */
gsc_status gsc__check_backward(const gsc__call *call, const gsc__raster *raster);
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

/* -------------------------------------------------------------- training step */

typedef struct gsc__train {
    gsc__image_loss loss;    /* image without data; grad_image perhaps, too */
    gsc__raster_grads grads; /* color is NULL; steps is not set */
    gsc__raster_steps steps; /* radii are not set */
    bool all_rows;
} gsc__train;

/* Fills in the call's raster, outputs and buffers, too.  Color and buffers are NULL where not given;
 * nothing checks the buffers' sizes. */
gsc_status gsc__train_args(gsc__raster_call *call, const gsc_train_args *theirs, gsc__train *out);

/* -------------------------------------------------------- SSIM and image loss */

/* The fields of the other direction are not looked at. */
gsc_status gsc__ssim_forward_args(const gsc__call *call, const gsc_ssim_args *theirs,
                                  gsc__ssim *out);
gsc_status gsc__ssim_backward_args(const gsc__call *call, const gsc_ssim_args *theirs,
                                   gsc__ssim *out);
gsc_status gsc__image_loss_args(const gsc__call *call, const gsc_image_loss_args *theirs,
                                gsc__image_loss *out);

/* Of a training step, whose image is the rasterizer's colour; that is without data. */
gsc_status gsc__train_loss_args(const gsc__call *call, const gsc_image_loss_args *theirs,
                                const gsc__raster *raster, gsc__image_loss *out);

/* exp(-x^2 / (2 sigma^2)) at the integers from -(size - 1) / 2 on, divided by their sum. */
void gsc__gaussian_window(int32_t size, double sigma, gsc__window *window);

/* --------------------------------------------------------- nearest neighbours */

/* A scratch that was not given stays NULL; the size of one that was is not checked. */
gsc_status gsc__knn_args(const gsc__call *call, const gsc_knn_args *theirs, gsc__knn *out);

/* ----------------------------------------------------------------------- Adam */

/* On success the caller frees out with gsc__adam_release. */
gsc_status gsc__adam_args(const gsc__call *call, const gsc_adam_args *theirs, gsc__adam *out);
void gsc__adam_release(gsc__adam *adam);

enum { GSC__GROUP_PATH_SIZE = 24 }; /* "groups[4294967295]." */
/* The settings of a group; lr: the address of the first, in a gsc_adam_group or gsc_train_group. */
gsc_status gsc__adam_settings(const gsc__call *call, const void *lr, gsc__adam_group *out);

#endif
