/* The mock driver's state, contexts on it, and the launches it recorded.  GSC_CUDA_LIBRARY must
 * name the mock driver. */
#ifndef TESTS_MOCK_DEVICE_H
#define TESTS_MOCK_DEVICE_H

#include "environment.h"
#include "mock_driver.h"
#include "views.h"

#include "gpu/gpu.h"
#include "os/system.h"

#include <stdio.h>
#include <stdlib.h>

static inline mock_driver_state *mock_open(void) {
    char error[256] = "GSC_CUDA_LIBRARY is not set";
    const char *path = getenv("GSC_CUDA_LIBRARY");
    void *library = path ? gsc__library_open(path, error, sizeof error) : NULL;
    void *symbol = library ? gsc__library_symbol(library, "mock_driver") : NULL;
    mock_driver_function *function;
    if (!symbol) {
        fprintf(stderr, "no mock driver: %s\n", error);
        exit(EXIT_FAILURE);
    }
    memcpy(&function, &symbol, sizeof function);
    return function();
}

/* Clears what earlier tests scripted and what the mock recorded. */
static inline void mock_reset(mock_driver_state *mock) {
    static const char *const names[] = {"MOCK_DRIVER_FAIL",      "MOCK_DRIVER_VERSION",
                                        "MOCK_DRIVER_DEVICES",   "MOCK_DRIVER_CAPABILITY",
                                        "MOCK_DRIVER_CAPTURING", "MOCK_DRIVER_POOLS"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) unsetenv(names[i]);
    mock->launch_count = mock->copy_count = mock->pushes = 0;
    mock->synchronisations = mock->queries = 0;
    mock->on_query = NULL;
    mock->functions = mock->attributes = 0;
    mock->stream = NULL;
}

static inline gsc_context *mock_context(int32_t device, uint32_t flags) {
    gsc_context_desc desc;
    gsc_context *context = NULL;
    gsc_context_desc_init(&desc, (DLDevice){kDLCUDA, device});
    desc.flags = flags;
    expect_ok(gsc_context_create(&desc, &context));
    assert_non_null(context);
    return context;
}

/* The recorded launch number `which` of a kernel, counted from 0; NULL if there is none. */
static inline const mock_launch *mock_find_launch(const mock_driver_state *mock, const char *kernel,
                                                  int which) {
    for (int i = 0; i < mock->launch_count; ++i)
        if (strcmp(mock->launches[i].kernel, kernel) == 0 && which-- == 0)
            return &mock->launches[i];
    return NULL;
}

/* Copies that launch's arguments, which must have this size. */
static inline void mock_read_args(const mock_driver_state *mock, const char *kernel, int which,
                                  void *args, size_t bytes) {
    const mock_launch *seen = mock_find_launch(mock, kernel, which);
    if (!seen) fail_msg("%s was not launched", kernel);
    assert_int_equal(seen->args_bytes, bytes);
    memcpy(args, seen->args, bytes);
}
#define ARGS_OF(kernel, which, args) \
    mock_read_args(mock, "gsc_" kernel, which, &(args), sizeof(args))

#endif
