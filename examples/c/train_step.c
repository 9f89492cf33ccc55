/* Fits Gaussians to two pictures: forward, loss, backward and Adam, on the CPU.
 *
 *     cc train_step.c $(pkg-config --cflags --libs gsplat_c) -o train_step
 *     ./train_step
 *
 * It optimises what training stores, the logarithm of scales and the logit of opacities, so that
 * no step can leave their range.  The library takes activated values; unactivate() applies the
 * chain rule.
 */
#include <gsplat_c.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SPLATS = 150, CAMERAS = 2, WIDTH = 96, HEIGHT = 72, STEPS = 150 };
enum { MEANS, SCALES, ROTATIONS, OPACITIES, COLORS, PARAMETERS };

static const int64_t columns[PARAMETERS] = {3, 3, 4, 1, 3};
static const float learning_rates[PARAMETERS] = {0.01f, 0.02f, 0.01f, 0.05f, 0.02f};

/* float32 memory on the CPU with its shape. */
typedef struct array {
    DLTensor view;
    int64_t shape[4];
    float *data;
} array;

/* One parameter of every Gaussian, [SPLATS, columns]. */
typedef struct parameter {
    array stored, active, gradient, moment1, moment2;
} parameter;

/* Zeros; exits if memory runs out. */
static void make_array(array *a, int32_t ndim, int64_t d0, int64_t d1, int64_t d2, int64_t d3) {
    *a = (array){.shape = {d0, d1, d2, d3}};
    int64_t count = 1;
    for (int i = 0; i < ndim; i++) count *= a->shape[i];
    a->data = calloc((size_t)count, sizeof *a->data);
    if (!a->data) {
        fprintf(stderr, "out of memory\n");
        exit(1);
    }
    a->view = (DLTensor){a->data, {kDLCPU, 0}, ndim, {kDLFloat, 32, 1}, a->shape, NULL, 0};
}

static void check(gsc_status status) {
    if (status == GSC_OK) return;
    fprintf(stderr, "%s\n", gsc_last_error());
    exit(1);
}

/* ----------------------------------------------------------------- parameters */

static float uniform(float low, float high) {
    return low + (high - low) * (float)rand() / (float)RAND_MAX;
}

static void make_parameters(parameter p[PARAMETERS]) {
    for (int k = 0; k < PARAMETERS; k++) {
        array *arrays[] = {&p[k].stored, &p[k].active, &p[k].gradient, &p[k].moment1,
                           &p[k].moment2};
        for (int i = 0; i < 5; i++) make_array(arrays[i], 2, SPLATS, columns[k], 0, 0);
    }
    for (int n = 0; n < SPLATS; n++) {
        for (int i = 0; i < 3; i++) {
            p[MEANS].stored.data[3 * n + i] = uniform(-1, 1);
            p[SCALES].stored.data[3 * n + i] = uniform(-2.5f, -1.5f);
            p[COLORS].stored.data[3 * n + i] = uniform(0, 1);
        }
        for (int i = 0; i < 4; i++) p[ROTATIONS].stored.data[4 * n + i] = uniform(-1, 1);
        p[OPACITIES].stored.data[n] = uniform(0, 2);
    }
}

static void free_parameters(parameter p[PARAMETERS]) {
    for (int k = 0; k < PARAMETERS; k++) {
        free(p[k].stored.data);
        free(p[k].active.data);
        free(p[k].gradient.data);
        free(p[k].moment1.data);
        free(p[k].moment2.data);
    }
}

static void activate(parameter p[PARAMETERS]) {
    for (int k = 0; k < PARAMETERS; k++) {
        for (int64_t i = 0; i < SPLATS * columns[k]; i++) {
            float value = p[k].stored.data[i];
            if (k == SCALES) value = expf(value);
            if (k == OPACITIES) value = 1 / (1 + expf(-value));
            p[k].active.data[i] = value;
        }
    }
}

/* Turns gradients of activated values into gradients of stored ones. */
static void unactivate(parameter p[PARAMETERS]) {
    for (int64_t i = 0; i < SPLATS * columns[SCALES]; i++)
        p[SCALES].gradient.data[i] *= p[SCALES].active.data[i];
    for (int64_t i = 0; i < SPLATS; i++) {
        float opacity = p[OPACITIES].active.data[i];
        p[OPACITIES].gradient.data[i] *= opacity * (1 - opacity);
    }
}

/* ----------------------------------------------------------------------- step */

/* One camera before the Gaussians, one to their right. */
static void aim(array *view, array *intrinsics) {
    static const float views[CAMERAS][16] = {
        {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 4, 1},
        {0, 0, -1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 4, 1},
    };
    static const float pinhole[4] = {100, 100, WIDTH / 2.0f, HEIGHT / 2.0f};
    make_array(view, 3, CAMERAS, 4, 4, 0);
    make_array(intrinsics, 2, CAMERAS, 4, 0, 0);
    memcpy(view->data, views, sizeof views);
    for (int c = 0; c < CAMERAS; c++) memcpy(intrinsics->data + 4 * c, pinhole, sizeof pinhole);
}

static void describe(gsc_raster_args *args, parameter p[PARAMETERS], const array *view,
                     const array *intrinsics) {
    memset(args, 0, sizeof *args);
    args->struct_size = sizeof *args;
    args->width = WIDTH;
    args->height = HEIGHT;
    args->view = &view->view;
    args->intrinsics = &intrinsics->view;
    args->means = &p[MEANS].active.view;
    args->scales = &p[SCALES].active.view;
    args->rotations = &p[ROTATIONS].active.view;
    args->opacities = &p[OPACITIES].active.view;
    args->colors = &p[COLORS].active.view;
}

static void adam_step(gsc_context *context, parameter p[PARAMETERS], int step) {
    gsc_adam_group groups[PARAMETERS];
    memset(groups, 0, sizeof groups);
    for (int k = 0; k < PARAMETERS; k++) {
        groups[k].parameter = &p[k].stored.view;
        groups[k].gradient = &p[k].gradient.view;
        groups[k].moment1 = &p[k].moment1.view;
        groups[k].moment2 = &p[k].moment2.view;
        groups[k].lr = learning_rates[k];
        groups[k].step = step;
    }
    GSC_INIT(gsc_adam_args, args);
    args.groups = groups;
    args.group_count = PARAMETERS;
    args.group_stride = sizeof groups[0];
    check(gsc_adam_step(context, &args, NULL));
}

/* Renders the pictures and takes one step.  Returns the loss. */
static float train_step(gsc_context *context, parameter p[PARAMETERS],
                        const gsc_raster_args *raster, const array *target, int step) {
    array color, by_color;
    make_array(&color, 4, CAMERAS, 3, HEIGHT, WIDTH);
    make_array(&by_color, 4, CAMERAS, 3, HEIGHT, WIDTH);
    activate(p);
    GSC_INIT(gsc_raster_outputs, outputs);
    outputs.color = &color.view;
    gsc_raster_saved *saved;
    check(gsc_rasterize(context, raster, &outputs, &saved, NULL));

    float value;
    DLTensor loss = {&value, {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, NULL, NULL, 0};
    GSC_INIT(gsc_image_loss_args, loss_args);
    loss_args.l1_weight = 0.8f;
    loss_args.ssim_weight = 0.2f;
    loss_args.image = &color.view;
    loss_args.target = &target->view;
    loss_args.loss = &loss;
    loss_args.grad_image = &by_color.view;
    check(gsc_image_loss(context, &loss_args, NULL));

    GSC_INIT(gsc_raster_grads, grads);
    grads.color = &by_color.view;
    grads.means = &p[MEANS].gradient.view;
    grads.scales = &p[SCALES].gradient.view;
    grads.rotations = &p[ROTATIONS].gradient.view;
    grads.opacities = &p[OPACITIES].gradient.view;
    grads.colors = &p[COLORS].gradient.view;
    check(gsc_rasterize_backward(context, raster, saved, &grads, NULL));
    gsc_raster_saved_free(saved, NULL);
    unactivate(p);
    adam_step(context, p, step);
    free(color.data);
    free(by_color.data);
    return value;
}

int main(void) {
    gsc_context_desc desc;
    gsc_context *context;
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    check(gsc_context_create(&desc, &context));

    /* The pictures to fit show other Gaussians. */
    array view, intrinsics, target;
    parameter wanted[PARAMETERS], p[PARAMETERS];
    gsc_raster_args args;
    aim(&view, &intrinsics);
    make_array(&target, 4, CAMERAS, 3, HEIGHT, WIDTH);
    make_parameters(wanted);
    activate(wanted);
    describe(&args, wanted, &view, &intrinsics);
    GSC_INIT(gsc_raster_outputs, outputs);
    outputs.color = &target.view;
    check(gsc_rasterize(context, &args, &outputs, NULL, NULL));

    float first = 0, loss = 0;
    make_parameters(p);
    describe(&args, p, &view, &intrinsics);
    for (int step = 1; step <= STEPS; step++) {
        loss = train_step(context, p, &args, &target, step);
        if (step == 1) first = loss;
        if (step == 1 || step % 25 == 0) printf("step %3d  loss %.4f\n", step, (double)loss);
    }

    free_parameters(wanted);
    free_parameters(p);
    free(view.data);
    free(intrinsics.data);
    free(target.data);
    gsc_context_free(context);
    return loss < first / 2 ? 0 : 1;
}
