/* Text: the one line that the command prints when something goes wrong, and new strings. */
#ifndef GSPLAT_C_TOOLS_FAILURE_H
#define GSPLAT_C_TOOLS_FAILURE_H

#include <stdbool.h>
#include <stddef.h>

#if defined(__GNUC__)
#if defined(_WIN32) && !defined(__clang__)
#define FAILURE_PRINTF __attribute__((format(gnu_printf, 1, 2)))
#else
#define FAILURE_PRINTF __attribute__((format(printf, 1, 2)))
#endif
#else
#define FAILURE_PRINTF
#endif

/* What the process returns to the shell. */
enum { EXIT_OK = 0, EXIT_RUNTIME = 1, EXIT_USAGE = 2 };

/* Keeps the message and returns false, so that `return fail(..)` ends a function. */
bool fail(const char *format, ...) FAILURE_PRINTF;
/* The same, returning EXIT_USAGE: the command line itself is wrong. */
int fail_usage(const char *format, ...) FAILURE_PRINTF;
/* The message of the last failure; "" before the first. */
const char *failure_text(void);

/* A name that occurs twice, or NULL.  Sorts the names: there may be many thousands. */
const char *find_repeated(char **names, size_t count);
/* Text to be freed; NULL after fail(). */
char *format_text(const char *format, ...) FAILURE_PRINTF;

#endif
