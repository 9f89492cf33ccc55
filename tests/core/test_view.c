/* Views of a language's arrays; the mock language uses views as its objects. */

#include "views.h"

#include "gsplat_c/bindings.h"

static view known[3]; /* the objects */
static int calls;

static int view_of(void *object, DLTensor *out) {
    ++calls;
    if (object == &calls) return -1; /* no array */
    *out = ((view *)object)->tensor;
    return 0;
}

static int reset(void **state) {
    (void)state;
    calls = 0;
    VIEW(&known[0], 2, 3);
    VIEW(&known[1], 4, 4);
    VIEW(&known[2], 5);
    return 0;
}

static void objects_become_their_views(void **state) {
    (void)state;
    DLTensor views[4];
    int none = 0;
    void *objects[] = {&known[1], &none, NULL, &known[2]};
    uint64_t strided = 77;
    expect_ok(gsc_view_objects(view_of, &none, 4, 0, objects, views, &strided));
    assert_int_equal(calls, 2);
    assert_ptr_equal(objects[0], &views[0]);
    assert_null(objects[1]);
    assert_null(objects[2]);
    assert_ptr_equal(objects[3], &views[3]);
    assert_int_equal(views[0].ndim, 2);
    assert_ptr_equal(views[3].shape, known[2].shape);
    assert_int_equal(strided, 0);
}

/* The meaning of strides, for shape [2, 3] or as given. */
static bool is_strided(int64_t rows, int64_t columns, int64_t by_row, int64_t by_column) {
    DLTensor views[3];
    void *objects[] = {&known[2], &known[0], &known[2]};
    uint64_t strided = 0;
    VIEW(&known[0], rows, columns);
    known[0].tensor.strides = known[0].strides;
    known[0].strides[0] = by_row;
    known[0].strides[1] = by_column;
    expect_ok(gsc_view_objects(view_of, NULL, 3, 5, objects, views, &strided));
    assert_int_equal(strided & ~UINT64_C(2), 0);
    return strided != 0;
}

static void strides_are_told(void **state) {
    (void)state;
    assert_false(is_strided(2, 3, 3, 1));
    assert_true(is_strided(2, 3, 1, 2));
    assert_true(is_strided(2, 3, 4, 1));
    assert_true(is_strided(2, 3, 0, 1));
    assert_true(is_strided(2, 3, -3, 1));
    assert_false(is_strided(1, 3, 100, 1));
    assert_false(is_strided(2, 1, 1, 100));
    assert_true(is_strided(2, 1, 2, 1));
    assert_false(is_strided(1, 1, 1, 1));
    assert_true(is_strided(1, 1, 1, 2));
    assert_true(is_strided(1, 1, 2, 1));
    assert_false(is_strided(0, 3, 9, 9));
    assert_false(is_strided(INT64_MAX, INT64_MAX, INT64_MAX, 1));
}

/* Whether [count, rows, columns] with these strides is valid where matrices may be transposed, and
 * invalid elsewhere. */
static bool is_transposed(int64_t count, int64_t rows, int64_t columns, int64_t by_matrix,
                          int64_t by_row, int64_t by_column) {
    DLTensor views[2];
    uint64_t strided;
    VIEW(&known[0], count, rows, columns);
    known[0].tensor.strides = known[0].strides;
    known[0].strides[0] = by_matrix;
    known[0].strides[1] = by_row;
    known[0].strides[2] = by_column;
    void *objects[] = {&known[0], &known[0]};
    expect_ok(gsc_view_objects(view_of, NULL, 2, 2, objects, views, &strided));
    assert_int_equal(strided & 1, 1);
    return strided == 1;
}

static void transposed_matrices_may_be_read(void **state) {
    (void)state;
    assert_true(is_transposed(2, 4, 4, 16, 1, 4));
    assert_true(is_transposed(1, 4, 4, 99, 1, 4));
    assert_true(is_transposed(2, 3, 5, 15, 1, 3));
    assert_false(is_transposed(2, 4, 4, 32, 1, 4));
    assert_false(is_transposed(2, 4, 4, 16, 1, 8));
    assert_false(is_transposed(2, 4, 4, 32, 2, 8));
    assert_false(is_transposed(2, 3, 5, 15, 1, 5));
    assert_false(is_transposed(1, 1, 1, 1, 1, 2));
    VIEW(&known[1], 4);
    known[1].tensor.strides = known[1].strides;
    known[1].strides[0] = 2;
    DLTensor views[1];
    void *objects[] = {&known[1]};
    uint64_t strided;
    expect_ok(gsc_view_objects(view_of, NULL, 1, 1, objects, views, &strided));
    assert_int_equal(strided, 1);
}

static void what_is_no_address_stays(void **state) {
    (void)state;
    DLTensor views[4];
    void *objects[] = {&known[0], (void *)(uintptr_t)136, (void *)(uintptr_t)4095, &known[1]};
    uint64_t strided;
    expect_ok(gsc_view_objects(view_of, NULL, 4, 0, objects, views, &strided));
    assert_int_equal(calls, 2);
    assert_ptr_equal(objects[0], &views[0]);
    assert_int_equal((uintptr_t)objects[1], 136);
    assert_int_equal((uintptr_t)objects[2], 4095);
    assert_ptr_equal(objects[3], &views[3]);
}

static void an_object_without_a_view_is_an_error(void **state) {
    (void)state;
    DLTensor views[2];
    void *objects[] = {&known[0], &calls};
    uint64_t strided;
    expect_failure(gsc_view_objects(view_of, NULL, 2, 0, objects, views, &strided),
                   GSC_ERROR_INVALID_ARGUMENT, "view_objects: objects[1] has no view");
}

static void wrong_arguments_are_refused(void **state) {
    (void)state;
    DLTensor views[1];
    void *objects[] = {&known[0]};
    uint64_t strided;
    expect_failure(gsc_view_objects(NULL, NULL, 1, 0, objects, views, &strided),
                   GSC_ERROR_INVALID_ARGUMENT, "view_objects: view is NULL");
    expect_failure(gsc_view_objects(view_of, NULL, 1, 0, NULL, views, &strided),
                   GSC_ERROR_INVALID_ARGUMENT, "view_objects: objects is NULL");
    expect_failure(gsc_view_objects(view_of, NULL, 1, 0, objects, NULL, &strided),
                   GSC_ERROR_INVALID_ARGUMENT, "view_objects: views is NULL");
    expect_failure(gsc_view_objects(view_of, NULL, 1, 0, objects, views, NULL),
                   GSC_ERROR_INVALID_ARGUMENT, "view_objects: strided is NULL");
    expect_failure(gsc_view_objects(view_of, NULL, 65, 0, objects, views, &strided),
                   GSC_ERROR_INVALID_ARGUMENT, "view_objects: count is 65, expected 0 to 64");
    expect_failure(gsc_view_objects(view_of, NULL, -1, 0, objects, views, &strided),
                   GSC_ERROR_INVALID_ARGUMENT, "view_objects: count is -1, expected 0 to 64");
    assert_int_equal(calls, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(objects_become_their_views, reset),
        cmocka_unit_test_setup(strides_are_told, reset),
        cmocka_unit_test_setup(transposed_matrices_may_be_read, reset),
        cmocka_unit_test_setup(what_is_no_address_stays, reset),
        cmocka_unit_test_setup(an_object_without_a_view_is_an_error, reset),
        cmocka_unit_test_setup(wrong_arguments_are_refused, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
