/* The arguments of nearest neighbours: every check. */

#include "views.h"

#include "check/args.h"
#include "core/context.h"

static gsc_context context = {.device = {kDLCPU, 0}};
static const gsc__call cpu = {.function = "knn", .context = &context};

static view points, queries, indices, distances2, mean2, scratch;
static gsc_knn_args args;
static gsc__knn out;

static int reset(void **state) {
    (void)state;
    VIEW(&points, 6, 3);
    VIEW(&queries, 4, 3);
    VIEW(&indices, 4, 3);
    view_dtype(&indices, kDLInt, 32);
    VIEW(&distances2, 4, 3);
    VIEW(&mean2, 4);
    VIEW(&scratch, 512);
    view_dtype(&scratch, kDLUInt, 8);
    queries.tensor.byte_offset = 1024;
    distances2.tensor.byte_offset = 2048;
    mean2.tensor.byte_offset = 3072;
    args = (gsc_knn_args){.struct_size = sizeof args,
                          .points = &points.tensor,
                          .queries = &queries.tensor,
                          .indices = &indices.tensor,
                          .distances2 = &distances2.tensor,
                          .mean2 = &mean2.tensor,
                          .scratch = &scratch.tensor};
    return 0;
}

static void expect(gsc_status status, const char *message) {
    expect_failure(gsc__knn_args(&cpu, &args, &out), status, message);
}

static void valid_arguments_arrive(void **state) {
    (void)state;
    expect_ok(gsc__knn_args(&cpu, &args, &out));
    assert_int_equal(out.k, 3);
    assert_int_equal(out.points_count, 6);
    assert_int_equal(out.queries_count, 4);
    assert_ptr_equal(out.points, view_memory);
    assert_ptr_equal(out.queries, view_memory + 1024);
    assert_ptr_equal(out.indices, view_memory);
    assert_false(out.indices64);
    assert_ptr_equal(out.distances2, view_memory + 2048);
    assert_ptr_equal(out.mean2, view_memory + 3072);
    assert_ptr_equal(out.scratch, view_memory);
    assert_int_equal(out.scratch_bytes, 512);
}

static void points_ask_for_themselves(void **state) {
    (void)state;
    args.queries = NULL;
    args.scratch = NULL;
    args.distances2 = NULL;
    args.mean2 = NULL;
    args.k = 2;
    VIEW(&indices, 6, 2);
    view_dtype(&indices, kDLInt, 64);
    expect_ok(gsc__knn_args(&cpu, &args, &out));
    assert_int_equal(out.queries_count, 6);
    assert_int_equal(out.k, 2);
    assert_true(out.indices64);
    assert_null(out.queries);
    assert_null(out.distances2);
    assert_null(out.mean2);
    assert_null(out.scratch);
    assert_int_equal(out.scratch_bytes, 0);
}

static void no_points_are_fine(void **state) {
    (void)state;
    VIEW(&points, 0, 3);
    points.tensor.data = NULL;
    expect_ok(gsc__knn_args(&cpu, &args, &out));
    assert_int_equal(out.points_count, 0);
    args = (gsc_knn_args){.struct_size = sizeof args, .points = &points.tensor};
    expect_ok(gsc__knn_args(&cpu, &args, &out));
    assert_int_equal(out.queries_count, 0);
    assert_null(out.queries);
}

static void broken_arguments(void **state) {
    args.k = 257;
    expect(GSC_ERROR_INVALID_ARGUMENT, "knn: k is 257, expected 1 to 256");
    args.k = -1;
    expect(GSC_ERROR_INVALID_ARGUMENT, "knn: k is -1, expected 1 to 256");
    args.k = 256;
    expect(GSC_ERROR_SHAPE, "knn: indices is [4, 3], expected [4, 256]");
    reset(state);
    args.flags = 1;
    expect(GSC_ERROR_INVALID_ARGUMENT, "knn: flags is 0x1, expected bits of 0x0 only");
    reset(state);
    args.points = NULL;
    expect(GSC_ERROR_INVALID_ARGUMENT, "knn: points is missing");
    reset(state);
    VIEW(&points, 6, 2);
    expect(GSC_ERROR_SHAPE, "knn: points is [6, 2], expected [N, 3]");
    VIEW(&points, 2147418113, 3);
    expect(GSC_ERROR_OVERFLOW, "knn: points has 2147418113 rows, expected at most 2147418112");
    reset(state);
    VIEW(&queries, 3);
    expect(GSC_ERROR_SHAPE, "knn: queries is [3], expected [M, 3]");
    VIEW(&queries, 2147418113, 3);
    expect(GSC_ERROR_OVERFLOW, "knn: queries has 2147418113 rows, expected at most 2147418112");
    reset(state);
    view_dtype(&indices, kDLInt, 16);
    expect(GSC_ERROR_DTYPE, "knn: indices is int16, expected int32 or int64");
    reset(state);
    VIEW(&distances2, 6, 3);
    expect(GSC_ERROR_SHAPE, "knn: distances2 is [6, 3], expected [4, 3]");
    reset(state);
    VIEW(&mean2, 6);
    expect(GSC_ERROR_SHAPE, "knn: mean2 is [6], expected [4]");
    reset(state);
    scratch.tensor.byte_offset = 8;
    assert_int_equal(gsc__knn_args(&cpu, &args, &out), GSC_ERROR_LAYOUT);
    reset(state);
    view_device(&queries, kDLCUDA, 1);
    expect(GSC_ERROR_DEVICE, "knn: queries is on cuda:1, expected cpu");
    reset(state);
    args.struct_size = 24;
    assert_int_equal(gsc__knn_args(&cpu, &args, &out), GSC_ERROR_ABI);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup(name, reset)
    const struct CMUnitTest tests[] = {
        TEST(valid_arguments_arrive),
        TEST(points_ask_for_themselves),
        TEST(no_points_are_fine),
        TEST(broken_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
