#include "raster_call.h"

#include "expect.h"
#include "library.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void raster_call_forward(raster_call *call) {
    memset(&call->args, 0, sizeof call->args);
    memset(&call->outputs, 0, sizeof call->outputs);
    memset(&call->buffers, 0, sizeof call->buffers);
    memset(&call->info, 0, sizeof call->info);
    memset(&call->grads, 0, sizeof call->grads);
    call->args.struct_size = sizeof call->args;
    call->outputs.struct_size = sizeof call->outputs;
    call->buffers.struct_size = sizeof call->buffers;
    call->info.struct_size = sizeof call->info;
    call->grads.struct_size = sizeof call->grads;
    tensors_free(&call->set);
    library_args(&call->s, NULL, &call->set, &call->args);
    library_outputs(&call->s, NULL, &call->set, &call->f, &call->outputs);
    library_grads(&call->s, NULL, &call->set, &call->g, &call->grads);
    expect_ok(gsc_raster_sizes(call->context, &call->args, &call->info));
    call->buffers.state = tensors_bytes(&call->set, call->info.state_bytes);
    expect_ok(gsc_raster_project(call->context, &call->args, &call->buffers, &call->outputs,
                                 &call->info, NULL));
    if (call->info.intersections_bytes) {
        call->buffers.intersections = tensors_bytes(&call->set, call->info.intersections_bytes);
    }
    expect_ok(gsc_raster_blend(call->context, &call->args, &call->buffers, &call->outputs,
                               &call->info, NULL, NULL));
}

void raster_call_open(raster_call *call, gsc_context *context, const raster_scene_options *options,
                      void (*change)(scene *s)) {
    memset(call, 0, sizeof *call);
    call->context = context;
    raster_scene_make(&call->s, options);
    if (change) change(&call->s);
    gradients_alloc(&call->g, &call->s);
    raster_scene_upstream(&call->s, GRAD_ALL, options->seed, &call->g);
    call->f.color = reals_alloc(scene_pixels(&call->s) * (size_t)call->s.channels);
    raster_call_forward(call);
}

void raster_call_close(raster_call *call) {
    frame_free(&call->f);
    gradients_free(&call->g);
    scene_free(&call->s);
    tensors_free(&call->set);
}

const DLTensor **raster_call_grad(gsc_raster_grads *g, int i) {
    const DLTensor **fields[RASTER_GRADS] = {
        &g->means,  &g->opacities, &g->scales,    &g->rotations, &g->covariances,
        &g->colors, &g->sh,        &g->sh_dc,     &g->means2d,   &g->means2d_abs,
        &g->view,   &g->position,  &g->background};
    return fields[i];
}

const char *raster_call_grad_name(int i) {
    static const char *const names[RASTER_GRADS] = {
        "means", "opacities", "scales",      "rotations", "covariances", "colors",    "sh",
        "sh_dc", "means2d",   "means2d_abs", "view",      "position",    "background"};
    return names[i];
}

size_t raster_call_count(const DLTensor *grad) {
    size_t count = 1;
    for (int i = 0; i < grad->ndim; i++) count *= (size_t)grad->shape[i];
    return count;
}

void raster_call_fill(const gsc_raster_grads *grads, double value) {
    gsc_raster_grads fields = *grads;
    for (int i = 0; i < RASTER_GRADS; i++) {
        const DLTensor *grad = *raster_call_grad(&fields, i);
        for (size_t k = 0; grad && k < raster_call_count(grad); k++) {
            ((gsc_real *)grad->data)[k] = (gsc_real)value;
        }
    }
}

gsc_status raster_call_backward(raster_call *call) {
    raster_call_fill(&call->grads, (double)NAN);
    return gsc_raster_backward(call->context, &call->args, &call->buffers, &call->info,
                               &call->grads, NULL);
}

void raster_call_expect_backward(raster_call *call) {
    expect_ok(raster_call_backward(call));
    assert_true(tensors_guarded(&call->set));
}

float *raster_call_values(const DLTensor *grad) {
    return (float *)grad->data;
}

float *raster_call_copy(const DLTensor *grad) {
    const size_t bytes = raster_call_count(grad) * sizeof(float);
    float *copy = (float *)malloc(bytes + 1);
    assert_non_null(copy);
    memcpy(copy, grad->data, bytes);
    return copy;
}

/* FNV-1a. */
uint64_t raster_call_hash(const gsc_raster_grads *grads) {
    gsc_raster_grads fields = *grads;
    uint64_t hash = UINT64_C(14695981039346656037);
    for (int i = 0; i < RASTER_GRADS; i++) {
        const DLTensor *grad = *raster_call_grad(&fields, i);
        if (!grad) continue;
        const unsigned char *bytes = (const unsigned char *)grad->data;
        for (size_t k = 0; k < raster_call_count(grad) * sizeof(gsc_real); k++) {
            hash = (hash ^ bytes[k]) * UINT64_C(1099511628211);
        }
    }
    return hash;
}

DLTensor raster_call_cut(const DLTensor *bytes, size_t size, int64_t *shape) {
    DLTensor cut = *bytes;
    *shape = (int64_t)size;
    cut.shape = shape;
    return cut;
}
