#include "cpu.h"

#include "os/system.h"

#include <stdlib.h>

/* GSC_ISAS is ISA(name) for each instruction set that the build compiled, from narrow to wide.
 * Every processor that the build is for has the first one. */
#define ISA(name) extern const gsc__backend gsc__cpu_backend_##name;
GSC_ISAS
#undef ISA

static const gsc__backend *const backends[] = {
#define ISA(name) &gsc__cpu_backend_##name,
    GSC_ISAS
#undef ISA
};
enum { ISAS = sizeof backends / sizeof backends[0] };

/* __builtin_cpu_supports also checks that the system saves the wide registers. */
static bool is_usable(const char *isa) {
#if defined(__x86_64__)
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("bmi2");
    if (strcmp(isa, "avx2") == 0) return avx2;
    if (strcmp(isa, "avx512") == 0)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
#endif
    (void)isa;
    return true;
}

const gsc__backend *gsc__cpu_backend_choose(void) {
    char *widest = gsc__environment("GSC_CPU_ISA");
    const gsc__backend *chosen = backends[0];
    for (int i = 0; i < ISAS; ++i) {
        if (is_usable(backends[i]->name)) chosen = backends[i];
        if (widest && strcmp(widest, backends[i]->name) == 0) break;
    }
    free(widest);
    return chosen;
}

const char *gsc__cpu_isa_name(int index) {
    return index < ISAS ? backends[index]->name : NULL;
}
