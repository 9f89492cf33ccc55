#define _DEFAULT_SOURCE /* setenv */
/* The launches of a sort, and whether its scratch is large enough; on the mock driver. */

#include "context_fixture.h"

#include "gpu/gpu.h"

enum { LIMIT = 3000000, GUARD = 4096, MULTIPROCESSORS = 132 };

/* Queues a sort with exactly the scratch that it asks for; returns its arguments. */
static gsc_k_sort queue(gsc__gpu_sort_args *sort) {
    const size_t bytes = gsc__gpu_sort_bytes(sort->kernel.length.limit, sort->bits);
    unsigned char *scratch = malloc(bytes + GUARD);
    gsc_k_sort args;
    assert_non_null(scratch);
    memset(scratch, 0x5a, bytes + GUARD);
    sort->scratch = scratch;
    mock->launch_count = 0;
    expect_ok(gsc__gpu_sort(CALL_ON(&scope), sort));
    assert_int_equal(mock->launch_count, 1);
    assert_ptr_equal(mock->launches[0].stream, &scope);
    assert_int_equal(mock->launches[0].args_bytes, sizeof args);
    memcpy(&args, mock->launches[0].args, sizeof args);
    /* The progress and the first states are zero, and all states lie within the scratch. */
    const size_t rows =
        args.tile_limit + 2 * ((args.tile_limit + GSC__SORT_GROUP - 1) / GSC__SORT_GROUP);
    const size_t states = rows * GSC__SORT_DIGITS * sizeof(uint32_t);
    unsigned char *first = (void *)args.states[0], *second = (void *)args.states[1];
    assert_ptr_equal(args.progress, scratch);
    assert_true((size_t)(first - scratch) >= sizeof *args.progress);
    assert_true(second >= first + states);
    assert_true(second + states <= scratch + bytes);
    unsigned char *zero_end = scratch, *guard_end = scratch + bytes;
    while (zero_end < first + states && *zero_end == 0) ++zero_end;
    while (guard_end < scratch + bytes + GUARD && *guard_end == 0x5a) ++guard_end;
    assert_true(zero_end == first + states);
    assert_true(guard_end == scratch + bytes + GUARD);
    free(scratch);
    return args;
}

static void positions_by_depth(void **state) {
    static float near_plane;
    static uint32_t count, keys, work[2], order, values;
    gsc__gpu_sort_args sort = {.kernel.length = {&count, LIMIT},
                               .bits = 32,
                               .key_bytes = 4,
                               .kernel.keys = &keys,
                               .kernel.base = (void *)&near_plane,
                               .kernel.work_keys = {&work[0], &work[1]},
                               .kernel.out_values = {&order, &values}};
    (void)state;
    const gsc_k_sort args = queue(&sort);
    assert_string_equal(mock->launches[0].kernel, "gsc_sort");
    assert_int_equal(mock->launches[0].block[0], GSC__SORT_BLOCK);
    assert_int_equal(mock->launches[0].grid[0], 2 * MULTIPROCESSORS);
    assert_ptr_equal(args.length.count, &count);
    assert_int_equal(args.length.limit, LIMIT);
    assert_ptr_equal(args.keys, &keys);
    assert_null(args.values);
    assert_ptr_equal(args.base, &near_plane);
    assert_ptr_equal(args.work_keys[0], &work[0]);
    assert_ptr_equal(args.work_keys[1], &work[1]);
    assert_ptr_equal(args.out_values[0], &order);
    assert_ptr_equal(args.out_values[1], &values);
    assert_int_equal(args.may_skip, 1);
    assert_int_equal(args.passes, 4);
    assert_int_equal(args.digit_bits, 9);
}

/* The passes cover every number of bits with at most the digits that there is memory for; the
 * number of passes is fixed if the values are in one of the arrays. */
static void digits(void **state) {
    static uint32_t count, words[5];
    (void)state;
    for (uint32_t bits = 1; bits <= 64; ++bits) {
        gsc__gpu_sort_args sort = {.kernel.length = {&count, 100000},
                                   .bits = bits,
                                   .key_bytes = bits > 32   ? 8
                                                : bits > 16 ? 4
                                                            : 2,
                                   .kernel.keys = &words[0],
                                   .kernel.values = &words[1],
                                   .kernel.work_keys = {&words[2], &words[0]},
                                   .kernel.out_values = {&words[1], &words[4]}};
        for (int given = 0; given < 2; ++given) {
            if (!given) sort.kernel.values = NULL;
            const gsc_k_sort args = queue(&sort);
            assert_string_equal(mock->launches[0].kernel, bits > 32   ? "gsc_sort64"
                                                          : bits > 16 ? "gsc_sort"
                                                                      : "gsc_sort16");
            assert_int_equal(args.passes, gsc__gpu_sort_passes(bits));
            assert_true(args.passes <= GSC__SORT_PASSES);
            assert_true(args.digit_bits >= 1 && args.digit_bits <= GSC__SORT_DIGIT_BITS);
            assert_true(args.passes * args.digit_bits >= bits);
            assert_true((args.passes - 1) * args.digit_bits < bits);
            assert_int_equal(args.may_skip, sort.kernel.values == NULL);
        }
    }
    assert_int_equal(gsc__gpu_sort_passes(9), 1);
    assert_int_equal(gsc__gpu_sort_passes(13), 2);
    assert_int_equal(gsc__gpu_sort_passes(63), 7);
}

/* The kernel cuts any length up to the limit into no more tiles than there is memory for. */
static void tiles(void **state) {
    static uint32_t count;
    const uint32_t limits[] = {1, 31, 2048, 2049, 70000, 524288, 524289, 2500000, 30000000};
    (void)state;
    for (int wide = 0; wide < 2; ++wide) {
        for (size_t k = 0; k < sizeof limits / sizeof limits[0]; ++k) {
            gsc__gpu_sort_args sort = {.kernel.length = {&count, limits[k]},
                                       .bits = wide ? 63 : 32};
            const gsc_k_sort args = queue(&sort);
            const uint32_t most = wide ? GSC__SORT_WIDE_ROUNDS : GSC__SORT_ROUNDS;
            assert_true(mock->launches[0].grid[0] >= 1);
            assert_true(mock->launches[0].grid[0] <= 2 * MULTIPROCESSORS);
            for (uint32_t length = limits[k]; length > 0; length -= length / 64 + 1) {
                const uint32_t rounds = gsc__sort_rounds(length, args.tiles, most);
                assert_in_range(rounds, GSC__SORT_FEWEST_ROUNDS, most);
                const uint32_t tile = rounds * GSC__SORT_BLOCK;
                assert_true((length + tile - 1) / tile <= args.tile_limit);
            }
        }
    }
}

static void nothing_to_sort(void **state) {
    gsc__gpu_sort_args sort = {.bits = 32};
    (void)state;
    expect_ok(gsc__gpu_sort(CALL_ON(NULL), &sort));
    assert_int_equal(mock->launch_count, 0);
}

static void failures(void **state) {
    static unsigned char scratch[1 << 20];
    uint32_t count = 0;
    gsc__gpu_sort_args sort = {.kernel.length = {&count, 1000}, .bits = 32, .scratch = scratch};
    (void)state;
    setenv("MOCK_DRIVER_FAIL", "cuMemsetD8Async=700", 1);
    assert_int_equal(gsc__gpu_sort(CALL_ON(NULL), &sort), GSC_ERROR_CUDA);
    assert_int_equal(mock->launch_count, 0);
    setenv("MOCK_DRIVER_FAIL", "cuLaunchKernelEx=700", 1);
    assert_int_equal(gsc__gpu_sort(CALL_ON(NULL), &sort), GSC_ERROR_CUDA);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(positions_by_depth, enter_context, leave_context),
        cmocka_unit_test_setup_teardown(digits, enter_context, leave_context),
        cmocka_unit_test_setup_teardown(tiles, enter_context, leave_context),
        cmocka_unit_test_setup_teardown(nothing_to_sort, enter_context, leave_context),
        cmocka_unit_test_setup_teardown(failures, enter_context, leave_context),
    };
    mock = mock_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
