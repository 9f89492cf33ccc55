/* A test program with one test for each golden case. */
#ifndef TESTS_GOLDEN_GROUP_H
#define TESTS_GOLDEN_GROUP_H

#include "expect.h"
#include "golden.h"

/* *state: the prefixes, NULL after the last.  Without this test an empty folder would pass. */
static inline void every_prefix_has_cases(void **state) {
    static char names[GOLDEN_MAX_CASES][GOLDEN_NAME];
    for (const char *const *prefix = (const char *const *)*state; *prefix; prefix++) {
        const char *const one[] = {*prefix, NULL};
        if (golden_list(one, names) == 0) fail_msg("no case %s* in %s", *prefix, golden_folder());
    }
}

/* Runs the test, whose state is the name of the case, for every case with one of the prefixes. */
static inline int golden_group(const char *title, const char **prefixes, CMUnitTestFunction test) {
    static char names[GOLDEN_MAX_CASES][GOLDEN_NAME];
    static struct CMUnitTest tests[GOLDEN_MAX_CASES + 1];
    const int count = golden_list(prefixes, names);
    for (int i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){names[i], test, NULL, NULL, names[i]};
    tests[count] =
        (struct CMUnitTest)cmocka_unit_test_prestate(every_prefix_has_cases, (void *)prefixes);
    return _cmocka_run_group_tests(title, tests, (size_t)count + 1, NULL, NULL);
}

#endif
