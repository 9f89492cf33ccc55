#include "choice.h"
#include "commands.h"
#include "failure.h"
#include "host.h"
#include "image.h"
#include "options.h"
#include "output_path.h"
#include "progress.h"
#include "timing.h"

#include <stdlib.h>
#include <string.h>

const char render_help[] =
    "usage: gsplat-c render SCENE.ply [--cameras cameras.json] [options] [-o OUT.png]\n"
    "\n"
    "Renders a trained 3D Gaussian splatting scene to PNG pictures.\n"
    "\n"
    "The scene is the point_cloud.ply that 3DGS training writes.  The cameras are the\n"
    "cameras.json of the same training.  Without cameras, the picture shows the whole scene\n"
    "from slightly above.\n"
    "\n"
    "  --cameras FILE      read the cameras from FILE\n"
    "  --camera WHICH      a camera by name or, if none has that name, by number from 0;\n"
    "                      'all' renders every camera.  Default: the first\n"
    "  --size WxH          size of the picture in pixels.  It keeps everything the camera saw.\n"
    "                      Default: the camera's size, or 1280x720\n"
    "  --background R,G,B  colour behind the scene, each part from 0 to 1.  Default: 0,0,0\n"
    "  --depth             also write the distance along the view axis, as OUT-depth.png:\n"
    "                      16-bit grey, bright is near, 0 where there is no surface\n"
    "  --sh-degree N       use spherical harmonics up to this degree, 0 to 4.  0: the same\n"
    "                      colour from every side.  Default: the scene's degree\n"
    "  --antialias         render a scene that was trained with antialiasing\n"
    "  --compat            compute as the original 3DGS rasterizer does\n"
    "  --device DEVICE     cpu, cuda, or cuda:N for the N-th CUDA device.  Default: cpu\n"
    "  --threads N         use N CPU threads.  Default: all processors\n"
    "  --repeat N          render every view N times and print the median time.  Default: 1\n"
    "  -o, --output OUT    the picture; for several cameras, or if OUT is a directory or\n"
    "                      ends in '/', the directory for one NAME.png per camera\n"
    "                      (created if necessary).  OUT.png with several cameras gives\n"
    "                      OUT-NAME.png.  Default: SCENE.png in the current directory\n"
    "  -h, --help          print this text\n"
    "\n"
    "Prints one line for each view: name, size, rendering time without reading and writing\n"
    "files, and the picture's path.\n"
    "\n"
    "  gsplat-c render point_cloud.ply -o view.png\n"
    "  gsplat-c render point_cloud.ply --cameras cameras.json --camera all -o pictures/\n";

typedef struct render_options {
    const char *scene_path, *output;
    camera_choice cameras;
    int32_t repeat;
    bool help;
    render_settings settings;
} render_options;

static int read_options(int argc, char **argv, render_options *options) {
    memset(options, 0, sizeof *options);
    options->repeat = 1;
    options->settings.sh_degree = -1;
    options->settings.device.device_type = kDLCPU;
    const struct option table[] = {
        {"cameras", 0, OPTION_TEXT, &options->cameras.path, 0, 0},
        {"camera", 0, OPTION_TEXT, &options->cameras.which, 0, 0},
        {"size", 0, OPTION_SIZE, options->cameras.size, 0, 0},
        {"background", 0, OPTION_COLOR, options->settings.background, 0, 0},
        {"depth", 0, OPTION_FLAG, &options->settings.depth, 0, 0},
        {"sh-degree", 0, OPTION_NUMBER, &options->settings.sh_degree, 0, 4},
        {"antialias", 0, OPTION_FLAG, &options->settings.antialias, 0, 0},
        {"compat", 0, OPTION_FLAG, &options->settings.compat, 0, 0},
        {"device", 0, OPTION_DEVICE, &options->settings.device, 0, 0},
        {"threads", 0, OPTION_NUMBER, &options->settings.threads, 1, 1024},
        {"repeat", 0, OPTION_NUMBER, &options->repeat, 1, 10000},
        {"output", 'o', OPTION_TEXT, &options->output, 0, 0},
        {"help", 'h', OPTION_FLAG, &options->help, 0, 0},
    };
    int code = options_read(argc, argv, table, sizeof table / sizeof *table, &options->scene_path);
    if (code != EXIT_OK || options->help) return code;
    if (!options->scene_path)
        return fail_usage("render: which scene? (see 'gsplat-c render --help')");
    return choice_check(&options->cameras, &options->settings);
}

static void print_scene(const char *path, const gaussians *scene, double milliseconds) {
    printf("%s  %lld Gaussians  SH degree %d", path, (long long)scene->count,
           (int)scene->sh_degree);
    if (scene->non_finite > 0)
        printf("  (%lld not finite, not drawn)", (long long)scene->non_finite);
    printf("  read in %.1f ms\n", milliseconds);
}

/* Times every run; the picture is the same each time. */
static bool draw(renderer *to, const render_options *options, const struct camera *camera,
                 timing *times) {
    double milliseconds;
    timing_clear(times);
    renderer_aim(to, camera);
    for (int32_t i = 0; i < options->repeat; i++) {
        if (!device_start(&to->device) || !renderer_project(to) || !renderer_blend(to) ||
            !device_stop(&to->device, &milliseconds))
            return false;
        timing_add(times, milliseconds);
    }
    return true;
}

static bool write_depth(renderer *from, const struct camera *camera, const char *path) {
    const float *depth = array_fetch(&from->depth), *alpha = array_fetch(&from->alpha);
    char *name = depth && alpha ? depth_path(path) : NULL;
    float range[2];
    bool written =
        name && image_write_depth(name, depth, alpha, camera->width, camera->height, range);
    if (written)
        printf("%s  depth %.4g to %.4g  %s\n", camera->name, (double)range[0], (double)range[1],
               name);
    free(name);
    return written;
}

static bool write_view(renderer *from, const struct camera *camera, const char *path,
                       double milliseconds) {
    const float *color = array_fetch(&from->color);
    if (!color || !image_write_color(path, color, camera->width, camera->height)) return false;
    progress_hide();
    printf("%s  %dx%d  %.1f ms  %s\n", camera->name, (int)camera->width, (int)camera->height,
           milliseconds, path);
    return !from->with_depth || write_depth(from, camera, path);
}

static bool render_views(renderer *to, const render_options *options, const camera_list *cameras,
                         const output_paths *paths) {
    timing times;
    if (!timing_open(&times, (size_t)options->repeat)) return false;
    bool good = true;
    for (size_t i = 0; good && i < cameras->count; i++) {
        const struct camera *camera = &cameras->items[i];
        if (cameras->count > 1) progress_show(i, cameras->count);
        char *path = output_path(paths, camera, i);
        good = path && draw(to, options, camera, &times) &&
               write_view(to, camera, path, timing_median(&times));
        free(path);
    }
    progress_hide();
    timing_close(&times);
    return good;
}

static int render_scene(const render_options *options, const gaussians *scene,
                        const camera_list *cameras) {
    output_paths paths;
    if (!output_paths_open(&paths, options->output, options->scene_path, cameras))
        return EXIT_RUNTIME;
    renderer to;
    bool good = renderer_open(&to, scene, &options->settings) &&
                render_views(&to, options, cameras, &paths);
    renderer_close(&to);
    output_paths_close(&paths);
    return good ? EXIT_OK : EXIT_RUNTIME;
}

int render_command(int argc, char **argv) {
    render_options options;
    int code = read_options(argc, argv, &options);
    if (code != EXIT_OK) return code;
    if (options.help) {
        fputs(render_help, stdout);
        return EXIT_OK;
    }
    gaussians scene;
    double start = host_clock_ms();
    if (!gaussians_read(&scene, options.scene_path)) return EXIT_RUNTIME;
    print_scene(options.scene_path, &scene, host_clock_ms() - start);
    camera_list cameras;
    code = choice_scene(&options.settings, &scene, options.scene_path);
    if (code == EXIT_OK) code = choice_cameras(&options.cameras, &scene, &cameras);
    if (code == EXIT_OK) {
        code = render_scene(&options, &scene, &cameras);
        cameras_free(&cameras);
    }
    gaussians_free(&scene);
    return code;
}
