#include "text.h"

#include "host.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { BAR_WIDTH = 32 };

static char failure[4096];
static int shown_width; /* of the progress bar */

bool fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(failure, sizeof failure, format, arguments);
    va_end(arguments);
    return false;
}

const char *failure_text(void) {
    return failure;
}

size_t printable_bytes(const char *text) {
    const unsigned char *byte = (const unsigned char *)text;
    if (byte[0] < 0x80) return byte[0] >= 0x20 && byte[0] != 0x7f;
    if (byte[0] < 0xc2 || byte[0] > 0xf4) return 0;
    const size_t length = byte[0] < 0xe0 ? 2 : byte[0] < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < length; i++)
        if ((byte[i] & 0xc0) != 0x80) return 0;
    const bool control = byte[0] == 0xc2 && byte[1] < 0xa0; /* U+0080 to U+009F */
    return control ? 0 : length;
}

void print_text(FILE *to, const char *text) {
    while (*text) {
        size_t length = printable_bytes(text);
        if (length > 0)
            fwrite(text, 1, length, to);
        else
            fprintf(to, "\\x%02x", (unsigned)(unsigned char)*text);
        text += length ? length : 1;
    }
}

void print_line(FILE *to, const char *format, ...) {
    char line[8192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    print_text(to, line);
    putc('\n', to);
}

void progress_show(size_t done, size_t total) {
    if (total == 0 || !host_is_terminal(stderr)) return;
    char bar[BAR_WIDTH + 1];
    memset(bar, '.', BAR_WIDTH);
    memset(bar, '#', done * BAR_WIDTH / total);
    bar[BAR_WIDTH] = '\0';
    shown_width = fprintf(stderr, "\r[%s] %zu of %zu", bar, done, total);
    fflush(stderr);
}

void progress_hide(void) {
    if (shown_width <= 0) return;
    fprintf(stderr, "\r%*s\r", shown_width, "");
    fflush(stderr);
    shown_width = 0;
}

char *format_text(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *formatted = length < 0 ? NULL : malloc((size_t)length + 1);
    if (!formatted) {
        fail("out of memory");
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

static int lower(char c) {
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c;
}

bool equal_words(const char *a, const char *b) {
    while (*a && lower(*a) == lower(*b)) a++, b++;
    return lower(*a) == lower(*b);
}

/* Sorts a copy: there may be many thousands. */
bool find_repeated(const void *items, size_t count, size_t item_bytes, const char **repeated) {
    char **sorted = malloc((count + 1) * sizeof *sorted);
    if (!sorted) return fail("out of memory");
    for (size_t i = 0; i < count; i++)
        memcpy(&sorted[i], (const char *)items + i * item_bytes, sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_names);
    *repeated = NULL;
    for (size_t i = 1; i < count && !*repeated; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0) *repeated = sorted[i];
    free(sorted);
    return true;
}
