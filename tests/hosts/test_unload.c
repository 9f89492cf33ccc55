#define _DEFAULT_SOURCE /* usleep */
/* A host that opens the library, uses it and closes it again: no thread and no mapping remains, and
 * the threads that used it may continue.  LeakSanitizer and valgrind find leaks. */

#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { ROUNDS = 5, THREADS = 3 };

static void assert_gone(int threads) {
    assert_int_equal(process_threads_settle(threads), threads);
    assert_false(process_maps(LIBRARY));
}

static void opened_and_closed(void **state) {
    int threads = process_threads_settle(1);
    (void)state;
    for (int round = 0; round < rounds(ROUNDS); round++) {
        opened_library library;
        assert_true(library_open(&library, LIBRARY, RTLD_NOW | RTLD_LOCAL));
        assert_true(process_maps(LIBRARY));
        assert_int_equal(process_threads(), threads);
        assert_true(library_close(&library));
        assert_gone(threads);
    }
}

static void used_and_closed(void **state) {
    int threads = process_threads_settle(1);
    uint64_t expected = 0;
    (void)state;
    for (int round = 0; round < rounds(ROUNDS); round++) {
        opened_library library;
        assert_true(library_open(&library, LIBRARY, RTLD_NOW | RTLD_LOCAL));
        gsc_context *context = library_context(&library, THREADS);
        uint64_t result = library_work(&library, context);
        assert_int_not_equal(result, 0);
        if (round > 0) assert_int_equal(result, expected);
        expected = result;
        assert_true(library_complains(&library));
        assert_int_equal(process_threads(), threads + THREADS - 1);
        library.gsc_context_free(context);
        assert_true(library_close(&library));
        assert_gone(threads);
    }
}

/* Anything that it keeps until the process ends is in its own memory. */
static void asked_and_closed(void **state) {
    int threads = process_threads_settle(1);
    (void)state;
    for (int round = 0; round < rounds(ROUNDS); round++) {
        opened_library library;
        char report[4096];
        size_t size = sizeof report;
        int32_t count = -1;
        assert_true(library_open(&library, LIBRARY, RTLD_NOW | RTLD_LOCAL));
        assert_int_equal(library.gsplat_c_abi_version(), GSC_ABI_VERSION);
        assert_non_null(strstr(library.gsc_build_info_json(), library.gsc_version()));
        assert_int_equal(library.gsc_device_report_json((DLDevice){kDLCPU, 0}, report, &size),
                         GSC_OK);
        /* Opens the driver, if there is one. */
        assert_int_equal(library.gsc_device_count(kDLCUDA, &count), GSC_OK);
        assert_true(count >= 0);
        assert_true(library_close(&library));
        assert_gone(threads);
    }
}

/* ------------------------------------------------------ threads that live longer */

typedef struct user {
    opened_library *library;
    gsc_context *context;
    uint64_t result;
    bool complained;
    atomic_bool done, end;
} user;

/* Has a message in the library's thread-local storage when that storage is released. */
static void *use_and_stay(void *arg) {
    user *u = arg;
    u->result = library_work(u->library, u->context);
    u->complained = library_complains(u->library);
    atomic_store(&u->done, true);
    while (!atomic_load(&u->end)) usleep(100);
    return NULL;
}

static void closed_before_its_users_end(void **state) {
    int threads = process_threads_settle(1);
    (void)state;
    for (int round = 0; round < rounds(ROUNDS); round++) {
        opened_library library;
        pthread_t handles[3];
        user users[3];
        assert_true(library_open(&library, LIBRARY, RTLD_NOW | RTLD_LOCAL));
        gsc_context *context = library_context(&library, THREADS);
        for (int i = 0; i < 3; i++) {
            users[i] = (user){.library = &library, .context = context};
            assert_int_equal(pthread_create(&handles[i], NULL, use_and_stay, &users[i]), 0);
        }
        for (int i = 0; i < 3; i++)
            while (!atomic_load(&users[i].done)) usleep(100);
        library.gsc_context_free(context);
        assert_true(library_close(&library));
        assert_gone(threads + 3);
        for (int i = 0; i < 3; i++) {
            atomic_store(&users[i].end, true);
            assert_int_equal(pthread_join(handles[i], NULL), 0);
            assert_true(users[i].complained);
            assert_int_equal(users[i].result, users[0].result);
            assert_int_not_equal(users[i].result, 0);
        }
    }
    assert_gone(threads);
}

static void *open_and_use(void *arg) {
    opened_library library;
    uint64_t *result = arg;
    if (!library_open(&library, LIBRARY, RTLD_NOW | RTLD_LOCAL)) return NULL;
    gsc_context *context = library_context(&library, THREADS);
    *result = library_work(&library, context);
    if (!library_complains(&library)) *result = 0;
    library.gsc_context_free(context);
    if (!library_close(&library)) *result = 0;
    return NULL;
}

/* The loader counts references: the last close unloads the library. */
static void opened_by_threads_at_once(void **state) {
    int threads = process_threads_settle(1);
    (void)state;
    for (int round = 0; round < rounds(ROUNDS); round++) {
        pthread_t handles[3];
        uint64_t results[3] = {0};
        for (int i = 0; i < 3; i++)
            assert_int_equal(pthread_create(&handles[i], NULL, open_and_use, &results[i]), 0);
        for (int i = 0; i < 3; i++) assert_int_equal(pthread_join(handles[i], NULL), 0);
        assert_int_not_equal(results[0], 0);
        assert_int_equal(results[1], results[0]);
        assert_int_equal(results[2], results[0]);
        assert_gone(threads);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opened_and_closed),         cmocka_unit_test(used_and_closed),
        cmocka_unit_test(asked_and_closed),          cmocka_unit_test(closed_before_its_users_end),
        cmocka_unit_test(opened_by_threads_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
