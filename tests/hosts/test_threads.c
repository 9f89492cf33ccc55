/* Host threads that use the library and end, and contexts that outlive them. */

#include "fixture.h"

#include <pthread.h>

enum { ROUNDS = 20, THREADS = 3, AT_ONCE = 4 };

typedef struct user {
    opened_library *library;
    gsc_context *context; /* NULL: creates a context */
    bool keep;            /* leaves the context to the thread that joins this one */
    uint64_t result;
    bool good;
} user;

static void *use(void *arg) {
    user *u = arg;
    bool own = u->context == NULL;
    if (own) u->context = library_context(u->library, THREADS);
    /* A new thread has no message, regardless of other threads. */
    u->good = strcmp(u->library->gsc_last_error(), "") == 0;
    u->result = library_work(u->library, u->context);
    u->good &= library_complains(u->library);
    if (own && !u->keep) u->library->gsc_context_free(u->context);
    return NULL;
}

static opened_library library;
static uint64_t expected;

static void run_and_check(user *users, int count) {
    pthread_t handles[AT_ONCE];
    for (int i = 0; i < count; i++)
        assert_int_equal(pthread_create(&handles[i], NULL, use, &users[i]), 0);
    for (int i = 0; i < count; i++) {
        assert_int_equal(pthread_join(handles[i], NULL), 0);
        assert_true(users[i].good);
        assert_int_equal(users[i].result, expected);
    }
}

static void one_after_the_other(void **state) {
    int threads = process_threads_settle(1);
    (void)state;
    for (int round = 0; round < rounds(ROUNDS); round++) {
        user own = {.library = &library};
        run_and_check(&own, 1);
    }
    assert_int_equal(process_threads_settle(threads), threads);
}

static void all_on_one_context(void **state) {
    int threads = process_threads_settle(1);
    gsc_context *context = library_context(&library, THREADS);
    (void)state;
    for (int round = 0; round < rounds(ROUNDS); round++) {
        user users[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++)
            users[i] = (user){.library = &library, .context = context};
        run_and_check(users, AT_ONCE);
        /* They started the context's threads, which remain with the context. */
        int with_context = threads + THREADS - 1;
        assert_int_equal(process_threads_settle(with_context), with_context);
    }
    library.gsc_context_free(context);
    assert_int_equal(process_threads_settle(threads), threads);
}

static void a_context_outlives_its_maker(void **state) {
    int threads = process_threads_settle(1);
    (void)state;
    for (int round = 0; round < rounds(ROUNDS); round++) {
        user maker = {.library = &library, .keep = true};
        run_and_check(&maker, 1);
        assert_int_equal(library_work(&library, maker.context), expected);
        library.gsc_context_free(maker.context);
    }
    assert_int_equal(process_threads_settle(threads), threads);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_after_the_other),
        cmocka_unit_test(all_on_one_context),
        cmocka_unit_test(a_context_outlives_its_maker),
    };
    if (!library_open(&library, LIBRARY, RTLD_NOW | RTLD_LOCAL)) return EXIT_FAILURE;
    gsc_context *context = library_context(&library, 1);
    expected = library_work(&library, context);
    library.gsc_context_free(context);
    int failures = expected ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    return library_close(&library) ? failures : EXIT_FAILURE;
}
