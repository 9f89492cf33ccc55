/* Status names, and the message of the last failure. */

#include "views.h"

#include "os/system.h"

static void names_are_those_of_the_header(void **state) {
    (void)state;
    static const struct {
        gsc_status status;
        const char *name;
    } cases[] = {
        {0, "GSC_OK"},
        {1, "GSC_ERROR_INVALID_ARGUMENT"},
        {2, "GSC_ERROR_SHAPE"},
        {3, "GSC_ERROR_DTYPE"},
        {4, "GSC_ERROR_LAYOUT"},
        {5, "GSC_ERROR_DEVICE"},
        {6, "GSC_ERROR_ABI"},
        {7, "GSC_ERROR_UNSUPPORTED"},
        {8, "GSC_ERROR_OUT_OF_MEMORY"},
        {9, "GSC_ERROR_BUFFER_TOO_SMALL"},
        {10, "GSC_ERROR_NO_DRIVER"},
        {11, "GSC_ERROR_NO_DEVICE"},
        {12, "GSC_ERROR_NO_KERNEL_IMAGE"},
        {13, "GSC_ERROR_CUDA"},
        {14, "GSC_ERROR_OVERFLOW"},
        {15, "GSC_ERROR_STATE"},
        {16, "GSC_ERROR_INTERNAL"},
        {17, "GSC_ERROR_UNKNOWN"},
        {-1, "GSC_ERROR_UNKNOWN"},
        {INT32_MAX, "GSC_ERROR_UNKNOWN"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i)
        assert_string_equal(gsc_status_name(cases[i].status), cases[i].name);
}

static void fail_formats_and_returns_the_status(void **state) {
    (void)state;
    gsc_status status = gsc__fail(GSC_ERROR_SHAPE, "%s: %s is %d", "knn", "k", 7);
    expect_failure(status, GSC_ERROR_SHAPE, "knn: k is 7");
    assert_int_equal(gsc_last_error_cuda(), 0);
}

static void cuda_code_belongs_to_its_failure(void **state) {
    (void)state;
    gsc_status status = gsc__fail_cuda(GSC_ERROR_CUDA, 700, "launch failed: %d", 700);
    expect_failure(status, GSC_ERROR_CUDA, "launch failed: 700");
    assert_int_equal(gsc_last_error_cuda(), 700);
    gsc__fail(GSC_ERROR_SHAPE, "another one");
    assert_int_equal(gsc_last_error_cuda(), 0);
}

static void long_messages_are_cut(void **state) {
    (void)state;
    char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    gsc__fail(GSC_ERROR_INTERNAL, "%s", text);
    assert_int_equal(strlen(gsc_last_error()), 511);
}

static void message_may_quote_the_message_before(void **state) {
    (void)state;
    gsc__fail(GSC_ERROR_INTERNAL, "inner");
    gsc__fail(GSC_ERROR_INTERNAL, "outer: %s", gsc_last_error());
    assert_string_equal(gsc_last_error(), "outer: inner");
}

static void success_leaves_the_message_alone(void **state) {
    (void)state;
    int32_t count = -1;
    gsc__fail(GSC_ERROR_INTERNAL, "stays");
    expect_ok(gsc_device_count(kDLCPU, &count));
    assert_string_equal(gsc_last_error(), "stays");
}

static void fail_in_a_thread(void *arg) {
    char *seen = arg;
    strcpy(seen, gsc_last_error());
    gsc__fail(GSC_ERROR_INTERNAL, "of the other thread");
    strcat(seen, gsc_last_error());
}

static void each_thread_has_its_own(void **state) {
    (void)state;
    char seen[600] = "unset";
    gsc__fail(GSC_ERROR_INTERNAL, "of this thread");
    gsc__thread *thread = gsc__thread_start(fail_in_a_thread, seen);
    assert_non_null(thread);
    gsc__thread_join(thread);
    assert_string_equal(seen, "of the other thread"); /* "" before it */
    assert_string_equal(gsc_last_error(), "of this thread");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_the_header),
        cmocka_unit_test(fail_formats_and_returns_the_status),
        cmocka_unit_test(cuda_code_belongs_to_its_failure),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(message_may_quote_the_message_before),
        cmocka_unit_test(success_leaves_the_message_alone),
        cmocka_unit_test(each_thread_has_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
