/* Work that ends when as many threads as wanted are at it: that it ends shows that they run at
 * once. */
#ifndef TESTS_MEETING_H
#define TESTS_MEETING_H

#include "os/system.h"

#include <stdatomic.h>
#include <unistd.h>

typedef struct meeting {
    atomic_int arrived, threads; /* a bit for each thread index that came */
    int wanted;
    atomic_bool failed;
} meeting;

static inline void meet(void *arg, int64_t begin, int64_t end, int thread) {
    meeting *m = arg;
    double start = gsc__clock_seconds();
    (void)begin;
    (void)end;
    atomic_fetch_or(&m->threads, 1 << thread);
    atomic_fetch_add(&m->arrived, 1);
    while (atomic_load(&m->arrived) < m->wanted) {
        if (gsc__clock_seconds() - start > 20.0) {
            atomic_store(&m->failed, true);
            return;
        }
        usleep(100);
    }
}

#endif
