/* Two splats in front of one camera, and descriptors for everything that client_1_0.c checks. */
#ifndef TESTS_ABI_CLIENT_SCENE_H
#define TESTS_ABI_CLIENT_SCENE_H

#include "client.h"

enum { WIDTH = 32, HEIGHT = 24, SPLATS = 2 };

static float means[] = {-0.2f, 0, 4, 0.3f, 0.1f, 5};
static float scales[] = {0.5f, 0.3f, 0.3f, 0.4f, 0.4f, 0.6f};
static float rotations[] = {1, 0, 0, 0, 0.8f, 0.6f, 0, 0};
static float opacities[] = {0.9f, 0.7f};
static float colors[] = {1, 0.5f, 0.25f, 0.1f, 0.6f, 0.9f};
static float view[] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
static float intrinsics[] = {30, 30, WIDTH / 2.0f, HEIGHT / 2.0f};
static float background[] = {0.2f, 0.2f, 0.2f};

/* Results of one forward and backward. */
typedef struct frame {
    float color[3 * HEIGHT * WIDTH], alpha[HEIGHT * WIDTH], depth[HEIGHT * WIDTH];
    float grad_means[3 * SPLATS], grad_scales[3 * SPLATS], grad_rotations[4 * SPLATS];
    float grad_opacities[SPLATS], grad_colors[3 * SPLATS], grad_background[3], grad_view[16];
    int32_t radii[SPLATS];
} frame;

/* Uses the descriptors of the scene, which are valid during the call only. */
typedef void raster_work(gsc_context *, const gsc_raster_args *, const gsc_raster_outputs *,
                         const gsc_raster_grads *);

static void with_scene(gsc_context *context, frame *f, raster_work *work) {
    static float grad_color[3 * HEIGHT * WIDTH];
    for (int i = 0; i < 3 * HEIGHT * WIDTH; ++i) grad_color[i] = 0.001f * (float)(i % 7);
    memset(f, 0xff, sizeof *f); /* NaN, which the library must overwrite */
    GSC_INIT(gsc_raster_args, args);
    args.width = WIDTH;
    args.height = HEIGHT;
    args.view = FLOATS(view, 4, 4);
    args.intrinsics = FLOATS(intrinsics, 4);
    args.background = FLOATS(background, 3);
    args.means = FLOATS(means, SPLATS, 3);
    args.opacities = FLOATS(opacities, SPLATS);
    args.scales = FLOATS(scales, SPLATS, 3);
    args.rotations = FLOATS(rotations, SPLATS, 4);
    args.colors = FLOATS(colors, SPLATS, 3);
    GSC_INIT(gsc_raster_outputs, outputs);
    outputs.color = FLOATS(f->color, 3, HEIGHT, WIDTH);
    outputs.alpha = FLOATS(f->alpha, HEIGHT, WIDTH);
    outputs.depth = FLOATS(f->depth, HEIGHT, WIDTH);
    outputs.radii = INTS(f->radii, SPLATS);
    GSC_INIT(gsc_raster_grads, grads);
    grads.color = FLOATS(grad_color, 3, HEIGHT, WIDTH);
    grads.means = FLOATS(f->grad_means, SPLATS, 3);
    grads.scales = FLOATS(f->grad_scales, SPLATS, 3);
    grads.rotations = FLOATS(f->grad_rotations, SPLATS, 4);
    grads.opacities = FLOATS(f->grad_opacities, SPLATS);
    grads.colors = FLOATS(f->grad_colors, SPLATS, 3);
    grads.background = FLOATS(f->grad_background, 3);
    grads.view = FLOATS(f->grad_view, 4, 4);
    work(context, &args, &outputs, &grads);
}

#endif
