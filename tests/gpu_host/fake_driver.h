/* What the tests of the CUDA backend share: the notes of the fake driver, and contexts on
 * it.  GSC_CUDA_LIBRARY must name the fake. */
#ifndef TESTS_FAKE_DRIVER_H
#define TESTS_FAKE_DRIVER_H

#include "environment.h"
#include "fake_cuda.h"
#include "views.h"

#include "gpu/gpu.h"
#include "os/system.h"

#include <stdio.h>
#include <stdlib.h>

static inline fake_notes *fake_driver_notes(void) {
    char error[256] = "GSC_CUDA_LIBRARY is not set";
    const char *path = getenv("GSC_CUDA_LIBRARY");
    void *library = path ? gsc__library_open(path, error, sizeof error) : NULL;
    void *symbol = library ? gsc__library_symbol(library, "fake_cuda") : NULL;
    fake_cuda_function *function;
    if (!symbol) {
        fprintf(stderr, "no fake driver: %s\n", error);
        exit(EXIT_FAILURE);
    }
    memcpy(&function, &symbol, sizeof function);
    return function();
}

/* Everything that earlier tests scripted is gone. */
static inline void fake_driver_reset(fake_notes *notes) {
    static const char *const names[] = {"FAKE_CUDA_FAIL",      "FAKE_CUDA_VERSION",
                                        "FAKE_CUDA_DEVICES",   "FAKE_CUDA_CAPABILITY",
                                        "FAKE_CUDA_CAPTURING", "FAKE_CUDA_POOLS"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) unsetenv(names[i]);
    notes->launch_count = notes->copy_count = notes->pushes = 0;
    notes->synchronisations = notes->queries = 0;
    notes->on_query = NULL;
    notes->functions = notes->attributes = 0;
    notes->stream = NULL;
}

static inline gsc_context *fake_driver_context(int32_t device, uint32_t flags) {
    gsc_context_desc desc;
    gsc_context *context = NULL;
    gsc_context_desc_init(&desc, (DLDevice){kDLCUDA, device});
    desc.flags = flags;
    expect_ok(gsc_context_create(&desc, &context));
    assert_non_null(context);
    return context;
}

/* Launch `which` of a kernel among those in the notes; NULL if there are not so many. */
static inline const fake_launch *fake_driver_launch(const fake_notes *notes, const char *kernel,
                                                    int which) {
    for (int i = 0; i < notes->launch_count; ++i)
        if (strcmp(notes->launches[i].kernel, kernel) == 0 && which-- == 0)
            return &notes->launches[i];
    return NULL;
}

/* Its arguments, of which there must be so many bytes. */
static inline void fake_driver_args(const fake_notes *notes, const char *kernel, int which,
                                    void *args, size_t bytes) {
    const fake_launch *seen = fake_driver_launch(notes, kernel, which);
    if (!seen) fail_msg("%s was not launched", kernel);
    assert_int_equal(seen->args_bytes, bytes);
    memcpy(args, seen->args, bytes);
}
#define ARGS_OF(kernel, which, args) \
    fake_driver_args(notes, "gsc_" kernel, which, &(args), sizeof(args))

#endif
