#include "parallel.h"

#include "system.h"

#include <fenv.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* Persistent workers that join the current job while it is open.
 *
 * The caller works too, and at the end only waits for workers that joined: a worker that the
 * system does not schedule in time costs nothing.  One word, `job_state`, describes a job: its
 * number, whether it is open, and how many workers are inside.  A worker joins by adding 1 to the
 * state of an open job with a number that it has not seen.  The caller closes the job and waits
 * for 0 workers inside before it writes the next one.
 *
 * An operation consists of a few jobs in quick succession, so an idle worker polls the state for
 * some microseconds before it sleeps.
 *
 * Workers adopt the caller's floating-point environment (rounding, flushing of denormals), so
 * that results do not depend on which thread computes them. */

#define JOB_OPEN ((uint64_t)1 << 15)
#define JOB_WORKERS (JOB_OPEN - 1)
#define JOB_NUMBER_SHIFT 16

/* Busy waiting before sleeping: about 20 us of pauses. */
enum { SPINS = 500, CACHE_LINE = 64 };

typedef struct worker {
    gsc__pool *pool;
    gsc__thread *thread;
    int index;
} worker;

struct gsc__pool {
    int threads;      /* including the caller */
    int started;      /* running workers */
    bool start_tried; /* in the process `owner` */
    bool spins;       /* there is a processor for every thread */
    int64_t owner;    /* the process that may start workers, see gsc__fork_generation; 0: none */
    worker *workers;  /* [threads - 1] */
    gsc__mutex mutex; /* only for sleeping and waking */
    gsc__condition wake, done;

    /* The process whose caller holds the pool; 0 or another process: free. */
    _Alignas(CACHE_LINE) _Atomic int64_t busy;
    _Atomic int sleepers;
    _Atomic bool caller_sleeps;
    _Atomic bool stop;

    /* The job: written while it is closed and no worker is inside. */
    gsc__range_fn *fn;
    void *arg;
    int64_t count, grain, chunks;
    fenv_t environment;

    _Alignas(CACHE_LINE) _Atomic uint64_t job_state;
    _Alignas(CACHE_LINE) _Atomic int64_t next_chunk;
};

/* ------------------------------------------------------------------- working */

static void run_chunk(gsc__range_fn *fn, void *arg, int64_t count, int64_t grain, int64_t chunk,
                      int thread) {
    int64_t begin = chunk * grain;
    int64_t end = count - begin < grain ? count : begin + grain;
    fn(arg, begin, end, thread);
}

static void run_alone(int64_t count, int64_t grain, int64_t chunks, gsc__range_fn *fn, void *arg) {
    for (int64_t chunk = 0; chunk < chunks; ++chunk) run_chunk(fn, arg, count, grain, chunk, 0);
}

static void take_chunks(gsc__pool *pool, int thread) {
    for (;;) {
        int64_t chunk = atomic_fetch_add_explicit(&pool->next_chunk, 1, memory_order_relaxed);
        if (chunk >= pool->chunks) return;
        run_chunk(pool->fn, pool->arg, pool->count, pool->grain, chunk, thread);
    }
}

/* ------------------------------------------------------------------- workers */

static bool is_new_job(uint64_t job_state, uint64_t last_job) {
    return (job_state & JOB_OPEN) && job_state >> JOB_NUMBER_SHIFT != last_job;
}

/* Returns when there is a new job, or with *stop. */
static uint64_t wait_for_job(gsc__pool *pool, uint64_t last_job, bool *stop) {
    uint64_t job_state;
    for (int spin = 0; pool->spins && spin < SPINS; ++spin) {
        job_state = atomic_load_explicit(&pool->job_state, memory_order_acquire);
        if (is_new_job(job_state, last_job)) return job_state;
        gsc__thread_pause();
    }
    gsc__mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    for (;;) {
        job_state = atomic_load(&pool->job_state);
        *stop = atomic_load(&pool->stop);
        if (*stop || is_new_job(job_state, last_job)) break;
        gsc__condition_wait(&pool->wake, &pool->mutex);
    }
    atomic_fetch_sub(&pool->sleepers, 1);
    gsc__mutex_unlock(&pool->mutex);
    return job_state;
}

static void leave(gsc__pool *pool) {
    uint64_t before = atomic_fetch_sub(&pool->job_state, 1);
    bool last = !(before & JOB_OPEN) && (before & JOB_WORKERS) == 1;
    if (!last || !atomic_load(&pool->caller_sleeps)) return;
    gsc__mutex_lock(&pool->mutex);
    gsc__condition_broadcast(&pool->done);
    gsc__mutex_unlock(&pool->mutex);
}

static void worker_main(void *arg) {
    worker *self = arg;
    gsc__pool *pool = self->pool;
    uint64_t last_job = 0;
    bool stop = false;
    for (;;) {
        uint64_t job_state = wait_for_job(pool, last_job, &stop);
        if (stop) return;
        while (is_new_job(job_state, last_job)) {
            if (!atomic_compare_exchange_weak(&pool->job_state, &job_state, job_state + 1))
                continue;
            last_job = job_state >> JOB_NUMBER_SHIFT;
            fesetenv(&pool->environment);
            take_chunks(pool, self->index);
            leave(pool);
            break;
        }
    }
}

/* -------------------------------------------------------------------- callers */

static void open_job(gsc__pool *pool) {
    uint64_t job_state = atomic_load_explicit(&pool->job_state, memory_order_relaxed);
    uint64_t job = (job_state >> JOB_NUMBER_SHIFT) + 1;
    atomic_store(&pool->job_state, job << JOB_NUMBER_SHIFT | JOB_OPEN);
    if (atomic_load(&pool->sleepers) == 0) return;
    gsc__mutex_lock(&pool->mutex);
    gsc__condition_broadcast(&pool->wake);
    gsc__mutex_unlock(&pool->mutex);
}

static bool all_left(gsc__pool *pool) {
    return (atomic_load(&pool->job_state) & JOB_WORKERS) == 0;
}

static void close_job(gsc__pool *pool) {
    atomic_fetch_and(&pool->job_state, ~JOB_OPEN);
    for (int spin = 0; pool->spins && spin < SPINS; ++spin) {
        if (all_left(pool)) return;
        gsc__thread_pause();
    }
    gsc__mutex_lock(&pool->mutex);
    atomic_store(&pool->caller_sleeps, true);
    while (!all_left(pool)) gsc__condition_wait(&pool->done, &pool->mutex);
    atomic_store(&pool->caller_sleeps, false);
    gsc__mutex_unlock(&pool->mutex);
}

/* Before the first job.  A child of fork only has the forking thread: the workers' state is
 * stale. */
static void forget_workers(gsc__pool *pool) {
    for (int i = 0; i < pool->started; ++i) gsc__thread_abandon(pool->workers[i].thread);
    pool->started = 0;
    pool->start_tried = false;
    gsc__mutex_init(&pool->mutex);
    gsc__condition_init(&pool->wake);
    gsc__condition_init(&pool->done);
    atomic_store(&pool->job_state, 0);
    atomic_store(&pool->sleepers, 0);
    atomic_store(&pool->caller_sleeps, false);
}

/* Works with as many threads as the system can start. */
static void start_workers(gsc__pool *pool) {
    pool->start_tried = true;
    for (int i = 0; i < pool->threads - 1; ++i) {
        worker *next = &pool->workers[i];
        next->pool = pool;
        next->index = i + 1;
        next->thread = gsc__thread_start(worker_main, next);
        if (!next->thread) return;
        pool->started = i + 1;
    }
}

/* Acquires the pool for this thread; false if another thread or an outer call holds it.  The mark
 * includes the process, since a fork may copy it from a thread that the child does not have. */
static bool try_hold(gsc__pool *pool) {
    int64_t process = gsc__fork_generation();
    int64_t holder = atomic_load(&pool->busy);
    if (holder == process) return false;
    if (!atomic_compare_exchange_strong(&pool->busy, &holder, process)) return false;
    if (pool->owner != process) {
        forget_workers(pool);
        pool->owner = process;
    }
    if (!pool->start_tried) start_workers(pool);
    return true;
}

void gsc__parallel_for(gsc__pool *pool, int64_t count, int64_t grain, gsc__range_fn *fn,
                       void *arg) {
    if (count <= 0) return;
    if (grain < 1) grain = 1;
    int64_t chunks = count / grain + (count % grain != 0);
    if (!pool || pool->threads == 1 || chunks == 1 || !try_hold(pool)) {
        run_alone(count, grain, chunks, fn, arg);
        return;
    }
    pool->fn = fn;
    pool->arg = arg;
    pool->count = count;
    pool->grain = grain;
    pool->chunks = chunks;
    fegetenv(&pool->environment);
    atomic_store(&pool->next_chunk, 0);
    open_job(pool);
    take_chunks(pool, 0);
    close_job(pool);
    atomic_store(&pool->busy, 0);
}

/* ----------------------------------------------------------------------- life */

gsc__pool *gsc__pool_create(int threads) {
    if (threads < 1) threads = 1;
    if (threads > (int)JOB_WORKERS) threads = (int)JOB_WORKERS;
    gsc__pool *pool = gsc__aligned_alloc(sizeof *pool, CACHE_LINE);
    size_t bytes = (size_t)threads * sizeof *pool->workers;
    worker *workers = gsc__aligned_alloc(bytes, CACHE_LINE);
    if (!pool || !workers) {
        gsc__aligned_free(pool);
        gsc__aligned_free(workers);
        return NULL;
    }
    memset(pool, 0, sizeof *pool);
    memset(workers, 0, bytes);
    pool->threads = threads;
    pool->workers = workers;
    pool->spins = threads <= gsc__cpu_count();
    return pool;
}

void gsc__pool_destroy(gsc__pool *pool) {
    if (!pool) return;
    if (pool->owner != gsc__fork_generation()) forget_workers(pool);
    gsc__mutex_lock(&pool->mutex);
    atomic_store(&pool->stop, true);
    gsc__condition_broadcast(&pool->wake);
    gsc__mutex_unlock(&pool->mutex);
    for (int i = 0; i < pool->started; ++i) gsc__thread_join(pool->workers[i].thread);
    gsc__condition_destroy(&pool->done);
    gsc__condition_destroy(&pool->wake);
    gsc__mutex_destroy(&pool->mutex);
    gsc__aligned_free(pool->workers);
    gsc__aligned_free(pool);
}

int gsc__pool_threads(const gsc__pool *pool) {
    return pool ? pool->threads : 1;
}
