/* A mock CUDA driver: it needs no device, records calls, and fails on demand.
 *
 * It is a shared library, for GSC_CUDA_LIBRARY to name.  Device memory is host memory, and kernels
 * do nothing.  It reads these variables of the environment at every call:
 *
 *     MOCK_DRIVER_FAIL=cuInit=34,cuLaunchKernelEx=700   what these functions return
 *     MOCK_DRIVER_VERSION=12090  MOCK_DRIVER_DEVICES=2  MOCK_DRIVER_CAPABILITY=9.0
 *     MOCK_DRIVER_POOLS=1        MOCK_DRIVER_CAPTURING=0
 */
#ifndef TESTS_MOCK_DRIVER_H
#define TESTS_MOCK_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOCK_LAUNCHES = 256, MOCK_ARGS = 4096, MOCK_COPIES = 64 };

typedef struct mock_launch {
    char kernel[64];
    unsigned grid[3], block[3];
    bool early;             /* may start while the kernel before it ends */
    void *stream, *context; /* the context that was current */
    size_t args_bytes;
    unsigned char args[MOCK_ARGS];
} mock_launch;

/* A copy to the host that is not complete before the stream is synchronized. */
typedef struct mock_copy {
    void *to;
    const void *from;
    size_t bytes;
} mock_copy;

typedef struct mock_pool {
    int device;
    uint64_t kept; /* the release threshold */
} mock_pool;

/* What the driver recorded; mock_driver() returns the process's one. */
typedef struct mock_driver_state {
    mock_launch launches[MOCK_LAUNCHES];
    mock_copy copies[MOCK_COPIES];
    int launch_count, copy_count;
    int pushes, synchronisations, queries, functions, attributes;
    int retained[8];                                    /* of each device's primary context */
    int libraries, pinned, blocks, async_blocks, pools; /* not freed yet */
    mock_pool pool;                                     /* of the last call with one */
    void *stream;                                       /* the same */
    /* Runs when a stream is queried, which then is not ready; NULL: every stream is ready. */
    void (*on_query)(void);
} mock_driver_state;

typedef mock_driver_state *mock_driver_function(void);
/* mock_driver_value returns one number by its name, for tests in other languages; the names are in
 * its definition. */
typedef int64_t mock_driver_value_function(const char *name);

#endif
