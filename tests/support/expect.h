/* cmocka, and assertions on the status of a call that print its message. */
#ifndef TESTS_EXPECT_H
#define TESTS_EXPECT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "gsplat_c.h"

#include <string.h>

static inline void expect_ok_at(gsc_status status, const char *file, int line) {
    if (status == GSC_OK) return;
    print_error("status %s: %s\n", gsc_status_name(status), gsc_last_error());
    _fail(file, line);
}
#define expect_ok(status) expect_ok_at(status, __FILE__, __LINE__)

/* The message must be exactly this. */
static inline void expect_failure_at(gsc_status status, gsc_status expected, const char *message,
                                     const char *file, int line) {
    if (status != expected || strcmp(gsc_last_error(), message) != 0) {
        print_error("status %s, expected %s\nmessage  %s\nexpected %s\n", gsc_status_name(status),
                    gsc_status_name(expected), gsc_last_error(), message);
        _fail(file, line);
    }
}
#define expect_failure(status, expected, message) \
    expect_failure_at(status, expected, message, __FILE__, __LINE__)

#endif
