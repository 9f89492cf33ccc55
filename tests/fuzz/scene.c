#include "scene.h"

#include <string.h>

/* [C, rest..], or without C where one camera allows it and the input says so. */
static fuzz_shape per_camera(const fuzz_scene *scene, fuzz_shape shape) {
    if (!scene->cameras_given) return shape;
    memmove(shape.dims + 1, shape.dims, (size_t)shape.ndim * sizeof *shape.dims);
    shape.dims[0] = scene->cameras;
    shape.ndim++;
    return shape;
}

fuzz_shape fuzz_image_shape(const fuzz_scene *scene) {
    return per_camera(scene, scene->pixel_last
                                 ? FUZZ_SHAPE(scene->height, scene->width, scene->channels)
                                 : FUZZ_SHAPE(scene->channels, scene->height, scene->width));
}

static fuzz_shape plane_shape(const fuzz_scene *scene) {
    return per_camera(scene, FUZZ_SHAPE(scene->height, scene->width));
}

static DLTensor *reals(fuzz_input *input, fuzz_memory *memory, fuzz_shape shape, fuzz_fill fill) {
    return fuzz_tensor(input, memory, FUZZ_FLOAT32, shape, fill, false);
}

/* Three units in front of the cloud, so that a plain input has a visible image. */
static void place_cameras(fuzz_input *input, fuzz_memory *memory, fuzz_scene *scene) {
    gsc_raster_args *args = &scene->args;
    DLTensor *view = reals(input, memory, per_camera(scene, FUZZ_SHAPE(4, 4)), FUZZ_SIGNED);
    bool whole = view && view->data && view->shape && view->ndim == 2 + scene->cameras_given;
    if (whole && view->dtype.bits == 32 && view->dtype.lanes == 1 && !view->strides &&
        !fuzz_chance(input, 32) && view->shape[view->ndim - 2] == 4 &&
        view->shape[view->ndim - 1] == 4 &&
        (!scene->cameras_given || view->shape[0] == scene->cameras)) {
        float *m = (float *)(void *)((char *)view->data + view->byte_offset / 4 * 4);
        bool rows = (args->flags & GSC_RASTER_VIEW_ROW_MAJOR) != 0;
        for (int32_t c = 0; c < scene->cameras; c++, m += 16) {
            memset(m, 0, 16 * sizeof *m);
            m[0] = m[5] = m[10] = m[15] = 1;
            m[rows ? 11 : 14] = (float)fuzz_range(input, 3, 6) - 1;
        }
    }
    args->view = view;
    if (fuzz_chance(input, 64)) {
        args->tan_fovx = args->tan_fovy = 0.7f;
        args->projection = reals(input, memory, per_camera(scene, FUZZ_SHAPE(4, 4)), FUZZ_SIGNED);
        return;
    }
    DLTensor *intrinsics =
        fuzz_plain_tensor(memory, FUZZ_FLOAT32, per_camera(scene, FUZZ_SHAPE(4)));
    float *k = intrinsics->data;
    for (int32_t c = 0; c < scene->cameras; c++, k += 4) {
        k[0] = k[1] = (float)fuzz_range(input, 20, 90);
        k[2] = (float)scene->width / 2;
        k[3] = (float)scene->height / 2;
        if (fuzz_chance(input, 32)) k[fuzz_range(input, 0, 3)] = fuzz_float(input);
    }
    args->intrinsics = intrinsics;
}

static void choose_numbers(fuzz_input *input, gsc_raster_args *args) {
    float *numbers[] = {&args->scale_modifier, &args->near_plane, &args->far_plane,
                        &args->radius_clip,    &args->blur,       &args->median_default};
    if (!fuzz_chance(input, 64)) return;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) *numbers[i] = fuzz_float(input);
}

static void make_colors(fuzz_input *input, fuzz_memory *memory, fuzz_scene *scene) {
    gsc_raster_args *args = &scene->args;
    const int64_t n = scene->gaussians;
    int32_t kind = fuzz_range(input, 0, 3);
    if (kind < 2) {
        static const int32_t channels[] = {3, 1, 2, 4, 5, 8, 17, 33};
        scene->channels = channels[fuzz_range(input, 0, 7)];
        fuzz_shape shape = FUZZ_SHAPE(n, scene->channels);
        args->colors = reals(input, memory, kind ? per_camera(scene, shape) : shape, FUZZ_UNIT);
        return;
    }
    args->sh_degree = fuzz_range(input, 0, 4);
    int64_t k = (args->sh_degree + 1) * (args->sh_degree + 1) + fuzz_range(input, 0, 1);
    if (kind == 3) {
        args->sh_dc = reals(input, memory, FUZZ_SHAPE(n, 1, 3), FUZZ_SIGNED);
        if (k == 1) return;
        k--;
    }
    args->sh = reals(input, memory, FUZZ_SHAPE(n, k, 3), FUZZ_SIGNED);
}

void fuzz_scene_make(fuzz_input *input, fuzz_memory *memory, fuzz_scene *scene) {
    memset(scene, 0, sizeof *scene);
    gsc_raster_args *args = &scene->args;
    args->struct_size = sizeof *args;
    args->flags = fuzz_byte(input);
    if (memory->damage > 0 && fuzz_chance(input, 8)) args->flags |= fuzz_word(input);
    scene->pixel_last = (args->flags & GSC_RASTER_PIXEL_LAST) != 0;
    args->width = scene->width = fuzz_range(input, 1, 48);
    args->height = scene->height = fuzz_range(input, 1, 48);
    if (memory->damage > 0 && fuzz_chance(input, 4)) args->width = (int32_t)fuzz_word(input);
    scene->gaussians = fuzz_range(input, 0, 60);
    scene->cameras = fuzz_chance(input, 48) ? fuzz_range(input, 1, 3) : 1;
    scene->cameras_given = scene->cameras > 1 || fuzz_chance(input, 64);
    scene->channels = 3;
    place_cameras(input, memory, scene);
    choose_numbers(input, args);
    make_colors(input, memory, scene);
    const int64_t n = scene->gaussians;
    if (fuzz_chance(input, 32))
        args->position = reals(input, memory, per_camera(scene, FUZZ_SHAPE(3)), FUZZ_SIGNED);
    if (fuzz_chance(input, 96)) {
        fuzz_shape shape = FUZZ_SHAPE(scene->channels);
        if (fuzz_chance(input, 64)) shape = per_camera(scene, shape);
        args->background = reals(input, memory, shape, FUZZ_UNIT);
    }
    if (fuzz_chance(input, 64))
        args->pixel_weights = reals(input, memory, plane_shape(scene), FUZZ_UNIT);
    args->means = reals(input, memory, FUZZ_SHAPE(n, 3), FUZZ_SIGNED);
    args->opacities = reals(input, memory, FUZZ_SHAPE(n), FUZZ_UNIT);
    if (fuzz_chance(input, 48)) {
        args->covariances = reals(input, memory, FUZZ_SHAPE(n, 6), FUZZ_UNIT);
    } else {
        args->scales = reals(input, memory, FUZZ_SHAPE(n, 3), FUZZ_UNIT);
        args->rotations = reals(input, memory, FUZZ_SHAPE(n, 4), FUZZ_SIGNED);
    }
}

void fuzz_scene_outputs(fuzz_input *input, fuzz_memory *memory, const fuzz_scene *scene,
                        gsc_raster_outputs *outputs) {
    memset(outputs, 0, sizeof *outputs);
    outputs->struct_size = sizeof *outputs;
    outputs->color = reals(input, memory, fuzz_image_shape(scene), FUZZ_OUTPUT);
    uint32_t wanted = (uint32_t)fuzz_range(input, 0, 65535);
    if (!scene->args.pixel_weights) wanted &= ~(UINT32_C(15) << 10);
    const int64_t n = scene->gaussians;
    const fuzz_shape list = per_camera(scene, FUZZ_SHAPE(n));
    const fuzz_shape pair = per_camera(scene, FUZZ_SHAPE(n, 2));
    const fuzz_shape triple = per_camera(scene, FUZZ_SHAPE(n, 3));
    const fuzz_shape plane = plane_shape(scene);
    const struct {
        const DLTensor **field;
        int type;
        const fuzz_shape *shape;
    } rows[] = {
        {&outputs->alpha, FUZZ_FLOAT32, &plane},
        {&outputs->depth, FUZZ_FLOAT32, &plane},
        {&outputs->inv_depth, FUZZ_FLOAT32, &plane},
        {&outputs->median_depth, FUZZ_FLOAT32, &plane},
        {&outputs->radii, FUZZ_INT32, wanted >> 15 ? &pair : &list},
        {&outputs->means2d, FUZZ_FLOAT32, &pair},
        {&outputs->depths, FUZZ_FLOAT32, &list},
        {&outputs->conics, FUZZ_FLOAT32, &triple},
        {&outputs->opacities, FUZZ_FLOAT32, &list},
        {&outputs->touched, FUZZ_INT32, &list},
        {&outputs->weight_sum, FUZZ_FLOAT32, &list},
        {&outputs->weight_count, FUZZ_INT32, &list},
        {&outputs->weight_blend, FUZZ_FLOAT32, &list},
        {&outputs->weight_distance, FUZZ_FLOAT32, &list},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (wanted >> i & 1)
            *rows[i].field =
                fuzz_tensor(input, memory, rows[i].type, *rows[i].shape, FUZZ_OUTPUT, false);
}

/* A tensor in the shape of an input. */
static DLTensor *like(fuzz_input *input, fuzz_memory *memory, const DLTensor *given) {
    fuzz_shape shape = {.ndim = given->ndim};
    if (!given->shape || given->ndim < 0 || given->ndim > FUZZ_DIMS) return NULL;
    for (int32_t i = 0; i < shape.ndim; i++) {
        shape.dims[i] = given->shape[i];
        if (shape.dims[i] < 0 || shape.dims[i] > 4096) return NULL;
    }
    return reals(input, memory, shape, FUZZ_OUTPUT);
}

void fuzz_scene_grads(fuzz_input *input, fuzz_memory *memory, const fuzz_scene *scene,
                      gsc_raster_grads *grads) {
    memset(grads, 0, sizeof *grads);
    grads->struct_size = sizeof *grads;
    uint32_t given = fuzz_byte(input), wanted = ~(uint32_t)fuzz_range(input, 0, 65535);
    const fuzz_shape plane = plane_shape(scene);
    if (!(given & 1)) grads->color = reals(input, memory, fuzz_image_shape(scene), FUZZ_SIGNED);
    if (given & 2) grads->alpha = reals(input, memory, plane, FUZZ_SIGNED);
    if (given & 4) grads->depth = reals(input, memory, plane, FUZZ_SIGNED);
    if (given & 8) grads->inv_depth = reals(input, memory, plane, FUZZ_SIGNED);
    const gsc_raster_args *args = &scene->args;
    const struct {
        const DLTensor **field, *input;
    } rows[] = {
        {&grads->means, args->means},
        {&grads->opacities, args->opacities},
        {&grads->scales, args->scales},
        {&grads->rotations, args->rotations},
        {&grads->colors, args->colors},
        {&grads->covariances, args->covariances},
        {&grads->sh, args->sh},
        {&grads->sh_dc, args->sh_dc},
        {&grads->view, args->view},
        {&grads->position, args->position},
        {&grads->background, args->background},
    };
    const size_t count = sizeof rows / sizeof *rows;
    for (size_t i = 0; i < count; i++)
        if (rows[i].input && (wanted >> i & 1)) *rows[i].field = like(input, memory, rows[i].input);
    const fuzz_shape list = per_camera(scene, FUZZ_SHAPE(scene->gaussians, given & 16 ? 3 : 2));
    if (wanted >> count & 1) grads->means2d = reals(input, memory, list, FUZZ_OUTPUT);
    if (wanted >> (count + 1) & 1) grads->means2d_abs = reals(input, memory, list, FUZZ_OUTPUT);
}
