/* Rasterizes a scene for one camera after another, in two steps, and keeps its memory from view
 * to view. */
#ifndef GSPLAT_C_TOOLS_RENDERER_H
#define GSPLAT_C_TOOLS_RENDERER_H

#include "cameras.h"
#include "device.h"
#include "options.h"

typedef struct renderer {
    device_memory device;
    gsc_context *context;
    gsc_raster_args args;
    gsc_raster_outputs outputs;
    gsc_raster_buffers buffers;
    gsc_raster_info info;
    double origin[3]; /* of the scene's means */
    float view_values[16], background_values[3];
    struct array means, scales, rotations, opacities, sh;
    struct array view, intrinsics, background;
    struct array color; /* [H, W, 3] */
    struct array alpha; /* [H, W] */
    struct array depth; /* [H, W] sum of z alpha T */
    struct array state, intersections, scratch;
    bool with_depth;
} renderer;

/* The options of `render` and `bench` that choose a view.  Both return EXIT_OK, or another code
 * after fail(). */

/* Checks the options before any file is read. */
int view_check(const command_options *options);
/* Checks the options against the scene, prepares the scene for them, and reads or makes the
 * cameras, in the size asked for.  cameras_free is fine after a failure too. */
int view_cameras(const command_options *options, gaussians *scene, camera_list *cameras);

/* The scene must outlive the renderer, which must stay where it is.  Every function
 * returns false after fail(); renderer_close is fine after any of them. */
bool renderer_open(renderer *to, const gaussians *scene, const command_options *options);
void renderer_aim(renderer *to, const struct camera *camera);
/* Step 1 and step 2 of the rasterizer. */
bool renderer_project(renderer *to);
bool renderer_blend(renderer *to);
/* Frees pictures and buffers, but not the scene. */
void renderer_drop(renderer *to);
void renderer_close(renderer *to);

#endif
