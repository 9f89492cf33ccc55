/* What the system tells of this process. */
#ifndef TESTS_PROCESS_H
#define TESTS_PROCESS_H

#include <stdbool.h>

/* Threads that exist now, the calling one included. */
int process_threads(void);
/* Waits until there are this many: a thread that was joined is listed for a moment more.
 * Returns how many there are in the end. */
int process_threads_settle(int expected);
/* Whether a file is mapped; symbolic links in path are followed. */
bool process_maps(const char *path);
#if defined(_WIN32)
/* Handles of the system's that are open; -1 if it does not say. */
int process_handles(void);
#else
/* Waits for a child.  Its exit status; -1 if it was killed, or hung and is killed now. */
int process_wait(int child);
#endif

#endif
