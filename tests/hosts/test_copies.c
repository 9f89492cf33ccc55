#define _DEFAULT_SOURCE /* usleep */
/* The library twice in one process, from two files, as for two plugins with a copy each. */

#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { ROUNDS = 4, THREADS = 3 };

static void assert_apart(const opened_library *a, const opened_library *b) {
#define APART(type, name, parameters) assert_true(a->name != b->name);
    LIBRARY_FUNCTIONS(APART)
#undef APART
}

static void open_both(opened_library *a, opened_library *b, int mode) {
    assert_true(library_open(a, LIBRARY, RTLD_NOW | mode));
    assert_true(library_open(b, SECOND, RTLD_NOW | mode));
    assert_apart(a, b);
}

/* Every order of creating, using and freeing. */
static void use_in_turns(int mode) {
    int threads = process_threads_settle(1);
    opened_library a, b;
    open_both(&a, &b, mode);
    gsc_context *of_a = library_context(&a, THREADS), *of_b = library_context(&b, THREADS);
    uint64_t expected = library_work(&a, of_a);
    assert_int_not_equal(expected, 0);
    for (int round = 0; round < rounds(ROUNDS); round++) {
        assert_int_equal(library_work(&b, of_b), expected);
        assert_int_equal(library_work(&a, of_a), expected);
    }
    assert_int_equal(process_threads(), threads + 2 * (THREADS - 1));
    a.gsc_context_free(of_a);
    assert_int_equal(library_work(&b, of_b), expected);
    assert_true(library_close(&a));
    assert_int_equal(process_threads_settle(threads + THREADS - 1), threads + THREADS - 1);
    assert_int_equal(library_work(&b, of_b), expected);
    b.gsc_context_free(of_b);
    assert_true(library_close(&b));
    assert_int_equal(process_threads_settle(threads), threads);
    assert_false(process_maps(LIBRARY));
    assert_false(process_maps(SECOND));
}

static void in_turns(void **state) {
    (void)state;
    use_in_turns(RTLD_LOCAL);
}

/* Each copy's names are visible to the other. */
static void in_turns_with_global_names(void **state) {
    (void)state;
    use_in_turns(RTLD_GLOBAL);
}

static void keep_their_own_errors(void **state) {
    opened_library a, b;
    int32_t count;
    (void)state;
    open_both(&a, &b, RTLD_GLOBAL);
    assert_string_equal(a.gsc_last_error(), "");
    assert_string_equal(b.gsc_last_error(), "");
    assert_int_not_equal(b.gsc_device_count(kDLCPU, NULL), GSC_OK);
    assert_string_equal(b.gsc_last_error(), "device_count: count is NULL");
    assert_string_equal(a.gsc_last_error(), "");
    assert_int_equal(a.gsc_device_count(kDLCPU, &count), GSC_OK);
    assert_int_not_equal(a.gsc_context_create(NULL, NULL), GSC_OK);
    assert_string_equal(a.gsc_last_error(), "context_create: context is NULL");
    assert_string_equal(b.gsc_last_error(), "device_count: count is NULL");
    assert_true(library_close(&b));
    assert_string_equal(a.gsc_last_error(), "context_create: context is NULL");
    assert_true(library_close(&a));
}

/* ----------------------------------------------------------------------- at once */

typedef struct worker {
    const opened_library *library;
    uint64_t expected;
    atomic_int rounds;
    atomic_bool stop, wrong;
} worker;

static void *work_on(void *arg) {
    worker *w = arg;
    gsc_context *context = library_context(w->library, THREADS);
    while (!atomic_load(&w->stop)) {
        if (library_work(w->library, context) != w->expected) atomic_store(&w->wrong, true);
        atomic_fetch_add(&w->rounds, 1);
    }
    w->library->gsc_context_free(context);
    return NULL;
}

static void wait_for_rounds(worker *w, int more) {
    int wanted = atomic_load(&w->rounds) + more;
    while (atomic_load(&w->rounds) < wanted) usleep(100);
}

/* One copy keeps working while the other is opened, used and closed. */
static void one_comes_and_goes(void **state) {
    opened_library a, b;
    (void)state;
    assert_true(library_open(&a, LIBRARY, RTLD_NOW | RTLD_LOCAL));
    gsc_context *context = library_context(&a, 1);
    worker steady = {.library = &a, .expected = library_work(&a, context)};
    assert_int_not_equal(steady.expected, 0);
    a.gsc_context_free(context);
    pthread_t handle;
    assert_int_equal(pthread_create(&handle, NULL, work_on, &steady), 0);
    for (int round = 0; round < rounds(ROUNDS); round++) {
        assert_true(library_open(&b, SECOND, RTLD_NOW | RTLD_LOCAL));
        worker guest = {.library = &b, .expected = steady.expected};
        pthread_t guest_handle;
        assert_int_equal(pthread_create(&guest_handle, NULL, work_on, &guest), 0);
        wait_for_rounds(&guest, 2);
        wait_for_rounds(&steady, 2);
        atomic_store(&guest.stop, true);
        assert_int_equal(pthread_join(guest_handle, NULL), 0);
        assert_false(atomic_load(&guest.wrong));
        assert_true(library_close(&b));
        assert_false(process_maps(SECOND));
        wait_for_rounds(&steady, 2);
    }
    atomic_store(&steady.stop, true);
    assert_int_equal(pthread_join(handle, NULL), 0);
    assert_false(atomic_load(&steady.wrong));
    assert_true(library_close(&a));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_turns),
        cmocka_unit_test(in_turns_with_global_names),
        cmocka_unit_test(keep_their_own_errors),
        cmocka_unit_test(one_comes_and_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
