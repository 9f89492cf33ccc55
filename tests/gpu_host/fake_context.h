/* A context of a fake device that is current, as it is inside an operation: for each test of a
 * file.  main sets notes. */
#ifndef TESTS_FAKE_CONTEXT_H
#define TESTS_FAKE_CONTEXT_H

#include "fake_driver.h"

#include "gpu/gpu.h"

static fake_notes *notes;
static gsc_context *context;
static gsc__gpu_scope scope;

static inline void enter_context_with(uint32_t flags) {
    fake_driver_reset(notes);
    context = fake_driver_context(0, flags);
    expect_ok(gsc__gpu_enter("test", &gsc__gpu_of(context)->device, &scope));
}

static inline int enter_context(void **state) {
    (void)state;
    enter_context_with(0);
    return 0;
}

static inline int leave_context(void **state) {
    (void)state;
    gsc__gpu_leave(&scope);
    gsc_context_free(context);
    return 0;
}

#endif
