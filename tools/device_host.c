/* The processor as a device: its work is done when a call returns. */
#include "device_memory.h"
#include "host.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 256 };

static bool open_host(device_memory *device) {
    (void)device;
    return true;
}

static void close_host(device_memory *device) {
    (void)device;
}

static void *alloc_host(device_memory *device, size_t bytes) {
    (void)device;
    return host_aligned_alloc(bytes, ALIGNMENT);
}

static void free_host(device_memory *device, void *data) {
    (void)device;
    host_aligned_free(data);
}

static bool clear_host(device_memory *device, void *data, size_t bytes) {
    (void)device;
    memset(data, 0, bytes);
    return true;
}

static bool copy_host(device_memory *device, void *to, const void *from, size_t bytes) {
    (void)device;
    memcpy(to, from, bytes);
    return true;
}

static bool start_host(device_memory *device) {
    device->started_ms = host_clock_ms();
    return true;
}

static bool stop_host(device_memory *device, double *milliseconds) {
    *milliseconds = host_clock_ms() - device->started_ms;
    return true;
}

const struct device_functions device_host_functions = {
    .open = open_host,
    .close = close_host,
    .alloc = alloc_host,
    .free = free_host,
    .clear = clear_host,
    .to_device = copy_host,
    .to_host = copy_host,
    .start = start_host,
    .stop = stop_host,
};
