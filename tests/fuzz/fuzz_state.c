/* Damaged buffers: after a valid call, bytes of the state, the tile lists or info change before
 * blend and before backward. */
#include "scene.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Patches of 1 to 8 bytes: raw, all ones, or a small difference. */
static void harm(fuzz_input *input, void *bytes, size_t size) {
    unsigned char *at = bytes;
    int32_t patches = fuzz_range(input, 0, 4);
    for (int32_t i = 0; i < patches && size > 0; i++) {
        size_t offset = (size_t)(fuzz_word(input) & 0xffffff) % size;
        int32_t kind = fuzz_range(input, 0, 3), length = fuzz_range(input, 1, 8);
        for (int32_t k = 0; k < length && offset < size; k++, offset++) {
            if (kind == 0) at[offset] = fuzz_byte(input);
            if (kind == 1) at[offset] = 0xff;
            if (kind == 2) at[offset] = 0;
            if (kind == 3 && k == 0) at[offset] = (unsigned char)(at[offset] + fuzz_byte(input));
        }
    }
}

static void harm_tensor(fuzz_input *input, const DLTensor *tensor) {
    harm(input, tensor->data, (size_t)tensor->shape[0]);
}

/* Not struct_size, since the caller vouches for the size of info. */
static void harm_info(fuzz_input *input, gsc_raster_info *info) {
    size_t skip = sizeof info->struct_size;
    if (fuzz_chance(input, 32)) harm(input, (char *)info + skip, sizeof *info - skip);
}

static DLTensor *buffer(fuzz_memory *memory, size_t bytes) {
    return fuzz_plain_tensor(memory, FUZZ_UINT8, FUZZ_SHAPE((int64_t)bytes));
}

static void run(fuzz_input *input, fuzz_input *harms, fuzz_memory *memory, gsc_context *context) {
    fuzz_scene scene;
    gsc_raster_outputs outputs;
    gsc_raster_grads grads;
    bool early = fuzz_chance(harms, 96);
    fuzz_scene_make(input, memory, &scene);
    fuzz_scene_outputs(input, memory, &scene, &outputs);
    fuzz_scene_grads(input, memory, &scene, &grads);
    GSC_INIT(gsc_raster_info, info);
    GSC_INIT(gsc_raster_buffers, buffers);
    if (gsc_raster_sizes(context, &scene.args, &info)) return;
    buffers.state = buffer(memory, info.state_bytes);
    if (gsc_raster_project(context, &scene.args, &buffers, &outputs, &info, NULL)) return;
    if (info.intersections_bytes > (size_t)1 << 24) return;
    buffers.intersections = buffer(memory, info.intersections_bytes);
    if (early) {
        harm_tensor(harms, buffers.state);
        harm_info(harms, &info);
    }
    gsc_status status =
        gsc_raster_blend(context, &scene.args, &buffers, &outputs, &info, NULL, NULL);
    fuzz_check_status(status);
    if (status) return;
    harm_tensor(harms, buffers.state);
    harm_tensor(harms, buffers.intersections);
    harm_info(harms, &info);
    fuzz_check_status(gsc_raster_backward(context, &scene.args, &buffers, &info, &grads, NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    /* Half of the bytes make the scene, half damage it. */
    fuzz_input input = {data, size / 2}, harms = {data + size / 2, size - size / 2};
    fuzz_memory memory = {0};
    run(&input, &harms, &memory, fuzz_context(&input));
    fuzz_check_returned();
    fuzz_free(&memory);
    return 0;
}
