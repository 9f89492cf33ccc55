/* Adam's arguments: groups of any version, every check, every default. */

#include "views.h"

#include "check/args.h"
#include "core/context.h"

#include <math.h>

static gsc_context context = {.device = {kDLCPU, 0}};
static const gsc__call cpu = {.function = "adam_step", .context = &context};

/* Two groups, [5, 3] and [5, 2, 4], as a caller of a later version would pass them. */
typedef struct later_group {
    gsc_adam_group known;
    float later[2];
} later_group;

static view tensors[2][4];
static later_group groups[2];
static view visible;
static gsc_adam_args args;
static gsc__adam out;

static int reset(void **state) {
    (void)state;
    memset(groups, 0, sizeof groups);
    for (unsigned g = 0; g < 2; ++g) {
        for (unsigned t = 0; t < 4; ++t) {
            if (g == 0) VIEW(&tensors[g][t], 5, 3);
            if (g == 1) VIEW(&tensors[g][t], 5, 2, 4);
            tensors[g][t].tensor.byte_offset = 4096u * g + 1024u * t;
        }
        groups[g].known.parameter = &tensors[g][0].tensor;
        groups[g].known.gradient = &tensors[g][1].tensor;
        groups[g].known.moment1 = &tensors[g][2].tensor;
        groups[g].known.moment2 = &tensors[g][3].tensor;
    }
    VIEW(&visible, 5);
    view_dtype(&visible, kDLBool, 8);
    args = (gsc_adam_args){.struct_size = sizeof args,
                           .group_count = 2,
                           .groups = &groups[0].known,
                           .group_stride = sizeof groups[0]};
    return 0;
}

static gsc_status check(void) {
    return gsc__adam_args(&cpu, &args, &out);
}

static void expect(gsc_status status, const char *message) {
    expect_failure(check(), status, message);
    assert_null(out.groups);
}

static void groups_arrive(void **state) {
    (void)state;
    groups[1].known.lr = 0.5f;
    groups[1].known.beta1 = 0.25f;
    groups[1].known.beta2 = 0.75f;
    groups[1].known.epsilon = 0.125f;
    groups[1].known.weight_decay = 2.0f;
    groups[1].known.step = 7;
    args.flags = GSC_ADAM_DECOUPLED;
    expect_ok(check());
    assert_int_equal(out.count, 2);
    for (int g = 0; g < 2; ++g) {
        unsigned char *start = view_memory + 4096 * g;
        assert_ptr_equal(out.groups[g].parameter, start);
        assert_ptr_equal(out.groups[g].gradient, start + 1024);
        assert_ptr_equal(out.groups[g].moment1, start + 2048);
        assert_ptr_equal(out.groups[g].moment2, start + 3072);
        assert_int_equal(out.groups[g].rows, 5);
        assert_int_equal(out.groups[g].row_size, g == 0 ? 3 : 8);
        assert_true(out.groups[g].decoupled);
    }
    assert_true(out.groups[1].lr == 0.5);
    assert_true(out.groups[1].beta1 == 0.25);
    assert_true(out.groups[1].beta2 == 0.75);
    assert_true(out.groups[1].epsilon == 0.125);
    assert_true(out.groups[1].weight_decay == 2.0);
    assert_int_equal(out.groups[1].step, 7);
    assert_null(out.visible.data);
    gsc__adam_release(&out);
}

static void defaults_are_filled_in(void **state) {
    (void)state;
    groups[1].known.beta1 = groups[1].known.beta2 = groups[1].known.epsilon = -1.0f;
    expect_ok(check());
    assert_true(out.groups[0].lr == 0.0);
    assert_true(out.groups[0].beta1 == 0.9);
    assert_true(out.groups[0].beta2 == 0.999);
    assert_true(out.groups[0].epsilon == 1e-8);
    assert_true(out.groups[0].weight_decay == 0.0);
    assert_int_equal(out.groups[0].step, 0);
    assert_false(out.groups[0].decoupled);
    assert_true(out.groups[1].beta1 == 0.0);
    assert_true(out.groups[1].beta2 == 0.0);
    assert_true(out.groups[1].epsilon == 0.0);
    gsc__adam_release(&out);
}

static void no_groups_are_fine(void **state) {
    (void)state;
    args.group_count = 0;
    args.groups = NULL;
    args.group_stride = 0;
    expect_ok(check());
    assert_int_equal(out.count, 0);
    assert_null(out.groups);
}

static void parameters_without_elements_have_no_rows(void **state) {
    (void)state;
    for (int t = 0; t < 4; ++t) {
        VIEW(&tensors[0][t], 5, INT64_MAX, 0, INT64_MAX);
        tensors[0][t].tensor.data = NULL;
    }
    args.visible = &visible.tensor;
    expect_ok(check());
    assert_int_equal(out.groups[0].rows, 0);
    assert_int_equal(out.groups[0].row_size, 1);
    assert_int_equal(out.groups[1].rows, 5);
    gsc__adam_release(&out);
}

static void visible_rows(void **state) {
    static const struct {
        uint8_t code, bits;
        int32_t bytes;
    } types[] = {{kDLBool, 8, 1}, {kDLUInt, 8, 1}, {kDLInt, 32, 4}};
    (void)state;
    args.visible = &visible.tensor;
    for (int i = 0; i < 3; ++i) {
        view_dtype(&visible, types[i].code, types[i].bits);
        expect_ok(check());
        assert_ptr_equal(out.visible.data, view_memory);
        assert_int_equal(out.visible.bytes, types[i].bytes);
        gsc__adam_release(&out);
    }
    view_dtype(&visible, kDLInt, 64);
    expect(GSC_ERROR_DTYPE, "adam_step: visible is int64, expected int32 or uint8 or bool");
    VIEW(&visible, 6);
    view_dtype(&visible, kDLBool, 8);
    expect(GSC_ERROR_SHAPE, "adam_step: visible is [6], expected [5]");
    VIEW(&visible, 5);
    view_dtype(&visible, kDLBool, 8);
    for (int t = 0; t < 4; ++t) VIEW(&tensors[1][t], 6, 2, 4);
    expect(GSC_ERROR_SHAPE, "adam_step: visible is [5], expected [6]");
}

static void every_tensor_is_checked(void **state) {
    static const char *const names[] = {"parameter", "gradient", "moment1", "moment2"};
    const DLTensor *none = NULL;
    for (size_t t = 0; t < 4; ++t) {
        char message[200];
        reset(state);
        view_dtype(&tensors[1][t], kDLFloat, 16);
        snprintf(message, sizeof message, "adam_step: groups[1].%s is float16, expected %s",
                 names[t], REAL_NAME);
        expect(GSC_ERROR_DTYPE, message);

        reset(state);
        view_device(&tensors[1][t], kDLCUDA, 0);
        snprintf(message, sizeof message, "adam_step: groups[1].%s is on cuda:0, expected cpu",
                 names[t]);
        expect(GSC_ERROR_DEVICE, message);

        reset(state);
        view_strides(&tensors[1][t]);
        tensors[1][t].strides[0] = 16;
        snprintf(message, sizeof message,
                 "adam_step: groups[1].%s has stride 16 in dimension 0, expected 8 (dense "
                 "row-major)",
                 names[t]);
        expect(GSC_ERROR_LAYOUT, message);

        reset(state);
        memcpy((char *)&groups[1] + t * sizeof none, &none, sizeof none);
        snprintf(message, sizeof message, "adam_step: groups[1].%s is missing", names[t]);
        expect(GSC_ERROR_INVALID_ARGUMENT, message);

        if (t == 0) continue;
        reset(state);
        VIEW(&tensors[1][t], 5, 8);
        snprintf(message, sizeof message, "adam_step: groups[1].%s is [5, 8], expected [5, 2, 4]",
                 names[t]);
        expect(GSC_ERROR_SHAPE, message);
    }
    reset(state);
    view_init(&tensors[0][0], 0, NULL);
    expect(GSC_ERROR_SHAPE, "adam_step: groups[0].parameter has 0 dimensions, expected 1 to 8");
    VIEW(&tensors[0][0], 1, 1, 1, 1, 1, 1, 1, 1, 1);
    expect(GSC_ERROR_SHAPE, "adam_step: groups[0].parameter has 9 dimensions, expected 1 to 8");
}

static void broken_scalars(void **state) {
    static const struct {
        size_t offset;
        float value;
        const char *message;
    } cases[] = {
#define FIELD(name) offsetof(gsc_adam_group, name)
        {FIELD(lr), INFINITY, "lr is inf, expected a finite number"},
        {FIELD(beta1), 1.0f, "beta1 is 1, expected less than 1"},
        {FIELD(beta1), -INFINITY, "beta1 is -inf, expected a finite number"},
        {FIELD(beta2), 1.5f, "beta2 is 1.5, expected less than 1"},
        {FIELD(beta2), INFINITY, "beta2 is inf, expected a finite number"},
        {FIELD(epsilon), INFINITY, "epsilon is inf, expected a finite number"},
        {FIELD(weight_decay), INFINITY, "weight_decay is inf, expected a finite number"},
#undef FIELD
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char message[200];
        reset(state);
        memcpy((char *)&groups[1] + cases[i].offset, &cases[i].value, sizeof(float));
        snprintf(message, sizeof message, "adam_step: groups[1].%s", cases[i].message);
        expect(GSC_ERROR_INVALID_ARGUMENT, message);
    }
    reset(state);
    groups[0].known.step = -1;
    expect(GSC_ERROR_INVALID_ARGUMENT, "adam_step: groups[0].step is -1, expected 0 or more");
}

static void broken_descriptors(void **state) {
    (void)state;
    char message[200];
    groups[1].later[1] = 1.0f;
    snprintf(message, sizeof message,
             "adam_step: byte %zu of groups[1] is set, this library knows %zu bytes of it",
             offsetof(later_group, later[1]) + 2, sizeof(gsc_adam_group));
    expect(GSC_ERROR_ABI, message);
    reset(state);
    args.group_stride = sizeof(gsc_adam_group) - 4;
    snprintf(message, sizeof message,
             "adam_step: struct_size of groups[0] is %zu, expected at least %zu",
             sizeof(gsc_adam_group) - 4, sizeof(gsc_adam_group));
    expect(GSC_ERROR_ABI, message);
    args.group_stride = 0;
    assert_int_equal(check(), GSC_ERROR_ABI);
    args.group_stride = SIZE_MAX;
    assert_int_equal(check(), GSC_ERROR_ABI);
    reset(state);
    args.groups = NULL;
    expect(GSC_ERROR_INVALID_ARGUMENT, "adam_step: groups is NULL, expected 2 groups");
    args.group_count = UINT32_MAX;
    expect(GSC_ERROR_OVERFLOW, "adam_step: group_count is 4294967295, expected at most 65536");
    reset(state);
    args.flags = 2;
    expect(GSC_ERROR_INVALID_ARGUMENT, "adam_step: flags is 0x2, expected bits of 0x1 only");
    args.struct_size = 8;
    assert_int_equal(check(), GSC_ERROR_ABI);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup(name, reset)
    const struct CMUnitTest tests[] = {
        TEST(groups_arrive),      TEST(defaults_are_filled_in),
        TEST(no_groups_are_fine), TEST(parameters_without_elements_have_no_rows),
        TEST(visible_rows),       TEST(every_tensor_is_checked),
        TEST(broken_scalars),     TEST(broken_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
