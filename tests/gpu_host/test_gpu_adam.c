#define _DEFAULT_SOURCE /* unsetenv */
/* The launches of Adam's steps, on the mock driver: some block covers every element of every group,
 * and the kernel's arguments stay within the limits that it relies on. */
#include "context_fixture.h"

#include "../../cuda/kernels.h"

enum { MOST_GROUPS = 64, BLOCKS = 1024, FEWEST_ROWS = 16 };

static float memory[4];
static uint8_t mask;

static gsc__adam_group group_of(int64_t rows, int64_t row_size) {
    return (gsc__adam_group){.parameter = &memory[0],
                             .moment1 = &memory[1],
                             .moment2 = &memory[2],
                             .gradient = &memory[3],
                             .rows = rows,
                             .row_size = row_size,
                             .lr = 0.5,
                             .beta1 = 0.75,
                             .beta2 = 0.5};
}

/* Row sizes, ended by 0; -1 is a group without elements. */
static int32_t groups_of(int64_t rows, const int64_t *sizes, gsc__adam_group *groups) {
    int32_t count = 0;
    for (; sizes[count] != 0; ++count)
        groups[count] = sizes[count] < 0 ? group_of(0, 1) : group_of(rows, sizes[count]);
    return count;
}

static gsc_status step(int64_t rows, const int64_t *sizes, const gsc__visible_rows *visible) {
    gsc__adam_group groups[MOST_GROUPS];
    mock->launch_count = 0;
    const gsc__call call = {.function = "adam_step", .context = context, .stream = &scope};
    const gsc__adam adam = {groups, groups_of(rows, sizes, groups), *visible};
    return gsc__gpu_adam_step(&call, &adam);
}

/* The numbers that the kernel divides by and multiplies without a check. */
static void check_columns(const gsc_k_adam_rows *args, const gsc__gpu_adam_columns *columns) {
    const uint32_t width = columns->width, last = args->block_rows * width - 1;
    assert_true(width > 0 && last < GSC__ADAM_CAPACITY);
    assert_true(args->block_rows == 1 || columns->row_size == width);
    for (uint32_t i = 0; i <= last; ++i)
        assert_true((uint64_t)(2 * i) * columns->reciprocal >> 32 == i / width);
}

static int64_t check_launch(const mock_launch *seen, int64_t rows, gsc_k_adam_rows *args) {
    int64_t width = 0;
    assert_string_equal(seen->kernel, "gsc_adam_rows");
    assert_int_equal(seen->args_bytes, sizeof *args);
    assert_int_equal(seen->block[0], GSC__ADAM_BLOCK);
    assert_ptr_equal(seen->stream, &scope);
    memcpy(args, seen->args, sizeof *args);
    assert_ptr_equal(args->visible, &mask);
    assert_int_equal(args->visible_bytes, 4);
    assert_int_equal(args->rows, rows);
    assert_true(args->count >= 1 && args->count <= GSC__ADAM_GROUPS);
    assert_true(args->block_rows >= 1 && args->block_rows <= GSC__ADAM_ROWS);
    for (uint32_t i = 0; i < args->count; ++i) {
        check_columns(args, &args->columns[i]);
        width += args->columns[i].width;
    }
    /* Enough blocks for all rows, none superfluous, and none with too much work. */
    const int64_t blocks = seen->grid[0] / args->slices;
    assert_int_equal(seen->grid[0] % args->slices, 0);
    assert_true(blocks * args->block_rows >= rows && (blocks - 1) * args->block_rows < rows);
    assert_true(args->block_rows * width <= (int64_t)args->slices * GSC__ADAM_CAPACITY);
    assert_true(args->slices == 1 || args->block_rows == 1);
    assert_true(args->block_rows <= FEWEST_ROWS || blocks >= BLOCKS);
    return blocks;
}

/* Columns are consecutive across all groups and launches. */
static void expect_all_columns(int64_t rows, const int64_t *sizes, int launches) {
    const gsc__visible_rows visible = {.data = &mask, .bytes = 4};
    int64_t column = 0;
    int at = 0;
    expect_ok(step(rows, sizes, &visible));
    assert_int_equal(mock->launch_count, launches);
    for (int k = 0; k < launches; ++k) {
        gsc_k_adam_rows args;
        check_launch(&mock->launches[k], rows, &args);
        for (uint32_t i = 0; i < args.count; ++i) {
            const gsc__gpu_adam_columns *columns = &args.columns[i];
            while (sizes[at] < 0) ++at;
            assert_int_equal(columns->row_size, sizes[at]);
            assert_true(columns->parameter == &memory[0] + column);
            assert_true(columns->moment1 == &memory[1] + column);
            assert_true(columns->moment2 == &memory[2] + column);
            assert_true(columns->gradient == &memory[3] + column);
            assert_true(columns->constants.step_size == 0.5f);
            assert_true(columns->constants.complement1 == 0.25f);
            column += columns->width;
            assert_true(column <= sizes[at]);
            if (column < sizes[at]) continue;
            column = 0;
            ++at;
        }
    }
    while (sizes[at] < 0) ++at;
    assert_int_equal(sizes[at], 0);
}

static void visible_rows_of_every_size(void **state) {
    static const int64_t rows[] = {1, 15, 16, 17, 1000, 16384, 262144, 5480000, INT64_C(1) << 36};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        expect_all_columns(rows[i], (const int64_t[]){3, 3, 45, 1, 3, 4, 0}, 1);
        expect_all_columns(rows[i], (const int64_t[]){1, 0}, 1);
        expect_all_columns(rows[i], (const int64_t[]){-1, 64, -1, 0}, 1);
        expect_all_columns(rows[i], (const int64_t[]){65, 0}, 1);
    }
    expect_all_columns(500, (const int64_t[]){5000, 1000, 48, 0}, 1);
    expect_all_columns(7, (const int64_t[]){GSC__ADAM_CAPACITY - 1, 0}, 1);
    expect_all_columns(7, (const int64_t[]){GSC__ADAM_CAPACITY, 0}, 1);
    expect_all_columns(7, (const int64_t[]){GSC__ADAM_CAPACITY + 1, 3, 0}, 1);
    expect_all_columns(1000, (const int64_t[]){16 * GSC__ADAM_CAPACITY, 0}, 1);
    /* The last column of a wide group, in a launch of its own. */
    expect_all_columns(1000, (const int64_t[]){16 * GSC__ADAM_CAPACITY + 1, 0}, 2);
    expect_all_columns(3, (const int64_t[]){5, 20 * GSC__ADAM_CAPACITY, 7, 0}, 2);
    expect_all_columns(1, (const int64_t[]){64 * 16 * GSC__ADAM_CAPACITY - 1, 0}, 64);
}

static void scenes_have_blocks_of_many_rows(void **state) {
    static const int64_t sizes[] = {3, 3, 45, 1, 3, 4, 0};
    const gsc__visible_rows visible = {.data = &mask, .bytes = 4};
    gsc_k_adam_rows args;
    (void)state;
    expect_ok(step(5480000, sizes, &visible));
    assert_int_equal(check_launch(&mock->launches[0], 5480000, &args),
                     (5480000 + GSC__ADAM_ROWS - 1) / GSC__ADAM_ROWS);
    assert_int_equal(args.block_rows, GSC__ADAM_ROWS);
    expect_ok(step(1000, sizes, &visible));
    check_launch(&mock->launches[0], 1000, &args);
    assert_int_equal(args.block_rows, FEWEST_ROWS);
}

static void groups_without_elements_are_not_launched(void **state) {
    static const int64_t none[] = {-1, -1, 0}, empty[] = {0};
    static const int64_t many[] = {-1, 3, 3, 3, 3, 3, 3, 3,  3, 3, 3, 3,
                                   3,  3, 3, 3, 3, 3, 3, -1, 3, 3, 3, 0};
    const gsc__visible_rows all = {.data = NULL}, visible = {.data = &mask, .bytes = 4};
    (void)state;
    const gsc__visible_rows *const cases[] = {&all, &visible};
    for (int i = 0; i < 2; ++i) {
        expect_ok(step(50, none, cases[i]));
        assert_int_equal(mock->launch_count, 0);
        expect_ok(step(50, empty, cases[i]));
        assert_int_equal(mock->launch_count, 0);
    }
    expect_all_columns(50, many, 2);
}

static void every_row_in_pieces(void **state) {
    static const int64_t sizes[] = {3, -1, 45, 1, 0};
    const gsc__visible_rows all = {.data = NULL};
    gsc_k_adam args;
    (void)state;
    expect_ok(step(1025, sizes, &all));
    assert_int_equal(mock->launch_count, 1);
    assert_string_equal(mock->launches[0].kernel, "gsc_adam");
    assert_int_equal(mock->launches[0].args_bytes, sizeof args);
    memcpy(&args, mock->launches[0].args, sizeof args);
    assert_int_equal(args.count, 3);
    assert_int_equal(args.groups[0].block_end, 4);
    assert_int_equal(args.groups[1].block_end, 4 + 46);
    assert_int_equal(args.groups[2].block_end, 4 + 46 + 2);
    assert_int_equal(mock->launches[0].grid[0], 4 + 46 + 2);
    assert_int_equal(args.groups[1].count, 1025 * 45);
    assert_int_equal(args.groups[1].vectors, 0); /* unaligned to 16 bytes */
}

static void more_rows_than_blocks_are_refused(void **state) {
    static const int64_t narrow[] = {1, 0}, wide[] = {2 * GSC__ADAM_CAPACITY, 0};
    const gsc__visible_rows visible = {.data = &mask, .bytes = 4};
    const int64_t most = (int64_t)INT32_MAX * GSC__ADAM_ROWS;
    char message[100];
    (void)state;
    snprintf(message, sizeof message, "adam_step: visible has %lld rows, expected at most %lld",
             (long long)most + 1, (long long)most);
    expect_ok(step(most, narrow, &visible));
    assert_int_equal(mock->launches[0].grid[0], INT32_MAX);
    expect_failure(step(most + 1, narrow, &visible), GSC_ERROR_OVERFLOW, message);
    expect_ok(step(INT32_MAX / 2, wide, &visible));
    expect_failure(step(INT32_MAX / 2 + 1, wide, &visible), GSC_ERROR_OVERFLOW,
                   "adam_step: visible has 1073741824 rows, expected at most 1073741823");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(visible_rows_of_every_size, enter_context, leave_context),
        cmocka_unit_test_setup_teardown(scenes_have_blocks_of_many_rows, enter_context,
                                        leave_context),
        cmocka_unit_test_setup_teardown(groups_without_elements_are_not_launched, enter_context,
                                        leave_context),
        cmocka_unit_test_setup_teardown(every_row_in_pieces, enter_context, leave_context),
        cmocka_unit_test_setup_teardown(more_rows_than_blocks_are_refused, enter_context,
                                        leave_context),
    };
    mock = mock_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
