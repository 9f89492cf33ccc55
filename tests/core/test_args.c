/* Copying versioned descriptors from older and newer callers. */

#include "views.h"

#include "check/fields.h"

static const gsc__call call = {.function = "f"};

#include <math.h>

/* What this library knows, and the same struct one version later and earlier. */
typedef struct known {
    size_t struct_size;
    int32_t first, second;
    const void *third;
} known;

typedef struct newer {
    size_t struct_size;
    int32_t first, second;
    const void *third;
    int32_t fourth, fifth;
} newer;

enum { MINIMUM = offsetof(known, third) };

static gsc_status copy(known *ours, const void *theirs) {
    memset(ours, 0xab, sizeof *ours);
    return gsc__args_copy(&call, "args", ours, sizeof *ours, theirs, MINIMUM);
}

static void same_version_is_copied(void **state) {
    (void)state;
    int target;
    known theirs = {sizeof theirs, 1, 2, &target}, ours;
    expect_ok(copy(&ours, &theirs));
    assert_memory_equal(&ours, &theirs, sizeof ours);
}

static void older_caller_gets_zeros(void **state) {
    (void)state;
    known theirs = {MINIMUM, 1, 2, &theirs}, ours;
    expect_ok(copy(&ours, &theirs));
    assert_int_equal(ours.first, 1);
    assert_int_equal(ours.second, 2);
    assert_null(ours.third);
}

static void newer_caller_with_nothing_new_is_served(void **state) {
    (void)state;
    newer theirs = {sizeof theirs, 1, 2, &theirs, 0, 0};
    known ours;
    expect_ok(copy(&ours, &theirs));
    assert_int_equal(ours.second, 2);
    assert_ptr_equal(ours.third, &theirs);
}

static void newer_caller_with_a_new_field_set_is_refused(void **state) {
    (void)state;
    newer theirs = {sizeof theirs, 1, 2, &theirs, 0, 1};
    known ours;
    char message[128];
    snprintf(message, sizeof message,
             "f: byte %zu of args is set, this library knows %zu bytes of it",
             offsetof(newer, fifth), sizeof(known));
    expect_failure(copy(&ours, &theirs), GSC_ERROR_ABI, message);
}

static void sizes_out_of_range_are_refused(void **state) {
    (void)state;
    known theirs = {MINIMUM - 1, 1, 2, NULL}, ours;
    char message[128];
    snprintf(message, sizeof message, "f: struct_size of args is %d, expected at least %d",
             MINIMUM - 1, MINIMUM);
    expect_failure(copy(&ours, &theirs), GSC_ERROR_ABI, message);
    theirs.struct_size = 0;
    assert_int_equal(copy(&ours, &theirs), GSC_ERROR_ABI);
    theirs.struct_size = 65537;
    expect_failure(copy(&ours, &theirs), GSC_ERROR_ABI,
                   "f: struct_size of args is 65537, expected at most 65536");
    theirs.struct_size = SIZE_MAX;
    assert_int_equal(copy(&ours, &theirs), GSC_ERROR_ABI);
}

static void the_largest_struct_is_read_to_its_end(void **state) {
    (void)state;
    static union {
        known head;
        unsigned char bytes[65536];
    } theirs;
    known ours;
    theirs.head.struct_size = sizeof theirs;
    expect_ok(copy(&ours, &theirs));
    theirs.bytes[65535] = 1;
    expect_failure(copy(&ours, &theirs), GSC_ERROR_ABI,
                   "f: byte 65535 of args is set, this library knows 24 bytes of it");
}

static void null_is_refused(void **state) {
    (void)state;
    known ours;
    expect_failure(copy(&ours, NULL), GSC_ERROR_INVALID_ARGUMENT, "f: args is NULL");
    expect_failure(gsc__args_check_result(&call, "info", NULL, MINIMUM), GSC_ERROR_INVALID_ARGUMENT,
                   "f: info is NULL");
}

static void results_keep_the_callers_size(void **state) {
    (void)state;
    const known ours = {sizeof ours, 1, 2, &ours};
    newer theirs;
    memset(&theirs, 0xab, sizeof theirs);
    theirs.struct_size = sizeof theirs;
    gsc__args_return(&theirs, &ours, sizeof ours);
    assert_int_equal(theirs.struct_size, sizeof theirs);
    assert_int_equal(theirs.second, 2);
    assert_ptr_equal(theirs.third, &ours);
    assert_int_equal(theirs.fourth, 0);
    assert_int_equal(theirs.fifth, 0);

    known older;
    memset(&older, 0xab, sizeof older);
    known before = older;
    older.struct_size = MINIMUM;
    gsc__args_return(&older, &ours, sizeof ours);
    assert_int_equal(older.struct_size, MINIMUM);
    assert_int_equal(older.second, 2);
    assert_ptr_equal(older.third, before.third); /* beyond the caller's struct */
}

static void unknown_flags_are_refused(void **state) {
    (void)state;
    expect_ok(gsc__check_flags(&call, "flags", 5, 7));
    expect_failure(gsc__check_flags(&call, "flags", 9, 7), GSC_ERROR_INVALID_ARGUMENT,
                   "f: flags is 0x9, expected bits of 0x7 only");
}

static void numbers_are_checked_and_get_their_defaults(void **state) {
    (void)state;
    static const struct {
        uint32_t kind;
        float given;
        double result;
        const char *expected; /* NULL: accepted */
    } cases[] = {
        {0, 0.0f, 7.0, NULL},
        {0, -1e30f, -1e30f, NULL},
        {0, INFINITY, 0, "inf, expected a finite number"},
        {GSC__NOT_NEGATIVE, 0.0f, 7.0, NULL},
        {GSC__NOT_NEGATIVE, -0.5f, 0, "-0.5, expected 0 or more"},
        {GSC__NOT_NEGATIVE, -INFINITY, 0, "-inf, expected a finite number"},
        {GSC__BELOW_ONE, 0.5f, 0.5, NULL},
        {GSC__BELOW_ONE, 1.0f, 0, "1, expected less than 1"},
        {GSC__NEGATIVE_IS_ZERO, -2.0f, 0.0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        gsc__number number = {.name = "x", .standard = 7.0, .kind = cases[i].kind};
        gsc_real real = 0;
        double wide = 0;
        gsc_status status = gsc__numbers_check(&call, &number, 1, &cases[i].given, &real);
        if (cases[i].expected) {
            char message[64];
            snprintf(message, sizeof message, "f: x is %s", cases[i].expected);
            expect_failure(status, GSC_ERROR_INVALID_ARGUMENT, message);
            continue;
        }
        expect_ok(status);
        assert_true(real == (gsc_real)cases[i].result);
        number.kind |= GSC__TO_DOUBLE;
        expect_ok(gsc__numbers_check(&call, &number, 1, &cases[i].given, &wide));
        assert_true(wide == cases[i].result);
    }
    const gsc__number number = {.name = "x"};
    const float none = NAN;
    gsc_real result;
    assert_int_equal(gsc__numbers_check(&call, &number, 1, &none, &result),
                     GSC_ERROR_INVALID_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_version_is_copied),
        cmocka_unit_test(older_caller_gets_zeros),
        cmocka_unit_test(newer_caller_with_nothing_new_is_served),
        cmocka_unit_test(newer_caller_with_a_new_field_set_is_refused),
        cmocka_unit_test(sizes_out_of_range_are_refused),
        cmocka_unit_test(the_largest_struct_is_read_to_its_end),
        cmocka_unit_test(null_is_refused),
        cmocka_unit_test(results_keep_the_callers_size),
        cmocka_unit_test(unknown_flags_are_refused),
        cmocka_unit_test(numbers_are_checked_and_get_their_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
