#include "parallel.h"

#include "system.h"

#include <fenv.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* Persistent workers that join the current job while it is open.
 *
 * The caller works too, and at the end waits only for workers that did join: one that
 * the system does not schedule in time costs nothing.  All of a job's life is in one
 * word, `gate`: its number, whether it is open, and how many workers are inside.  A
 * worker enters by adding 1 to an open gate of a job that it has not seen; the caller
 * closes the gate, waits for 0 inside, and only then may the next job be written.
 *
 * An operation is a handful of jobs with little between them, so that an idle worker
 * looks at the gate for some microseconds before it sleeps.
 *
 * Workers take over the caller's floating-point environment (rounding, flushing of
 * denormals): otherwise results would depend on which thread computed them. */

#define GATE_OPEN ((uint64_t)1 << 15)
#define GATE_INSIDE (GATE_OPEN - 1)
#define GATE_JOB_SHIFT 16

/* Busy waiting before sleeping: about 20 us of pauses. */
enum { SPINS = 500, CACHE_LINE = 64 };

typedef struct worker {
    gsc__pool *pool;
    gsc__thread *thread;
    int index;
} worker;

struct gsc__pool {
    int threads;      /* wanted, with the caller */
    int started;      /* workers that run */
    bool start_tried; /* in the process `owner` */
    bool spins;       /* there is a processor for every thread */
    int64_t owner;    /* process whose workers these are */
    worker *workers;  /* [threads - 1] */
    gsc__mutex mutex; /* for sleeping and waking only */
    gsc__condition wake, done;

    /* The process in which a caller holds the pool; 0 or another process: free. */
    _Alignas(CACHE_LINE) _Atomic int64_t busy;
    _Atomic int sleepers;
    _Atomic bool caller_sleeps;
    _Atomic bool stop;

    /* The job: written while the gate is closed and nobody is inside. */
    gsc__range_fn *fn;
    void *arg;
    int64_t count, grain, pieces;
    fenv_t environment;

    _Alignas(CACHE_LINE) _Atomic uint64_t gate;
    _Alignas(CACHE_LINE) _Atomic int64_t next_piece;
};

/* ------------------------------------------------------------------- working */

static void run_piece(gsc__range_fn *fn, void *arg, int64_t count, int64_t grain, int64_t piece,
                      int thread) {
    int64_t begin = piece * grain;
    int64_t end = count - begin < grain ? count : begin + grain;
    fn(arg, begin, end, thread);
}

static void run_alone(int64_t count, int64_t grain, int64_t pieces, gsc__range_fn *fn, void *arg) {
    for (int64_t piece = 0; piece < pieces; ++piece) run_piece(fn, arg, count, grain, piece, 0);
}

static void take_pieces(gsc__pool *pool, int thread) {
    for (;;) {
        int64_t piece = atomic_fetch_add_explicit(&pool->next_piece, 1, memory_order_relaxed);
        if (piece >= pool->pieces) return;
        run_piece(pool->fn, pool->arg, pool->count, pool->grain, piece, thread);
    }
}

/* ------------------------------------------------------------------- workers */

static bool is_news(uint64_t gate, uint64_t last_job) {
    return (gate & GATE_OPEN) && gate >> GATE_JOB_SHIFT != last_job;
}

/* Returns when there is a job to look at, or with *stop. */
static uint64_t wait_for_job(gsc__pool *pool, uint64_t last_job, bool *stop) {
    uint64_t gate;
    for (int spin = 0; pool->spins && spin < SPINS; ++spin) {
        gate = atomic_load_explicit(&pool->gate, memory_order_acquire);
        if (is_news(gate, last_job)) return gate;
        gsc__thread_pause();
    }
    gsc__mutex_lock(&pool->mutex);
    atomic_fetch_add(&pool->sleepers, 1);
    for (;;) {
        gate = atomic_load(&pool->gate);
        *stop = atomic_load(&pool->stop);
        if (*stop || is_news(gate, last_job)) break;
        gsc__condition_wait(&pool->wake, &pool->mutex);
    }
    atomic_fetch_sub(&pool->sleepers, 1);
    gsc__mutex_unlock(&pool->mutex);
    return gate;
}

static void leave(gsc__pool *pool) {
    uint64_t before = atomic_fetch_sub(&pool->gate, 1);
    bool last = !(before & GATE_OPEN) && (before & GATE_INSIDE) == 1;
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
        uint64_t gate = wait_for_job(pool, last_job, &stop);
        if (stop) return;
        while (is_news(gate, last_job)) {
            if (!atomic_compare_exchange_weak(&pool->gate, &gate, gate + 1)) continue;
            last_job = gate >> GATE_JOB_SHIFT;
            fesetenv(&pool->environment);
            take_pieces(pool, self->index);
            leave(pool);
            break;
        }
    }
}

/* -------------------------------------------------------------------- callers */

static void open_gate(gsc__pool *pool) {
    uint64_t gate = atomic_load_explicit(&pool->gate, memory_order_relaxed);
    uint64_t job = (gate >> GATE_JOB_SHIFT) + 1;
    atomic_store(&pool->gate, job << GATE_JOB_SHIFT | GATE_OPEN);
    if (atomic_load(&pool->sleepers) == 0) return;
    gsc__mutex_lock(&pool->mutex);
    gsc__condition_broadcast(&pool->wake);
    gsc__mutex_unlock(&pool->mutex);
}

static bool all_left(gsc__pool *pool) {
    return (atomic_load(&pool->gate) & GATE_INSIDE) == 0;
}

static void close_gate(gsc__pool *pool) {
    atomic_fetch_and(&pool->gate, ~GATE_OPEN);
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

/* In a child of fork only the forking thread exists: what the workers held is stale. */
static void forget_workers(gsc__pool *pool) {
    for (int i = 0; i < pool->started; ++i) gsc__thread_abandon(pool->workers[i].thread);
    pool->started = 0;
    pool->start_tried = false;
    gsc__mutex_init(&pool->mutex);
    gsc__condition_init(&pool->wake);
    gsc__condition_init(&pool->done);
    atomic_store(&pool->gate, 0);
    atomic_store(&pool->sleepers, 0);
    atomic_store(&pool->caller_sleeps, false);
}

/* Works with as many threads as the system gives. */
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

/* Holds the pool for this thread; false if another one, or an outer call, holds it.  The
 * process is part of the mark, as a fork may copy it from a thread that is not there. */
static bool try_hold(gsc__pool *pool) {
    int64_t process = gsc__process_id();
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
    int64_t pieces = count / grain + (count % grain != 0);
    if (!pool || pool->threads == 1 || pieces == 1 || !try_hold(pool)) {
        run_alone(count, grain, pieces, fn, arg);
        return;
    }
    pool->fn = fn;
    pool->arg = arg;
    pool->count = count;
    pool->grain = grain;
    pool->pieces = pieces;
    fegetenv(&pool->environment);
    atomic_store(&pool->next_piece, 0);
    open_gate(pool);
    take_pieces(pool, 0);
    close_gate(pool);
    atomic_store(&pool->busy, 0);
}

/* ----------------------------------------------------------------------- life */

gsc__pool *gsc__pool_create(int threads) {
    if (threads < 1) threads = 1;
    if (threads > (int)GATE_INSIDE) threads = (int)GATE_INSIDE;
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
    pool->owner = gsc__process_id();
    gsc__mutex_init(&pool->mutex);
    gsc__condition_init(&pool->wake);
    gsc__condition_init(&pool->done);
    return pool;
}

void gsc__pool_destroy(gsc__pool *pool) {
    if (!pool) return;
    if (pool->owner != gsc__process_id()) forget_workers(pool);
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
