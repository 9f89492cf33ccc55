#include "renderer.h"

#include "failure.h"

#include <string.h>

bool check_status(gsc_status status) {
    return status == GSC_OK || fail("%s: %s", gsc_status_name(status), gsc_last_error());
}

static void borrow_scene(renderer *to, const gaussians *scene) {
    const int64_t n = scene->count, k = scene->sh_coefficients;
    array_borrow(&to->means, scene->means, 2, (const int64_t[]){n, 3});
    array_borrow(&to->scales, scene->scales, 2, (const int64_t[]){n, 3});
    array_borrow(&to->rotations, scene->rotations, 2, (const int64_t[]){n, 4});
    array_borrow(&to->opacities, scene->opacities, 1, (const int64_t[]){n});
    array_borrow(&to->sh, scene->sh, 3, (const int64_t[]){n, k, 3});
    to->args.means = &to->means.view;
    to->args.scales = &to->scales.view;
    to->args.rotations = &to->rotations.view;
    to->args.opacities = &to->opacities.view;
    to->args.sh = &to->sh.view;
}

bool renderer_open(renderer *to, const gaussians *scene, const render_settings *settings) {
    memset(to, 0, sizeof *to);
    to->args.struct_size = sizeof to->args;
    to->outputs.struct_size = sizeof to->outputs;
    to->buffers.struct_size = sizeof to->buffers;
    to->info.struct_size = sizeof to->info;
    gsc_context_desc desc;
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    desc.cpu_threads = settings->threads;
    if (!check_status(gsc_context_create(&desc, &to->context))) return false;
    borrow_scene(to, scene);
    to->args.flags = GSC_RASTER_PIXEL_LAST;
    if (settings->antialias) to->args.flags |= GSC_RASTER_ANTIALIAS;
    if (settings->compat) to->args.flags |= GSC_RASTER_COMPAT_3DGS;
    to->args.sh_degree = settings->sh_degree < 0 ? scene->sh_degree : settings->sh_degree;
    memcpy(to->background_values, settings->background, sizeof to->background_values);
    array_borrow(&to->background, to->background_values, 1, (const int64_t[]){3});
    to->args.background = &to->background.view;
    return true;
}

bool renderer_aim(renderer *to, const struct camera *camera) {
    const int64_t h = camera->height, w = camera->width;
    camera_view(camera, to->view_values);
    array_borrow(&to->view, to->view_values, 2, (const int64_t[]){4, 4});
    array_borrow(&to->intrinsics, camera->intrinsics, 1, (const int64_t[]){4});
    if (!array_allocate(&to->color, 3, (const int64_t[]){h, w, 3}) ||
        !array_allocate(&to->alpha, 2, (const int64_t[]){h, w}) ||
        !array_allocate(&to->depth, 2, (const int64_t[]){h, w}))
        return false;
    to->args.width = camera->width;
    to->args.height = camera->height;
    to->args.near_plane = camera->near_plane;
    to->args.view = &to->view.view;
    to->args.intrinsics = &to->intrinsics.view;
    to->outputs.color = &to->color.view;
    return true;
}

bool renderer_project(renderer *to) {
    to->info.intersections = 0;
    if (!check_status(gsc_raster_sizes(to->context, &to->args, &to->info)) ||
        !array_reserve(&to->state, to->info.state_bytes) ||
        !array_reserve(&to->scratch, to->info.forward_scratch_bytes))
        return false;
    to->buffers.state = &to->state.view;
    to->buffers.scratch = &to->scratch.view;
    to->buffers.intersections = NULL;
    return check_status(
        gsc_raster_project(to->context, &to->args, &to->buffers, &to->outputs, &to->info, NULL));
}

bool renderer_blend(renderer *to) {
    if (!array_reserve(&to->intersections, to->info.intersections_bytes) ||
        !array_reserve(&to->scratch, to->info.forward_scratch_bytes))
        return false;
    to->buffers.intersections = &to->intersections.view;
    return check_status(gsc_raster_render(to->context, &to->args, &to->buffers, &to->outputs,
                                          &to->info, NULL, NULL));
}

void renderer_close(renderer *to) {
    gsc_context_free(to->context);
    array_free(&to->color);
    array_free(&to->alpha);
    array_free(&to->depth);
    array_free(&to->state);
    array_free(&to->intersections);
    array_free(&to->scratch);
    memset(to, 0, sizeof *to);
}
