/* What the system reports about this process. */
#ifndef TESTS_PROCESS_H
#define TESTS_PROCESS_H

#include <stdbool.h>

/* The number of threads, including the calling one. */
int process_threads(void);
/* Waits until there are this many threads, since a joined thread is still listed for a moment.
 * Returns the final number. */
int process_threads_settle(int expected);
/* Whether a file is mapped; follows symbolic links in path. */
bool process_maps(const char *path);
#if defined(_WIN32)
/* The number of open system handles; -1 if unknown. */
int process_handles(void);
#else
/* Waits for a child and returns its exit status, or -1 if it was killed.  Kills a child that
 * hangs. */
int process_wait(int child);
#endif

#endif
