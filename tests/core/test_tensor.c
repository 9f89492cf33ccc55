/* From a DLTensor to a checked pointer: shapes, types, devices. */

#include "views.h"

#include "core/context.h"

static gsc_context cpu_context = {.device = {kDLCPU, 0}};
static gsc_context cuda_context = {.device = {kDLCUDA, 1}};
static const gsc__call cpu = {.function = "f", .context = &cpu_context};
static const gsc__call cuda = {.function = "f", .context = &cuda_context};

static gsc_status check_field(const gsc__call *call, const view *v, const char *shapes,
                              uint32_t kind, gsc__found *found) {
    const gsc__field field = {.name = "x", .shapes = shapes, .kind = kind};
    gsc__sizes sizes = {0};
    return gsc__tensor_check(call, &sizes, &field, &v->tensor, found);
}

static gsc_status dense(const gsc__call *call, const view *v, const char *shapes, void **data) {
    gsc__found found;
    gsc_status status = check_field(call, v, shapes, 0, &found);
    *data = found.data;
    return status;
}

/* Only dtype and shape. */
static gsc_status typed(const view *v, uint32_t types) {
    gsc__found found;
    return check_field(&cpu, v, "23", types | GSC__SHAPE_ONLY, &found);
}

static gsc_status dense_2x3(const view *v) {
    void *data;
    return dense(&cpu, v, "23", &data);
}

static void dense_tensor_gives_its_data(void **state) {
    (void)state;
    view v;
    void *data = NULL;
    VIEW(&v, 2, 3);
    expect_ok(dense(&cpu, &v, "23", &data));
    assert_ptr_equal(data, view_memory);
    view_strides(&v);
    expect_ok(dense(&cpu, &v, "23", &data));
    v.tensor.byte_offset = 16;
    expect_ok(dense(&cpu, &v, "23", &data));
    assert_ptr_equal(data, view_memory + 16);
}

static void null_tensor_gives_null(void **state) {
    (void)state;
    static const gsc__field field = {.name = "x", .shapes = "3"};
    static const gsc__field required = {.name = "x", .shapes = "3", .kind = GSC__REQUIRED};
    gsc__sizes sizes = {0};
    gsc__found found = {.data = view_memory};
    expect_ok(gsc__tensor_check(&cpu, &sizes, &field, NULL, &found));
    assert_null(found.data);
    expect_failure(gsc__tensor_check(&cpu, &sizes, &required, NULL, &found),
                   GSC_ERROR_INVALID_ARGUMENT, "f: x is missing");
    expect_failure(gsc__require(&cpu, "x", NULL), GSC_ERROR_INVALID_ARGUMENT, "f: x is missing");
}

static void wrong_shapes(void **state) {
    (void)state;
    view v;
    VIEW(&v, 2, 4);
    expect_failure(dense_2x3(&v), GSC_ERROR_SHAPE, "f: x is [2, 4], expected [2, 3]");
    VIEW(&v, 6);
    expect_failure(dense_2x3(&v), GSC_ERROR_SHAPE, "f: x is [6], expected [2, 3]");
    VIEW(&v, 1, 2, 3);
    expect_failure(dense_2x3(&v), GSC_ERROR_SHAPE, "f: x is [1, 2, 3], expected [2, 3]");
    view_init(&v, 0, NULL);
    expect_failure(dense_2x3(&v), GSC_ERROR_SHAPE, "f: x is [], expected [2, 3]");
    VIEW(&v, 2, -3);
    expect_failure(dense_2x3(&v), GSC_ERROR_SHAPE, "f: dimension 1 of x is -3, expected 0 or more");
    VIEW(&v, 2, INT64_MIN);
    assert_int_equal(dense_2x3(&v), GSC_ERROR_SHAPE);
    VIEW(&v, 2, 3);
    v.tensor.ndim = -1;
    expect_failure(dense_2x3(&v), GSC_ERROR_SHAPE, "f: x has -1 dimensions, expected 0 or more");
    v.tensor.ndim = INT32_MAX;
    expect_failure(dense_2x3(&v), GSC_ERROR_SHAPE,
                   "f: x has 2147483647 dimensions, expected at most 64");
    VIEW(&v, 2, 3);
    v.tensor.shape = NULL;
    expect_failure(dense_2x3(&v), GSC_ERROR_SHAPE, "f: shape of x is NULL, expected 2 sizes");
}

static void long_shapes_are_cut(void **state) {
    (void)state;
    int64_t shape[64];
    view v;
    VIEW(&v, 1);
    for (int i = 0; i < 64; ++i) shape[i] = INT64_MAX;
    v.tensor.shape = shape;
    v.tensor.ndim = 64;
    assert_int_equal(dense_2x3(&v), GSC_ERROR_SHAPE);
    assert_non_null(strstr(gsc_last_error(), "9223372036854775807, ..], expected [2, 3]"));
}

static void leading_one_may_be_dropped(void **state) {
    (void)state;
    view v;
    void *data;
    const char *one = "(1)44";
    const char *two = "(2)44";
    const char *any = "(C)44";
    VIEW(&v, 4, 4);
    expect_ok(dense(&cpu, &v, one, &data));
    expect_ok(dense(&cpu, &v, any, &data));
    expect_failure(dense(&cpu, &v, two, &data), GSC_ERROR_SHAPE,
                   "f: x is [4, 4], expected [2, 4, 4]");
    VIEW(&v, 1, 4, 4);
    expect_ok(dense(&cpu, &v, one, &data));
    VIEW(&v, 7, 4, 4);
    expect_ok(dense(&cpu, &v, any, &data));
    expect_failure(dense(&cpu, &v, one, &data), GSC_ERROR_SHAPE,
                   "f: x is [7, 4, 4], expected [1, 4, 4] or [4, 4]");
    VIEW(&v, 4, 3);
    expect_failure(dense(&cpu, &v, any, &data), GSC_ERROR_SHAPE,
                   "f: x is [4, 3], expected [C, 4, 4] or [4, 4]");
}

static void several_shapes_may_be_allowed(void **state) {
    (void)state;
    view v;
    void *data;
    VIEW(&v, 5);
    expect_ok(dense(&cpu, &v, "5|51", &data));
    VIEW(&v, 5, 1);
    expect_ok(dense(&cpu, &v, "5|51", &data));
    VIEW(&v, 5, 2);
    expect_failure(dense(&cpu, &v, "5|51", &data), GSC_ERROR_SHAPE,
                   "f: x is [5, 2], expected [5] or [5, 1]");
}

static gsc_status lettered(gsc__sizes *sizes, const char *shapes, const view *v) {
    const gsc__field field = {.name = "x", .shapes = shapes};
    gsc__found found;
    return gsc__tensor_check(&cpu, sizes, &field, &v->tensor, &found);
}

static void letters_stand_for_what_came_first(void **state) {
    (void)state;
    gsc__sizes sizes = {0};
    view v;
    VIEW(&v, 7, 3);
    expect_ok(lettered(&sizes, "(C)N3", &v));
    assert_int_equal(gsc__size(&sizes, 'N'), 7);
    assert_int_equal(gsc__size(&sizes, 'C'), 1);
    VIEW(&v, 1, 7, 3);
    expect_ok(lettered(&sizes, "(C)N3", &v));
    VIEW(&v, 2, 7, 3);
    expect_failure(lettered(&sizes, "(C)N3", &v), GSC_ERROR_SHAPE,
                   "f: x is [2, 7, 3], expected [1, 7, 3] or [7, 3]");
    VIEW(&v, 8, 3);
    expect_failure(lettered(&sizes, "N3", &v), GSC_ERROR_SHAPE, "f: x is [8, 3], expected [7, 3]");
    gsc__size_set(&sizes, 'E', GSC__NO_DIMENSION);
    expect_failure(lettered(&sizes, "(E)ND", &v), GSC_ERROR_SHAPE,
                   "f: x is [8, 3], expected [7, D]");
    VIEW(&v, 7, 3);
    expect_ok(lettered(&sizes, "(E)ND", &v));
    assert_int_equal(gsc__size(&sizes, 'D'), 3);
}

static void letters_have_limits(void **state) {
    (void)state;
    static const gsc__limit limits[] = {{'C', "cameras", 1, 4}, {'N', "rows", 0, 5}, {0}};
    static const struct {
        int64_t shape[2];
        gsc_status status;
        const char *message;
    } cases[] = {
        {{1, 0}, GSC_OK, NULL},
        {{4, 5}, GSC_OK, NULL},
        {{0, 5}, GSC_ERROR_SHAPE, "f: x has 0 cameras, expected 1 to 4"},
        {{5, 5}, GSC_ERROR_OVERFLOW, "f: x has 5 cameras, expected 1 to 4"},
        {{4, 6}, GSC_ERROR_OVERFLOW, "f: x has 6 rows, expected at most 5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        gsc__sizes sizes = {.limits = limits};
        view v;
        view_init(&v, 2, cases[i].shape);
        gsc_status status = lettered(&sizes, "CN", &v);
        if (cases[i].message)
            expect_failure(status, cases[i].status, cases[i].message);
        else
            expect_ok(status);
    }
}

static void wrong_types(void **state) {
    (void)state;
    static const struct {
        DLDataType dtype;
        const char *name;
    } cases[] = {
        {{kDLFloat, 16, 1}, "float16"},
        {{kDLFloat, GSC_REAL_BITS == 64 ? 32 : 64, 1}, GSC_REAL_BITS == 64 ? "float32" : "float64"},
        {{kDLFloat, GSC_REAL_BITS, 4}, GSC_REAL_BITS == 64 ? "float64x4" : "float32x4"},
        {{kDLFloat, GSC_REAL_BITS, 0}, GSC_REAL_BITS == 64 ? "float64x0" : "float32x0"},
        {{kDLInt, 32, 1}, "int32"},
        {{kDLBool, 8, 1}, "bool"},
        {{kDLBfloat, 16, 1}, "bfloat16"},
        {{kDLComplex, 64, 1}, "complex64"},
        {{kDLOpaqueHandle, 64, 1}, "opaque64"},
        {{17, 4, 1}, "type code 17 of 4 bits"},
        {{255, 255, 65535}, "type code 255 of 255 bitsx65535"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char message[128];
        view v;
        VIEW(&v, 2, 3);
        v.tensor.dtype = cases[i].dtype;
        snprintf(message, sizeof message, "f: x is %s, expected %s", cases[i].name, REAL_NAME);
        expect_failure(dense_2x3(&v), GSC_ERROR_DTYPE, message);
    }
    view v;
    VIEW(&v, 2, 3);
    view_dtype(&v, kDLInt, 16);
    expect_failure(typed(&v, GSC__BOOL | GSC__UINT8 | GSC__INT32), GSC_ERROR_DTYPE,
                   "f: x is int16, expected int32 or uint8 or bool");
    view_dtype(&v, kDLUInt, 8);
    expect_ok(typed(&v, GSC__BOOL | GSC__UINT8));
    view_dtype(&v, kDLInt, 64);
    expect_ok(typed(&v, GSC__INT64));
}

static void devices(void **state) {
    (void)state;
    static const struct {
        const gsc__call *call;
        int32_t type, id;
        const char *message; /* NULL: accepted */
    } cases[] = {
        {&cpu, kDLCPU, 0, NULL},
        {&cpu, kDLCPU, 3, NULL},
        {&cpu, kDLCUDAHost, 0, NULL},
        {&cpu, kDLCUDAManaged, 0, NULL},
        {&cpu, kDLCUDA, 0, "f: x is on cuda:0, expected cpu"},
        {&cpu, kDLROCM, 2, "f: x is on rocm:2, expected cpu"},
        {&cpu, 77, 1, "f: x is on device type 77:1, expected cpu"},
        {&cpu, 0, 0, "f: x is on device type 0:0, expected cpu"},
        {&cuda, kDLCUDA, 1, NULL},
        {&cuda, kDLCUDAManaged, 0, NULL},
        {&cuda, kDLCUDA, 0, "f: x is on cuda:0, expected cuda:1"},
        {&cuda, kDLCPU, 0, "f: x is on cpu, expected cuda:1"},
        {&cuda, kDLCUDAHost, 0, "f: x is on cuda_host, expected cuda:1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        view v;
        void *data;
        VIEW(&v, 3);
        view_device(&v, cases[i].type, cases[i].id);
        gsc_status status = dense(cases[i].call, &v, "3", &data);
        if (cases[i].message) {
            expect_failure(status, GSC_ERROR_DEVICE, cases[i].message);
        } else {
            expect_ok(status);
        }
    }
}

static void some_tensors_may_be_on_the_host(void **state) {
    (void)state;
    view v;
    gsc__found found;
    VIEW(&v, 3);
    expect_ok(check_field(&cuda, &v, "3", GSC__HOST_TOO, &found));
    view_device(&v, kDLCUDAHost, 0);
    expect_ok(check_field(&cuda, &v, "3", GSC__HOST_TOO, &found));
    view_device(&v, kDLCUDA, 1);
    expect_ok(check_field(&cuda, &v, "3", GSC__HOST_TOO, &found));
    view_device(&v, kDLCUDA, 2);
    expect_failure(check_field(&cuda, &v, "3", GSC__HOST_TOO, &found), GSC_ERROR_DEVICE,
                   "f: x is on cuda:2, expected cuda:1");
}

static void scalars(void **state) {
    (void)state;
    void *data;
    view v;
    view_init(&v, 0, NULL);
    v.tensor.shape = NULL;
    expect_ok(dense(&cpu, &v, "|1", &data));
    assert_ptr_equal(data, view_memory);
    VIEW(&v, 1);
    expect_ok(dense(&cpu, &v, "|1", &data));
    VIEW(&v, 2);
    expect_failure(dense(&cpu, &v, "|1", &data), GSC_ERROR_SHAPE,
                   "f: x is [2], expected [] or [1]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_tensor_gives_its_data),
        cmocka_unit_test(null_tensor_gives_null),
        cmocka_unit_test(wrong_shapes),
        cmocka_unit_test(long_shapes_are_cut),
        cmocka_unit_test(leading_one_may_be_dropped),
        cmocka_unit_test(several_shapes_may_be_allowed),
        cmocka_unit_test(letters_stand_for_what_came_first),
        cmocka_unit_test(letters_have_limits),
        cmocka_unit_test(wrong_types),
        cmocka_unit_test(devices),
        cmocka_unit_test(some_tensors_may_be_on_the_host),
        cmocka_unit_test(scalars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
