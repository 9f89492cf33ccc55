/* Memory, a stream and a stopwatch on the device that a command works on: what the
 * library leaves to its caller. */
#ifndef GSPLAT_C_TOOLS_DEVICE_MEMORY_H
#define GSPLAT_C_TOOLS_DEVICE_MEMORY_H

#include "gsplat_c.h"

#include <stdbool.h>

struct device_functions;

typedef struct device_memory {
    const struct device_functions *functions; /* NULL: not open */
    DLDevice where;
    void *stream;       /* for the library's calls; NULL on the CPU */
    bool pools;         /* whether a CUDA device allocates in the stream's order */
    void *begin, *end;  /* events; NULL on the CPU */
    double started_ms;  /* on the CPU: when the stopwatch was started */
    size_t bytes, peak; /* allocated now, and the most since device_reset_peak */
} device_memory;

/* Of the CUDA Runtime in this program, 12090 for 12.9; 0 without one: then the CPU is the
 * only device. */
int device_runtime_version(void);
/* False after fail() if this program cannot work on such a device at all. */
bool device_supported(DLDevice where);

/* False after fail(); device_close is fine after that, and for a zeroed struct. */
bool device_open(device_memory *device, DLDevice where);
void device_close(device_memory *device);

/* 256-byte aligned memory, not cleared; NULL after fail(). */
void *device_alloc(device_memory *device, size_t bytes);
void device_free(device_memory *device, void *data, size_t bytes);
void device_reset_peak(device_memory *device);
/* The same memory for the library, counted alike; `device` must outlive its context. */
gsc_allocator device_allocator(device_memory *device);

/* All in the stream's order; device_to_host waits, after device_to_device the source may
 * change.  False after fail(). */
bool device_clear(device_memory *device, void *data, size_t bytes);
bool device_to_device(device_memory *device, void *to, const void *from, size_t bytes);
bool device_to_host(device_memory *device, void *to, const void *from, size_t bytes);

/* The time of what is given to the stream between the two; stopping waits for it. */
bool device_start(device_memory *device);
bool device_stop(device_memory *device, double *milliseconds);

/* One kind of device.  Those that return bool do so after fail(). */
struct device_functions {
    bool (*open)(device_memory *device);
    void (*close)(device_memory *device);
    void *(*alloc)(device_memory *device, size_t bytes); /* NULL: none left */
    void (*free)(device_memory *device, void *data);
    bool (*clear)(device_memory *device, void *data, size_t bytes);
    bool (*to_device)(device_memory *device, void *to, const void *from, size_t bytes);
    bool (*to_host)(device_memory *device, void *to, const void *from, size_t bytes);
    bool (*start)(device_memory *device);
    bool (*stop)(device_memory *device, double *milliseconds);
};
extern const struct device_functions device_host_functions;
/* With the CUDA Runtime only. */
extern const struct device_functions device_cuda_functions;
extern const int device_cuda_version;

#endif
