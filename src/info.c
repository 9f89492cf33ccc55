/* What is loaded, and on what it would run. */

#include "build_config.h"
#include "cpu/cpu.h"
#include "device.h"
#include "json.h"
#include "limits.h"
#include "system.h"

#include <stdatomic.h>

uint32_t gsplat_c_abi_version(void) {
    return GSC_ABI_VERSION;
}

const char *gsc_version(void) {
    return GSC_VERSION_STRING;
}

/* ---------------------------------------------------------------- build info */

static char build_info[2048];

/* Target names stand in one string, separated by spaces or commas. */
static void write_targets(gsc__json *json, const char *targets) {
    gsc__json_begin(json, "gpu_targets", '[');
    while (*targets) {
        char name[64];
        size_t length = strcspn(targets, " ,");
        size_t kept = length < sizeof name ? length : sizeof name - 1;
        memcpy(name, targets, kept);
        name[kept] = '\0';
        if (length > 0) gsc__json_string(json, NULL, name);
        targets += length;
        targets += strspn(targets, " ,");
    }
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
    for (int i = 0; gsc__cpu_isa_name(i); ++i)
        gsc__json_string(&json, NULL, gsc__cpu_isa_name(i));
    gsc__json_end(&json, ']');
    write_targets(&json, GSC_BUILD_GPU_TARGETS);
    gsc__json_end(&json, '}');
    gsc__json_finish(&json);
}

/* Written by whoever asks first; others wait for those microseconds. */
const char *gsc_build_info_json(void) {
    enum { UNWRITTEN, BEING_WRITTEN, WRITTEN };
    static atomic_int progress = UNWRITTEN;
    int seen = UNWRITTEN;
    if (atomic_compare_exchange_strong(&progress, &seen, BEING_WRITTEN)) {
        write_build_info();
        atomic_store(&progress, WRITTEN);
    }
    while (atomic_load(&progress) != WRITTEN) gsc__thread_pause();
    return build_info;
}

/* ------------------------------------------------------------- device report */

static void write_limits(gsc__json *json) {
    gsc__json_begin(json, "limits", '{');
    gsc__json_integer(json, "max_gaussians", GSC__MAX_GAUSSIANS);
    gsc__json_integer(json, "max_intersections", GSC__MAX_INTERSECTIONS);
    gsc__json_integer(json, "max_pixels", GSC__MAX_PIXELS);
    gsc__json_integer(json, "max_cameras", GSC__MAX_CAMERAS);
    gsc__json_integer(json, "max_channels", GSC__MAX_CHANNELS);
    gsc__json_integer(json, "max_sh_degree", GSC__MAX_SH_DEGREE);
    gsc__json_integer(json, "max_knn_k", GSC__MAX_KNN_K);
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
    write_limits(json);
    gsc__json_end(json, '}');
}

gsc_status gsc_device_report_json(DLDevice device, char *buffer, size_t *size) {
    static const char function[] = "device_report_json";
    const gsc__backend *backend;
    if (!size) return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: size is NULL", function);
    GSC__TRY(gsc__device_backend(function, device, &backend));
    const size_t given = buffer ? *size : 0;
    gsc__json json = {.buffer = buffer, .size = given};
    write_cpu_report(&json, backend);
    *size = gsc__json_finish(&json);
    if (!buffer || given >= *size) return GSC_OK;
    return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL, "%s: buffer has %zu bytes, expected at least %zu",
                     function, given, *size);
}
