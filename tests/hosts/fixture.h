/* For the tests of hosts: cmocka, and the files that the environment names. */
#ifndef TESTS_HOSTS_FIXTURE_H
#define TESTS_HOSTS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "opened_library.h"
#include "process.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* The path in an environment variable; ends the program if it is not set. */
static inline const char *path_in(const char *variable) {
    const char *path = getenv(variable);
    if (path && *path) return path;
    fprintf(stderr, "%s is not set\n", variable);
    exit(EXIT_FAILURE);
}
#define LIBRARY path_in("GSC_TEST_LIBRARY") /* the shared library */
#define SECOND path_in("GSC_TEST_SECOND")   /* a copy of it in another place */

/* How often to repeat: as often as a test asks, or less on a slow system. */
static inline int rounds(int usual) {
    const char *most = getenv("GSC_TEST_ROUNDS");
    return most && atoi(most) < usual ? atoi(most) : usual;
}

#endif
