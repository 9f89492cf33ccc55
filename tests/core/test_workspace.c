/* The memory of a call: given or taken, and released together. */

#include "mock_backend.h"

#include "core/workspace.h"

static gsc__workspace open_workspace(void) {
    return (gsc__workspace){.call = {.function = "f", .context = &context}};
}

static void blocks_are_released_together(void **state) {
    (void)state;
    gsc__workspace workspace = open_workspace();
    void *data[3];
    expect_ok(gsc__workspace_take(&workspace, "a", 100, &data[0]));
    expect_ok(gsc__workspace_take(&workspace, "b", 0, &data[1]));
    data[2] = gsc__workspace_try(&workspace, 1000);
    for (int i = 0; i < 3; ++i) assert_true(gsc__workspace_owns(&workspace, data[i]));
    assert_int_equal(heap.blocks, 3);
    gsc__workspace_drop(&workspace, data[0]);
    gsc__workspace_drop(&workspace, view_memory); /* not one of them */
    assert_false(gsc__workspace_owns(&workspace, data[0]));
    assert_int_equal(heap.blocks, 2);
    gsc__workspace_release(&workspace);
    assert_int_equal(heap.blocks, 0);
    assert_int_equal(heap.bytes, 0);
}

static void what_is_given_must_be_enough(void **state) {
    (void)state;
    gsc__workspace workspace = open_workspace();
    void *data = view_memory;
    size_t bytes = 100;
    expect_ok(gsc__workspace_provide(&workspace, "scratch", 100, &data, &bytes));
    assert_ptr_equal(data, view_memory);
    expect_failure(gsc__workspace_provide(&workspace, "scratch", 101, &data, &bytes),
                   GSC_ERROR_BUFFER_TOO_SMALL, "f: scratch has 100 bytes, expected at least 101");
    assert_int_equal(heap.allocations, 0);
}

static void what_is_taken_grows(void **state) {
    (void)state;
    gsc__workspace workspace = open_workspace();
    void *data = NULL;
    size_t bytes = 0;
    expect_ok(gsc__workspace_provide(&workspace, "scratch", 100, &data, &bytes));
    assert_int_equal(bytes, 100);
    const void *first = data;
    expect_ok(gsc__workspace_provide(&workspace, "scratch", 50, &data, &bytes));
    assert_ptr_equal(data, first);
    assert_int_equal(bytes, 100);
    expect_ok(gsc__workspace_provide(&workspace, "scratch", 200, &data, &bytes));
    assert_int_equal(bytes, 200);
    assert_int_equal(heap.blocks, 1);
    assert_int_equal(heap.bytes, 200);
    heap.largest = 300;
    expect_failure(gsc__workspace_provide(&workspace, "scratch", 301, &data, &bytes),
                   GSC_ERROR_OUT_OF_MEMORY, "f: scratch: out of memory, 301 bytes were wanted");
    assert_null(gsc__workspace_try(&workspace, 301));
    gsc__workspace_release(&workspace);
    assert_int_equal(heap.blocks, 0);
}

/* The same calls count and place. */
static void carved_buffers_lie_in_their_block(void **state) {
    static const size_t alignments[] = {0, 64};
    (void)state;
    for (int i = 0; i < 2; ++i) {
        const size_t step = alignments[i] ? alignments[i] : 256;
        gsc__carver count = {.alignment = alignments[i]};
        assert_null(gsc__carve(&count, 3, 7));
        assert_int_equal(count.at, step);
        assert_null(gsc__carve(&count, step, 1));
        assert_null(gsc__carve(&count, 0, 8));
        assert_int_equal(count.at, 2 * step);
        gsc__carver place = {.base = view_memory, .alignment = alignments[i]};
        assert_ptr_equal(gsc__carve(&place, 3, 7), view_memory);
        assert_ptr_equal(gsc__carve(&place, step, 1), view_memory + step);
        assert_ptr_equal(gsc__carve(&place, 0, 8), view_memory + 2 * step);
        assert_int_equal(place.at, count.at);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(blocks_are_released_together),
        TEST(what_is_given_must_be_enough),
        TEST(what_is_taken_grows),
        TEST(carved_buffers_lie_in_their_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
