/* The CPU backend, in one table for each instruction set of the build. */
#ifndef GSC_CPU_H
#define GSC_CPU_H

#include "core/context.h"
#include "core/workspace.h"
#include "os/parallel.h"

static inline gsc__pool *gsc__cpu_pool(const gsc_context *context) {
    return (gsc__pool *)context->device_data;
}

/* The widest instruction set of this build that the processor has; the environment variable
 * GSC_CPU_ISA (baseline, avx2, avx512, neon) narrows the choice. */
const gsc__backend *gsc__cpu_backend_choose(void);
/* The instruction sets of this build from narrow to wide; NULL past the last. */
const char *gsc__cpu_isa_name(int index);

#endif
