/* A training step: the four calls that it is made of, on memory that only it sees. */

#include "call.h"
#include "check/train_args.h"
#include "core/args.h"

/* What comes from the context's allocator if the caller gave none. */
enum { STATE, INTERSECTIONS, SCRATCH, COLOR, GRADIENT, RADII, BLOCKS };

typedef struct step {
    gsc_context *context;
    void *stream;
    gsc__raster_call call;
    gsc__train train;
    gsc_raster_info info;
    struct {
        void *data;
        size_t bytes;
    } own[BLOCKS];
} step;

static gsc_status own(step *s, int block, size_t bytes, const char *what, void **data) {
    GSC__TRY(gsc__context_alloc(s->context, bytes, what, s->stream, data));
    s->own[block].data = *data;
    s->own[block].bytes = bytes;
    return GSC_OK;
}

static void disown(step *s, int block) {
    gsc__context_release(s->context, s->own[block].data, s->own[block].bytes, s->stream);
    s->own[block].data = NULL;
}

static gsc_status too_small(const char *name, size_t given, size_t needed) {
    return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                     "train_step: %s has %zu bytes, expected at least %zu", name, given, needed);
}

/* One that was given must do for the rest of the step, one of ours for what comes next. */
static gsc_status provide_scratch(step *s, size_t next, size_t rest) {
    gsc__raster_buffers *buffers = &s->call.buffers;
    if (buffers->scratch && !s->own[SCRATCH].data) {
        if (buffers->scratch_bytes >= rest) return GSC_OK;
        return too_small("scratch", buffers->scratch_bytes, rest);
    }
    if (buffers->scratch && buffers->scratch_bytes >= next) return GSC_OK;
    disown(s, SCRATCH);
    buffers->scratch_bytes = next > 0 ? next : 1;
    return own(s, SCRATCH, buffers->scratch_bytes, "train_step: scratch", &buffers->scratch);
}

/* Those of the buffers are ours. */
static void note_intersections(step *s) {
    s->own[INTERSECTIONS].data = s->call.buffers.intersections;
    s->own[INTERSECTIONS].bytes = s->call.buffers.intersections_bytes;
}

static gsc_status provide_intersections(step *s) {
    gsc__raster_buffers *buffers = &s->call.buffers;
    const size_t least = s->info.intersections_min_bytes;
    if (buffers->intersections) {
        if (buffers->intersections_bytes >= least) return GSC_OK;
        return too_small("intersections", buffers->intersections_bytes, least);
    }
    GSC__TRY(gsc__alloc_intersections(s->context, &s->info, "train_step: intersections", s->stream,
                                      &buffers->intersections, &buffers->intersections_bytes));
    note_intersections(s);
    return GSC_OK;
}

static gsc_status provide_state(step *s) {
    gsc__raster_buffers *buffers = &s->call.buffers;
    if (!buffers->state) {
        buffers->state_bytes = s->info.state_bytes;
        return own(s, STATE, buffers->state_bytes, "train_step: state", &buffers->state);
    }
    if (buffers->state_bytes >= s->info.state_bytes) return GSC_OK;
    return too_small("state", buffers->state_bytes, s->info.state_bytes);
}

static size_t color_bytes(const step *s) {
    const gsc__raster *raster = &s->call.raster;
    return (size_t)raster->width * (size_t)raster->height * (size_t)raster->channels *
           sizeof(gsc_real);
}

/* The radii tell which rows are stepped. */
static gsc_status provide_outputs(step *s) {
    gsc__raster_outputs *outputs = &s->call.outputs;
    gsc__raster_steps *steps = &s->train.steps;
    void *data = outputs->color;
    if (!data) GSC__TRY(own(s, COLOR, color_bytes(s), "train_step: colour", &data));
    outputs->color = data;
    s->train.loss.image.data = data;
    if (s->train.all_rows) return GSC_OK;
    if (!outputs->radii) {
        const size_t bytes = (size_t)s->call.raster.gaussians * sizeof(int32_t);
        GSC__TRY(own(s, RADII, bytes, "train_step: radii", &data));
        outputs->radii = data;
    }
    steps->radii = outputs->radii;
    steps->radii_axes = outputs->radii_axes;
    return GSC_OK;
}

/* Draws in intersections of the context's allocator, if info expects something and there is
 * memory for that; *projected: that much was done.  Unless *drawn, buffers have none. */
static gsc_status try_to_draw(step *s, bool *projected, bool *drawn) {
    gsc__raster_buffers *buffers = &s->call.buffers;
    *projected = *drawn = false;
    if (s->info.visible == 0) return GSC_OK;
    const size_t bytes = s->info.intersections_bytes;
    void *memory = gsc__context_try_alloc(s->context, bytes, s->stream);
    if (!memory) return GSC_OK;
    buffers->intersections = memory;
    buffers->intersections_bytes = bytes;
    gsc_status status = gsc__raster_project_blend(&s->call, &s->info, drawn);
    *projected = status == GSC_OK;
    if (status == GSC_OK && *drawn) return GSC_OK;
    buffers->intersections = NULL;
    gsc__context_release(s->context, memory, bytes, s->stream);
    return status;
}

static gsc_status forward(step *s) {
    bool projected = false, drawn = false;
    s->call.sizes = s->info;
    GSC__TRY(gsc__raster_forecast(&s->call, &s->info));
    GSC__TRY(provide_state(s));
    GSC__TRY(provide_scratch(s, s->info.forward_scratch_bytes, s->info.forward_scratch_bytes));
    GSC__TRY(provide_outputs(s));
    if (!s->call.buffers.intersections) {
        GSC__TRY(try_to_draw(s, &projected, &drawn));
        note_intersections(s);
    }
    if (!projected) GSC__TRY(gsc__raster_project(&s->call, &s->info));
    const size_t render = s->info.forward_scratch_bytes, back = s->info.backward_scratch_bytes;
    if (drawn) return provide_scratch(s, 0, back);
    GSC__TRY(provide_scratch(s, render, render > back ? render : back));
    GSC__TRY(provide_intersections(s));
    return s->context->backend->raster_blend(&s->call, &s->info, NULL);
}

static gsc_status backward(step *s) {
    const gsc__backend *backend = s->context->backend;
    gsc__train *train = &s->train;
    if (!train->loss.grad_image.data)
        GSC__TRY(own(s, GRADIENT, color_bytes(s), "train_step: gradient of the colour",
                     &train->loss.grad_image.data));
    train->grads.color = train->loss.grad_image.data;
    train->grads.steps = &train->steps;
    GSC__TRY(backend->image_loss(&s->call.call, &train->loss));
    GSC__TRY(provide_scratch(s, s->info.backward_scratch_bytes, 0));
    return backend->raster_backward(&s->call, &s->info, &train->grads);
}

gsc_status gsc_train_step(gsc_context *context, const gsc_train_args *args, void *stream) {
    gsc__checker checker;
    step s = {.context = context, .stream = stream};
    GSC__TRY(gsc__begin("train_step", context, stream, &s.call.call, &checker));
    GSC__TRY(gsc__train_args(&checker, args, &s.call, &s.train));
    GSC__TRY(gsc__raster_sizes(&s.call, NULL, &s.info));
    gsc_status status = forward(&s);
    if (status == GSC_OK) status = backward(&s);
    for (int i = 0; i < BLOCKS; ++i) disown(&s, i);
    if (args->info) gsc__args_return(args->info, &s.info, sizeof s.info);
    return status;
}
