/* From a DLTensor to a checked pointer: shapes, types, devices. */

#include "views.h"

#include "core/context.h"

static gsc_context cpu_context = {.device = {kDLCPU, 0}};
static gsc_context cuda_context = {.device = {kDLCUDA, 1}};
static const gsc__call cpu = {.function = "f", .context = &cpu_context};
static const gsc__call cuda = {.function = "f", .context = &cuda_context};

static gsc_status dense(const gsc__call *call, const view *v, gsc__shape shape, void **data) {
    gsc__tensor tensor = {.name = "x", .given = &v->tensor, .shapes = {shape}};
    gsc_status status = gsc__tensor_check(call, &tensor);
    *data = tensor.data;
    return status;
}

/* Only dtype and shape. */
static gsc_status typed(const view *v, uint32_t dtypes) {
    gsc__tensor tensor = {.name = "x",
                          .given = &v->tensor,
                          .dtypes = dtypes,
                          .shapes = {gsc__shape2(2, 3)},
                          .shape_only = true};
    return gsc__tensor_check(&cpu, &tensor);
}

static gsc_status dense_2x3(const view *v) {
    void *data;
    return dense(&cpu, v, gsc__shape2(2, 3), &data);
}

static void dense_tensor_gives_its_data(void **state) {
    (void)state;
    view v;
    void *data = NULL;
    VIEW(&v, 2, 3);
    expect_ok(dense(&cpu, &v, gsc__shape2(2, 3), &data));
    assert_ptr_equal(data, view_memory);
    view_strides(&v);
    expect_ok(dense(&cpu, &v, gsc__shape2(2, 3), &data));
    v.tensor.byte_offset = 16;
    expect_ok(dense(&cpu, &v, gsc__shape2(2, 3), &data));
    assert_ptr_equal(data, view_memory + 16);
}

static void null_tensor_gives_null(void **state) {
    (void)state;
    const gsc_real *in = (const gsc_real *)view_memory;
    expect_ok(gsc__real_in(&cpu, "x", NULL, gsc__shape1(3), &in));
    assert_null(in);
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
    const gsc__shape one = gsc__per_camera(gsc__shape3(1, 4, 4));
    const gsc__shape two = gsc__per_camera(gsc__shape3(2, 4, 4));
    const gsc__shape any = gsc__per_camera(gsc__shape3(GSC__ANY('C'), 4, 4));
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

static void first_shape_that_fits_is_told(void **state) {
    (void)state;
    view v;
    gsc__tensor tensor = {.name = "x",
                          .given = &v.tensor,
                          .shapes = {gsc__shape1(5), gsc__shape2(5, 1)},
                          .choices = 2,
                          .shape_only = true};
    VIEW(&v, 5);
    expect_ok(gsc__tensor_check(&cpu, &tensor));
    assert_int_equal(tensor.which, 0);
    VIEW(&v, 5, 1);
    expect_ok(gsc__tensor_check(&cpu, &tensor));
    assert_int_equal(tensor.which, 1);
    VIEW(&v, 5, 2);
    expect_failure(gsc__tensor_check(&cpu, &tensor), GSC_ERROR_SHAPE,
                   "f: x is [5, 2], expected [5] or [5, 1]");
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
        gsc_status status = dense(cases[i].call, &v, gsc__shape1(3), &data);
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
    gsc__tensor tensor = {
        .name = "x", .given = &v.tensor, .shapes = {gsc__shape1(3)}, .host_too = true};
    VIEW(&v, 3);
    expect_ok(gsc__tensor_check(&cuda, &tensor));
    view_device(&v, kDLCUDAHost, 0);
    expect_ok(gsc__tensor_check(&cuda, &tensor));
    view_device(&v, kDLCUDA, 1);
    expect_ok(gsc__tensor_check(&cuda, &tensor));
    view_device(&v, kDLCUDA, 2);
    expect_failure(gsc__tensor_check(&cuda, &tensor), GSC_ERROR_DEVICE,
                   "f: x is on cuda:2, expected cuda:1");
}

static void scalars(void **state) {
    (void)state;
    gsc_real *data;
    view v;
    view_init(&v, 0, NULL);
    v.tensor.shape = NULL;
    expect_ok(gsc__scalar(&cpu, "x", &v.tensor, &data));
    assert_ptr_equal(data, view_memory);
    VIEW(&v, 1);
    expect_ok(gsc__scalar(&cpu, "x", &v.tensor, &data));
    VIEW(&v, 2);
    expect_failure(gsc__scalar(&cpu, "x", &v.tensor, &data), GSC_ERROR_SHAPE,
                   "f: x is [2], expected [] or [1]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_tensor_gives_its_data),
        cmocka_unit_test(null_tensor_gives_null),
        cmocka_unit_test(wrong_shapes),
        cmocka_unit_test(long_shapes_are_cut),
        cmocka_unit_test(leading_one_may_be_dropped),
        cmocka_unit_test(first_shape_that_fits_is_told),
        cmocka_unit_test(wrong_types),
        cmocka_unit_test(devices),
        cmocka_unit_test(some_tensors_may_be_on_the_host),
        cmocka_unit_test(scalars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
