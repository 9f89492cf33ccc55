#include "choice.h"

#include "device.h"
#include "failure.h"

#include <string.h>

int choice_check(const command_options *options) {
    if (options->camera && !options->cameras)
        return fail_usage("--camera %s: needs --cameras FILE", options->camera);
    if (options->threads && options->device.device_type != kDLCPU)
        return fail_usage("--threads %d: is for the CPU, not for a CUDA device",
                          (int)options->threads);
    return device_supported(options->device) ? EXIT_OK : EXIT_RUNTIME;
}

int choice_cameras(const command_options *options, gaussians *scene, camera_list *cameras) {
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
