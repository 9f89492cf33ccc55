/* The CUDA driver, opened at run time: the library also loads on a machine without one.
 *
 * Declares the few entry points that it uses.  The driver's binary interface never changes under a
 * symbol, so no header of the toolkit is needed. */
#ifndef GSC_GPU_DRIVER_H
#define GSC_GPU_DRIVER_H

#include "core/call.h"

#include <stdbool.h>

typedef int gsc__cu_result;       /* CUresult */
typedef int gsc__cu_device;       /* CUdevice */
typedef uint64_t gsc__cu_pointer; /* CUdeviceptr of 64-bit systems */
/* CUcontext, CUstream, CUlibrary, CUkernel, CUfunction and CUmemoryPool are void * here. */

enum {
    GSC__CU_OK = 0,
    GSC__CU_OUT_OF_MEMORY = 2,
    GSC__CU_NOT_INITIALIZED = 3,
    GSC__CU_STUB_LIBRARY = 34,
    GSC__CU_NO_DEVICE = 100,
    GSC__CU_INVALID_DEVICE = 101,
    GSC__CU_INVALID_IMAGE = 200,
    GSC__CU_NO_BINARY_FOR_GPU = 209,
    GSC__CU_INVALID_PTX = 218,
    GSC__CU_UNSUPPORTED_PTX_VERSION = 222,
    GSC__CU_NOT_READY = 600,
    GSC__CU_SYSTEM_DRIVER_MISMATCH = 803,
    GSC__CU_COMPAT_NOT_SUPPORTED = 804
};
enum {
    GSC__CU_DEVICE_MULTIPROCESSORS = 16,
    GSC__CU_DEVICE_CAPABILITY_MAJOR = 75,
    GSC__CU_DEVICE_CAPABILITY_MINOR = 76,
    GSC__CU_DEVICE_MEMORY_POOLS = 115
};
enum { GSC__CU_FUNCTION_MAX_THREADS = 0 };
enum { GSC__CU_CAPTURE_NONE = 0 };
enum { GSC__CU_HOST_MAPPED = 2 };
enum {
    GSC__CU_ALLOCATION_PINNED = 1,
    GSC__CU_LOCATION_DEVICE = 1,
    GSC__CU_POOL_RELEASE_THRESHOLD = 4
};
typedef struct gsc__cu_pool_props { /* CUmemPoolProps */
    int type, handle_types;
    struct {
        int type, index;
    } location;
    void *security;
    unsigned char reserved[64];
} gsc__cu_pool_props;
typedef struct gsc__cu_launch_attribute { /* CUlaunchAttribute */
    int id;
    char pad[4];
    union {
        int flag;
        uint64_t words[8];
    } value;
} gsc__cu_launch_attribute;
typedef struct gsc__cu_launch_config { /* CUlaunchConfig */
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    const gsc__cu_launch_attribute *attributes;
    unsigned attribute_count;
} gsc__cu_launch_config;
enum { GSC__CU_LAUNCH_BEFORE_END = 6 }; /* programmatic stream serialization */
/* The `extra` list of cuLaunchKernelEx. */
#define GSC__CU_LAUNCH_END ((void *)0)
#define GSC__CU_LAUNCH_BUFFER ((void *)1)
#define GSC__CU_LAUNCH_BUFFER_SIZE ((void *)2)

/* X(member, symbol, parameters): the member has the name in CUDA's headers. */
#define GSC__DRIVER_CALLS(X)                                                                       \
    X(cuInit, "cuInit", (unsigned flags))                                                          \
    X(cuDriverGetVersion, "cuDriverGetVersion", (int *version))                                    \
    X(cuGetErrorName, "cuGetErrorName", (gsc__cu_result result, const char **name))                \
    X(cuGetErrorString, "cuGetErrorString", (gsc__cu_result result, const char **text))            \
    X(cuDeviceGetCount, "cuDeviceGetCount", (int *count))                                          \
    X(cuDeviceGet, "cuDeviceGet", (gsc__cu_device * device, int index))                            \
    X(cuDeviceGetName, "cuDeviceGetName", (char *name, int size, gsc__cu_device device))           \
    X(cuDeviceGetAttribute, "cuDeviceGetAttribute",                                                \
      (int *value, int attribute, gsc__cu_device device))                                          \
    X(cuDeviceTotalMem, "cuDeviceTotalMem_v2", (size_t * bytes, gsc__cu_device device))            \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain",                                        \
      (void **context, gsc__cu_device device))                                                     \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease_v2", (gsc__cu_device device))          \
    X(cuCtxGetCurrent, "cuCtxGetCurrent", (void **context))                                        \
    X(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (void *context))                                    \
    X(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (void **context))                                     \
    X(cuLibraryLoadData, "cuLibraryLoadData",                                                      \
      (void **library, const void *image, int *jit_options, void **jit_values, unsigned jit_count, \
       int *options, void **values, unsigned count))                                               \
    X(cuLibraryUnload, "cuLibraryUnload", (void *library))                                         \
    X(cuLibraryGetKernel, "cuLibraryGetKernel", (void **kernel, void *library, const char *name))  \
    X(cuKernelGetFunction, "cuKernelGetFunction", (void **function, void *kernel))                 \
    X(cuFuncGetAttribute, "cuFuncGetAttribute", (int *value, int attribute, void *function))       \
    X(cuLaunchKernelEx, "cuLaunchKernelEx",                                                        \
      (const gsc__cu_launch_config *config, void *function, void **parameters, void **extra))      \
    X(cuMemAlloc, "cuMemAlloc_v2", (gsc__cu_pointer * data, size_t bytes))                         \
    X(cuMemFree, "cuMemFree_v2", (gsc__cu_pointer data))                                           \
    X(cuMemPoolCreate, "cuMemPoolCreate", (void **pool, const gsc__cu_pool_props *props))          \
    X(cuMemPoolDestroy, "cuMemPoolDestroy", (void *pool))                                          \
    X(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", (void *pool, int attribute, void *value))    \
    X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync",                                          \
      (gsc__cu_pointer * data, size_t bytes, void *pool, void *stream))                            \
    X(cuMemFreeAsync, "cuMemFreeAsync", (gsc__cu_pointer data, void *stream))                      \
    X(cuMemHostAlloc, "cuMemHostAlloc", (void **data, size_t bytes, unsigned flags))               \
    X(cuMemFreeHost, "cuMemFreeHost", (void *data))                                                \
    X(cuMemsetD8Async, "cuMemsetD8Async",                                                          \
      (gsc__cu_pointer data, unsigned char value, size_t count, void *stream))                     \
    X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2",                                                   \
      (void *to, gsc__cu_pointer from, size_t bytes, void *stream))                                \
    X(cuStreamQuery, "cuStreamQuery", (void *stream))                                              \
    X(cuStreamSynchronize, "cuStreamSynchronize", (void *stream))                                  \
    X(cuStreamIsCapturing, "cuStreamIsCapturing", (void *stream, int *status))

typedef struct gsc__driver {
    void *library;
    int version; /* 12090: CUDA 12.9 */
#define GSC__DRIVER_MEMBER(member, symbol, parameters) gsc__cu_result(*member) parameters;
    GSC__DRIVER_CALLS(GSC__DRIVER_MEMBER)
#undef GSC__DRIVER_MEMBER
} gsc__driver;

enum { GSC__DRIVER_TEXT_SIZE = 320 };
/* Why a driver could not be opened. */
typedef struct gsc__driver_failure {
    gsc_status status; /* GSC_ERROR_NO_DRIVER, GSC_ERROR_NO_DEVICE, GSC_ERROR_CUDA or GSC_OK */
    gsc__cu_result code;
    char text[GSC__DRIVER_TEXT_SIZE];
} gsc__driver_failure;

/* Opens a driver library and initialises it. */
gsc_status gsc__driver_open(const char *path, gsc__driver *driver, gsc__driver_failure *failure);

/* The process's driver, which the first call opens: libcuda.so.1, or the library that the
 * environment variable GSC_CUDA_LIBRARY names.  A failure lasts for the life of the process. */
gsc_status gsc__driver_get(const char *function, const gsc__driver **driver);
/* The same without a message: NULL if there is none. */
const gsc__driver *gsc__driver_try(void);
/* Whether a parent of this process opened it before a fork: then it does not work here. */
bool gsc__driver_inherited(void);

/* Stores "<what>: CUDA_ERROR_NAME (code): the driver's text" and returns the status that
 * the code means. */
gsc_status gsc__driver_fail(const gsc__driver *driver, gsc__cu_result result, const char *format,
                            ...) GSC__PRINTF(3, 4);

/* Returns from the calling function if the driver call fails. */
#define GSC__DRIVER_TRY(driver, function, call, ...)                                 \
    do {                                                                             \
        gsc__cu_result try_result_ = (driver)->call(__VA_ARGS__);                    \
        if (try_result_ != GSC__CU_OK)                                               \
            return gsc__driver_fail(driver, try_result_, "%s: %s", function, #call); \
    } while (0)

/* --------------------------------------------------------------------- device */

/* A CUDA device and its primary context, the one that CUDA Runtime programs share. */
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
