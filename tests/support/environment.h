/* setenv and unsetenv, also on systems that name them differently. */
#ifndef TESTS_ENVIRONMENT_H
#define TESTS_ENVIRONMENT_H

#include <stdlib.h>

#if defined(_WIN32)
static inline int setenv(const char *name, const char *value, int overwrite) {
    return overwrite || !getenv(name) ? _putenv_s(name, value) : 0;
}

static inline int unsetenv(const char *name) {
    return _putenv_s(name, "");
}
#endif

#endif
