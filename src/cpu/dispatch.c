#include "cpu.h"

#include "os/system.h"

#include <stdlib.h>

/* The build defines GSC_HAVE_ISA_<NAME> for every instruction set that it compiled. */
#if GSC_HAVE_ISA_BASELINE
extern const gsc__backend gsc__cpu_backend_baseline;
#endif
#if GSC_HAVE_ISA_AVX2
extern const gsc__backend gsc__cpu_backend_avx2;
#endif
#if GSC_HAVE_ISA_AVX512
extern const gsc__backend gsc__cpu_backend_avx512;
#endif
#if GSC_HAVE_ISA_NEON
extern const gsc__backend gsc__cpu_backend_neon;
#endif

typedef struct isa {
    const gsc__backend *backend;
    bool (*usable)(void);
} isa;

#if GSC_HAVE_ISA_BASELINE || GSC_HAVE_ISA_NEON
static bool always(void) {
    return true;
}
#endif

/* __builtin_cpu_supports also checks that the system saves the wide registers. */
#if GSC_HAVE_ISA_AVX2
static bool has_avx2(void) {
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("bmi2");
}
#endif

#if GSC_HAVE_ISA_AVX512
static bool has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}
#endif

/* From narrow to wide.  Every processor that the build is for has the first one. */
static const isa isas[] = {
#if GSC_HAVE_ISA_BASELINE
    {&gsc__cpu_backend_baseline, always},
#endif
#if GSC_HAVE_ISA_NEON
    {&gsc__cpu_backend_neon, always},
#endif
#if GSC_HAVE_ISA_AVX2
    {&gsc__cpu_backend_avx2, has_avx2},
#endif
#if GSC_HAVE_ISA_AVX512
    {&gsc__cpu_backend_avx512, has_avx512},
#endif
};
enum { ISAS = sizeof isas / sizeof isas[0] };

const gsc__backend *gsc__cpu_backend_choose(void) {
    char *widest = gsc__environment("GSC_CPU_ISA");
    const gsc__backend *chosen = isas[0].backend;
    for (int i = 0; i < ISAS; ++i) {
        if (isas[i].usable()) chosen = isas[i].backend;
        if (widest && strcmp(widest, isas[i].backend->name) == 0) break;
    }
    free(widest);
    return chosen;
}

const char *gsc__cpu_isa_name(int index) {
    return index < ISAS ? isas[index].backend->name : NULL;
}
