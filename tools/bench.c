#include "bench_cases.h"
#include "info.h"
#include "text.h"

#include <string.h>

const char bench_help[] =
    "usage: gsplat-c bench [SCENE.ply] [options]\n"
    "\n"
    "Times the library's operations on the processor or, between stream events, on a CUDA\n"
    "device.  Prints the median and the minimum of several runs after one warm-up run, and\n"
    "the peak of memory besides the inputs.  Without a scene it uses random Gaussians.\n"
    "\n"
    "  --cameras FILE      read the cameras from FILE (cameras.json)\n"
    "  --camera WHICH      the camera by name or number.  Default: the first\n"
    "  --size WxH          size of the picture.  Default: the camera's size, or 1280x720\n"
    "  --gaussians N       size of the random scene.  Default: 100000\n"
    "  --sh-degree N       degree of the colours in use, 0 to 4.  Default: that of the\n"
    "                      scene, 3 for the random one\n"
    "  --operation NAME    time only this one: project, blend, forward, backward, training,\n"
    "                      knn, ssim, ssim-backward, image-loss or adam\n"
    "  --device DEVICE     cpu, cuda, or cuda:N for the N-th CUDA device.  Default: cpu\n"
    "  --antialias, --compat, --threads N   see 'gsplat-c render --help'\n"
    "  --repeat N          number of runs.  Default: 10\n"
    "  --json              print JSON\n"
    "  -h, --help          print this text\n";

static bool has_operation(const char *name) {
    for (size_t i = 0; i < bench_case_count; i++)
        if (strcmp(bench_cases[i].name, name) == 0) return true;
    return false;
}

static int check_options(const command_options *options) {
    if (options->scene_path && options->gaussians)
        return fail_usage("--gaussians %d: is for the random scene, not for %s",
                          (int)options->gaussians, options->scene_path);
    if (options->operation && !has_operation(options->operation))
        return fail_usage("--operation %s: no such operation (see 'gsplat-c bench --help')",
                          options->operation);
    if (options->camera && strcmp(options->camera, "all") == 0)
        return fail_usage("--camera all: one camera at a time is timed");
    return view_check(options);
}

/* Times the runs of a prepared case, after one to warm up; false after fail(). */
static bool run_case(struct bench *bench, const struct bench_case *what, size_t repeat,
                     timing *times) {
    device_memory *device = &bench->to.device;
    bool good = what->run(bench);
    for (times->count = 0; good && times->count < repeat; times->count++)
        good = device_start(device) && what->run(bench) &&
               device_stop(device, &times->runs[times->count]);
    return good;
}

/* Adds a JSON object with the times of one case; false after fail(). */
static bool time_case(struct bench *bench, const struct bench_case *what, size_t repeat,
                      cJSON *results) {
    timing times;
    device_memory *device = &bench->to.device;
    const size_t scene_bytes = device->bytes;
    bool good = !what->prepare || what->prepare(bench);
    const size_t input_bytes = scene_bytes + bench_input_bytes(bench, what);
    device->peak = device->bytes;
    good = good && run_case(bench, what, repeat, &times);
    bench_release(bench);
    if (!good) return false;
    cJSON *result = cJSON_CreateObject();
    cJSON_AddStringToObject(result, "operation", what->name);
    cJSON_AddStringToObject(result, "what", what->what);
    cJSON_AddNumberToObject(result, "median_ms", timing_median(&times));
    cJSON_AddNumberToObject(result, "min_ms", timing_min(&times));
    cJSON_AddNumberToObject(result, "runs", (double)times.count);
    cJSON_AddNumberToObject(result, "bytes", (double)(device->peak - input_bytes));
    cJSON_AddItemToArray(results, result);
    return true;
}

static bool time_cases(struct bench *bench, const command_options *options, cJSON *results) {
    const size_t repeat = options->repeat ? (size_t)options->repeat : 10;
    bool good = true;
    for (size_t i = 0; good && i < bench_case_count; i++) {
        if (options->operation && strcmp(options->operation, bench_cases[i].name) != 0) continue;
        progress_show(i, bench_case_count);
        good = time_case(bench, &bench_cases[i], repeat, results);
    }
    progress_hide();
    return good;
}

/* "cuda:0  NVIDIA H100 80GB HBM3" or "cpu  avx2". */
static bool print_device(DLDevice where) {
    cJSON *report = describe_device(where);
    if (!report) return false;
    const cJSON *isa = cJSON_GetObjectItem(report, "isa");
    const cJSON *name = isa ? isa : cJSON_GetObjectItem(report, "name");
    printf("%s  %s\n", cJSON_GetObjectItem(report, "device")->valuestring, name->valuestring);
    cJSON_Delete(report);
    return true;
}

static bool print_table(const command_options *options, const struct bench *bench,
                        const cJSON *results) {
    print_line(stdout, "%s  %lld Gaussians  SH degree %d  %dx%d",
               options->scene_path ? options->scene_path : "random scene",
               (long long)bench->scene->count, (int)bench->to.args.sh_degree,
               (int)bench->to.args.width, (int)bench->to.args.height);
    if (!print_device(bench->to.device.where)) return false;
    printf("%-14s %10s %10s %5s %8s\n", "operation", "median ms", "min ms", "runs", "MB");
    const cJSON *result;
    cJSON_ArrayForEach(result, results)
        printf("%-14s %10.3f %10.3f %5d %8.1f  %s\n",
               cJSON_GetObjectItem(result, "operation")->valuestring,
               cJSON_GetObjectItem(result, "median_ms")->valuedouble,
               cJSON_GetObjectItem(result, "min_ms")->valuedouble,
               cJSON_GetObjectItem(result, "runs")->valueint,
               cJSON_GetObjectItem(result, "bytes")->valuedouble * 1e-6,
               cJSON_GetObjectItem(result, "what")->valuestring);
    return true;
}

static bool print_report(const command_options *options, const struct bench *bench,
                         cJSON *results) {
    cJSON *library = describe_library(), *device = describe_device(bench->to.device.where);
    if (!library || !device) {
        cJSON_Delete(library);
        cJSON_Delete(device);
        return false;
    }
    cJSON *tree = cJSON_CreateObject();
    cJSON_AddItemToObject(tree, "library", library);
    cJSON_AddItemToObject(tree, "device", device);
    cJSON_AddStringToObject(tree, "scene", options->scene_path ? options->scene_path : "random");
    cJSON_AddNumberToObject(tree, "gaussians", (double)bench->scene->count);
    cJSON_AddNumberToObject(tree, "sh_degree", bench->to.args.sh_degree);
    cJSON_AddNumberToObject(tree, "width", bench->to.args.width);
    cJSON_AddNumberToObject(tree, "height", bench->to.args.height);
    cJSON_AddNumberToObject(tree, "threads", options->threads);
    cJSON_AddItemReferenceToObject(tree, "results", results);
    bool printed = print_json(tree);
    cJSON_Delete(tree);
    return printed;
}

static int bench_with(const command_options *options, const gaussians *scene,
                      const struct camera *camera) {
    struct bench bench = {.scene = scene};
    cJSON *results = cJSON_CreateArray();
    bool good = results && renderer_open(&bench.to, scene, options);
    if (good) renderer_aim(&bench.to, camera);
    good = good && time_cases(&bench, options, results);
    if (good)
        good = options->json ? print_report(options, &bench, results)
                             : print_table(options, &bench, results);
    cJSON_Delete(results);
    renderer_close(&bench.to);
    return good ? EXIT_OK : EXIT_RUNTIME;
}

static bool get_scene(const command_options *options, gaussians *scene) {
    if (options->scene_path) return gaussians_read(scene, options->scene_path);
    int32_t degree = options->sh_degree;
    return bench_scene(scene, options->gaussians ? options->gaussians : 100000,
                       degree < 0 ? 3 : degree);
}

int bench_command(const command_options *options) {
    int code = check_options(options);
    if (code != EXIT_OK) return code;
    gaussians scene;
    camera_list cameras;
    if (!get_scene(options, &scene)) return EXIT_RUNTIME;
    code = view_cameras(options, &scene, &cameras);
    if (code == EXIT_OK) code = bench_with(options, &scene, &cameras.items[0]);
    cameras_free(&cameras);
    gaussians_free(&scene);
    return code;
}
