/* Repeated work: the times of its runs, and how far it is. */
#ifndef GSPLAT_C_TOOLS_REPEAT_H
#define GSPLAT_C_TOOLS_REPEAT_H

#include "options.h"

#include <stddef.h>

/* Milliseconds; a count of 0 clears them. */
typedef struct timing {
    double runs[MAX_RUNS];
    size_t count;
} timing;

/* Of at least one run; they sort the runs. */
double timing_median(timing *times);
double timing_min(timing *times);

/* A progress bar on standard error, only where that is a terminal. */
void progress_show(size_t done, size_t total);
/* Clears the bar's line, before other text is printed. */
void progress_hide(void);

#endif
