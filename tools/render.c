#include "image.h"
#include "os/system.h"
#include "output.h"
#include "renderer.h"
#include "text.h"

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
    "  --antialias         render a scene that was trained with antialiasing; not needed if\n"
    "                      the file says so (filter_3D, SplatRenderMode, antialiased)\n"
    "  --compat            compute as the original 3DGS rasterizer does\n"
    "  --device DEVICE     cpu, cuda, or cuda:N for the N-th CUDA device.  Default: cpu\n"
    "  --threads N         use N CPU threads.  Default: all processors\n"
    "  --repeat N          render every view N times and print the median time.  Default: 1\n"
    "  -o, --output OUT    the picture; for several cameras, or if OUT is a directory or\n"
    "                      ends in '/', the directory for one NAME.png per camera\n"
    "                      (created if necessary).  OUT.png with several cameras gives\n"
    "                      OUT-NAME.png.  -: standard output.\n"
    "                      Default: SCENE.png in the current directory\n"
    "  -h, --help          print this text\n"
    "\n"
    "Prints one line for each view: name, size, rendering time without reading and writing\n"
    "files, and the picture's path.\n"
    "\n"
    "  gsplat-c render point_cloud.ply -o view.png\n"
    "  gsplat-c render point_cloud.ply --cameras cameras.json --camera all -o pictures/\n";

static void print_scene(FILE *report, const char *path, const gaussians *scene,
                        double milliseconds) {
    char skipped[64] = "";
    if (scene->non_finite > 0)
        snprintf(skipped, sizeof skipped, "  (%lld not finite, not drawn)",
                 (long long)scene->non_finite);
    print_line(report, "%s  %lld Gaussians  SH degree %d%s%s%s%s  read in %.1f ms", path,
               (long long)scene->count, (int)scene->sh_degree,
               scene->antialiased ? "  antialiased" : "",
               scene->filtered ? "  filter_3D applied" : "",
               scene->flat ? "  2D discs drawn as flat Gaussians" : "", skipped, milliseconds);
}

/* Times every run; the picture is the same each time. */
static bool render_view(renderer *to, int32_t repeat, const struct camera *camera, timing *times) {
    times->count = 0;
    renderer_aim(to, camera);
    do {
        if (!device_start(&to->device) || !renderer_project(to) || !renderer_blend(to) ||
            !device_stop(&to->device, &times->runs[times->count++]))
            return false;
    } while (times->count < (size_t)repeat);
    return true;
}

static bool write_depth(renderer *from, const struct camera *camera, FILE *report) {
    const float *depth = array_fetch(&from->depth), *alpha = array_fetch(&from->alpha);
    float range[2];
    if (!depth || !alpha ||
        !image_write_depth(camera->depth_picture, depth, alpha, camera->width, camera->height,
                           range))
        return false;
    print_line(report, "%s  depth %.4g to %.4g  %s", camera->name, (double)range[0],
               (double)range[1], camera->depth_picture);
    return true;
}

static bool write_view(renderer *from, const struct camera *camera, double milliseconds,
                       FILE *report) {
    const float *color = array_fetch(&from->color);
    if (!color || !image_write_color(camera->picture, color, camera->width, camera->height))
        return false;
    progress_hide();
    print_line(report, "%s  %dx%d  %.1f ms  %s", camera->name, (int)camera->width,
               (int)camera->height, milliseconds, camera->picture);
    return !from->with_depth || write_depth(from, camera, report);
}

static bool render_views(renderer *to, int32_t repeat, const camera_list *cameras, FILE *report) {
    timing times;
    bool good = true;
    for (size_t i = 0; good && i < cameras->count; i++) {
        const struct camera *camera = &cameras->items[i];
        if (cameras->count > 1) progress_show(i, cameras->count);
        good = render_view(to, repeat, camera, &times) &&
               write_view(to, camera, timing_median(&times), report);
    }
    progress_hide();
    return good;
}

int render_command(const command_options *options) {
    if (!options->scene_path)
        return fail_usage("render: which scene? (see 'gsplat-c render --help')");
    int code = view_check(options);
    if (code == EXIT_OK) code = output_check(options);
    if (code != EXIT_OK) return code;
    FILE *report = options->output && strcmp(options->output, "-") == 0 ? stderr : stdout;
    gaussians scene;
    double start = gsc__clock_seconds();
    if (!gaussians_read(&scene, options->scene_path)) return EXIT_RUNTIME;
    print_scene(report, options->scene_path, &scene, (gsc__clock_seconds() - start) * 1e3);
    camera_list cameras;
    code = view_cameras(options, &scene, &cameras);
    if (code == EXIT_OK) code = output_paths(&cameras, options);
    if (code == EXIT_OK) {
        renderer to = {0};
        bool good = renderer_open(&to, &scene, options) &&
                    render_views(&to, options->repeat, &cameras, report);
        renderer_close(&to);
        code = good ? EXIT_OK : EXIT_RUNTIME;
    }
    cameras_free(&cameras);
    gaussians_free(&scene);
    return code;
}
