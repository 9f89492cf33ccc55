#include "info.h"

#include "device.h"
#include "gaussians.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char info_help[] =
    "usage: gsplat-c info [--json] [SCENE.ply]\n"
    "\n"
    "Describes a scene: the number of Gaussians, the degree of their colours, bounds and\n"
    "typical sizes.  Without a scene: the version, how the library was built, and the\n"
    "devices of this machine.\n"
    "\n"
    "  --json      print JSON\n"
    "  -h, --help  print this text\n";

/* Parses JSON text that the library wrote. */
static cJSON *parse_report(const char *text) {
    cJSON *tree = cJSON_Parse(text);
    if (!tree) fail("the library's report is not JSON: %.200s", text);
    return tree;
}

cJSON *describe_device(DLDevice device) {
    size_t size = 0;
    cJSON *tree = NULL;
    if (!check_status(gsc_device_report_json(device, NULL, &size))) return NULL;
    char *text = malloc(size);
    if (!text)
        fail("no memory for the device report");
    else if (check_status(gsc_device_report_json(device, text, &size)))
        tree = parse_report(text);
    free(text);
    return tree;
}

static bool add_devices(cJSON *devices, DLDeviceType type) {
    int32_t count = 0;
    if (!check_status(gsc_device_count((int32_t)type, &count))) return false;
    for (int32_t i = 0; i < count; i++) {
        cJSON *device = describe_device((DLDevice){type, i});
        if (!device) return false;
        cJSON_AddItemToArray(devices, device);
    }
    return true;
}

static void add_runtime(cJSON *tree) {
    char text[64] = "none: the command works on the CPU only";
    int version = device_runtime_version();
    if (version) snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
    cJSON_AddStringToObject(tree, "cuda_runtime", text);
}

cJSON *describe_library(void) {
    cJSON *tree = cJSON_CreateObject();
    char abi[32];
    uint32_t version = gsplat_c_abi_version();
    snprintf(abi, sizeof abi, "%u.%u", (unsigned)(version >> 16), (unsigned)(version & 0xffff));
    cJSON_AddStringToObject(tree, "version", gsc_version());
    cJSON_AddStringToObject(tree, "abi", abi);
    cJSON *build = parse_report(gsc_build_info_json());
    if (build) cJSON_AddItemToObject(tree, "build", build);
    add_runtime(tree);
    cJSON *devices = cJSON_AddArrayToObject(tree, "devices");
    if (build && devices && add_devices(devices, kDLCPU) && add_devices(devices, kDLCUDA))
        return tree;
    cJSON_Delete(tree);
    return NULL;
}

static int compare_floats(const void *a, const void *b) {
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* The median of the finite values; NAN if there is none.  The values are `step` apart. */
static double median(const float *values, int64_t count, int64_t step) {
    float *sorted = malloc(((size_t)count + 1) * sizeof *sorted);
    if (!sorted) return NAN;
    size_t finite = 0;
    for (int64_t i = 0; i < count; i++)
        if (isfinite(values[i * step])) sorted[finite++] = values[i * step];
    qsort(sorted, finite, sizeof *sorted, compare_floats);
    double result = finite ? (double)sorted[finite / 2] : NAN;
    free(sorted);
    return result;
}

/* JSON has no NaN.  Four digits are enough for a statistic. */
static cJSON *number(double value) {
    char text[32];
    if (!isfinite(value)) return cJSON_CreateNull();
    snprintf(text, sizeof text, "%.4g", value);
    return cJSON_CreateRaw(text);
}

static void add_bounds(cJSON *tree, const gaussians *scene) {
    float low[3] = {INFINITY, INFINITY, INFINITY};
    float high[3] = {-INFINITY, -INFINITY, -INFINITY};
    for (int64_t i = 0; i < 3 * scene->count; i++) {
        float value = scene->means[i];
        if (!isfinite(value)) continue;
        if (value < low[i % 3]) low[i % 3] = value;
        if (value > high[i % 3]) high[i % 3] = value;
    }
    cJSON *min = cJSON_AddArrayToObject(tree, "min");
    cJSON *max = cJSON_AddArrayToObject(tree, "max");
    cJSON *middle = cJSON_AddArrayToObject(tree, "median");
    for (int axis = 0; axis < 3; axis++) {
        const double origin = scene->origin[axis];
        cJSON_AddItemToArray(min, number(origin + (double)low[axis]));
        cJSON_AddItemToArray(max, number(origin + (double)high[axis]));
        cJSON_AddItemToArray(middle, number(origin + median(scene->means + axis, scene->count, 3)));
    }
}

static cJSON *describe_scene(const gaussians *scene, const char *path) {
    cJSON *tree = cJSON_CreateObject();
    if (!tree) {
        fail("%s: no memory to describe it", path);
        return NULL;
    }
    double row_floats = 3 + 3 + 4 + 1 + 3.0 * scene->sh_coefficients;
    cJSON_AddStringToObject(tree, "file", path);
    cJSON_AddStringToObject(tree, "format", ply_format_names[scene->format]);
    cJSON_AddNumberToObject(tree, "gaussians", (double)scene->count);
    cJSON_AddNumberToObject(tree, "not_finite", (double)scene->non_finite);
    cJSON_AddNumberToObject(tree, "sh_degree", scene->sh_degree);
    cJSON_AddBoolToObject(tree, "antialiased", scene->antialiased);
    cJSON_AddNumberToObject(tree, "bytes", (double)scene->count * row_floats * sizeof(float));
    add_bounds(cJSON_AddObjectToObject(tree, "positions"), scene);
    cJSON_AddItemToObject(tree, "median_scale", number(median(scene->scales, 3 * scene->count, 1)));
    cJSON_AddItemToObject(tree, "median_opacity",
                          number(median(scene->opacities, scene->count, 1)));
    return tree;
}

bool print_json(const cJSON *tree) {
    char *text = cJSON_Print(tree);
    if (!text) return fail("no memory to print");
    puts(text);
    cJSON_free(text);
    return true;
}

static bool is_flat(const cJSON *item) {
    const cJSON *child;
    cJSON_ArrayForEach(child, item) if (cJSON_IsArray(child) || cJSON_IsObject(child)) return false;
    return true;
}

static void print_value(const cJSON *item) {
    if (cJSON_IsString(item) || cJSON_IsRaw(item)) {
        print_text(stdout, item->valuestring);
    } else if (cJSON_IsArray(item)) {
        const cJSON *child;
        cJSON_ArrayForEach(child, item) {
            if (child != item->child) putchar(' ');
            print_value(child);
        }
    } else {
        char *text = cJSON_PrintUnformatted(item);
        if (text) fputs(text, stdout);
        cJSON_free(text);
    }
}

static void print_lines(const cJSON *tree, int indent) {
    const cJSON *item;
    cJSON_ArrayForEach(item, tree) {
        const char *name = item->string ? item->string : "-";
        if (cJSON_IsObject(item) || (cJSON_IsArray(item) && !is_flat(item))) {
            printf("%*s%s\n", indent, "", name);
            print_lines(item, indent + 2);
        } else {
            printf("%*s%-*s  ", indent, "", 20 - indent, name);
            print_value(item);
            putchar('\n');
        }
    }
}

int info_command(const command_options *options) {
    cJSON *tree = NULL;
    gaussians scene;
    if (!options->scene_path) {
        tree = describe_library();
    } else if (gaussians_read(&scene, options->scene_path)) {
        tree = describe_scene(&scene, options->scene_path);
        gaussians_free(&scene);
    }
    if (!tree) return EXIT_RUNTIME;
    bool printed = true;
    if (options->json)
        printed = print_json(tree);
    else
        print_lines(tree, 0);
    cJSON_Delete(tree);
    return printed ? EXIT_OK : EXIT_RUNTIME;
}
