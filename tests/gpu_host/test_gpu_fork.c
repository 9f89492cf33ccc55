#define _DEFAULT_SOURCE /* setenv, fork */
/* CUDA contexts in a child of fork, on the mock driver. */

#include "mock_device.h"

#include <sys/wait.h>
#include <unistd.h>

static mock_driver_state *mock;

/* Runs in a child of fork and returns its exit status.  The mock's state is a copy of the
 * parent's. */
static int use_in_child(gsc_context *inherited) {
    static const char message[] = "context_create: this process was forked from one that had CUDA "
                                  "started; CUDA does not work in it";
    int32_t count = -1;
    gsc_context_desc desc;
    gsc_context *context;
    setenv("MOCK_DRIVER_FAIL", "cuCtxGetCurrent=3,cuDeviceGetCount=3,cuDevicePrimaryCtxRelease=3",
           1);
    if (gsc_device_count(kDLCUDA, &count) != GSC_OK || count != 0) return 1;
    gsc_context_desc_init(&desc, (DLDevice){kDLCUDA, 0});
    if (gsc_context_create(&desc, &context) != GSC_ERROR_CUDA) return 2;
    if (strcmp(gsc_last_error(), message) != 0 || gsc_last_error_cuda() != 3) return 3;
    gsc_context_free(inherited);
    if (mock->retained[0] != 1 || mock->libraries == 0 || mock->pinned == 0) return 4;
    return 0;
}

static void child_of_fork(void **state) {
    (void)state;
    gsc_context *context = mock_context(0, 0);
    pid_t child = fork();
    if (child == 0) _exit(use_in_child(context));
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    gsc_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(child_of_fork)};
    mock = mock_open();
    mock_reset(mock);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
