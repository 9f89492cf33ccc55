#include "bench_cases.h"

#include "text.h"

#include <math.h>
#include <string.h>

static bool project(struct bench *bench) {
    return renderer_project(&bench->to);
}

static bool blend(struct bench *bench) {
    return renderer_blend(&bench->to);
}

static bool rasterize(struct bench *bench) {
    return project(bench) && blend(bench);
}

static bool allocate(struct bench *bench, int index, int ndim, const int64_t *shape) {
    return array_allocate(&bench->arrays[index], &bench->to.device, ndim, shape);
}

static bool fill(struct array *array, float value) {
    float *data = array_host(array);
    size_t count = array_bytes(array) / sizeof *data;
    for (size_t i = 0; data && i < count; i++) data[i] = value;
    return data && array_send(array);
}

/* ---------------------------------------------------------------- backward */

/* All gradients that training needs, of the mean of the picture. */
static bool prepare_backward(struct bench *bench) {
    const renderer *to = &bench->to;
    const int64_t n = bench->scene->count;
    if (!rasterize(bench) || !allocate(bench, 0, 3, to->color.shape) ||
        !allocate(bench, 1, 2, to->means.shape) || !allocate(bench, 2, 2, to->scales.shape) ||
        !allocate(bench, 3, 2, to->rotations.shape) ||
        !allocate(bench, 4, 1, to->opacities.shape) || !allocate(bench, 5, 3, to->sh.shape) ||
        !allocate(bench, 6, 2, (const int64_t[]){n, 2}))
        return false;
    float pixels = (float)(to->color.shape[0] * to->color.shape[1]);
    return fill(&bench->arrays[0], 1 / (3 * pixels));
}

static bool run_backward(struct bench *bench) {
    renderer *to = &bench->to;
    if (!array_reserve(&to->scratch, &to->device, to->info.backward_scratch_bytes)) return false;
    GSC_INIT(gsc_raster_grads, grads);
    grads.color = &bench->arrays[0].view;
    grads.means = &bench->arrays[1].view;
    grads.scales = &bench->arrays[2].view;
    grads.rotations = &bench->arrays[3].view;
    grads.opacities = &bench->arrays[4].view;
    grads.sh = &bench->arrays[5].view;
    grads.means2d = &bench->arrays[6].view;
    return check_status(gsc_raster_backward(to->context, &to->args, &to->buffers, &to->info, &grads,
                                            to->device.stream));
}

static bool run_training(struct bench *bench) {
    return rasterize(bench) && run_backward(bench);
}

/* -------------------------------------------------------- nearest neighbours */

static bool prepare_knn(struct bench *bench) {
    return allocate(bench, 0, 1, (const int64_t[]){bench->scene->count});
}

/* The mean distance to three neighbours, from which training starts its scales. */
static bool run_knn(struct bench *bench) {
    GSC_INIT(gsc_knn_args, args);
    args.k = 3;
    args.points = &bench->to.means.view;
    args.mean2 = &bench->arrays[0].view;
    return check_status(gsc_knn(bench->to.context, &args, bench->to.device.stream));
}

/* ------------------------------------------------------------------- images */

/* The picture [H, W, 3] with its channels first, and the same shifted by a pixel. */
static bool make_pair(struct bench *bench, const float *color, int64_t pixels) {
    float *image = array_host(&bench->arrays[0]), *target = array_host(&bench->arrays[1]);
    if (!image || !target) return false;
    for (int64_t i = 0; i < pixels; i++)
        for (int64_t channel = 0; channel < 3; channel++) {
            image[channel * pixels + i] = color[3 * i + channel];
            target[channel * pixels + i] = color[3 * (i ? i - 1 : 0) + channel];
        }
    return array_send(&bench->arrays[0]) && array_send(&bench->arrays[1]);
}

/* Arrays: 0 the picture, 1 the shifted picture, 2 a scalar. */
static bool prepare_images(struct bench *bench) {
    if (!rasterize(bench)) return false;
    const int64_t h = bench->to.color.shape[0], w = bench->to.color.shape[1];
    const float *color = array_fetch(&bench->to.color);
    if (!color) return false;
    for (int i = 0; i < 2; i++)
        if (!allocate(bench, i, 4, (const int64_t[]){1, 3, h, w})) return false;
    if (!allocate(bench, 2, 1, (const int64_t[]){1}) || !fill(&bench->arrays[2], 1) ||
        !make_pair(bench, color, h * w))
        return false;
    renderer_drop(&bench->to);
    return true;
}

/* Array 3: a gradient with respect to the picture. */
static bool prepare_image_gradient(struct bench *bench) {
    return prepare_images(bench) && allocate(bench, 3, 4, bench->arrays[0].shape);
}

static void ssim_args(struct bench *bench, gsc_ssim_args *args) {
    memset(args, 0, sizeof *args);
    args->struct_size = sizeof *args;
    args->image = &bench->arrays[0].view;
    args->target = &bench->arrays[1].view;
}

static bool run_ssim_forward(struct bench *bench) {
    gsc_ssim_args args;
    ssim_args(bench, &args);
    args.mean = &bench->arrays[2].view;
    return check_status(gsc_ssim_forward(bench->to.context, &args, bench->to.device.stream));
}

static bool run_ssim_backward(struct bench *bench) {
    gsc_ssim_args args;
    ssim_args(bench, &args);
    args.grad_mean = &bench->arrays[2].view;
    args.grad_image = &bench->arrays[3].view;
    return check_status(gsc_ssim_backward(bench->to.context, &args, bench->to.device.stream));
}

static bool run_image_loss(struct bench *bench) {
    GSC_INIT(gsc_image_loss_args, args);
    args.l1_weight = 0.8f;
    args.ssim_weight = 0.2f;
    args.image = &bench->arrays[0].view;
    args.target = &bench->arrays[1].view;
    args.grad_image = &bench->arrays[3].view;
    args.loss = &bench->arrays[2].view;
    return check_status(gsc_image_loss(bench->to.context, &args, bench->to.device.stream));
}

/* -------------------------------------------------------------------- Adam */

/* Parameter, gradient and the two moments of all values of a Gaussian. */
static bool prepare_adam(struct bench *bench) {
    const int64_t row = 3 + 3 + 4 + 1 + 3 * (int64_t)bench->scene->sh_coefficients;
    for (int i = 0; i < 4; i++)
        if (!allocate(bench, i, 2, (const int64_t[]){bench->scene->count, row})) return false;
    return fill(&bench->arrays[0], 0.01f) && fill(&bench->arrays[1], 0.01f) &&
           fill(&bench->arrays[2], 0) && fill(&bench->arrays[3], 0);
}

static bool run_adam(struct bench *bench) {
    gsc_adam_group group = {0};
    group.parameter = &bench->arrays[0].view;
    group.gradient = &bench->arrays[1].view;
    group.moment1 = &bench->arrays[2].view;
    group.moment2 = &bench->arrays[3].view;
    group.lr = 1e-3f;
    group.step = 1;
    GSC_INIT(gsc_adam_args, args);
    args.groups = &group;
    args.group_count = 1;
    args.group_stride = sizeof group;
    return check_status(gsc_adam_step(bench->to.context, &args, bench->to.device.stream));
}

const struct bench_case bench_cases[] = {
    {"project", "project, sort and count the Gaussians", 0, NULL, project},
    {"blend", "make the tile lists and blend", 0, project, blend},
    {"forward", "both of these", 0, NULL, rasterize},
    {"backward", "gradients of all parameters", 1, prepare_backward, run_backward},
    {"training", "forward and backward", 1, prepare_backward, run_training},
    {"knn", "mean squared distance to 3 neighbours", 0, prepare_knn, run_knn},
    {"ssim", "mean SSIM of two pictures", 3, prepare_images, run_ssim_forward},
    {"ssim-backward", "its gradient", 7, prepare_image_gradient, run_ssim_backward},
    {"image-loss", "0.8 L1 + 0.2 (1 - SSIM) and its gradient", 3, prepare_image_gradient,
     run_image_loss},
    {"adam", "one step of all parameters", 15, prepare_adam, run_adam},
};
const size_t bench_case_count = sizeof bench_cases / sizeof *bench_cases;

size_t bench_input_bytes(const struct bench *bench, const struct bench_case *what) {
    size_t bytes = 0;
    for (int i = 0; i < BENCH_ARRAYS; i++)
        if (what->inputs >> i & 1) bytes += array_bytes(&bench->arrays[i]);
    return bytes;
}

void bench_release(struct bench *bench) {
    for (int i = 0; i < BENCH_ARRAYS; i++) array_free(&bench->arrays[i]);
    renderer_drop(&bench->to);
}

/* ------------------------------------------------------------ random scene */

/* SplitMix64 (Steele et al. 2014): the same numbers on every system. */
static float random_unit(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (float)((z ^ (z >> 31)) >> 40) * (1.0f / 16777216);
}

/* Sizes are proportional to the mean distance of neighbours: any count fills the cube. */
bool bench_scene(gaussians *scene, int64_t count, int32_t sh_degree) {
    if (!gaussians_allocate(scene, count, sh_degree)) return false;
    uint64_t state = 1;
    const float spacing = 2.0f / cbrtf((float)count);
    for (int64_t n = 0; n < count; n++) {
        for (int i = 0; i < 3; i++) scene->means[3 * n + i] = 2 * random_unit(&state) - 1;
        for (int i = 0; i < 3; i++)
            scene->scales[3 * n + i] = spacing * (0.1f + 0.5f * random_unit(&state));
        for (int i = 0; i < 4; i++) scene->rotations[4 * n + i] = 2 * random_unit(&state) - 1;
        scene->opacities[n] = random_unit(&state);
        float *sh = scene->sh + n * scene->sh_coefficients * 3;
        for (int i = 0; i < 3; i++) sh[i] = 3 * random_unit(&state) - 1.5f;
        for (int i = 3; i < 3 * scene->sh_coefficients; i++)
            sh[i] = 0.2f * random_unit(&state) - 0.1f;
    }
    return true;
}
