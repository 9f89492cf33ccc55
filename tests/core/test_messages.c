/* Messages begin with the public function that was called, whichever layer fails: the call's own
 * checks, those of the arguments, memory, and the CPU backend. */

#include "cpu/cpu.h"

#include "mock_backend.h"

static gsc_image_loss_args loss;
static gsc_train_args train;
static gsc_raster_info info;
static gsc_raster_saved *saved;
static view target, value;

/* The CPU backend on the mock's arguments, which are all zero: no point is behind the near plane. */
static int open_cpu(void **state) {
    reset(state);
    context.backend = gsc__cpu_backend_choose();
    expect_ok(context.backend->open(&context));
    VIEW(&target, 3, 4, 7);
    VIEW(&value, 1);
    loss = (gsc_image_loss_args){.struct_size = sizeof loss,
                                 .l1_weight = 1,
                                 .target = &target.tensor,
                                 .loss = &value.tensor};
    train = (gsc_train_args){.struct_size = sizeof train, .raster = &args, .loss = &loss};
    grads.color = NULL;
    info = (gsc_raster_info){.struct_size = sizeof info, .visible = 1, .intersections = 1};
    expect_ok(gsc_raster_sizes(&context, &args, &info));
    expect_ok(gsc_rasterize(&context, &args, &outputs, &saved, NULL));
    view *const bytes[] = {&state_view, &lists};
    for (int i = 0; i < 2; ++i) {
        VIEW(bytes[i], 1 << 14);
        view_dtype(bytes[i], kDLUInt, 8);
        bytes[i]->tensor.byte_offset = (unsigned)i << 14;
    }
    buffers.scratch = NULL;
    return 0;
}

static int close_cpu(void **state) {
    (void)state;
    gsc_raster_saved_free(saved, NULL);
    context.backend->close(&context);
    assert_int_equal(heap.blocks, 0);
    return 0;
}

/* ------------------------------------------------------------------- functions */

static gsc_status rasterize(void *stream) {
    return gsc_rasterize(&context, &args, &outputs, NULL, stream);
}

static gsc_status rasterize_backward(void *stream) {
    return gsc_rasterize_backward(&context, &args, saved, &grads, stream);
}

static gsc_status train_step(void *stream) {
    return gsc_train_step(&context, &train, stream);
}

static gsc_status raster_project(void *stream) {
    return gsc_raster_project(&context, &args, &buffers, NULL, NULL, stream);
}

static gsc_status raster_blend(void *stream) {
    return gsc_raster_blend(&context, &args, &buffers, &outputs, &info, NULL, stream);
}

static gsc_status raster_project_blend(void *stream) {
    return gsc_raster_project_blend(&context, &args, &buffers, &outputs, &info, stream);
}

static gsc_status raster_backward(void *stream) {
    return gsc_raster_backward(&context, &args, &buffers, &info, &grads, stream);
}

enum { FUNCTIONS = 7 };
static const struct {
    const char *name;
    gsc_status (*call)(void *stream);
    const char *check, *memory, *backend; /* the rest of each message; NULL: cannot fail there */
} functions[FUNCTIONS] = {
    {"rasterize", rasterize, "means is missing", "state: out of memory", "means holds a point"},
    {"rasterize_backward", rasterize_backward, "means is missing", "scratch: out of memory", NULL},
    {"train_step", train_step, "raster.means is missing", "colour: out of memory",
     "means holds a point"},
    {"raster_project", raster_project, "means is missing", "scratch: out of memory",
     "means holds a point"},
    {"raster_blend", raster_blend, "means is missing", "scratch: out of memory",
     "state was not written"},
    {"raster_project_blend", raster_project_blend, "means is missing", "scratch: out of memory",
     "means holds a point"},
    {"raster_backward", raster_backward, "means is missing", "scratch: out of memory",
     "state was not written"}};

static void expect_message(int function, gsc_status status, const char *rest) {
    char message[128];
    snprintf(message, sizeof message, "%s: %s", functions[function].name, rest);
    assert_int_not_equal(status, GSC_OK);
    if (strncmp(gsc_last_error(), message, strlen(message)) != 0)
        fail_msg("%s, expected %s", gsc_last_error(), message);
}

/* ---------------------------------------------------------------------- layers */

static void of_the_call(void **state) {
    (void)state;
    for (int i = 0; i < FUNCTIONS; ++i)
        expect_message(i, functions[i].call(&context), "stream is 0x");
}

static void of_the_arguments(void **state) {
    (void)state;
    args.means = NULL;
    for (int i = 0; i < FUNCTIONS; ++i)
        expect_message(i, functions[i].call(NULL), functions[i].check);
}

static void of_memory(void **state) {
    (void)state;
    heap.fail_from = 1;
    for (int i = 0; i < FUNCTIONS; ++i)
        expect_message(i, functions[i].call(NULL), functions[i].memory);
}

static void of_the_backend(void **state) {
    (void)state;
    args.flags = GSC_RASTER_PREFILTERED;
    memset(view_memory, 0, sizeof view_memory);
    for (int i = 0; i < FUNCTIONS; ++i) {
        if (!functions[i].backend) continue;
        memset(view_memory, 0, sizeof view_memory);
        expect_message(i, functions[i].call(NULL), functions[i].backend);
    }
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_cpu, close_cpu)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(of_the_call),
        TEST(of_the_arguments),
        TEST(of_memory),
        TEST(of_the_backend),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
