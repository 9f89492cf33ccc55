/* Times of repeated runs, milliseconds. */
#ifndef GSPLAT_C_TOOLS_TIMING_H
#define GSPLAT_C_TOOLS_TIMING_H

#include <stdbool.h>
#include <stddef.h>

typedef struct timing {
    double *runs;
    size_t count, capacity;
} timing;

bool timing_open(timing *times, size_t capacity); /* false after fail() */
void timing_close(timing *times);
void timing_clear(timing *times);
void timing_add(timing *times, double milliseconds); /* ignored beyond the capacity */
/* Of at least one run; they sort the runs. */
double timing_median(timing *times);
double timing_min(timing *times);

#endif
