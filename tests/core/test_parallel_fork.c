#define _DEFAULT_SOURCE /* usleep, fork */
/* The thread pool in a child of fork, and its threads' signals. */

#include "rendezvous.h"
#include "views.h"

#include "os/parallel.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* Every process has the same number, as the first one of each PID namespace has. */
pid_t getpid(void) {
    return 1;
}

/* Runs in a child of fork, on the pool that it inherited; returns the exit status. */
static int use_in_child(gsc__pool *pool) {
    for (int repeat = 0; repeat < 3; ++repeat) {
        rendezvous m = {.wanted = 3};
        gsc__parallel_for(pool, 3, 1, rendezvous_wait, &m);
        if (m.failed) return 1;
    }
    gsc__pool_destroy(pool);
    return 0;
}

/* ThreadSanitizer does not support threads in a child of fork. */
static void skip_under_thread_sanitizer(void) {
#if defined(__SANITIZE_THREAD__)
    skip();
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
    skip();
#endif
#endif
}

static void expect_child_success(pid_t child) {
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void child_of_fork_starts_its_own(void **state) {
    (void)state;
    skip_under_thread_sanitizer();
    gsc__pool *pool = gsc__pool_create(3);
    rendezvous before = {.wanted = 3}, after = {.wanted = 3};
    gsc__parallel_for(pool, 3, 1, rendezvous_wait, &before);
    pid_t child = fork();
    if (child == 0) _exit(use_in_child(pool));
    expect_child_success(child);
    gsc__parallel_for(pool, 3, 1, rendezvous_wait, &after);
    assert_false(after.failed);
    gsc__pool_destroy(pool);
}

static void child_of_fork_frees_the_pool(void **state) {
    (void)state;
    gsc__pool *pool = gsc__pool_create(3);
    rendezvous before = {.wanted = 3};
    gsc__parallel_for(pool, 3, 1, rendezvous_wait, &before);
    pid_t child = fork();
    if (child == 0) {
        gsc__pool_destroy(pool);
        _exit(0);
    }
    expect_child_success(child);
    gsc__pool_destroy(pool);
}

typedef struct hold {
    gsc__pool *pool;
    atomic_int holds;
    atomic_bool release;
} hold;

static void hold_piece(void *arg, int64_t begin, int64_t end, int thread) {
    hold *h = arg;
    (void)begin;
    (void)end;
    (void)thread;
    atomic_fetch_add(&h->holds, 1);
    while (!atomic_load(&h->release)) usleep(100);
}

static void hold_pool(void *arg) {
    hold *h = arg;
    gsc__parallel_for(h->pool, 3, 1, hold_piece, h);
}

/* The thread that holds the pool does not exist in the child, where the pool must count as free. */
static void child_of_fork_amid_a_call(void **state) {
    (void)state;
    skip_under_thread_sanitizer();
    hold h = {.pool = gsc__pool_create(3)};
    gsc__thread *holder = gsc__thread_start(hold_pool, &h);
    assert_non_null(holder);
    /* A thread that is still starting may hold a sanitizer's lock, which blocks the child. */
    while (atomic_load(&h.holds) < 3) usleep(100);
    pid_t child = fork();
    if (child == 0) _exit(use_in_child(h.pool));
    expect_child_success(child);
    atomic_store(&h.release, true);
    gsc__thread_join(holder);
    rendezvous after = {.wanted = 3};
    gsc__parallel_for(h.pool, 3, 1, rendezvous_wait, &after);
    assert_false(after.failed);
    gsc__pool_destroy(h.pool);
}

/* -------------------------------------------------------------------- signals */

static const int faults[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS, SIGTRAP};
enum { FAULTS = sizeof faults / sizeof faults[0] };
static volatile sig_atomic_t handled;

static void count_signal(int number) {
    (void)number;
    ++handled;
}

/* What a thread raises itself is handled before raise returns, unless it is blocked. */
static void raise_all(void *arg) {
    int *others = arg;
    for (int i = 0; i < FAULTS; ++i) raise(faults[i]);
    const int faults_handled = handled;
    raise(SIGTERM);
    *others = handled - faults_handled;
}

static void faults_reach_the_hosts_handler(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = count_signal}, before[FAULTS], term;
    int others = -1;
    for (int i = 0; i < FAULTS; ++i) sigaction(faults[i], &action, &before[i]);
    sigaction(SIGTERM, &action, &term);
    gsc__thread *thread = gsc__thread_start(raise_all, &others);
    assert_non_null(thread);
    gsc__thread_join(thread);
    sigaction(SIGTERM, &term, NULL);
    for (int i = 0; i < FAULTS; ++i) sigaction(faults[i], &before[i], NULL);
    assert_int_equal(handled, FAULTS);
    assert_int_equal(others, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(child_of_fork_starts_its_own),
        cmocka_unit_test(child_of_fork_frees_the_pool),
        cmocka_unit_test(child_of_fork_amid_a_call),
        cmocka_unit_test(faults_reach_the_hosts_handler),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
