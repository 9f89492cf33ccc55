/* A random scene, rasterized in two steps with our own buffers, ready for backward. */
#ifndef TESTS_RASTER_CALL_H
#define TESTS_RASTER_CALL_H

#include "math/real.h"
#include "raster_scene.h"
#include "tensors.h"

#define RASTER_GRADS 13 /* tensors that backward can write */

typedef struct raster_call {
    gsc_context *context;
    scene s;
    gradients g; /* the gradients to compute, and upstream ones */
    frame f;
    tensors set;
    gsc_raster_args args;
    gsc_raster_outputs outputs;
    gsc_raster_buffers buffers; /* the context allocates scratch */
    gsc_raster_info info;
    gsc_raster_grads grads;
} raster_call;

/* change (may be NULL) alters the scene before it becomes tensors. */
void raster_call_open(raster_call *call, gsc_context *context, const raster_scene_options *options,
                      void (*change)(scene *s));
void raster_call_close(raster_call *call);

/* Makes the tensors again, after the scene's arrays changed, and runs forward. */
void raster_call_forward(raster_call *call);

/* Field i of grads in the order of the header, NULL if it is not wanted; its name; the number of
 * elements of a gradient. */
const DLTensor **raster_call_grad(gsc_raster_grads *grads, int i);
const char *raster_call_grad_name(int i);
size_t raster_call_count(const DLTensor *grad);

/* Sets every element of every gradient. */
void raster_call_fill(const gsc_raster_grads *grads, double value);
/* Fills with NaN, then runs backward. */
gsc_status raster_call_backward(raster_call *call);
/* The same; fails the test unless it succeeds and writes within its buffers. */
void raster_call_expect_backward(raster_call *call);
/* The elements of a float32 gradient, and a copy of them; to be freed. */
float *raster_call_values(const DLTensor *grad);
float *raster_call_copy(const DLTensor *grad);
/* A hash of all bits of all gradients. */
uint64_t raster_call_hash(const gsc_raster_grads *grads);

/* The byte tensor cut to size bytes; *shape holds its shape. */
DLTensor raster_call_cut(const DLTensor *bytes, size_t size, int64_t *shape);

#endif
