/* A CUDA driver without a device: it takes notes, and fails on demand.
 *
 * Built as a shared library that GSC_CUDA_LIBRARY names.  Device memory is host memory,
 * kernels do nothing.  Environment, read at every call:
 *
 *     FAKE_CUDA_FAIL=cuInit=34,cuLaunchKernelEx=700   what these functions return
 *     FAKE_CUDA_VERSION=12090  FAKE_CUDA_DEVICES=2  FAKE_CUDA_CAPABILITY=9.0
 *     FAKE_CUDA_POOLS=1        FAKE_CUDA_CAPTURING=0
 */
#ifndef TESTS_FAKE_CUDA_H
#define TESTS_FAKE_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FAKE_LAUNCHES = 256, FAKE_ARGS = 4096, FAKE_COPIES = 64 };

typedef struct fake_launch {
    char kernel[64];
    unsigned grid[3], block[3];
    bool early;             /* may be set up while the kernel before it ends */
    void *stream, *context; /* the context that was current */
    size_t args_bytes;
    unsigned char args[FAKE_ARGS];
} fake_launch;

/* A copy to the host that nobody waited for yet. */
typedef struct fake_copy {
    void *to;
    const void *from;
    size_t bytes;
} fake_copy;

typedef struct fake_pool {
    int device;
    uint64_t kept; /* the release threshold */
} fake_pool;

/* The notes; fake_cuda() gives the one of the process. */
typedef struct fake_notes {
    fake_launch launches[FAKE_LAUNCHES];
    fake_copy copies[FAKE_COPIES];
    int launch_count, copy_count;
    int pushes, synchronisations, queries, functions, attributes;
    int retained[8];                                    /* of each device's primary context */
    int libraries, pinned, blocks, async_blocks, pools; /* that live */
    fake_pool pool;                                     /* of the last call that has one */
    void *stream;                                       /* the same */
    /* What the kernels of a stream that is asked whether it is done do meanwhile; NULL: it is. */
    void (*on_query)(void);
} fake_notes;

typedef fake_notes *fake_cuda_function(void);
/* fake_cuda_note: one number by name, for tests that are not written in C; see its list. */
typedef int64_t fake_cuda_note_function(const char *name);

#endif
