#include "renderer.h"

#include "text.h"

#include <string.h>

int view_check(const command_options *options) {
    if (options->camera && !options->cameras)
        return fail_usage("--camera %s: needs --cameras FILE", options->camera);
    if (options->threads && options->device.device_type != kDLCPU)
        return fail_usage("--threads %d: is for the CPU, not for a CUDA device",
                          (int)options->threads);
    return device_supported(options->device) ? EXIT_OK : EXIT_RUNTIME;
}

int view_cameras(const command_options *options, gaussians *scene, camera_list *cameras) {
    const int32_t *size = options->size;
    const char *which = options->camera;
    memset(cameras, 0, sizeof *cameras);
    if (options->sh_degree > scene->sh_degree)
        return fail_usage("--sh-degree %d: the colours of %s have degree %d",
                          (int)options->sh_degree, options->scene_path, (int)scene->sh_degree);
    /* The original takes quaternions as they are, and its callers normalise them. */
    if (options->compat) gaussians_normalize_rotations(scene);
    if (!options->cameras) {
        bool framed =
            cameras_frame(cameras, scene, size[0] ? size[0] : 1280, size[0] ? size[1] : 720);
        return framed ? EXIT_OK : EXIT_RUNTIME;
    }
    if (!cameras_read(cameras, options->cameras)) return EXIT_RUNTIME;
    if (!which || strcmp(which, "all") != 0) {
        const struct camera *found = which ? cameras_find(cameras, which) : cameras->items;
        if (!found)
            return fail_usage("--camera %s: not a name in %s, nor a number from 0 to %zu", which,
                              options->cameras, cameras->count - 1);
        cameras_keep(cameras, (size_t)(found - cameras->items));
    }
    for (size_t i = 0; size[0] && i < cameras->count; i++)
        camera_resize(&cameras->items[i], size[0], size[1]);
    return EXIT_OK;
}

/* The context comes first, because its message is better if there is no driver or no such device.
 * It allocates nothing before the first operation. */
static bool open_device(renderer *to, const command_options *options) {
    gsc_context_desc desc;
    gsc_context_desc_init(&desc, options->device);
    const gsc_allocator allocator = device_allocator(&to->device);
    desc.allocator = &allocator;
    desc.cpu_threads = options->threads;
    return device_supported(options->device) &&
           check_status(gsc_context_create(&desc, &to->context)) &&
           device_open(&to->device, options->device);
}

static bool give_scene(renderer *to, const gaussians *scene) {
    const int64_t n = scene->count, k = scene->sh_coefficients;
    device_memory *device = &to->device;
    to->args.means = &to->means.view;
    to->args.scales = &to->scales.view;
    to->args.rotations = &to->rotations.view;
    to->args.opacities = &to->opacities.view;
    to->args.sh = &to->sh.view;
    return array_give(&to->means, device, scene->means, 2, (const int64_t[]){n, 3}) &&
           array_give(&to->scales, device, scene->scales, 2, (const int64_t[]){n, 3}) &&
           array_give(&to->rotations, device, scene->rotations, 2, (const int64_t[]){n, 4}) &&
           array_give(&to->opacities, device, scene->opacities, 1, (const int64_t[]){n}) &&
           array_give(&to->sh, device, scene->sh, 3, (const int64_t[]){n, k, 3});
}

bool renderer_open(renderer *to, const gaussians *scene, const command_options *options) {
    memset(to, 0, sizeof *to);
    to->args.struct_size = sizeof to->args;
    to->outputs.struct_size = sizeof to->outputs;
    to->buffers.struct_size = sizeof to->buffers;
    to->info.struct_size = sizeof to->info;
    if (!open_device(to, options) || !give_scene(to, scene)) return false;
    to->args.flags = GSC_RASTER_PIXEL_LAST;
    to->args.blur = scene->blur;
    if (options->antialias || scene->antialiased) to->args.flags |= GSC_RASTER_ANTIALIAS;
    if (options->compat) to->args.flags |= GSC_RASTER_COMPAT_3DGS;
    to->args.sh_degree = options->sh_degree < 0 ? scene->sh_degree : options->sh_degree;
    to->with_depth = options->depth;
    memcpy(to->origin, scene->origin, sizeof to->origin);
    memcpy(to->background_values, options->background, sizeof to->background_values);
    array_borrow(&to->background, to->background_values, 1, (const int64_t[]){3});
    to->args.background = &to->background.view;
    return true;
}

void renderer_aim(renderer *to, const struct camera *camera) {
    camera_view(camera, to->origin, to->view_values);
    array_borrow(&to->view, to->view_values, 2, (const int64_t[]){4, 4});
    array_borrow(&to->intrinsics, camera->intrinsics, 1, (const int64_t[]){4});
    to->args.width = camera->width;
    to->args.height = camera->height;
    to->args.near_plane = camera->near_plane;
    to->args.view = &to->view.view;
    to->args.intrinsics = &to->intrinsics.view;
}

static bool make_pictures(renderer *to) {
    const int64_t h = to->args.height, w = to->args.width;
    if (!array_allocate(&to->color, &to->device, 3, (const int64_t[]){h, w, 3})) return false;
    to->outputs.color = &to->color.view;
    if (!to->with_depth) return true;
    to->outputs.alpha = &to->alpha.view;
    to->outputs.depth = &to->depth.view;
    return array_allocate(&to->alpha, &to->device, 2, (const int64_t[]){h, w}) &&
           array_allocate(&to->depth, &to->device, 2, (const int64_t[]){h, w});
}

bool renderer_project(renderer *to) {
    to->info.intersections = 0;
    if (!make_pictures(to) || !check_status(gsc_raster_sizes(to->context, &to->args, &to->info)) ||
        !array_reserve(&to->state, &to->device, to->info.state_bytes) ||
        !array_reserve(&to->scratch, &to->device, to->info.forward_scratch_bytes))
        return false;
    to->buffers.state = &to->state.view;
    to->buffers.scratch = &to->scratch.view;
    to->buffers.intersections = NULL;
    return check_status(gsc_raster_project(to->context, &to->args, &to->buffers, &to->outputs,
                                           &to->info, to->device.stream));
}

bool renderer_blend(renderer *to) {
    if (!array_reserve(&to->intersections, &to->device, to->info.intersections_bytes) ||
        !array_reserve(&to->scratch, &to->device, to->info.forward_scratch_bytes))
        return false;
    to->buffers.intersections = &to->intersections.view;
    return check_status(gsc_raster_blend(to->context, &to->args, &to->buffers, &to->outputs,
                                         &to->info, NULL, to->device.stream));
}

void renderer_drop(renderer *to) {
    array_free(&to->color);
    array_free(&to->alpha);
    array_free(&to->depth);
    array_free(&to->state);
    array_free(&to->intersections);
    array_free(&to->scratch);
}

void renderer_close(renderer *to) {
    renderer_drop(to);
    array_free(&to->means);
    array_free(&to->scales);
    array_free(&to->rotations);
    array_free(&to->opacities);
    array_free(&to->sh);
    gsc_context_free(to->context);
    device_close(&to->device);
    memset(to, 0, sizeof *to);
}
