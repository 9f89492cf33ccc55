/* Memory, arrays, a stream and a stopwatch on the device that a command works on: what the
 * library leaves to its caller. */
#ifndef GSPLAT_C_TOOLS_DEVICE_H
#define GSPLAT_C_TOOLS_DEVICE_H

#include "options.h"

#include "gsplat_c.h"

#include <stdbool.h>

struct cuda_functions;

typedef struct device_memory {
    const struct cuda_functions *cuda; /* NULL: the CPU */
    DLDevice where;
    void *stream;       /* for the library's calls; NULL on the CPU */
    bool pools;         /* whether a CUDA device allocates in stream order */
    void *begin, *end;  /* events; NULL on the CPU */
    double started_ms;  /* on the CPU: when the stopwatch was started */
    size_t bytes, peak; /* allocated now, and the most since the caller set peak */
} device_memory;

/* False after fail() with the library's message, where a call failed. */
bool check_status(gsc_status status);

/* The version of the CUDA Runtime in this program, 12090 for 12.9; 0 without one: then the CPU
 * is the only device. */
int device_runtime_version(void);
/* False after fail() if this program cannot work on such a device. */
bool device_supported(DLDevice where);

/* False after fail(); device_close is fine after that, and for a zeroed struct. */
bool device_open(device_memory *device, DLDevice where);
void device_close(device_memory *device);

/* The device's memory for the library, counted too; `device` must outlive its context. */
gsc_allocator device_allocator(device_memory *device);

/* The time of the work given to the stream between the two; stopping waits for it. */
bool device_start(device_memory *device);
bool device_stop(device_memory *device, double *milliseconds);

/* Milliseconds of repeated work; a count of 0 clears them. */
typedef struct timing {
    double runs[MAX_RUNS];
    size_t count;
} timing;

/* Of at least one run; they sort the runs. */
double timing_median(timing *times);
double timing_min(timing *times);

/* A DLTensor view with its shape, and memory for it.  The view points into the struct: set it
 * up where it stays. */
struct array {
    DLTensor view;
    int64_t shape[4];
    device_memory *device; /* of `owned` */
    void *owned;           /* NULL: the data is borrowed */
    size_t capacity;       /* bytes of owned */
    float *mirror;         /* the host's copy of owned; NULL: not needed yet */
};

/* A dense float32 view of the caller's memory on the host. */
void array_borrow(struct array *array, const float *data, int ndim, const int64_t *shape);
/* The same values on the device: borrowed on the CPU, else copied.  False after fail(), as all
 * below. */
bool array_give(struct array *array, device_memory *device, const float *data, int ndim,
                const int64_t *shape);
/* Float32 memory of its own, kept while it is large enough.  It is cleared when it is new, so
 * that the system has provided its pages, and keeps its values when it is reused. */
bool array_allocate(struct array *array, device_memory *device, int ndim, const int64_t *shape);
/* The same for `bytes` bytes with the alignment that gsc_raster_buffers needs. */
bool array_reserve(struct array *array, device_memory *device, size_t bytes);
void array_free(struct array *array);

/* The host's copy of an array that owns float32 memory: write there, then send; or fetch. */
float *array_host(struct array *array); /* NULL after fail() */
bool array_send(struct array *array);
const float *array_fetch(struct array *array); /* NULL after fail() */
size_t array_bytes(const struct array *array);

/* A CUDA device.  Those that return bool do so after fail(); NULL: no memory left.  All work in
 * stream order; to_host waits, and after to_device the source may change. */
struct cuda_functions {
    int version; /* of the Runtime */
    bool (*open)(device_memory *device);
    void (*close)(device_memory *device);
    void *(*alloc)(device_memory *device, size_t bytes);
    void (*free)(device_memory *device, void *data);
    bool (*clear)(device_memory *device, void *data, size_t bytes);
    bool (*to_device)(device_memory *device, void *to, const void *from, size_t bytes);
    bool (*to_host)(device_memory *device, void *to, const void *from, size_t bytes);
    bool (*start)(device_memory *device);
    bool (*stop)(device_memory *device, double *milliseconds);
};
/* With the CUDA Runtime only. */
extern const struct cuda_functions device_cuda_functions;

#endif
