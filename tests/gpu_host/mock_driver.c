#define _DEFAULT_SOURCE
#include "mock_driver.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int result;
typedef uint64_t pointer;

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600
};
enum { DEVICES = 8, STACK = 16, LIBRARY_MAGIC = 0x11b, ALIGNMENT = 512 };

typedef struct library {
    int magic;
    const void *image;
} library;

static mock_driver_state state;
static char primary_contexts[DEVICES];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local void *stack[STACK];
static _Thread_local int depth;

mock_driver_state *mock_driver(void);
mock_driver_state *mock_driver(void) {
    return &state;
}

int64_t mock_driver_value(const char *name);
int64_t mock_driver_value(const char *name) {
    int retained = 0;
    for (int i = 0; i < DEVICES; i++) retained += state.retained[i];
    const int last = (state.launch_count + MOCK_LAUNCHES - 1) % MOCK_LAUNCHES;
    const struct {
        const char *name;
        int64_t value;
    } known[] = {
        {"launches", state.launch_count},
        {"launch_stream", (int64_t)(intptr_t)state.launches[last].stream},
        {"synchronisations", state.synchronisations},
        {"blocks", state.blocks + state.async_blocks},
        {"retained", retained},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) == 0) return known[i].value;
    }
    return -1;
}

/* ------------------------------------------------------------------ scripting */

static int setting(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text && *text ? atoi(text) : otherwise;
}

/* The code after "function=" in MOCK_DRIVER_FAIL, or 0. */
static result scripted(const char *function) {
    const char *text = getenv("MOCK_DRIVER_FAIL");
    const size_t length = strlen(function);
    while (text && *text) {
        if (strncmp(text, function, length) == 0 && text[length] == '=')
            return atoi(text + length + 1);
        text = strchr(text, ',');
        if (text) ++text;
    }
    return 0;
}

#define MAY_FAIL()                             \
    do {                                       \
        result scripted_ = scripted(__func__); \
        if (scripted_) return scripted_;       \
    } while (0)
#define NEEDS_CONTEXT()                                              \
    do {                                                             \
        MAY_FAIL();                                                  \
        if (depth == 0 || !stack[depth - 1]) return INVALID_CONTEXT; \
    } while (0)
#define EXPORT __attribute__((visibility("default")))
/* An exported function, declared before it is defined. */
#define CALL(name, ...)              \
    EXPORT result name(__VA_ARGS__); \
    result name(__VA_ARGS__)

static void add(int *counter, int step) {
    pthread_mutex_lock(&mutex);
    *counter += step;
    pthread_mutex_unlock(&mutex);
}

/* --------------------------------------------------------------------- devices */

CALL(cuInit, unsigned flags) {
    MAY_FAIL();
    return flags ? INVALID_VALUE : 0;
}

CALL(cuDriverGetVersion, int *version) {
    MAY_FAIL();
    *version = setting("MOCK_DRIVER_VERSION", 12090);
    return 0;
}

CALL(cuGetErrorName, result code, const char **name) {
    *name = code == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : code == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                          : NULL;
    return *name ? 0 : INVALID_VALUE;
}

CALL(cuGetErrorString, result code, const char **text) {
    *text = code == 2 ? "out of memory" : code == 700 ? "an illegal memory access" : NULL;
    return *text ? 0 : INVALID_VALUE;
}

CALL(cuDeviceGetCount, int *count) {
    MAY_FAIL();
    *count = setting("MOCK_DRIVER_DEVICES", 2);
    return 0;
}

CALL(cuDeviceGet, int *device, int index) {
    MAY_FAIL();
    *device = 10 + index; /* a handle is not an index */
    return index < 0 || index >= setting("MOCK_DRIVER_DEVICES", 2) ? INVALID_DEVICE : 0;
}

CALL(cuDeviceGetName, char *name, int size, int device) {
    MAY_FAIL();
    snprintf(name, (size_t)size, "Mock %d", device - 10);
    return 0;
}

CALL(cuDeviceGetAttribute, int *value, int attribute, int device) {
    const char *capability = getenv("MOCK_DRIVER_CAPABILITY");
    int major = 9, minor = 0;
    MAY_FAIL();
    if (device < 10) return INVALID_DEVICE;
    if (capability) sscanf(capability, "%d.%d", &major, &minor);
    switch (attribute) {
    case 16: *value = 132; return 0;
    case 75: *value = major; return 0;
    case 76: *value = minor; return 0;
    case 115: *value = setting("MOCK_DRIVER_POOLS", 1); return 0;
    default: return INVALID_VALUE;
    }
}

CALL(cuDeviceTotalMem_v2, size_t *bytes, int device) {
    MAY_FAIL();
    *bytes = (size_t)8 << 30;
    return device < 10 ? INVALID_DEVICE : 0;
}

/* -------------------------------------------------------------------- contexts */

CALL(cuDevicePrimaryCtxRetain, void **context, int device) {
    MAY_FAIL();
    if (device < 10 || device >= 10 + DEVICES) return INVALID_DEVICE;
    *context = &primary_contexts[device - 10];
    add(&state.retained[device - 10], 1);
    return 0;
}

CALL(cuDevicePrimaryCtxRelease_v2, int device) {
    if (device < 10 || device >= 10 + DEVICES) return INVALID_DEVICE;
    add(&state.retained[device - 10], -1);
    return 0;
}

CALL(cuCtxGetCurrent, void **context) {
    MAY_FAIL();
    *context = depth ? stack[depth - 1] : NULL;
    return 0;
}

CALL(cuCtxPushCurrent_v2, void *context) {
    MAY_FAIL();
    if (depth == STACK) return INVALID_VALUE;
    stack[depth++] = context;
    add(&state.pushes, 1);
    return 0;
}

CALL(cuCtxPopCurrent_v2, void **context) {
    if (depth == 0) return INVALID_CONTEXT;
    *context = stack[--depth];
    return 0;
}

/* --------------------------------------------------------------------- kernels */

#ifndef MOCK_DRIVER_WITHOUT_LIBRARIES
CALL(cuLibraryLoadData, void **out, const void *image, int *jit, void **jit_values,
     unsigned jit_count, int *options, void **values, unsigned count) {
    NEEDS_CONTEXT();
    (void)jit, (void)jit_values, (void)options, (void)values;
    if (!image || jit_count || count) return INVALID_VALUE;
    library *made = malloc(sizeof *made);
    if (!made) return OUT_OF_MEMORY;
    *made = (library){LIBRARY_MAGIC, image};
    *out = made;
    add(&state.libraries, 1);
    return 0;
}
#endif

CALL(cuLibraryUnload, void *handle) {
    library *made = handle;
    if (!made || made->magic != LIBRARY_MAGIC) return INVALID_HANDLE;
    made->magic = 0;
    free(made);
    add(&state.libraries, -1);
    return 0;
}

/* The name is a literal of the library and lives as long. */
CALL(cuLibraryGetKernel, void **kernel, void *handle, const char *name) {
    library *made = handle;
    MAY_FAIL();
    if (!made || made->magic != LIBRARY_MAGIC) return INVALID_HANDLE;
    if (strncmp(name, "gsc_", 4) != 0) return NOT_FOUND;
    *kernel = (void *)(uintptr_t)name;
    return 0;
}

CALL(cuKernelGetFunction, void **function, void *kernel) {
    NEEDS_CONTEXT();
    *function = kernel;
    add(&state.functions, 1);
    return 0;
}

CALL(cuFuncGetAttribute, int *value, int attribute, void *function) {
    NEEDS_CONTEXT();
    if (attribute != 0 || !function) return INVALID_VALUE;
    *value = 1024;
    add(&state.attributes, 1);
    return 0;
}

static void record_args(mock_launch *launch, void **extra) {
    const void *buffer = NULL;
    for (int i = 0; extra && extra[i]; i += 2) {
        if (extra[i] == (void *)1) buffer = extra[i + 1];
        if (extra[i] == (void *)2) launch->args_bytes = *(const size_t *)extra[i + 1];
    }
    if (buffer && launch->args_bytes <= MOCK_ARGS) memcpy(launch->args, buffer, launch->args_bytes);
}

struct launch_attribute {
    int id, pad, flag;
    char rest[60];
};
struct launch_config {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    const struct launch_attribute *attributes;
    unsigned attribute_count;
};
_Static_assert(sizeof(struct launch_attribute) == 72, "as the driver's");
_Static_assert(sizeof(struct launch_config) == 56, "as the driver's");

CALL(cuLaunchKernelEx, const struct launch_config *config, void *function, void **parameters,
     void **extra) {
    NEEDS_CONTEXT();
    const unsigned *grid = config->grid, *block = config->block;
    if (!function || !grid[0] || !block[0] || block[0] > 1024 || config->shared_bytes || parameters)
        return INVALID_VALUE;
    const struct launch_attribute *attribute = config->attributes;
    if (config->attribute_count > 1 || (config->attribute_count == 1 && attribute->id != 6))
        return INVALID_VALUE;
    pthread_mutex_lock(&mutex);
    if (state.launch_count < MOCK_LAUNCHES) {
        mock_launch *launch = &state.launches[state.launch_count++];
        *launch = (mock_launch){.grid = {grid[0], grid[1], grid[2]},
                                .block = {block[0], block[1], block[2]},
                                .stream = config->stream,
                                .early = config->attribute_count == 1 && attribute->flag,
                                .context = stack[depth - 1]};
        snprintf(launch->kernel, sizeof launch->kernel, "%s", (const char *)function);
        record_args(launch, extra);
    }
    state.stream = config->stream;
    pthread_mutex_unlock(&mutex);
    return 0;
}

/* ---------------------------------------------------------------------- memory */

static result allocate(void **data, size_t bytes, int *counter) {
    if (bytes == 0) return INVALID_VALUE;
    char *block = malloc(bytes + 2 * ALIGNMENT);
    if (!block) return OUT_OF_MEMORY;
    *data = block + 2 * ALIGNMENT - (uintptr_t)block % ALIGNMENT;
    memcpy((char *)*data - sizeof block, &block, sizeof block); /* for release */
    memset(*data, 0, bytes); /* bytes that no kernel writes are the same in every run */
    add(counter, 1);
    return 0;
}

static result release(void *block, int *counter) {
    free(block);
    add(counter, -1);
    return 0;
}

static result release_memory(void *data, int *counter) {
    void *block = NULL;
    if (data) memcpy(&block, (char *)data - sizeof block, sizeof block);
    return release(block, counter);
}

CALL(cuMemAlloc_v2, pointer *data, size_t bytes) {
    void *block = NULL;
    NEEDS_CONTEXT();
    result code = allocate(&block, bytes, &state.blocks);
    *data = (pointer)(uintptr_t)block;
    return code;
}

CALL(cuMemFree_v2, pointer data) {
    NEEDS_CONTEXT();
    return release_memory((void *)(uintptr_t)data, &state.blocks);
}

/* A pool of device memory: 88 bytes of properties, pinned and on a device. */
CALL(cuMemPoolCreate, mock_pool **pool, const int *props) {
    NEEDS_CONTEXT();
    if (props[0] != 1 || props[1] != 0 || props[2] != 1) return INVALID_VALUE;
    for (int i = 4; i < 22; ++i)
        if (props[i] != 0) return INVALID_VALUE;
    mock_pool *made = calloc(1, sizeof *made);
    if (!made) return OUT_OF_MEMORY;
    made->device = props[3];
    state.pool = *made;
    *pool = made;
    add(&state.pools, 1);
    return 0;
}

CALL(cuMemPoolDestroy, void *pool) {
    NEEDS_CONTEXT();
    return release(pool, &state.pools);
}

CALL(cuMemPoolSetAttribute, mock_pool *pool, int attribute, void *value) {
    NEEDS_CONTEXT();
    if (attribute != 4) return INVALID_VALUE;
    memcpy(&pool->kept, value, sizeof pool->kept);
    state.pool = *pool;
    return 0;
}

CALL(cuMemAllocFromPoolAsync, pointer *data, size_t bytes, mock_pool *pool, void *stream) {
    void *block = NULL;
    NEEDS_CONTEXT();
    if (!pool) return INVALID_VALUE;
    state.stream = stream;
    state.pool = *pool;
    result code = allocate(&block, bytes, &state.async_blocks);
    *data = (pointer)(uintptr_t)block;
    return code;
}

CALL(cuMemFreeAsync, pointer data, void *stream) {
    NEEDS_CONTEXT();
    state.stream = stream;
    return release_memory((void *)(uintptr_t)data, &state.async_blocks);
}

CALL(cuMemHostAlloc, void **data, size_t bytes, unsigned flags) {
    NEEDS_CONTEXT();
    if (flags != 2) return INVALID_VALUE; /* kernels write to it */
    return allocate(data, bytes, &state.pinned);
}

CALL(cuMemFreeHost, void *data) {
    NEEDS_CONTEXT();
    return release_memory(data, &state.pinned);
}

CALL(cuMemsetD8Async, pointer data, unsigned char value, size_t count, void *stream) {
    NEEDS_CONTEXT();
    state.stream = stream;
    memset((void *)(uintptr_t)data, value, count);
    return 0;
}

/* The copy is made when the stream is synchronized, not before. */
CALL(cuMemcpyDtoHAsync_v2, void *to, pointer from, size_t bytes, void *stream) {
    NEEDS_CONTEXT();
    state.stream = stream;
    pthread_mutex_lock(&mutex);
    const bool full = state.copy_count == MOCK_COPIES;
    if (!full)
        state.copies[state.copy_count++] = (mock_copy){to, (const void *)(uintptr_t)from, bytes};
    pthread_mutex_unlock(&mutex);
    return full ? OUT_OF_MEMORY : 0;
}

static void finish_copies(void) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < state.copy_count; ++i)
        memcpy(state.copies[i].to, state.copies[i].from, state.copies[i].bytes);
    state.copy_count = 0;
    pthread_mutex_unlock(&mutex);
}

/* --------------------------------------------------------------------- streams */

CALL(cuStreamSynchronize, void *stream) {
    NEEDS_CONTEXT();
    state.stream = stream;
    finish_copies();
    add(&state.synchronisations, 1);
    return 0;
}

CALL(cuStreamQuery, void *stream) {
    NEEDS_CONTEXT();
    state.stream = stream;
    add(&state.queries, 1);
    if (!state.on_query) return 0;
    state.on_query();
    return NOT_READY;
}

CALL(cuStreamIsCapturing, void *stream, int *status) {
    NEEDS_CONTEXT();
    state.stream = stream;
    *status = setting("MOCK_DRIVER_CAPTURING", 0);
    return 0;
}
