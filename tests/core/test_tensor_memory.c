/* From a DLTensor to a checked pointer: strides, alignment, sizes. */

#include "core/context.h"
#include "views.h"

static gsc_context context = {.device = {kDLCPU, 0}};
static const gsc__call cpu = {.function = "f", .context = &context};

/* Letters of sizes that no digit can say. */
static const gsc__sizes huge = {.known = 7, .of = {INT64_MAX, INT64_MAX / 2, (int64_t)1 << 32}};

static gsc_status check_field(const gsc__call *call, const view *v, const char *shapes,
                              uint32_t kind, gsc__found *found) {
    const gsc__field field = {.name = "x", .shapes = shapes, .kind = kind};
    gsc__sizes sizes = huge;
    return gsc__tensor_check(call, &sizes, &field, &v->tensor, found);
}

static gsc_status dense(const gsc__call *call, const view *v, const char *shapes, void **data) {
    gsc__found found;
    gsc_status status = check_field(call, v, shapes, 0, &found);
    *data = found.data;
    return status;
}

static gsc_status dense_2x3(const view *v) {
    void *data;
    return dense(&cpu, v, "23", &data);
}

static void strides_must_be_dense(void **state) {
    (void)state;
    view v;
    VIEW(&v, 2, 3);
    view_strides(&v);
    v.strides[0] = 4;
    expect_failure(dense_2x3(&v), GSC_ERROR_LAYOUT,
                   "f: x has stride 4 in dimension 0, expected 3 (dense row-major)");
    view_strides(&v);
    v.strides[1] = 0;
    expect_failure(dense_2x3(&v), GSC_ERROR_LAYOUT,
                   "f: x has stride 0 in dimension 1, expected 1 (dense row-major)");
    view_strides(&v);
    v.strides[1] = -1;
    assert_int_equal(dense_2x3(&v), GSC_ERROR_LAYOUT);
    view_strides(&v);
    v.strides[0] = 1;
    v.strides[1] = 2; /* transposed */
    assert_int_equal(dense_2x3(&v), GSC_ERROR_LAYOUT);
}

static void strides_of_size_one_do_not_matter(void **state) {
    (void)state;
    void *data;
    view v;
    VIEW(&v, 1, 3, 1);
    view_strides(&v);
    v.strides[0] = -77;
    v.strides[2] = INT64_MAX;
    expect_ok(dense(&cpu, &v, "131", &data));
    v.strides[1] = 2;
    expect_failure(dense(&cpu, &v, "131", &data), GSC_ERROR_LAYOUT,
                   "f: x has stride 2 in dimension 1, expected 1 (dense row-major)");
}

static void empty_tensors_need_no_data(void **state) {
    (void)state;
    void *data = NULL;
    view v;
    VIEW(&v, 0, 3);
    view_strides(&v);
    v.strides[0] = 99;
    v.strides[1] = -5;
    v.tensor.data = NULL;
    expect_ok(dense(&cpu, &v, "03", &data));
    assert_non_null(data); /* as a backend sees it */
    VIEW(&v, INT64_MAX, 0, INT64_MAX);
    v.tensor.data = NULL;
    v.tensor.byte_offset = UINT64_MAX;
    expect_ok(dense(&cpu, &v, "A0A", &data));
    assert_non_null(data);
}

static void missing_data(void **state) {
    (void)state;
    gsc__call shapes_only = cpu;
    shapes_only.shapes_only = true;
    void *data = NULL;
    view v;
    VIEW(&v, 2, 3);
    v.tensor.data = NULL;
    expect_failure(dense_2x3(&v), GSC_ERROR_INVALID_ARGUMENT, "f: data of x is NULL");
    expect_ok(dense(&shapes_only, &v, "23", &data));
    assert_non_null(data);
}

static void data_must_be_aligned_to_the_element(void **state) {
    (void)state;
    char message[128];
    view v;
    VIEW(&v, 2, 3);
    v.tensor.data = view_memory + 2;
    snprintf(message, sizeof message, "f: data of x is at 0x%llx, expected a multiple of %d",
             (unsigned long long)(uintptr_t)(view_memory + 2), GSC_REAL_BITS / 8);
    expect_failure(dense_2x3(&v), GSC_ERROR_LAYOUT, message);
    v.tensor.byte_offset = GSC_REAL_BITS / 8 - 2;
    expect_ok(dense_2x3(&v));
    v.tensor.data = view_memory;
    assert_int_equal(dense_2x3(&v), GSC_ERROR_LAYOUT);
}

static void sizes_that_overflow(void **state) {
    (void)state;
    void *data;
    view v;
    VIEW(&v, INT64_MAX, INT64_MAX);
    expect_failure(dense(&cpu, &v, "AA", &data), GSC_ERROR_OVERFLOW,
                   "f: x spans more than 9223372036854775807 bytes");
    VIEW(&v, INT64_MAX / 2);
    assert_int_equal(dense(&cpu, &v, "B", &data), GSC_ERROR_OVERFLOW);
    VIEW(&v, (int64_t)1 << 32, (int64_t)1 << 32); /* 2^64 elements: 0 in 64 bits */
    assert_int_equal(dense(&cpu, &v, "CC", &data), GSC_ERROR_OVERFLOW);
    VIEW(&v, 2, 3);
    v.tensor.byte_offset = UINT64_MAX - 3;
    assert_int_equal(dense_2x3(&v), GSC_ERROR_OVERFLOW);
    assert_non_null(strstr(gsc_last_error(), "f: byte_offset of x is 18446744073709551612"));
}

/* --------------------------------------------------------------- any strides */

static gsc_status strided(const view *v, bool output, int64_t strides[GSC__MAX_DIMS], void **data) {
    gsc__found found;
    gsc_status status =
        check_field(&cpu, v, "213", GSC__STRIDED | (output ? GSC__SEPARATE : 0), &found);
    memcpy(strides, found.strides, sizeof found.strides);
    *data = found.data;
    return status;
}

static void strided_tensors_give_their_strides(void **state) {
    (void)state;
    int64_t strides[GSC__MAX_DIMS];
    void *data;
    view v;
    VIEW(&v, 2, 1, 3);
    expect_ok(strided(&v, false, strides, &data));
    assert_int_equal(strides[0], 3);
    assert_int_equal(strides[1], 0); /* never followed */
    assert_int_equal(strides[2], 1);
    view_strides(&v);
    v.strides[0] = -100;
    v.strides[1] = INT64_MIN;
    v.strides[2] = 40;
    v.tensor.byte_offset = 1024;
    expect_ok(strided(&v, true, strides, &data));
    assert_int_equal(strides[0], -100);
    assert_int_equal(strides[1], 0);
    assert_int_equal(strides[2], 40);
    assert_ptr_equal(data, view_memory + 1024);
}

static void outputs_must_not_overlap(void **state) {
    (void)state;
    int64_t strides[GSC__MAX_DIMS];
    void *data;
    view v;
    VIEW(&v, 2, 1, 3);
    view_strides(&v);
    v.strides[0] = 0;
    expect_ok(strided(&v, false, strides, &data)); /* a broadcast input */
    expect_failure(strided(&v, true, strides, &data), GSC_ERROR_LAYOUT,
                   "f: x has stride 0 in dimension 0 of size 2, expected an output of separate "
                   "elements");
}

static void strides_that_overflow(void **state) {
    (void)state;
    static const int64_t bad[] = {INT64_MAX, INT64_MIN, INT64_MAX / 8, -INT64_MAX / 8};
    int64_t strides[GSC__MAX_DIMS];
    void *data;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; ++i) {
        view v;
        VIEW(&v, 2, 1, 3);
        view_strides(&v);
        v.strides[2] = bad[i];
        assert_int_equal(strided(&v, false, strides, &data), GSC_ERROR_OVERFLOW);
    }
}

/* -------------------------------------------------------------- byte buffers */

static gsc_status bytes_of(const view *v, size_t needed, void **data, size_t *bytes) {
    return gsc__tensor_bytes(&cpu, "state", v ? &v->tensor : NULL, needed, data, bytes);
}

static void byte_buffers(void **state) {
    (void)state;
    char message[128];
    size_t bytes = 1;
    void *data = view_memory;
    view v;
    expect_ok(bytes_of(NULL, 100, &data, &bytes));
    assert_null(data);
    assert_int_equal(bytes, 0);
    VIEW(&v, 100);
    expect_failure(bytes_of(&v, 1, &data, &bytes), GSC_ERROR_DTYPE,
                   GSC_REAL_BITS == 64 ? "f: state is float64, expected uint8"
                                       : "f: state is float32, expected uint8");
    view_dtype(&v, kDLUInt, 8);
    expect_ok(bytes_of(&v, 100, &data, &bytes));
    assert_ptr_equal(data, view_memory);
    assert_int_equal(bytes, 100);
    expect_failure(bytes_of(&v, 101, &data, &bytes), GSC_ERROR_BUFFER_TOO_SMALL,
                   "f: state has 100 bytes, expected at least 101");
    v.tensor.byte_offset = 128;
    snprintf(message, sizeof message, "f: data of state is at 0x%llx, expected a multiple of 256",
             (unsigned long long)(uintptr_t)(view_memory + 128));
    expect_failure(bytes_of(&v, 1, &data, &bytes), GSC_ERROR_LAYOUT, message);
    VIEW(&v, 10, 10);
    view_dtype(&v, kDLUInt, 8);
    expect_failure(bytes_of(&v, 1, &data, &bytes), GSC_ERROR_SHAPE,
                   "f: state is [10, 10], expected [B]");
    VIEW(&v, 100);
    view_dtype(&v, kDLUInt, 8);
    view_strides(&v);
    v.strides[0] = 2;
    assert_int_equal(bytes_of(&v, 1, &data, &bytes), GSC_ERROR_LAYOUT);
    VIEW(&v, 0);
    view_dtype(&v, kDLUInt, 8);
    v.tensor.data = NULL;
    expect_ok(bytes_of(&v, 0, &data, &bytes));
    assert_int_equal(bytes, 0);
    expect_failure(bytes_of(&v, 1, &data, &bytes), GSC_ERROR_BUFFER_TOO_SMALL,
                   "f: state has 0 bytes, expected at least 1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strides_must_be_dense),
        cmocka_unit_test(strides_of_size_one_do_not_matter),
        cmocka_unit_test(empty_tensors_need_no_data),
        cmocka_unit_test(missing_data),
        cmocka_unit_test(data_must_be_aligned_to_the_element),
        cmocka_unit_test(sizes_that_overflow),
        cmocka_unit_test(strided_tensors_give_their_strides),
        cmocka_unit_test(outputs_must_not_overlap),
        cmocka_unit_test(strides_that_overflow),
        cmocka_unit_test(byte_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
