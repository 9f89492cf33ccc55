/* A pool of threads and a parallel for over it.
 *
 * Results never depend on the number of threads: an operation either gives each
 * index its own output or combines in index order afterwards. */
#ifndef GSC_PARALLEL_H
#define GSC_PARALLEL_H

#include <stdint.h>

typedef struct gsc__pool gsc__pool;

/* threads includes the calling one; the others start with the first parallel call.  NULL if there
 * is no memory. */
gsc__pool *gsc__pool_create(int threads);
void gsc__pool_destroy(gsc__pool *pool);
int gsc__pool_threads(const gsc__pool *pool);

/* Works on [begin, end).  thread is in [0, gsc__pool_threads); no two calls with the same value
 * run at once. */
typedef void gsc__range_fn(void *arg, int64_t begin, int64_t end, int thread);

/* Calls fn over [0, count) in chunks of `grain` (the last may be shorter), assigned in ascending
 * order to free threads; returns when all are done.  A nested call, or one while another thread
 * uses the pool, runs on the calling thread alone, as thread 0: so scratch indexed by thread must
 * belong to the call, not to the pool.  Safe after fork: the child starts its own threads. */
void gsc__parallel_for(gsc__pool *pool, int64_t count, int64_t grain, gsc__range_fn *fn, void *arg);

#endif
