/* Work for a thread pool that ends only once the wanted number of threads run it at the same time,
 * or fails after 20 seconds. */
#ifndef TESTS_RENDEZVOUS_H
#define TESTS_RENDEZVOUS_H

#include "os/system.h"

#include <stdatomic.h>
#include <unistd.h>

typedef struct rendezvous {
    atomic_int arrived, threads; /* threads: one bit for each thread index */
    int wanted;
    atomic_bool failed;
} rendezvous;

static inline void rendezvous_wait(void *arg, int64_t begin, int64_t end, int thread) {
    rendezvous *m = arg;
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
