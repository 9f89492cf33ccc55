/* Nearest neighbours, SSIM, image loss and Adam with valid and invalid descriptors and tensors. */
#include "tensor.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct call {
    gsc_context *context;
    fuzz_input *input;
    fuzz_memory *memory;
} call;

static DLTensor *reals(const call *c, fuzz_shape shape, fuzz_fill fill) {
    return fuzz_tensor(c->input, c->memory, FUZZ_FLOAT32, shape, fill, false);
}

static void finish(const call *c, gsc_status status) {
    fuzz_check_status(status);
    if (status == GSC_OK) fuzz_check_outputs(c->memory);
    fuzz_check_returned();
}

static uint32_t flags(const call *c) {
    if (c->memory->damage > 0 && fuzz_chance(c->input, 8)) return fuzz_word(c->input);
    return 0;
}

/* Points in the cube, or few distinct ones: duplicates, lines and planes. */
static DLTensor *points(const call *c, int64_t count) {
    DLTensor *tensor = reals(c, FUZZ_SHAPE(count, 3), FUZZ_SIGNED);
    if (c->memory->damage > 0 || !fuzz_chance(c->input, 96)) return tensor;
    float *p = tensor->data;
    int32_t grid = fuzz_range(c->input, 0, 8), flat = fuzz_range(c->input, 0, 2);
    for (int64_t i = 0; i < 3 * count; i++) {
        if (i % 3 < flat) p[i] = 0;
        if (p[i] >= -1 && p[i] <= 1) p[i] = (float)(int)(p[i] * (float)grid);
    }
    return tensor;
}

static void fuzz_knn(const call *c) {
    GSC_INIT(gsc_knn_args, args);
    int64_t n = fuzz_range(c->input, 0, 600), m = n;
    args.flags = flags(c);
    args.k = fuzz_range(c->input, 0, 20);
    if (fuzz_chance(c->input, 16)) args.k = fuzz_range(c->input, -2, 300);
    int64_t k = args.k == 0 ? 3 : args.k < 0 ? 1 : args.k;
    args.points = points(c, n);
    if (fuzz_chance(c->input, 96)) {
        m = fuzz_range(c->input, 0, 80);
        args.queries = points(c, m);
    }
    uint8_t wanted = fuzz_byte(c->input);
    int type = wanted & 8 ? FUZZ_INT32 : FUZZ_INT64;
    if (!(wanted & 1))
        args.indices = fuzz_tensor(c->input, c->memory, type, FUZZ_SHAPE(m, k), FUZZ_OUTPUT, false);
    if (!(wanted & 2)) args.distances2 = reals(c, FUZZ_SHAPE(m, k), FUZZ_OUTPUT);
    if (!(wanted & 4)) args.mean2 = reals(c, FUZZ_SHAPE(m), FUZZ_OUTPUT);
    gsc_knn_args *copy = fuzz_struct(c->input, c->memory, &args, sizeof args);
    if (fuzz_chance(c->input, 48)) {
        size_t bytes = 0;
        fuzz_check_status(gsc_knn_scratch_bytes(c->context, copy, &bytes));
        if (fuzz_chance(c->input, 32)) bytes = bytes * fuzz_byte(c->input) / 256;
        if (bytes < (size_t)1 << 24 && copy->struct_size == sizeof args)
            copy->scratch = fuzz_plain_tensor(c->memory, FUZZ_UINT8, FUZZ_SHAPE((int64_t)bytes));
    }
    finish(c, gsc_knn(c->context, copy, NULL));
}

typedef struct window_choice {
    int32_t window;
    float sigma, c1, c2;
} window_choice;

static window_choice choose_window(const call *c) {
    window_choice choice = {0};
    if (fuzz_chance(c->input, 96)) choice.window = 2 * fuzz_range(c->input, 0, 16) + 1;
    if (c->memory->damage > 0 && fuzz_chance(c->input, 8))
        choice.window = fuzz_range(c->input, -3, 40);
    choice.sigma = fuzz_float(c->input);
    choice.c1 = fuzz_float(c->input);
    choice.c2 = fuzz_float(c->input);
    return choice;
}

static fuzz_shape image_shape(const call *c) {
    return FUZZ_SHAPE(fuzz_range(c->input, 0, 2), fuzz_range(c->input, 0, 4),
                      fuzz_range(c->input, 0, 50), fuzz_range(c->input, 0, 50));
}

static DLTensor *image(const call *c, fuzz_shape shape, fuzz_fill fill) {
    return fuzz_tensor(c->input, c->memory, FUZZ_FLOAT32, shape, fill, fuzz_chance(c->input, 64));
}

static void fuzz_ssim(const call *c) {
    GSC_INIT(gsc_ssim_args, args);
    fuzz_shape shape = image_shape(c), map = shape;
    window_choice window = choose_window(c);
    args.flags = flags(c) | (fuzz_chance(c->input, 96) ? GSC_SSIM_VALID : 0);
    args.window = window.window;
    args.sigma = window.sigma;
    args.c1 = window.c1;
    args.c2 = window.c2;
    if (args.flags & GSC_SSIM_VALID)
        for (int i = 2; i < 4; i++) {
            map.dims[i] -= (args.window ? args.window : 11) - 1;
            if (map.dims[i] < 0) map.dims[i] = 0;
        }
    args.image = image(c, shape, FUZZ_UNIT);
    args.target = image(c, shape, FUZZ_UNIT);
    uint8_t wanted = fuzz_byte(c->input);
    bool backward = wanted & 1;
    if (!backward) {
        if (!(wanted & 2)) args.map = reals(c, map, FUZZ_OUTPUT);
        if (!(wanted & 4)) args.mean = reals(c, (fuzz_shape){0}, FUZZ_OUTPUT);
    } else {
        if (wanted & 2) args.grad_map = image(c, map, FUZZ_SIGNED);
        if (!(wanted & 4)) args.grad_mean = reals(c, FUZZ_SHAPE(1), FUZZ_SIGNED);
        if (!(wanted & 8)) args.grad_image = image(c, shape, FUZZ_OUTPUT);
        if (!(wanted & 16)) args.grad_target = image(c, shape, FUZZ_OUTPUT);
    }
    const gsc_ssim_args *copy = fuzz_struct(c->input, c->memory, &args, sizeof args);
    finish(c, backward ? gsc_ssim_backward(c->context, copy, NULL)
                       : gsc_ssim_forward(c->context, copy, NULL));
}

static void fuzz_loss(const call *c) {
    GSC_INIT(gsc_image_loss_args, args);
    fuzz_shape shape = image_shape(c);
    window_choice window = choose_window(c);
    args.flags = flags(c) | (fuzz_chance(c->input, 96) ? GSC_SSIM_VALID : 0);
    args.window = window.window;
    args.sigma = window.sigma;
    args.c1 = window.c1;
    args.c2 = window.c2;
    args.l1_weight = fuzz_chance(c->input, 48) ? fuzz_float(c->input) : 0.8f;
    args.l2_weight = fuzz_float(c->input);
    args.ssim_weight = fuzz_chance(c->input, 48) ? fuzz_float(c->input) : 0.2f;
    args.grad_scale = fuzz_float(c->input);
    args.image = image(c, shape, FUZZ_UNIT);
    bool bytes = fuzz_chance(c->input, 64);
    args.target = fuzz_tensor(c->input, c->memory, bytes ? FUZZ_UINT8 : FUZZ_FLOAT32, shape,
                              FUZZ_UNIT, fuzz_chance(c->input, 64));
    uint8_t wanted = fuzz_byte(c->input);
    static const int masks[] = {FUZZ_FLOAT32, FUZZ_BOOL, FUZZ_UINT8, FUZZ_INT32};
    if (wanted & 1) {
        fuzz_shape mask = FUZZ_SHAPE(shape.dims[0], shape.dims[2], shape.dims[3]);
        if (wanted & 2) mask = FUZZ_SHAPE(shape.dims[2], shape.dims[3]);
        args.mask = fuzz_tensor(c->input, c->memory, masks[wanted >> 6], mask, FUZZ_UNIT,
                                fuzz_chance(c->input, 64));
    }
    if (!(wanted & 4)) args.loss = reals(c, (fuzz_shape){0}, FUZZ_OUTPUT);
    if (!(wanted & 8)) args.parts = reals(c, FUZZ_SHAPE(3), FUZZ_OUTPUT);
    if (!(wanted & 16)) args.grad_image = image(c, shape, FUZZ_OUTPUT);
    finish(c,
           gsc_image_loss(c->context, fuzz_struct(c->input, c->memory, &args, sizeof args), NULL));
}

static void make_group(const call *c, int64_t rows, gsc_adam_group *group) {
    fuzz_shape shape = FUZZ_SHAPE(rows, fuzz_range(c->input, 0, 20), 1, 1);
    shape.ndim = fuzz_range(c->input, 1, 4);
    group->parameter = reals(c, shape, FUZZ_SIGNED);
    group->gradient = reals(c, shape, FUZZ_SIGNED);
    group->moment1 = reals(c, shape, FUZZ_SIGNED);
    group->moment2 = reals(c, shape, FUZZ_UNIT);
    group->lr = 0.01f;
    float *numbers[] = {&group->lr, &group->beta1, &group->beta2, &group->epsilon,
                        &group->weight_decay};
    if (fuzz_chance(c->input, 64))
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            *numbers[i] = fuzz_float(c->input);
    group->step = fuzz_range(c->input, 0, 3);
    if (fuzz_chance(c->input, 8)) group->step = (int32_t)fuzz_word(c->input);
}

static void fuzz_adam(const call *c) {
    GSC_INIT(gsc_adam_args, args);
    gsc_adam_group group[4];
    memset(group, 0, sizeof group);
    int64_t rows = fuzz_range(c->input, 0, 200);
    args.flags = flags(c) | (fuzz_chance(c->input, 64) ? GSC_ADAM_DECOUPLED : 0);
    args.group_count = (uint32_t)fuzz_range(c->input, 0, 4);
    for (uint32_t i = 0; i < args.group_count; i++) make_group(c, rows, &group[i]);
    /* Groups from an older or a newer caller: shorter or longer structs. */
    size_t known = sizeof *group;
    args.group_stride = known;
    if (c->memory->damage > 0 && fuzz_chance(c->input, 16))
        args.group_stride = (size_t)fuzz_range(c->input, 0, (int32_t)known + 16);
    size_t stride = args.group_stride, used = stride < known ? stride : known;
    char *groups = fuzz_allocate(c->memory, stride * args.group_count);
    for (uint32_t i = 0; i < args.group_count; i++) memcpy(groups + i * stride, &group[i], used);
    args.groups = (const gsc_adam_group *)(const void *)groups;
    static const int types[] = {FUZZ_BOOL, FUZZ_UINT8, FUZZ_INT32, FUZZ_FLOAT32};
    if (fuzz_chance(c->input, 96))
        args.visible = fuzz_tensor(c->input, c->memory, types[fuzz_range(c->input, 0, 3)],
                                   FUZZ_SHAPE(rows), FUZZ_BYTES, false);
    finish(c,
           gsc_adam_step(c->context, fuzz_struct(c->input, c->memory, &args, sizeof args), NULL));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static void (*const operations[])(const call *) = {fuzz_knn, fuzz_ssim, fuzz_loss, fuzz_adam};
    static const int damages[] = {0, 0, 8, 40};
    fuzz_input input = {data, size};
    fuzz_memory memory = {0};
    call c = {fuzz_context(&input), &input, &memory};
    memory.damage = damages[fuzz_range(&input, 0, 3)];
    operations[fuzz_range(&input, 0, 3)](&c);
    fuzz_free(&memory);
    return 0;
}
