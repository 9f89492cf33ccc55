#include "choice.h"

#include "failure.h"

#include <string.h>

int choice_check(const camera_choice *choice, const render_settings *settings) {
    if (choice->which && !choice->path)
        return fail_usage("--camera %s: needs --cameras FILE", choice->which);
    if (settings->threads && settings->device.device_type != kDLCPU)
        return fail_usage("--threads %d: is for the CPU, not for a CUDA device",
                          (int)settings->threads);
    return device_supported(settings->device) ? EXIT_OK : EXIT_RUNTIME;
}

static int keep_one(const camera_choice *choice, camera_list *cameras) {
    if (choice->which && strcmp(choice->which, "all") == 0) return EXIT_OK;
    const struct camera *found =
        choice->which ? cameras_find(cameras, choice->which) : cameras->items;
    if (found) {
        cameras_keep(cameras, (size_t)(found - cameras->items));
        return EXIT_OK;
    }
    int code = fail_usage("--camera %s: not a name in %s, nor a number from 0 to %zu",
                          choice->which, choice->path, cameras->count - 1);
    cameras_free(cameras);
    return code;
}

int choice_cameras(const camera_choice *choice, const gaussians *scene, camera_list *cameras) {
    const int32_t *size = choice->size;
    bool sized = size[0] > 0;
    if (!choice->path) {
        bool framed = cameras_frame(cameras, scene, sized ? size[0] : 1280, sized ? size[1] : 720);
        return framed ? EXIT_OK : EXIT_RUNTIME;
    }
    if (!cameras_read(cameras, choice->path)) return EXIT_RUNTIME;
    int code = keep_one(choice, cameras);
    if (code != EXIT_OK) return code;
    for (size_t i = 0; sized && i < cameras->count; i++)
        camera_resize(&cameras->items[i], size[0], size[1]);
    return EXIT_OK;
}

int choice_scene(const render_settings *settings, gaussians *scene, const char *path) {
    if (settings->sh_degree > scene->sh_degree)
        return fail_usage("--sh-degree %d: the colours of %s have degree %d",
                          (int)settings->sh_degree, path, (int)scene->sh_degree);
    /* The original takes quaternions as they are, and its callers normalise them. */
    if (settings->compat) gaussians_normalize_rotations(scene);
    return EXIT_OK;
}
