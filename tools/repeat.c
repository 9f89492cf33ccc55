#include "repeat.h"

#include "host.h"

#include <stdlib.h>
#include <string.h>

static int compare_runs(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort_runs(timing *times) {
    qsort(times->runs, times->count, sizeof *times->runs, compare_runs);
}

double timing_median(timing *times) {
    sort_runs(times);
    size_t middle = times->count / 2;
    if (times->count % 2) return times->runs[middle];
    return (times->runs[middle - 1] + times->runs[middle]) / 2;
}

double timing_min(timing *times) {
    sort_runs(times);
    return times->runs[0];
}

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
