/* For each test of a file, a context on the mock driver, entered as in an operation.  main sets
 * mock. */
#ifndef TESTS_CONTEXT_FIXTURE_H
#define TESTS_CONTEXT_FIXTURE_H

#include "mock_device.h"

#include "gpu/gpu.h"

static mock_driver_state *mock;
static gsc_context *context;
static gsc__gpu_scope scope;

/* A call of "test" on a stream. */
#define CALL_ON(stream_) (&(gsc__call){.function = "test", .context = context, .stream = (stream_)})

static inline void enter_context_with(uint32_t flags) {
    mock_reset(mock);
    context = mock_context(0, flags);
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
