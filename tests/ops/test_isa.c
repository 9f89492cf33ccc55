/* The instruction set of the CPU backend: the widest that the processor has, according to cpuid
 * rather than to the compiler, or the widest up to the one that GSC_CPU_ISA names. */
#include "views.h"

#include <stdlib.h>

#if defined(__x86_64__)
#include <cpuid.h>

/* Does the system save the registers of these bits of XCR0? */
static bool saved(unsigned wanted) {
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & wanted) == wanted;
}

static bool processor_has(const char *isa) {
    unsigned a, b, c, d, leaf7;
    if (!__get_cpuid(1, &a, &b, &c, &d)) return false;
    const bool fma = (c & bit_FMA) && (c & bit_AVX) && (c & bit_OSXSAVE) && saved(0x6);
    if (!__get_cpuid_count(7, 0, &a, &leaf7, &c, &d)) leaf7 = 0;
    const unsigned avx512 = bit_AVX512F | bit_AVX512VL | bit_AVX512DQ | bit_AVX512BW;
    const bool avx2 = fma && (leaf7 & bit_AVX2) && (leaf7 & bit_BMI2);
    if (strcmp(isa, "avx2") == 0) return avx2;
    if (strcmp(isa, "avx512") == 0) return avx2 && (leaf7 & avx512) == avx512 && saved(0xe6);
    return strcmp(isa, "baseline") == 0;
}
#elif defined(__aarch64__)
static bool processor_has(const char *isa) {
    return strcmp(isa, "neon") == 0 || strcmp(isa, "baseline") == 0;
}
#else
static bool processor_has(const char *isa) {
    return strcmp(isa, "baseline") == 0;
}
#endif

/* Widest last, as gsc_build_info_json() lists them. */
static const char *const known[] = {"baseline", "neon", "avx2", "avx512"};
enum { KNOWN = sizeof known / sizeof known[0] };

static bool is_built(const char *isa) {
    char entry[32];
    snprintf(entry, sizeof entry, "\"%s\"", isa);
    return strstr(strstr(gsc_build_info_json(), "\"cpu_isas\":["), entry) != NULL;
}

static const char *expected(void) {
    const char *limit = getenv("GSC_CPU_ISA"), *widest = NULL;
    for (int i = 0; i < KNOWN; i++) {
        if (is_built(known[i]) && processor_has(known[i])) widest = known[i];
        if (limit && strcmp(limit, known[i]) == 0) break;
    }
    return widest;
}

static void chosen(void **state) {
    char report[1024], entry[64];
    size_t size = sizeof report;
    (void)state;
    assert_non_null(expected());
    expect_ok(gsc_device_report_json((DLDevice){kDLCPU, 0}, report, &size));
    snprintf(entry, sizeof entry, "\"isa\":\"%s\"", expected());
    if (!strstr(report, entry)) fail_msg("expected %s in %s", entry, report);
}

/* The instruction set that a new context reports. */
static char said[256];

static void listen(void *user, int32_t level, const char *message) {
    (void)user, (void)level;
    snprintf(said, sizeof said, "%s", message);
}

static void used_by_a_context(void **state) {
    gsc_context_desc desc;
    gsc_context *context;
    char entry[64];
    (void)state;
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    desc.log = listen;
    desc.log_level = GSC_LOG_INFO;
    expect_ok(gsc_context_create(&desc, &context));
    gsc_context_free(context);
    snprintf(entry, sizeof entry, "cpu, %s instructions", expected());
    if (!strstr(said, entry)) fail_msg("expected '%s' in '%s'", entry, said);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen),
        cmocka_unit_test(used_by_a_context),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
