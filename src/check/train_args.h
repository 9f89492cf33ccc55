/* From the public descriptor of a training step to what a backend takes. */
#ifndef GSC_TRAIN_ARGS_H
#define GSC_TRAIN_ARGS_H

#include "core/backend.h"
#include "tensor.h"

typedef struct gsc__train {
    gsc__image_loss loss;    /* image without data; grad_image perhaps, too */
    gsc__raster_grads grads; /* color is NULL; steps is not set */
    gsc__raster_steps steps; /* radii are not set */
    bool all_rows;
} gsc__train;

/* Fills in the call's raster, outputs and buffers, too.  Color and buffers are NULL where not given;
 * nothing checks the buffers' sizes. */
gsc_status gsc__train_args(gsc__raster_call *call, const gsc_train_args *theirs, gsc__train *out);

#endif
