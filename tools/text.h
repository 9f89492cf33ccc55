/* Text: messages, lines for people, a progress bar, and new strings. */
#ifndef GSPLAT_C_TOOLS_TEXT_H
#define GSPLAT_C_TOOLS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#if defined(_WIN32) && !defined(__clang__)
#define TEXT_PRINTF(at) __attribute__((format(gnu_printf, at, at + 1)))
#else
#define TEXT_PRINTF(at) __attribute__((format(printf, at, at + 1)))
#endif

/* What the process returns to the shell. */
enum { EXIT_OK = 0, EXIT_RUNTIME = 1, EXIT_USAGE = 2 };

/* Keeps the message and returns false, so that `return fail(..)` ends a function. */
bool fail(const char *format, ...) TEXT_PRINTF(1);
/* The same, returning EXIT_USAGE: the command line itself is wrong. */
#define fail_usage(...) (fail(__VA_ARGS__), EXIT_USAGE)
/* The message of the last failure; "" before the first. */
const char *failure_text(void);

/* Bytes of the character at the start of the text; 0 if it must not be printed as it is, being a
 * control character or not UTF-8. */
size_t printable_bytes(const char *text);
/* Names and paths come from outside: bytes that must not be printed are shown as \xNN. */
void print_text(FILE *to, const char *text);
/* The same for a whole line; adds its end. */
void print_line(FILE *to, const char *format, ...) TEXT_PRINTF(2);

/* A progress bar on standard error, only where that is a terminal. */
void progress_show(size_t done, size_t total);
/* Clears the bar's line, before other text is printed. */
void progress_hide(void);

/* Whether two words are the same but for the case of ASCII letters. */
bool equal_words(const char *a, const char *b);
/* Finds a name that occurs twice, or NULL, among items that begin with `char *name`.  False after
 * fail(). */
bool find_repeated(const void *items, size_t count, size_t item_bytes, const char **repeated);
/* Text to be freed; NULL after fail(). */
char *format_text(const char *format, ...) TEXT_PRINTF(1);

#endif
