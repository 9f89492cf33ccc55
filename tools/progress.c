#include "progress.h"

#include "host.h"

#include <string.h>

enum { BAR_WIDTH = 32 };

static int shown_width;

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
