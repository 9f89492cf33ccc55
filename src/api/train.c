/* A training step: forward, loss, and backward that steps instead of writing gradients. */

#include "raster_call.h"

typedef struct step {
    gsc__raster_call call;
    gsc__train train;
    gsc__workspace workspace;
    gsc_raster_info info;
} step;

static size_t color_bytes(const gsc__raster *raster) {
    return (size_t)raster->width * (size_t)raster->height * (size_t)raster->channels *
           sizeof(gsc_real);
}

/* The radii say which rows to step. */
static gsc_status provide_outputs(step *s) {
    gsc__raster_outputs *outputs = &s->call.outputs;
    gsc__raster_steps *steps = &s->train.steps;
    const gsc__raster *raster = &s->call.raster;
    void *data = outputs->color;
    if (!data) GSC__TRY(gsc__workspace_take(&s->workspace, "colour", color_bytes(raster), &data));
    outputs->color = data;
    s->train.loss.pair.image.data = data;
    if (s->train.all_rows) return GSC_OK;
    if (!outputs->radii) {
        GSC__TRY(gsc__workspace_take(&s->workspace, "radii",
                                     (size_t)raster->gaussians * sizeof(int32_t), &data));
        outputs->radii = data;
    }
    steps->radii = outputs->radii;
    steps->radii_axes = outputs->radii_axes;
    return GSC_OK;
}

static gsc_status backward(step *s) {
    const gsc__backend *backend = s->call.call.context->backend;
    gsc__raster_buffers *buffers = &s->call.buffers;
    gsc__train *train = &s->train;
    if (!train->loss.pair.grad_image.data)
        GSC__TRY(gsc__workspace_take(&s->workspace, "gradient of the colour",
                                     color_bytes(&s->call.raster),
                                     &train->loss.pair.grad_image.data));
    train->grads.color = train->loss.pair.grad_image.data;
    train->grads.steps = &train->steps;
    GSC__TRY(backend->image_loss(&s->call.call, &train->loss));
    GSC__TRY(gsc__workspace_provide(&s->workspace, "scratch", s->info.backward_scratch_bytes,
                                    &buffers->scratch, &buffers->scratch_bytes));
    return backend->raster_backward(&s->call, &s->info, &train->grads);
}

static gsc_status run(step *s) {
    GSC__TRY(provide_outputs(s));
    GSC__TRY(gsc__raster_forward(&s->call, &s->workspace, true, &s->info));
    return backward(s);
}

gsc_status gsc_train_step(gsc_context *context, const gsc_train_args *args, void *stream) {
    step s = {0};
    GSC__TRY(gsc__call_begin(&s.call.call, "train_step", context, stream));
    GSC__TRY(gsc__train_args(&s.call, args, &s.train));
    GSC__TRY(gsc__raster_sizes(&s.call, NULL, &s.call.sizes));
    s.workspace.call = s.call.call;
    s.info = s.call.sizes;
    gsc_status status = run(&s);
    gsc__workspace_release(&s.workspace);
    if (args->info) gsc__args_return(args->info, &s.info, sizeof s.info);
    return status;
}
