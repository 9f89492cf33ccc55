#include "train_call.h"
#include "expect.h"

#include "library.h"
#include "math/real.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- the inputs */

size_t train_count(const DLTensor *t) {
    size_t count = 1;
    for (int i = 0; i < t->ndim; i++) count *= (size_t)t->shape[i];
    return count;
}

static const DLTensor *uniform(tensors *set, const DLTensor *like, double low, double high,
                               uint64_t seed) {
    double *values = reals_alloc(train_count(like));
    for (size_t i = 0; i < train_count(like); i++) values[i] = raster_random(&seed, low, high);
    const DLTensor *made = tensors_input(set, values, like->ndim, like->shape);
    free(values);
    return made;
}

static void make_target(side *s, const train_case *c, uint64_t seed) {
    s->loss.target = uniform(&s->set, s->outputs.color, 0, 1, seed);
    if (!c->bytes) return;
    const DLTensor *bytes = tensors_bytes(&s->set, train_count(s->outputs.color));
    for (size_t i = 0; i < train_count(bytes); i++)
        ((uint8_t *)bytes->data)[i] = (uint8_t)(255 * ((gsc_real *)s->loss.target->data)[i]);
    s->bytes = *s->loss.target;
    s->bytes.data = bytes->data;
    s->bytes.dtype = bytes->dtype;
    s->loss.target = &s->bytes;
}

static void list_parameters(side *s, const train_case *c) {
    const gsc_raster_args *a = &s->args;
    const DLTensor *const all[PARAMETERS] = {a->means,       a->opacities, a->scales, a->rotations,
                                             a->covariances, a->colors,    a->sh,     a->sh_dc};
    for (int k = 0; k < PARAMETERS; k++) {
        const uint64_t seed = 100 * c->scene.seed + (uint64_t)k;
        s->parameters[k] = all[k];
        if (!all[k]) continue;
        s->moments[k][0] = uniform(&s->set, all[k], -0.01, 0.01, seed);
        s->moments[k][1] = uniform(&s->set, all[k], 0, 1e-4, seed + 50);
    }
}

void side_open(side *s, const train_case *c, const scene *input) {
    memset(s, 0, sizeof *s);
    s->args.struct_size = sizeof s->args;
    s->outputs.struct_size = sizeof s->outputs;
    s->grads.struct_size = sizeof s->grads;
    s->loss.struct_size = sizeof s->loss;
    library_args(input, NULL, &s->set, &s->args);
    s->f.color = reals_alloc(scene_pixels(input) * (size_t)input->channels);
    s->f.radii = ints_alloc(scene_splats(input));
    s->f.radii_axes = 1;
    library_outputs(input, NULL, &s->set, &s->f, &s->outputs);
    gradients_alloc(&s->g, input);
    library_grads(input, NULL, &s->set, &s->g, &s->grads);
    if (!c->statistics) s->grads.means2d = s->grads.means2d_abs = NULL;
    list_parameters(s, c);
    make_target(s, c, c->scene.seed + 7);
    const int64_t one[] = {1}, three[] = {3}, pixels[] = {1, input->height, input->width};
    const double zeros[3] = {0, 0, 0};
    s->loss.l1_weight = 0.8f;
    s->loss.l2_weight = 0.1f;
    s->loss.ssim_weight = 0.2f;
    s->loss.grad_scale = 3;
    s->loss.loss = tensors_output(&s->set, zeros, 1, one);
    s->loss.parts = tensors_output(&s->set, zeros, 1, three);
    if (c->mask) {
        const DLTensor like = {.ndim = 3, .shape = (int64_t *)(uintptr_t)pixels};
        s->loss.mask = uniform(&s->set, &like, 0, 1, c->scene.seed + 8);
    }
}

void side_close(side *s) {
    frame_free(&s->f);
    gradients_free(&s->g);
    tensors_free(&s->set);
}

/* ------------------------------------------------------------- the four calls */

static void must(gsc_status status) {
    if (status != GSC_OK) fail_msg("%s", gsc_last_error());
}

/* The colour as [1, channels, H, W], for gsc_image_loss. */
static DLTensor planes_of(const DLTensor *color, bool pixel_last, int64_t shape[4],
                          int64_t strides[4]) {
    const int64_t *d = color->shape;
    DLTensor planes = *color;
    for (int i = 0; i < 4; i++) {
        shape[i] = d[i];
        strides[i] = i == 0 ? d[1] * d[2] * d[3] : i == 1 ? d[2] * d[3] : i == 2 ? d[3] : 1;
    }
    planes.shape = shape;
    planes.strides = strides;
    if (!pixel_last) return planes;
    const int64_t height = d[1], width = d[2], channels = d[3];
    const int64_t sizes[4] = {1, channels, height, width};
    const int64_t steps[4] = {height * width * channels, 1, width * channels, channels};
    memcpy(shape, sizes, sizeof sizes);
    memcpy(strides, steps, sizeof steps);
    return planes;
}

/* Without the camera dimension, which Adam does not have. */
static DLTensor by_gaussian(const DLTensor *whole, int k) {
    DLTensor view = *whole;
    if (k != GSC_PARAMETER_COLORS - 1) return view;
    view.ndim--;
    view.shape++;
    return view;
}

void train_four_calls(gsc_context *context, const train_case *c, side *s) {
    gsc_raster_saved *saved;
    must(gsc_rasterize(context, &s->args, &s->outputs, &saved, NULL));

    const bool last = (c->scene.flags & GSC_RASTER_PIXEL_LAST) != 0;
    int64_t shape[4], strides[4];
    const DLTensor *grad_color = uniform(&s->set, s->outputs.color, 0, 1, 1);
    const DLTensor image = planes_of(s->outputs.color, last, shape, strides);
    const DLTensor target = planes_of(s->loss.target, last, shape, strides);
    const DLTensor gradient = planes_of(grad_color, last, shape, strides);
    gsc_image_loss_args loss = s->loss;
    loss.image = &image;
    loss.target = &target;
    loss.grad_image = &gradient;
    must(gsc_image_loss(context, &loss, NULL));

    s->grads.color = grad_color;
    must(gsc_rasterize_backward(context, &s->args, saved, &s->grads, NULL));
    gsc_raster_saved_free(saved, NULL);

    const gsc_raster_grads *g = &s->grads;
    const DLTensor *const all[PARAMETERS] = {g->means,       g->opacities, g->scales, g->rotations,
                                             g->covariances, g->colors,    g->sh,     g->sh_dc};
    DLTensor views[PARAMETERS][4];
    gsc_adam_group groups[PARAMETERS];
    GSC_INIT(gsc_adam_args, adam);
    memset(groups, 0, sizeof groups);
    adam.groups = groups;
    adam.group_stride = sizeof groups[0];
    adam.flags = c->flags & GSC_TRAIN_DECOUPLED ? GSC_ADAM_DECOUPLED : 0;
    for (int k = 0; k < PARAMETERS; k++) {
        if (!s->parameters[k] || c->not_trained >> k & 1) continue;
        gsc_adam_group *group = &groups[adam.group_count++];
        const DLTensor *const four[4] = {s->parameters[k], all[k], s->moments[k][0],
                                         s->moments[k][1]};
        for (int i = 0; i < 4; i++) views[k][i] = by_gaussian(four[i], k);
        group->parameter = &views[k][0];
        group->gradient = &views[k][1];
        group->moment1 = &views[k][2];
        group->moment2 = &views[k][3];
        group->lr = 0.01f * (float)(k + 1);
        group->weight_decay = c->weight_decay;
        group->step = c->step;
    }
    const DLTensor visible = by_gaussian(s->outputs.radii, GSC_PARAMETER_COLORS - 1);
    if (!(c->flags & GSC_TRAIN_ALL_ROWS)) adam.visible = &visible;
    must(gsc_adam_step(context, &adam, NULL));
}

/* ---------------------------------------------------------------- the one call */

/* The gradients of parameters without a group, and of the image positions if wanted. */
static gsc_raster_grads other_grads(const train_case *c, const side *s) {
    gsc_raster_grads grads = s->grads;
    const DLTensor **const all[PARAMETERS] = {&grads.means,     &grads.opacities,   &grads.scales,
                                              &grads.rotations, &grads.covariances, &grads.colors,
                                              &grads.sh,        &grads.sh_dc};
    for (int k = 0; k < PARAMETERS; k++)
        if (!(c->not_trained >> k & 1)) *all[k] = NULL;
    grads.color = NULL;
    return grads;
}

void train_call_make(train_call *call, const train_case *c, side *s) {
    memset(call, 0, sizeof *call);
    call->args.struct_size = sizeof call->args;
    call->buffers.struct_size = sizeof call->buffers;
    call->info.struct_size = sizeof call->info;
    call->grads = other_grads(c, s);
    call->args.flags = c->flags;
    call->args.groups = call->groups;
    call->args.group_stride = sizeof call->groups[0];
    call->args.raster = &s->args;
    call->args.loss = &s->loss;
    call->args.outputs = &s->outputs;
    call->args.grads = &call->grads;
    call->args.info = &call->info;
    for (int k = PARAMETERS - 1; k >= 0; k--) {
        if (!s->parameters[k] || c->not_trained >> k & 1) continue;
        call->groups[call->args.group_count++] = (gsc_train_group){.moment1 = s->moments[k][0],
                                                                   .moment2 = s->moments[k][1],
                                                                   .parameter = k + 1,
                                                                   .lr = 0.01f * (float)(k + 1),
                                                                   .weight_decay = c->weight_decay,
                                                                   .step = c->step};
    }
}

void train_call_own_buffers(gsc_context *context, train_call *call, side *s) {
    GSC_INIT(gsc_raster_info, info);
    must(gsc_raster_sizes(context, &s->args, &info));
    call->buffers.state = tensors_bytes(&s->set, info.state_bytes);
    must(gsc_raster_project(context, &s->args, &call->buffers, NULL, &info, NULL));
    assert_true(info.intersections_bytes > 4 * info.intersections_min_bytes);
    const size_t forward = info.forward_scratch_bytes, backward = info.backward_scratch_bytes;
    call->buffers.intersections = tensors_bytes(&s->set, info.intersections_min_bytes);
    call->buffers.scratch = tensors_bytes(&s->set, forward > backward ? forward : backward);
    call->args.buffers = &call->buffers;
}
