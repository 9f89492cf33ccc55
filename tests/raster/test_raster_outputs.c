/* The rasterizer's outputs, gradients, buffers and info: every check. */

#include "views.h"

#include "check/args.h"
#include "core/context.h"

static gsc_context context = {.device = {kDLCPU, 0}};
static const gsc__call cpu = {.function = "f", .context = &context};

/* Two cameras, five Gaussians, an image of 4 x 7 with 3 channels. */
static gsc__raster raster;

typedef struct field {
    const char *name;
    size_t offset; /* in the public descriptor */
    size_t place;  /* in the backend's */
    int32_t ndim;
    int64_t shape[4];
    bool int32;
    const char *expected;
} field;

#define OUTPUT(name, ...)                                                                      \
    "outputs." #name, offsetof(gsc_raster_outputs, name), offsetof(gsc__raster_outputs, name), \
        __VA_ARGS__
static const field outputs[] = {
    {OUTPUT(color, 4, {2, 3, 4, 7}, false, "[2, 3, 4, 7]")},
    {OUTPUT(alpha, 3, {2, 4, 7}, false, "[2, 4, 7]")},
    {OUTPUT(depth, 3, {2, 4, 7}, false, "[2, 4, 7]")},
    {OUTPUT(inv_depth, 3, {2, 4, 7}, false, "[2, 4, 7]")},
    {OUTPUT(median_depth, 3, {2, 4, 7}, false, "[2, 4, 7]")},
    {OUTPUT(radii, 2, {2, 5}, true, "[2, 5] or [2, 5, 2]")},
    {OUTPUT(means2d, 3, {2, 5, 2}, false, "[2, 5, 2]")},
    {OUTPUT(depths, 2, {2, 5}, false, "[2, 5]")},
    {OUTPUT(conics, 3, {2, 5, 3}, false, "[2, 5, 3]")},
    {OUTPUT(opacities, 2, {2, 5}, false, "[2, 5]")},
    {OUTPUT(touched, 2, {2, 5}, true, "[2, 5]")},
    {OUTPUT(weight_sum, 2, {2, 5}, false, "[2, 5]")},
    {OUTPUT(weight_count, 2, {2, 5}, true, "[2, 5]")},
    {OUTPUT(weight_blend, 2, {2, 5}, false, "[2, 5]")},
    {OUTPUT(weight_distance, 2, {2, 5}, false, "[2, 5]")},
};
enum { OUTPUTS = sizeof outputs / sizeof outputs[0] };

#define GRAD(name, ...) \
    "grads." #name, offsetof(gsc_raster_grads, name), offsetof(gsc__raster_grads, name), __VA_ARGS__
static const field grads[] = {
    {GRAD(color, 4, {2, 3, 4, 7}, false, "[2, 3, 4, 7]")},
    {GRAD(alpha, 3, {2, 4, 7}, false, "[2, 4, 7]")},
    {GRAD(depth, 3, {2, 4, 7}, false, "[2, 4, 7]")},
    {GRAD(inv_depth, 3, {2, 4, 7}, false, "[2, 4, 7]")},
    {GRAD(means, 2, {5, 3}, false, "[5, 3]")},
    {GRAD(opacities, 1, {5}, false, "[5] or [5, 1]")},
    {GRAD(scales, 2, {5, 3}, false, "[5, 3]")},
    {GRAD(rotations, 2, {5, 4}, false, "[5, 4]")},
    {GRAD(covariances, 2, {5, 6}, false, "[5, 6]")},
    {GRAD(colors, 2, {5, 3}, false, "[5, 3]")},
    {GRAD(sh, 3, {5, 15, 3}, false, "[5, 15, 3]")},
    {GRAD(sh_dc, 3, {5, 1, 3}, false, "[5, 1, 3]")},
    {GRAD(means2d, 3, {2, 5, 3}, false, "[2, 5, 2] or [2, 5, 3]")},
    {GRAD(means2d_abs, 3, {2, 5, 2}, false, "[2, 5, 2] or [2, 5, 3]")},
    {GRAD(view, 3, {2, 4, 4}, false, "[2, 4, 4]")},
    {GRAD(position, 2, {2, 3}, false, "[2, 3]")},
    {GRAD(background, 2, {2, 3}, false, "[2, 3]")},
};
enum { GRADS = sizeof grads / sizeof grads[0] };

/* Every input is set, which no caller can do, so that every gradient can be wanted. */
static int reset(void **state) {
    const gsc_real *some = (const gsc_real *)view_memory;
    (void)state;
    raster = (gsc__raster){.width = 7,
                           .height = 4,
                           .channels = 3,
                           .cameras = 2,
                           .gaussians = 5,
                           .background_stride = 3,
                           .sh_coefficients = 15,
                           .camera = {.view = some, .position = some},
                           .background = some,
                           .pixel_weights = some,
                           .means = some,
                           .opacities = some,
                           .scales = some,
                           .rotations = some,
                           .covariances = some,
                           .colors = some,
                           .sh = some,
                           .sh_dc = some};
    return 0;
}

static void field_view(view *v, const field *f) {
    view_init(v, f->ndim, f->shape);
    if (f->int32) view_dtype(v, kDLInt, 32);
}

static gsc__raster_outputs out;
static gsc__raster_grads grads_out;

/* Checks descriptors that have this one tensor. */
static gsc_status check_output(const field *f, const view *v) {
    const DLTensor *tensor = &v->tensor;
    gsc_raster_outputs theirs = {.struct_size = sizeof theirs};
    memcpy((char *)&theirs + f->offset, &tensor, sizeof tensor);
    return gsc__raster_outputs_args(&cpu, &raster, &theirs, false, &out);
}

static gsc_status check_grad(const field *f, const view *v) {
    const DLTensor *tensor = &v->tensor;
    gsc_raster_grads theirs = {.struct_size = sizeof theirs};
    memcpy((char *)&theirs + f->offset, &tensor, sizeof tensor);
    return gsc__raster_grads_args(&cpu, &raster, &theirs, &grads_out);
}

typedef gsc_status check_fn(const field *f, const view *v);

static void expect_field(check_fn *check, const field *f, const view *v, gsc_status status,
                         const char *text) {
    char message[300];
    snprintf(message, sizeof message, "f: %s %s", f->name, text);
    expect_failure(check(f, v), status, message);
}

static void check_fields(check_fn *check, const field *all, int count, const void *result) {
    for (int i = 0; i < count; ++i) {
        const field *f = &all[i];
        char given[GSC__SHAPE_TEXT_SIZE], text[200];
        const void *data;
        view v;
        field_view(&v, f);
        expect_ok(check(f, &v));
        memcpy(&data, (const char *)result + f->place, sizeof data);
        assert_ptr_equal(data, view_memory);

        view_dtype(&v, kDLFloat, 16);
        snprintf(text, sizeof text, "is float16, expected %s", f->int32 ? "int32" : REAL_NAME);
        expect_field(check, f, &v, GSC_ERROR_DTYPE, text);

        field_view(&v, f);
        view_device(&v, kDLCUDA, 0);
        expect_field(check, f, &v, GSC_ERROR_DEVICE, "is on cuda:0, expected cpu");

        for (int32_t d = 0; d < f->ndim; ++d) {
            field_view(&v, f);
            v.shape[d] += 2;
            gsc__shape_text(v.shape, f->ndim, given);
            snprintf(text, sizeof text, "is %s, expected %s", given, f->expected);
            expect_field(check, f, &v, GSC_ERROR_SHAPE, text);
        }

        field_view(&v, f);
        view_strides(&v);
        v.strides[0] += 1;
        assert_int_equal(check(f, &v), GSC_ERROR_LAYOUT);
        field_view(&v, f);
        v.tensor.data = NULL;
        assert_int_equal(check(f, &v), GSC_ERROR_INVALID_ARGUMENT);
    }
}

static void every_output_is_checked(void **state) {
    (void)state;
    check_fields(check_output, outputs, OUTPUTS, &out);
}

static void every_gradient_is_checked(void **state) {
    (void)state;
    check_fields(check_grad, grads, GRADS, &grads_out);
}

static void pixels_may_come_last(void **state) {
    (void)state;
    view v;
    VIEW(&v, 2, 4, 7, 3);
    raster.flags = GSC_RASTER_PIXEL_LAST;
    expect_ok(check_output(&outputs[0], &v));
    expect_ok(check_grad(&grads[0], &v));
    raster.flags = 0;
    assert_int_equal(check_output(&outputs[0], &v), GSC_ERROR_SHAPE);
}

static void axes_are_told(void **state) {
    (void)state;
    view v;
    VIEW(&v, 2, 5, 2);
    view_dtype(&v, kDLInt, 32);
    expect_ok(check_output(&outputs[5], &v));
    assert_int_equal(out.radii_axes, 2);
    VIEW(&v, 2, 5);
    view_dtype(&v, kDLInt, 32);
    expect_ok(check_output(&outputs[5], &v));
    assert_int_equal(out.radii_axes, 1);
    raster.cameras = 1;
    VIEW(&v, 5, 2);
    view_dtype(&v, kDLInt, 32);
    expect_ok(check_output(&outputs[5], &v));
    assert_int_equal(out.radii_axes, 2);
    VIEW(&v, 5, 3);
    expect_ok(check_grad(&grads[12], &v));
    assert_int_equal(grads_out.means2d_axes, 3);
    VIEW(&v, 5, 2);
    expect_ok(check_grad(&grads[12], &v));
    assert_int_equal(grads_out.means2d_axes, 2);
    expect_ok(check_grad(&grads[13], &v));
    assert_int_equal(grads_out.means2d_abs_axes, 2);
}

static void color_is_required_to_blend(void **state) {
    (void)state;
    gsc_raster_outputs theirs = {.struct_size = sizeof theirs};
    expect_ok(gsc__raster_outputs_args(&cpu, &raster, NULL, false, &out));
    assert_null(out.color);
    expect_ok(gsc__raster_outputs_args(&cpu, &raster, &theirs, false, &out));
    expect_failure(gsc__raster_outputs_args(&cpu, &raster, &theirs, true, &out),
                   GSC_ERROR_INVALID_ARGUMENT, "f: outputs.color is missing");
    expect_failure(gsc__raster_outputs_args(&cpu, &raster, NULL, true, &out),
                   GSC_ERROR_INVALID_ARGUMENT, "f: outputs is NULL");
    theirs.struct_size = 8;
    assert_int_equal(gsc__raster_outputs_args(&cpu, &raster, &theirs, false, &out), GSC_ERROR_ABI);
}

static void weight_statistics_need_weights(void **state) {
    (void)state;
    raster.pixel_weights = NULL;
    for (int i = 11; i < OUTPUTS; ++i) {
        char text[128];
        view v;
        field_view(&v, &outputs[i]);
        snprintf(text, sizeof text, "is wanted, but pixel_weights is not given");
        expect_field(check_output, &outputs[i], &v, GSC_ERROR_INVALID_ARGUMENT, text);
    }
    view v;
    field_view(&v, &outputs[10]);
    expect_ok(check_output(&outputs[10], &v)); /* touched does not */
}

static void gradients_of_missing_inputs(void **state) {
    static const struct {
        int grad;
        size_t input;
    } cases[] = {
        {6, offsetof(gsc__raster, scales)},
        {7, offsetof(gsc__raster, rotations)},
        {8, offsetof(gsc__raster, covariances)},
        {9, offsetof(gsc__raster, colors)},
        {10, offsetof(gsc__raster, sh)},
        {11, offsetof(gsc__raster, sh_dc)},
        {15, offsetof(gsc__raster, camera.position)},
        {16, offsetof(gsc__raster, background)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        const field *f = &grads[cases[i].grad];
        const void *none = NULL;
        char text[128];
        view v;
        reset(state);
        field_view(&v, f);
        memcpy((char *)&raster + cases[i].input, &none, sizeof none);
        snprintf(text, sizeof text, "is wanted, but %s is not given", f->name + strlen("grads."));
        expect_field(check_grad, f, &v, GSC_ERROR_INVALID_ARGUMENT, text);
    }
}

static void gradients_are_shaped_as_their_inputs(void **state) {
    (void)state;
    view v;
    VIEW(&v, 2, 5, 3);
    assert_int_equal(check_grad(&grads[9], &v), GSC_ERROR_SHAPE); /* colors are shared */
    raster.colors_stride = 15;
    expect_ok(check_grad(&grads[9], &v));
    VIEW(&v, 5, 3);
    expect_field(check_grad, &grads[9], &v, GSC_ERROR_SHAPE, "is [5, 3], expected [2, 5, 3]");
    raster.background_stride = 0;
    VIEW(&v, 2, 3);
    expect_field(check_grad, &grads[16], &v, GSC_ERROR_SHAPE, "is [2, 3], expected [3]");
    VIEW(&v, 3);
    expect_ok(check_grad(&grads[16], &v));
    VIEW(&v, 5, 1);
    expect_ok(check_grad(&grads[5], &v));
}

/* -------------------------------------------------------------- buffers, info */

static view state_view, lists, scratch;
static gsc__raster_buffers ours;
static gsc_raster_buffers theirs;
static gsc__buffer_needs needs;

static int reset_buffers(void **state) {
    (void)state;
    view *all[] = {&state_view, &lists, &scratch};
    for (int i = 0; i < 3; ++i) {
        VIEW(all[i], 1024 * (i + 1));
        view_dtype(all[i], kDLUInt, 8);
        all[i]->tensor.byte_offset = 256u * (unsigned)i;
    }
    theirs =
        (gsc_raster_buffers){sizeof theirs, &state_view.tensor, &lists.tensor, &scratch.tensor};
    needs = (gsc__buffer_needs){
        .state = 1024, .intersections = 2048, .scratch = 3072, .uses_intersections = true};
    return 0;
}

static gsc_status check_buffers(void) {
    return gsc__raster_buffers_args(&cpu, &theirs, &needs, &ours);
}

static void buffers_arrive(void **state) {
    (void)state;
    expect_ok(check_buffers());
    assert_ptr_equal(ours.state, view_memory);
    assert_ptr_equal(ours.intersections, view_memory + 256);
    assert_ptr_equal(ours.scratch, view_memory + 512);
    assert_int_equal(ours.state_bytes, 1024);
    assert_int_equal(ours.intersections_bytes, 2048);
    assert_int_equal(ours.scratch_bytes, 3072);
}

static void buffers_must_be_large_enough(void **state) {
    needs.state = 1025;
    expect_failure(check_buffers(), GSC_ERROR_BUFFER_TOO_SMALL,
                   "f: state has 1024 bytes, expected at least 1025");
    reset_buffers(state);
    needs.intersections = 3000;
    expect_failure(check_buffers(), GSC_ERROR_BUFFER_TOO_SMALL,
                   "f: intersections has 2048 bytes, expected at least 3000");
    needs.uses_intersections = false;
    expect_ok(check_buffers());
    assert_null(ours.intersections);
    reset_buffers(state);
    needs.scratch = 3073;
    expect_failure(check_buffers(), GSC_ERROR_BUFFER_TOO_SMALL,
                   "f: scratch has 3072 bytes, expected at least 3073");
}

static void buffers_that_are_missing(void **state) {
    theirs.scratch = NULL;
    expect_ok(check_buffers());
    assert_null(ours.scratch);
    reset_buffers(state);
    theirs.intersections = NULL;
    expect_failure(check_buffers(), GSC_ERROR_INVALID_ARGUMENT, "f: intersections is missing");
    needs.intersections = 0; /* nothing is visible */
    expect_ok(check_buffers());
    assert_null(ours.intersections);
    reset_buffers(state);
    theirs.state = NULL;
    expect_failure(check_buffers(), GSC_ERROR_INVALID_ARGUMENT, "f: state is missing");
    reset_buffers(state);
    theirs.struct_size = 8;
    assert_int_equal(check_buffers(), GSC_ERROR_ABI);
    expect_failure(gsc__raster_buffers_args(&cpu, NULL, &needs, &ours), GSC_ERROR_INVALID_ARGUMENT,
                   "f: buffers is NULL");
}

static void info_is_checked(void **state) {
    (void)state;
    gsc_raster_info result, info = {.struct_size = sizeof info, .intersections = 77};
    expect_ok(gsc__raster_info_args(&cpu, &info, &result));
    assert_int_equal(result.intersections, 77);
    info.intersections = -1;
    expect_failure(gsc__raster_info_args(&cpu, &info, &result), GSC_ERROR_INVALID_ARGUMENT,
                   "f: info has -1 intersections, expected 0 to 1099511627776");
    info.intersections = INT64_MAX;
    assert_int_equal(gsc__raster_info_args(&cpu, &info, &result), GSC_ERROR_OVERFLOW);
    expect_failure(gsc__raster_info_args(&cpu, NULL, &result), GSC_ERROR_INVALID_ARGUMENT,
                   "f: info is NULL");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup(name, reset)
#define BUFFER_TEST(name) cmocka_unit_test_setup(name, reset_buffers)
    const struct CMUnitTest tests[] = {
        TEST(every_output_is_checked),
        TEST(every_gradient_is_checked),
        TEST(pixels_may_come_last),
        TEST(axes_are_told),
        TEST(color_is_required_to_blend),
        TEST(weight_statistics_need_weights),
        TEST(gradients_of_missing_inputs),
        TEST(gradients_are_shaped_as_their_inputs),
        BUFFER_TEST(buffers_arrive),
        BUFFER_TEST(buffers_must_be_large_enough),
        BUFFER_TEST(buffers_that_are_missing),
        BUFFER_TEST(info_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
