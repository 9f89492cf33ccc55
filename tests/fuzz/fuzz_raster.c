/* The rasterizer with valid and invalid descriptors and tensors: sizes, project, blend and backward
 * with the caller's buffers, or gsc_rasterize and its backward; and mark_visible. */
#include "scene.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct call {
    gsc_context *context;
    fuzz_input *input;
    fuzz_memory *memory;
    const gsc_raster_args *args;
    const gsc_raster_outputs *outputs;
    const gsc_raster_grads *grads;
} call;

/* As many bytes as wanted, or fewer, or none; NULL if that is too many. */
static DLTensor *buffer(const call *c, size_t bytes) {
    if (fuzz_chance(c->input, 8)) bytes = bytes * fuzz_byte(c->input) / 256;
    if (bytes > (size_t)1 << 24) return NULL;
    return fuzz_plain_tensor(c->memory, FUZZ_UINT8, FUZZ_SHAPE((int64_t)bytes));
}

static void own_buffers(const call *c) {
    GSC_INIT(gsc_raster_info, info);
    gsc_status status = gsc_raster_sizes(c->context, c->args, &info);
    fuzz_check_status(status);
    if (status) return;
    GSC_INIT(gsc_raster_buffers, buffers);
    buffers.state = buffer(c, info.state_bytes);
    if (fuzz_chance(c->input, 64)) buffers.scratch = buffer(c, info.forward_scratch_bytes);
    status = gsc_raster_project(c->context, c->args, &buffers, c->outputs, &info, NULL);
    fuzz_check_status(status);
    if (status) return;
    size_t lists = info.intersections_bytes;
    if (fuzz_chance(c->input, 96)) lists = info.intersections_min_bytes;
    buffers.intersections = buffer(c, lists);
    buffers.scratch = NULL;
    if (fuzz_chance(c->input, 64)) buffers.scratch = buffer(c, info.forward_scratch_bytes);
    DLTensor *overflow = NULL;
    if (fuzz_chance(c->input, 16))
        overflow = fuzz_tensor(c->input, c->memory, FUZZ_INT64, (fuzz_shape){0}, FUZZ_BYTES, false);
    status = gsc_raster_blend(c->context, c->args, &buffers, c->outputs, &info, overflow, NULL);
    fuzz_check_status(status);
    if (status) return;
    buffers.scratch = NULL;
    if (fuzz_chance(c->input, 64)) buffers.scratch = buffer(c, info.backward_scratch_bytes);
    status = gsc_raster_backward(c->context, c->args, &buffers, &info, c->grads, NULL);
    fuzz_check_status(status);
    if (status == GSC_OK && !(c->args->flags & GSC_RASTER_GRAD_ADD)) fuzz_check_outputs(c->memory);
}

static void library_buffers(const call *c) {
    gsc_raster_saved *saved = NULL;
    bool keep = !fuzz_chance(c->input, 32);
    gsc_status status = gsc_rasterize(c->context, c->args, c->outputs, keep ? &saved : NULL, NULL);
    fuzz_check_status(status);
    if (status == GSC_OK && keep) {
        status = gsc_rasterize_backward(c->context, c->args, saved, c->grads, NULL);
        fuzz_check_status(status);
        if (status == GSC_OK && !(c->args->flags & GSC_RASTER_GRAD_ADD))
            fuzz_check_outputs(c->memory);
    }
    gsc_raster_saved_free(saved, NULL);
}

static void mark(const call *c, const fuzz_scene *scene) {
    fuzz_shape shape = {1, {scene->gaussians}};
    if (scene->cameras_given) shape = FUZZ_SHAPE(scene->cameras, scene->gaussians);
    DLTensor *visible = fuzz_tensor(c->input, c->memory, FUZZ_UINT8, shape, FUZZ_BYTES, false);
    fuzz_check_status(gsc_mark_visible(c->context, c->args, visible, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_input input = {data, size};
    fuzz_memory memory = {0};
    fuzz_scene scene;
    gsc_raster_outputs outputs;
    gsc_raster_grads grads;
    gsc_context *context = fuzz_context(&input);
    static const int damages[] = {0, 0, 4, 24};
    memory.damage = damages[fuzz_range(&input, 0, 3)];
    int32_t way = fuzz_range(&input, 0, 4);
    fuzz_scene_make(&input, &memory, &scene);
    fuzz_scene_outputs(&input, &memory, &scene, &outputs);
    fuzz_scene_grads(&input, &memory, &scene, &grads);
    call c = {
        .context = context,
        .input = &input,
        .memory = &memory,
        .args = fuzz_struct(&input, &memory, &scene.args, sizeof scene.args),
        .outputs = fuzz_struct(&input, &memory, &outputs, sizeof outputs),
        .grads = fuzz_struct(&input, &memory, &grads, sizeof grads),
    };
    if (way == 4)
        mark(&c, &scene);
    else if (way >= 2)
        library_buffers(&c);
    else
        own_buffers(&c);
    fuzz_check_returned();
    fuzz_free(&memory);
    return 0;
}
