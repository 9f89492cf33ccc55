#define _DEFAULT_SOURCE /* usleep */
/* The thread pool: every index once, with any number of threads, also nested. */

#include "rendezvous.h"
#include "views.h"

#include "os/parallel.h"
#include "os/system.h"

#include <fenv.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST = 10000 };

typedef struct visits {
    int threads;
    int64_t grain, count;
    atomic_int hits[MOST];
    atomic_int inside[64]; /* calls that run on each thread index */
    atomic_int wrong;
} visits;

static visits *new_visits(int threads, int64_t count, int64_t grain) {
    visits *v = calloc(1, sizeof *v);
    assert_non_null(v);
    v->threads = threads;
    v->count = count;
    v->grain = grain;
    return v;
}

static void visit(void *arg, int64_t begin, int64_t end, int thread) {
    visits *v = arg;
    bool ok = thread >= 0 && thread < v->threads && begin >= 0 && begin < end && end <= v->count &&
              begin % v->grain == 0 && (end - begin == v->grain || end == v->count);
    if (!ok) {
        atomic_fetch_add(&v->wrong, 1);
        return;
    }
    if (atomic_fetch_add(&v->inside[thread], 1) != 0) atomic_fetch_add(&v->wrong, 1);
    for (int64_t i = begin; i < end; ++i) atomic_fetch_add(&v->hits[i], 1);
    atomic_fetch_sub(&v->inside[thread], 1);
}

static void check_visits(visits *v) {
    assert_int_equal(v->wrong, 0);
    for (int64_t i = 0; i < v->count; ++i) assert_int_equal(v->hits[i], 1);
    free(v);
}

static void every_index_once(void **state) {
    static const int threads[] = {1, 2, 7};
    static const int64_t sizes[][2] = {{0, 1},   {1, 1},     {1, 100},   {2, 1},
                                       {100, 1}, {9999, 10}, {10000, 3}, {10000, 100000}};
    (void)state;
    for (size_t t = 0; t < 3; ++t) {
        gsc__pool *pool = gsc__pool_create(threads[t]);
        assert_non_null(pool);
        assert_int_equal(gsc__pool_threads(pool), threads[t]);
        for (int repeat = 0; repeat < 20; ++repeat) {
            for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; ++s) {
                visits *v = new_visits(threads[t], sizes[s][0], sizes[s][1]);
                gsc__parallel_for(pool, v->count, v->grain, visit, v);
                check_visits(v);
            }
        }
        gsc__pool_destroy(pool);
    }
}

static void unused_and_missing_pools(void **state) {
    (void)state;
    gsc__pool_destroy(NULL);
    gsc__pool_destroy(gsc__pool_create(7));
    gsc__pool *pool = gsc__pool_create(-5);
    assert_int_equal(gsc__pool_threads(pool), 1);
    gsc__pool_destroy(pool);
    assert_int_equal(gsc__pool_threads(NULL), 1);
    visits *v = new_visits(1, 100, 7);
    gsc__parallel_for(NULL, v->count, v->grain, visit, v);
    check_visits(v);
}

static void counts_near_the_end_of_int64(void **state) {
    (void)state;
    /* One chunk, with a grain that must not overflow when rounded up. */
    gsc__pool *pool = gsc__pool_create(2);
    visits *v = new_visits(2, 5, INT64_MAX);
    gsc__parallel_for(pool, v->count, v->grain, visit, v);
    check_visits(v);
    v = new_visits(2, 5, 1);
    gsc__parallel_for(pool, v->count, -3, visit, v); /* grain below 1 is 1 */
    check_visits(v);
    gsc__parallel_for(pool, INT64_MIN, 1, visit, NULL); /* nothing to do */
    gsc__pool_destroy(pool);
}

/* --------------------------------------------------------------- parallelism */

static void all_threads_take_part(void **state) {
    (void)state;
    gsc__pool *pool = gsc__pool_create(4);
    for (int repeat = 0; repeat < 5; ++repeat) {
        rendezvous m = {.wanted = 4};
        gsc__parallel_for(pool, 4, 1, rendezvous_wait, &m);
        assert_false(m.failed);
        assert_int_equal(m.threads, 0xf);
        usleep(2000); /* long enough for the workers to sleep */
    }
    gsc__pool_destroy(pool);
}

typedef struct order {
    int64_t pieces[MOST];
    atomic_int count;
} order;

static void record(void *arg, int64_t begin, int64_t end, int thread) {
    order *o = arg;
    (void)end;
    if (thread == 0) o->pieces[atomic_fetch_add(&o->count, 1)] = begin;
}

static void pieces_are_handed_out_in_order(void **state) {
    (void)state;
    gsc__pool *pool = gsc__pool_create(3);
    order *o = calloc(1, sizeof *o);
    gsc__parallel_for(pool, MOST, 1, record, o);
    for (int i = 1; i < o->count; ++i) assert_true(o->pieces[i - 1] < o->pieces[i]);
    free(o);
    gsc__pool_destroy(pool);
}

typedef struct nest {
    gsc__pool *pool;
    visits *inner[2];
    rendezvous outer;
} nest;

static void visit_slowly(void *arg, int64_t begin, int64_t end, int thread) {
    visit(arg, begin, end, thread);
    usleep(100);
}

static void run_inner(void *arg, int64_t begin, int64_t end, int thread) {
    nest *n = arg;
    rendezvous_wait(&n->outer, begin, end, thread); /* the other chunk runs on another thread */
    visits *v = n->inner[begin];
    gsc__parallel_for(n->pool, v->count, v->grain, visit_slowly, v);
}

/* The third thread has nothing to do, and must not help with the inner calls. */
static void nested_calls_run_alone(void **state) {
    (void)state;
    gsc__pool *pool = gsc__pool_create(3);
    for (int repeat = 0; repeat < 10; ++repeat) {
        nest n = {.pool = pool, .outer = {.wanted = 2}};
        for (int i = 0; i < 2; ++i) n.inner[i] = new_visits(1, 100, 7); /* thread 0 only */
        gsc__parallel_for(pool, 2, 1, run_inner, &n);
        assert_false(n.outer.failed);
        for (int i = 0; i < 2; ++i) check_visits(n.inner[i]);
    }
    gsc__pool_destroy(pool);
}

static void call_many_times(void *arg) {
    gsc__pool *pool = arg;
    for (int repeat = 0; repeat < 200; ++repeat) {
        visits *v = calloc(1, sizeof *v);
        v->threads = 3;
        v->count = 50;
        v->grain = 1;
        gsc__parallel_for(pool, v->count, v->grain, visit, v);
        for (int i = 0; i < 50; ++i)
            if (v->hits[i] != 1) abort();
        if (v->wrong) abort();
        free(v);
    }
}

static void callers_at_once(void **state) {
    (void)state;
    gsc__pool *pool = gsc__pool_create(3);
    gsc__thread *threads[4];
    for (int i = 0; i < 4; ++i) {
        threads[i] = gsc__thread_start(call_many_times, pool);
        assert_non_null(threads[i]);
    }
    call_many_times(pool);
    for (int i = 0; i < 4; ++i) gsc__thread_join(threads[i]);
    gsc__pool_destroy(pool);
}

/* ------------------------------------------------- floating-point environment */

typedef struct rounding {
    rendezvous all;
    atomic_int upward;
} rounding;

static void note_rounding(void *arg, int64_t begin, int64_t end, int thread) {
    rounding *r = arg;
    rendezvous_wait(&r->all, begin, end, thread);
    if (fegetround() == FE_UPWARD) atomic_fetch_add(&r->upward, 1);
}

static void workers_round_as_the_caller_does(void **state) {
    (void)state;
    gsc__pool *pool = gsc__pool_create(3);
    rounding usual = {.all = {.wanted = 3}}, upward = {.all = {.wanted = 3}},
             again = {.all = {.wanted = 3}};
    gsc__parallel_for(pool, 3, 1, note_rounding, &usual);
    fesetround(FE_UPWARD);
    gsc__parallel_for(pool, 3, 1, note_rounding, &upward);
    fesetround(FE_TONEAREST);
    gsc__parallel_for(pool, 3, 1, note_rounding, &again);
    assert_int_equal(usual.upward, 0);
    assert_int_equal(upward.upward, 3);
    assert_int_equal(again.upward, 0);
    gsc__pool_destroy(pool);
}

static void system_facts(void **state) {
    (void)state;
    assert_true(gsc__cpu_count() >= 1);
    assert_true(gsc__memory_bytes() > 1 << 20);
    assert_int_equal(gsc__fork_generation(), 1);
    for (size_t alignment = 1; alignment <= 4096; alignment *= 2) {
        void *data = gsc__aligned_alloc(alignment == 1 ? 0 : 100, alignment);
        assert_non_null(data);
        assert_int_equal((uintptr_t)data % alignment, 0);
        gsc__aligned_free(data);
    }
    unsigned char *large = gsc__aligned_alloc((size_t)9 << 20, 256);
    assert_non_null(large);
    large[0] = large[((size_t)9 << 20) - 1] = 1;
    gsc__aligned_free(large);
    assert_null(gsc__aligned_alloc(SIZE_MAX / 2, 256));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_index_once),
        cmocka_unit_test(unused_and_missing_pools),
        cmocka_unit_test(counts_near_the_end_of_int64),
        cmocka_unit_test(all_threads_take_part),
        cmocka_unit_test(pieces_are_handed_out_in_order),
        cmocka_unit_test(nested_calls_run_alone),
        cmocka_unit_test(callers_at_once),
        cmocka_unit_test(workers_round_as_the_caller_does),
        cmocka_unit_test(system_facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
