/* What is loaded, and on what it would run. */

#include "build_config.h"
#include "cpu/cpu.h"
#if GSC_HAVE_GPU
#include "gpu/gpu.h"
#endif
#include "core/json.h"
#include "os/system.h"

#include <stdio.h>

uint32_t gsplat_c_abi_version(void) {
    return GSC_ABI_VERSION;
}

const char *gsc_version(void) {
    return GSC_VERSION_STRING;
}

/* ---------------------------------------------------------------- build info */

static char build_info[2048];

/* Every source file was compiled for the same targets. */
static void write_gpu_targets(gsc__json *json) {
    gsc__json_begin(json, "gpu_targets", '[');
#if GSC_HAVE_GPU
    for (size_t i = 0; i < gsc__kernel_image_count; ++i) {
        char target[GSC__GPU_TARGET_SIZE];
        if (strcmp(gsc__kernel_images[i].source, gsc__kernel_images[0].source) != 0) continue;
        gsc__json_string(json, NULL, gsc__kernel_image_target(&gsc__kernel_images[i], target));
    }
#endif
    gsc__json_end(json, ']');
}

static void write_build_info(void) {
    gsc__json json = {.buffer = build_info, .size = sizeof build_info};
    gsc__json_begin(&json, NULL, '{');
    gsc__json_string(&json, "version", GSC_VERSION_STRING);
    gsc__json_integer(&json, "abi_major", GSC_ABI_MAJOR);
    gsc__json_integer(&json, "abi_minor", GSC_ABI_MINOR);
    gsc__json_string(&json, "compiler", GSC_BUILD_COMPILER);
    gsc__json_string(&json, "build_type", GSC_BUILD_TYPE);
    gsc__json_string(&json, "real", GSC_REAL_BITS == 64 ? "float64" : "float32");
    gsc__json_begin(&json, "cpu_isas", '[');
    for (int i = 0; gsc__cpu_isa_name(i); ++i) gsc__json_string(&json, NULL, gsc__cpu_isa_name(i));
    gsc__json_end(&json, ']');
    write_gpu_targets(&json);
    gsc__json_end(&json, '}');
    gsc__json_finish(&json);
}

const char *gsc_build_info_json(void) {
    static gsc__once once = GSC__ONCE_INIT;
    gsc__once_run(&once, write_build_info);
    return build_info;
}

/* ------------------------------------------------------------- device report */

static void write_limits(gsc__json *json, const gsc__backend *backend) {
    gsc__json_begin(json, "limits", '{');
    gsc__json_integer(json, "max_gaussians", GSC__MAX_GAUSSIANS);
    gsc__json_integer(json, "max_intersections", GSC__MAX_INTERSECTIONS);
    gsc__json_integer(json, "max_pixels", GSC__MAX_PIXELS);
    gsc__json_integer(json, "max_cameras", GSC__MAX_CAMERAS);
    gsc__json_integer(json, "max_channels", GSC__MAX_CHANNELS);
    gsc__json_integer(json, "max_sh_degree", GSC__MAX_SH_DEGREE);
    gsc__json_integer(json, "max_knn_k", GSC__MAX_KNN_K);
    gsc__json_integer(json, "max_side", backend->max_side);
    gsc__json_end(json, '}');
}

static void write_cpu_report(gsc__json *json, const gsc__backend *backend) {
    int threads = gsc__cpu_count();
    if (threads > GSC__MAX_CPU_THREADS) threads = GSC__MAX_CPU_THREADS;
    gsc__json_begin(json, NULL, '{');
    gsc__json_string(json, "device", "cpu");
    gsc__json_string(json, "name", "CPU");
    gsc__json_string(json, "isa", backend->name);
    gsc__json_integer(json, "threads", threads);
    gsc__json_integer(json, "memory_bytes", gsc__memory_bytes());
    write_limits(json, backend);
    gsc__json_end(json, '}');
}

#if GSC_HAVE_GPU
static void write_gpu_report(gsc__json *json, DLDevice where, const gsc__backend *backend,
                             const gsc__gpu_device *device) {
    char name[GSC__DEVICE_NAME_SIZE], capability[32], driver[32], target[GSC__GPU_TARGET_SIZE];
    const int version = device->driver->version;
    const gsc__kernel_image *image =
        gsc__kernel_image_choose(gsc__kernel_images, gsc__kernel_image_count,
                                 gsc__kernel_images[0].source, device->major, device->minor);
    snprintf(capability, sizeof capability, "%d.%d", device->major, device->minor);
    snprintf(driver, sizeof driver, "%d.%d", version / 1000, version % 1000 / 10);
    gsc__json_begin(json, NULL, '{');
    gsc__json_string(json, "device", gsc__device_name(where, name));
    gsc__json_string(json, "name", device->name);
    gsc__json_string(json, "compute_capability", capability);
    gsc__json_string(json, "image", image ? gsc__kernel_image_target(image, target) : "none");
    gsc__json_string(json, "driver_cuda_version", driver);
    gsc__json_integer(json, "multiprocessors", device->multiprocessors);
    gsc__json_integer(json, "memory_bytes", device->memory);
    write_limits(json, backend);
    gsc__json_end(json, '}');
}
#endif

static gsc_status write_report(const char *function, gsc__json *json, DLDevice device,
                               const gsc__backend *backend) {
#if GSC_HAVE_GPU
    if (device.device_type == kDLCUDA) {
        gsc__gpu_device found;
        GSC__TRY(gsc__gpu_device_query(function, device.device_id, &found));
        write_gpu_report(json, device, backend, &found);
        return GSC_OK;
    }
#endif
    (void)function;
    (void)device;
    write_cpu_report(json, backend);
    return GSC_OK;
}

gsc_status gsc_device_report_json(DLDevice device, char *buffer, size_t *size) {
    static const char function[] = "device_report_json";
    const gsc__backend *backend;
    if (!size) return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: size is NULL", function);
    GSC__TRY(gsc__device_backend(function, device, &backend));
    const size_t given = buffer ? *size : 0;
    gsc__json json = {.buffer = buffer, .size = given};
    GSC__TRY(write_report(function, &json, device, backend));
    *size = gsc__json_finish(&json);
    if (!buffer || given >= *size) return GSC_OK;
    return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL, "%s: buffer has %zu bytes, expected at least %zu",
                     function, given, *size);
}
