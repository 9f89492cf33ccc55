/* A CUDA device and its primary context, the one that CUDA Runtime programs share. */
#ifndef GSC_GPU_DEVICE_H
#define GSC_GPU_DEVICE_H

#include "driver.h"

typedef struct gsc__gpu_device {
    const gsc__driver *driver;
    gsc__cu_device handle;
    int major, minor; /* compute capability */
    int multiprocessors;
    bool pools;     /* stream-ordered allocation works */
    int64_t memory; /* bytes */
    char name[128];
    void *primary; /* context; NULL until retained */
} gsc__gpu_device;

/* Usable devices; 0 without a driver. */
int32_t gsc__gpu_device_count(void);

/* What the driver knows about a device, without making a context. */
gsc_status gsc__gpu_device_query(const char *function, int32_t index, gsc__gpu_device *device);

/* Retains the primary context; no thread's current context changes. */
gsc_status gsc__gpu_device_retain(const char *function, gsc__gpu_device *device);
void gsc__gpu_device_release(gsc__gpu_device *device);

/* Driver calls stand between enter and leave.  Afterwards the calling thread has the same current
 * context as before. */
typedef struct gsc__gpu_scope {
    const gsc__driver *driver;
    bool pushed;
} gsc__gpu_scope;
gsc_status gsc__gpu_enter(const char *function, const gsc__gpu_device *device,
                          gsc__gpu_scope *scope);
/* The same without a message. */
gsc__cu_result gsc__gpu_try_enter(const gsc__gpu_device *device, gsc__gpu_scope *scope);
void gsc__gpu_leave(gsc__gpu_scope *scope);

#endif
