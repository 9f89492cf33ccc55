/* Training steps with valid and invalid descriptors and tensors. */
#include "scene.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { GROUPS = 8 };

typedef struct call {
    fuzz_input *input;
    fuzz_memory *memory;
    const fuzz_scene *scene;
} call;

static DLTensor *reals(const call *c, fuzz_shape shape, fuzz_fill fill) {
    return fuzz_tensor(c->input, c->memory, FUZZ_FLOAT32, shape, fill, false);
}

static const gsc_image_loss_args *make_loss(const call *c) {
    GSC_INIT(gsc_image_loss_args, loss);
    const fuzz_shape shape = fuzz_image_shape(c->scene);
    const bool bytes = fuzz_chance(c->input, 64);
    uint8_t wanted = fuzz_byte(c->input);
    loss.l1_weight = 0.8f;
    loss.ssim_weight = 0.2f;
    loss.grad_scale = fuzz_float(c->input);
    if (fuzz_chance(c->input, 16)) loss.ssim_weight = fuzz_float(c->input);
    if (fuzz_chance(c->input, 16)) loss.flags = fuzz_byte(c->input);
    loss.target = fuzz_tensor(c->input, c->memory, bytes ? FUZZ_UINT8 : FUZZ_FLOAT32, shape,
                              FUZZ_UNIT, fuzz_chance(c->input, 64));
    if (wanted & 1) loss.mask = reals(c, FUZZ_SHAPE(c->scene->height, c->scene->width), FUZZ_UNIT);
    if (!(wanted & 2)) loss.loss = reals(c, (fuzz_shape){0}, FUZZ_OUTPUT);
    if (wanted & 4) loss.parts = reals(c, FUZZ_SHAPE(3), FUZZ_OUTPUT);
    if (wanted & 8) loss.grad_image = reals(c, shape, FUZZ_OUTPUT);
    if (wanted > 250) loss.image = loss.target;
    return fuzz_struct(c->input, c->memory, &loss, sizeof loss);
}

/* Moments in the shape of the group's parameter, if that exists. */
static gsc_train_group make_group(const call *c, int32_t parameter) {
    const gsc_raster_args *args = &c->scene->args;
    const DLTensor *const given[GROUPS] = {args->means,     args->opacities,   args->scales,
                                           args->rotations, args->covariances, args->colors,
                                           args->sh,        args->sh_dc};
    const DLTensor *like = given[parameter - 1];
    fuzz_shape shape = FUZZ_SHAPE(c->scene->gaussians, 3);
    gsc_train_group group = {.parameter = parameter, .lr = 0.01f};
    if (like && like->shape && like->ndim >= 0 && like->ndim <= FUZZ_DIMS) {
        shape.ndim = like->ndim;
        for (int32_t i = 0; i < shape.ndim; i++) {
            shape.dims[i] = like->shape[i];
            if (shape.dims[i] < 0 || shape.dims[i] > 4096) shape.dims[i] = 1;
        }
    }
    group.moment1 = reals(c, shape, FUZZ_SIGNED);
    group.moment2 = reals(c, shape, FUZZ_UNIT);
    group.step = fuzz_range(c->input, 0, 3);
    if (fuzz_chance(c->input, 16)) group.beta1 = fuzz_float(c->input);
    if (fuzz_chance(c->input, 16)) group.weight_decay = fuzz_float(c->input);
    if (fuzz_chance(c->input, 4)) group.parameter = (int32_t)fuzz_word(c->input);
    return group;
}

/* The parameters that exist, and rarely others. */
static void make_groups(const call *c, gsc_train_args *train) {
    const gsc_raster_args *args = &c->scene->args;
    const DLTensor *const given[GROUPS] = {args->means,     args->opacities,   args->scales,
                                           args->rotations, args->covariances, args->colors,
                                           args->sh,        args->sh_dc};
    gsc_train_group *groups = fuzz_allocate(c->memory, GROUPS * sizeof *groups);
    uint8_t unwanted = fuzz_byte(c->input);
    for (int32_t k = 0; k < GROUPS; k++) {
        if (unwanted >> k & 1 || (!given[k] && !fuzz_chance(c->input, 8))) continue;
        groups[train->group_count++] = make_group(c, k + 1);
    }
    train->groups = groups;
    train->group_stride = sizeof *groups;
    if (fuzz_chance(c->input, 4)) train->group_stride = fuzz_byte(c->input) % sizeof *groups;
}

static const gsc_raster_buffers *make_buffers(const call *c) {
    GSC_INIT(gsc_raster_buffers, buffers);
    const DLTensor **const fields[] = {&buffers.state, &buffers.intersections, &buffers.scratch};
    for (int i = 0; i < 3; i++)
        if (fuzz_chance(c->input, 96))
            *fields[i] = fuzz_plain_tensor(c->memory, FUZZ_UINT8,
                                           FUZZ_SHAPE((int64_t)fuzz_range(c->input, 0, 40000) * 8));
    return fuzz_struct(c->input, c->memory, &buffers, sizeof buffers);
}

/* Drops an output. */
static void drop(const call *c, const DLTensor **field) {
    fuzz_memory *memory = c->memory;
    int kept = 0;
    for (int i = 0; i < memory->output_count; i++)
        if (memory->outputs[i] != *field) memory->outputs[kept++] = memory->outputs[i];
    memory->output_count = kept;
    *field = NULL;
}

static const gsc_raster_outputs *make_outputs(const call *c) {
    gsc_raster_outputs outputs;
    fuzz_scene_outputs(c->input, c->memory, c->scene, &outputs);
    if (fuzz_chance(c->input, 64)) drop(c, &outputs.color);
    return fuzz_struct(c->input, c->memory, &outputs, sizeof outputs);
}

/* Gradients of the image positions and the camera, rarely of parameters. */
static const gsc_raster_grads *make_grads(const call *c) {
    gsc_raster_grads grads;
    fuzz_scene_grads(c->input, c->memory, c->scene, &grads);
    if (!fuzz_chance(c->input, 4)) grads.color = NULL;
    const DLTensor **const parameters[GROUPS] = {
        &grads.means,       &grads.opacities, &grads.scales, &grads.rotations,
        &grads.covariances, &grads.colors,    &grads.sh,     &grads.sh_dc};
    const bool wanted = fuzz_chance(c->input, 64);
    for (int k = 0; k < GROUPS && !wanted; k++) drop(c, parameters[k]);
    return fuzz_struct(c->input, c->memory, &grads, sizeof grads);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input input = {data, size};
    fuzz_memory memory = {0};
    fuzz_scene scene;
    gsc_context *context = fuzz_context(&input);
    static const int damages[] = {0, 0, 2, 12};
    memory.damage = damages[fuzz_range(&input, 0, 3)];
    const call c = {&input, &memory, &scene};
    GSC_INIT(gsc_train_args, train);
    GSC_INIT(gsc_raster_info, info);
    uint8_t wanted = fuzz_byte(&input);
    fuzz_scene_make(&input, &memory, &scene);
    if (wanted & 128) scene.args.flags |= GSC_RASTER_LOGIT_OPACITIES;
    if (wanted & 64 && scene.args.scales) scene.args.flags |= GSC_RASTER_LOG_SCALES;
    train.flags = wanted & 3;
    if (fuzz_chance(&input, 4)) train.flags = fuzz_word(&input);
    train.loss = make_loss(&c);
    make_groups(&c, &train);
    if (wanted & 4) train.outputs = make_outputs(&c);
    if (wanted & 8) train.grads = make_grads(&c);
    if (wanted & 16) train.buffers = make_buffers(&c);
    if (wanted & 32) train.info = fuzz_struct(&input, &memory, &info, sizeof info);
    train.raster = fuzz_struct(&input, &memory, &scene.args, sizeof scene.args);
    gsc_status status =
        gsc_train_step(context, fuzz_struct(&input, &memory, &train, sizeof train), NULL);
    fuzz_check_status(status);
    if (status == GSC_OK && !(scene.args.flags & GSC_RASTER_GRAD_ADD)) fuzz_check_outputs(&memory);
    fuzz_check_returned();
    fuzz_free(&memory);
    return 0;
}
