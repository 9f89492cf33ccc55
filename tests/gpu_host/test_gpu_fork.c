#define _DEFAULT_SOURCE /* setenv, fork */
/* CUDA contexts in a child of fork, with a fake driver. */

#include "fake_driver.h"

#include <sys/wait.h>
#include <unistd.h>

static fake_notes *notes;

/* What a child of fork finds; its exit status.  The notes are a copy of the parent's. */
static int use_in_child(gsc_context *inherited) {
    static const char message[] = "context_create: this process was forked from one that had CUDA "
                                  "started; CUDA does not work in it";
    int32_t count = -1;
    gsc_context_desc desc;
    gsc_context *context;
    setenv("FAKE_CUDA_FAIL", "cuCtxGetCurrent=3,cuDeviceGetCount=3,cuDevicePrimaryCtxRelease=3", 1);
    if (gsc_device_count(kDLCUDA, &count) != GSC_OK || count != 0) return 1;
    gsc_context_desc_init(&desc, (DLDevice){kDLCUDA, 0});
    if (gsc_context_create(&desc, &context) != GSC_ERROR_CUDA) return 2;
    if (strcmp(gsc_last_error(), message) != 0 || gsc_last_error_cuda() != 3) return 3;
    gsc_context_free(inherited);
    if (notes->retained[0] != 1 || notes->libraries == 0 || notes->pinned == 0) return 4;
    return 0;
}

static void child_of_fork(void **state) {
    (void)state;
    gsc_context *context = fake_driver_context(0, 0);
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
    notes = fake_driver_notes();
    fake_driver_reset(notes);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
