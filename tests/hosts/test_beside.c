#define _GNU_SOURCE /* RTLD_DEFAULT */
/* Beside another library whose global names are all of ours, inner and public, and the
 * templates that libraries with CUB show.  Neither calls into the other.
 *
 * Argument: which comes first, `ours` or `other`.  Built with OTHER_LINKED the other one is
 * part of the program, and comes before everything. */

#include "fixture.h"

#ifdef OTHER_LINKED
int other_calls(void);
int other_calls_itself(void);
#if WITH_TEMPLATES
int other_sorts(void);
#endif
#else
static void find(void *handle, const char *name, void *function) {
    void *address = dlsym(handle, name);
    memcpy(function, &address, sizeof address);
}
#endif

typedef struct other {
    void *handle;
    int (*calls)(void);
    int (*calls_itself)(void);
    int (*sorts)(void); /* NULL: built without a C++ compiler */
} other;

static bool ours_comes_first;

static void open_other(other *o) {
    memset(o, 0, sizeof *o);
#ifdef OTHER_LINKED
    o->calls = other_calls;
    o->calls_itself = other_calls_itself;
#if WITH_TEMPLATES
    o->sorts = other_sorts;
#endif
#else
    o->handle = dlopen(path_in("GSC_TEST_OTHER"), RTLD_NOW | RTLD_GLOBAL);
    assert_non_null(o->handle);
    find(o->handle, "other_calls", &o->calls);
    find(o->handle, "other_calls_itself", &o->calls_itself);
    find(o->handle, "other_sorts", &o->sorts);
#endif
    assert_true(o->calls && o->calls_itself);
}

/* The names exist, and a lookup finds them. */
static void assert_names_are_global(void) {
    static const char *const names[] = {"gsc__fail_cuda", "gsc__parallel_for", "gsc_knn"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_non_null(dlsym(RTLD_DEFAULT, names[i]));
}

static void neither_calls_the_other(void **state) {
    opened_library library;
    other o = {0};
    int threads = process_threads_settle(1);
    (void)state;
    if (!ours_comes_first) open_other(&o);
    assert_true(library_open(&library, LIBRARY, RTLD_NOW | RTLD_GLOBAL));
    if (ours_comes_first) open_other(&o);
    assert_names_are_global();

    gsc_context *context = library_context(&library, 3);
    assert_int_not_equal(library_work(&library, context), 0);
    assert_true(library_complains(&library));
    assert_non_null(strstr(library.gsc_build_info_json(), library.gsc_version()));
    assert_int_equal(o.calls(), 0);

    assert_true(o.calls_itself());
    for (int i = 1; o.sorts && i <= 3; i++) assert_int_equal(o.sorts(), i);
    assert_int_not_equal(library_work(&library, context), 0);
    assert_int_equal(o.calls(), 0);

    library.gsc_context_free(context);
    assert_true(library_close(&library));
    assert_int_equal(process_threads_settle(threads), threads);
    assert_true(o.calls_itself());
    assert_int_equal(o.calls(), 0);
    if (o.handle) dlclose(o.handle);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(neither_calls_the_other)};
    ours_comes_first = argc > 1 && strcmp(argv[1], "ours") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
