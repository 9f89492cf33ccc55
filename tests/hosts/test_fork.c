#define _DEFAULT_SOURCE /* fork, usleep */
/* A process that uses the library and forks: what the child may do with inherited contexts. */

#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { THREADS = 3, CHILDREN = 4 };

static opened_library library;
static uint64_t expected;

/* Runs everything on a context of the parent and on a new one; 0 on success. */
static int use_in_child(gsc_context *inherited) {
    if (process_threads() != 1) return 1;
    if (inherited && library_work(&library, inherited) != expected) return 2;
    if (inherited && process_threads() != THREADS) return 3;
    gsc_context *own = library_context(&library, THREADS);
    if (library_work(&library, own) != expected) return 4;
    if (!library_complains(&library)) return 5;
    library.gsc_context_free(own);
    if (inherited && library_work(&library, inherited) != expected) return 6;
    library.gsc_context_free(inherited);
    if (process_threads_settle(1) != 1) return 7;
    return strstr(library.gsc_build_info_json(), library.gsc_version()) ? 0 : 8;
}

static int fork_and_use(gsc_context *context) {
    pid_t child = fork();
    if (child == 0) _exit(use_in_child(context));
    return process_wait(child);
}

static void before_the_first_call(void **state) {
    (void)state;
    gsc_context *context = library_context(&library, THREADS);
    assert_int_equal(fork_and_use(context), 0);
    assert_int_equal(library_work(&library, context), expected);
    library.gsc_context_free(context);
}

static void after_use(void **state) {
    int threads = process_threads_settle(1);
    (void)state;
    gsc_context *context = library_context(&library, THREADS);
    assert_int_equal(library_work(&library, context), expected);
    assert_int_equal(fork_and_use(context), 0);
    /* The parent continues with its threads. */
    assert_int_equal(process_threads(), threads + THREADS - 1);
    assert_int_equal(library_work(&library, context), expected);
    library.gsc_context_free(context);
    assert_int_equal(process_threads_settle(threads), threads);
}

/* As a data loader starts its workers. */
static void many_children_at_once(void **state) {
    pid_t children[CHILDREN];
    (void)state;
    gsc_context *context = library_context(&library, THREADS);
    assert_int_equal(library_work(&library, context), expected);
    for (int i = 0; i < CHILDREN; i++) {
        children[i] = fork();
        if (children[i] == 0) _exit(use_in_child(context));
    }
    assert_int_equal(library_work(&library, context), expected);
    for (int i = 0; i < CHILDREN; i++) assert_int_equal(process_wait(children[i]), 0);
    library.gsc_context_free(context);
}

static void a_child_that_forks(void **state) {
    (void)state;
    gsc_context *context = library_context(&library, THREADS);
    assert_int_equal(library_work(&library, context), expected);
    pid_t child = fork();
    if (child == 0) {
        if (library_work(&library, context) != expected) _exit(11);
        if (fork_and_use(context) != 0) _exit(12);
        _exit(library_work(&library, context) == expected ? 0 : 13);
    }
    assert_int_equal(process_wait(child), 0);
    library.gsc_context_free(context);
}

/* The child does not need the library and closes it. */
static void closed_in_the_child(void **state) {
    (void)state;
    gsc_context *context = library_context(&library, THREADS);
    assert_int_equal(library_work(&library, context), expected);
    pid_t child = fork();
    if (child == 0) {
        library.gsc_context_free(context);
        if (!library_close(&library) || process_maps(LIBRARY)) _exit(1);
        if (!library_open(&library, LIBRARY, RTLD_NOW | RTLD_LOCAL)) _exit(2);
        _exit(use_in_child(NULL));
    }
    assert_int_equal(process_wait(child), 0);
    assert_int_equal(library_work(&library, context), expected);
    library.gsc_context_free(context);
}

/* ------------------------------------------------------------- amid other threads */

typedef struct worker {
    gsc_context *context;
    atomic_bool started, stop, wrong;
} worker;

static void *work_on(void *arg) {
    worker *w = arg;
    while (!atomic_load(&w->stop)) {
        if (library_work(&library, w->context) != expected) atomic_store(&w->wrong, true);
        atomic_store(&w->started, true);
    }
    return NULL;
}

#if defined(__has_feature)
#define HAS_FEATURE(name) __has_feature(name)
#else
#define HAS_FEATURE(name) 0
#endif

/* A sanitizer's allocator stays locked in the child if another thread was in it. */
static void skip_under_sanitizers(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || \
    HAS_FEATURE(address_sanitizer) || HAS_FEATURE(thread_sanitizer)
    skip();
#endif
}

/* A thread that was in a call does not exist in the child, but its context does. */
static void while_a_thread_works(void **state) {
    (void)state;
    skip_under_sanitizers();
    worker w = {.context = library_context(&library, THREADS)};
    pthread_t handle;
    assert_int_equal(pthread_create(&handle, NULL, work_on, &w), 0);
    while (!atomic_load(&w.started)) usleep(100);
    for (int round = 0; round < rounds(CHILDREN); round++) {
        usleep(1700 * (useconds_t)round);
        assert_int_equal(fork_and_use(w.context), 0);
    }
    atomic_store(&w.stop, true);
    assert_int_equal(pthread_join(handle, NULL), 0);
    assert_false(atomic_load(&w.wrong));
    library.gsc_context_free(w.context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_the_first_call), cmocka_unit_test(after_use),
        cmocka_unit_test(many_children_at_once), cmocka_unit_test(a_child_that_forks),
        cmocka_unit_test(closed_in_the_child),   cmocka_unit_test(while_a_thread_works),
    };
    if (!library_open(&library, LIBRARY, RTLD_NOW | RTLD_LOCAL)) return EXIT_FAILURE;
    gsc_context *context = library_context(&library, 1);
    expected = library_work(&library, context);
    library.gsc_context_free(context);
    int failures = expected ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    return library_close(&library) ? failures : EXIT_FAILURE;
}
