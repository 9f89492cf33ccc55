#include "failure.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[1024];

/* File and property names come from outside and may hold line breaks or escape
 * sequences; the message stays one printable line. */
static void keep(const char *format, va_list arguments) {
    vsnprintf(text, sizeof text, format, arguments);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
}

bool fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    keep(format, arguments);
    va_end(arguments);
    return false;
}

int fail_usage(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    keep(format, arguments);
    va_end(arguments);
    return EXIT_USAGE;
}

const char *failure_text(void) {
    return text;
}

char *format_text(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *formatted = length < 0 ? NULL : malloc((size_t)length + 1);
    if (!formatted) {
        fail("no memory for a file name");
        return NULL;
    }
    va_start(arguments, format);
    vsnprintf(formatted, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return formatted;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *find_repeated(char **names, size_t count) {
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0) return names[i];
    return NULL;
}
