/* Shared by the programs of the ABI tests, which include the headers that the test puts on the path
 * and no source of the library. */
#ifndef TESTS_ABI_CLIENT_H
#define TESTS_ABI_CLIENT_H

#include "gsplat_c.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: %s\nlast error: %s\n", __FILE__, __LINE__, #condition, \
                    gsc_last_error());                                                     \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

/* A dense view of memory on the CPU, for the enclosing block: VIEW(data, kDLFloat, 32, 2, 3). */
#define VIEW(data, code, bits, ...)                                             \
    (&(DLTensor){(data),                                                        \
                 {kDLCPU, 0},                                                   \
                 (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
                 {(code), (bits), 1},                                           \
                 (int64_t[]){__VA_ARGS__},                                      \
                 NULL,                                                          \
                 0})
#define FLOATS(data, ...) VIEW(data, kDLFloat, 32, __VA_ARGS__)
#define INTS(data, ...) VIEW(data, kDLInt, 32, __VA_ARGS__)
#define BYTES(data, size) VIEW(data, kDLUInt, 8, (int64_t)(size))

static inline gsc_context *client_context(void) {
    gsc_context_desc desc;
    gsc_context *context = NULL;
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    CHECK(gsc_context_create(&desc, &context) == GSC_OK);
    return context;
}

/* Memory for a descriptor's buffers; free() releases it. */
static inline void *client_buffer(size_t bytes) {
    void *data = aligned_alloc(256, (bytes + 255) / 256 * 256 + 256);
    CHECK(data);
    return data;
}

#endif
