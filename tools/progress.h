/* A progress bar on standard error, drawn only if that is a terminal: in a pipe or a
 * log nothing of it appears. */
#ifndef GSPLAT_C_TOOLS_PROGRESS_H
#define GSPLAT_C_TOOLS_PROGRESS_H

#include <stddef.h>

void progress_show(size_t done, size_t total);
/* Clears the bar's line, before other text is printed. */
void progress_hide(void);

#endif
