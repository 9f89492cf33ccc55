#include "timing.h"

#include "failure.h"

#include <stdlib.h>

bool timing_open(timing *times, size_t capacity) {
    times->count = 0;
    times->capacity = capacity;
    times->runs = malloc(capacity * sizeof *times->runs);
    return times->runs || fail("no memory for %zu times", capacity);
}

void timing_close(timing *times) {
    free(times->runs);
    times->runs = NULL;
}

void timing_clear(timing *times) {
    times->count = 0;
}

void timing_add(timing *times, double milliseconds) {
    if (times->count < times->capacity) times->runs[times->count++] = milliseconds;
}

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
