/* A training step on a random scene: as one call, and as the four calls that it combines. */
#ifndef TESTS_TRAIN_CALL_H
#define TESTS_TRAIN_CALL_H

#include "raster_scene.h"
#include "tensors.h"

enum { PARAMETERS = GSC_PARAMETER_SH_DC };

typedef struct train_case {
    const char *name;
    raster_scene_options scene;
    uint32_t flags;       /* GSC_TRAIN_* */
    uint32_t not_trained; /* bits of parameters whose gradients are computed instead */
    float weight_decay;
    int32_t step;
    bool bytes, mask, statistics; /* byte target; mask; gradients of the image positions */
    bool bands;                   /* an intersection buffer that holds the fullest tile only */
} train_case;

/* The data of one of the two ways. */
typedef struct side {
    tensors set;
    gsc_raster_args args;
    gsc_raster_outputs outputs;
    gsc_raster_grads grads;
    gsc_image_loss_args loss;
    DLTensor bytes; /* the target, if it is bytes */
    const DLTensor *parameters[PARAMETERS], *moments[PARAMETERS][2];
    frame f;
    gradients g;
} side;

size_t train_count(const DLTensor *tensor);

/* Makes the parameters, moments, target and outputs of one way. */
void side_open(side *s, const train_case *c, const scene *input);
void side_close(side *s);

typedef struct train_call {
    gsc_train_args args;
    gsc_train_group groups[PARAMETERS];
    gsc_raster_buffers buffers;
    gsc_raster_info info;
    gsc_raster_grads grads;
} train_call;

/* The four calls; the test fails if one fails. */
void train_four_calls(gsc_context *context, const train_case *c, side *s);

void train_call_make(train_call *call, const train_case *c, side *s);
/* Allocates every buffer, the intersections for the fullest tile only. */
void train_call_own_buffers(gsc_context *context, train_call *call, side *s);

#endif
