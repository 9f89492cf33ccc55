/* The rasterizer's public arguments: every check, every default. */

#include "views.h"

#include "../src/raster_args.h"

#include <math.h>

enum { CAMERAS = 2, GAUSSIANS = 5, WIDTH = 7, HEIGHT = 4 };

static const gsc__checker cpu = {.function = "raster_forward", .device = {kDLCPU, 0}};

/* Every tensor that the arguments may have; use() gives it to them. */
enum {
    VIEW_, PROJECTION, INTRINSICS, POSITION, BACKGROUND, WEIGHTS, MEANS, OPACITIES, SCALES,
    ROTATIONS, COVARIANCES, COLORS, SH, SH_DC, FIELDS
};
static const struct {
    const char *name;
    size_t offset;
    int32_t ndim;
    int64_t shape[3];
    const char *expected; /* in messages */
} fields[FIELDS] = {
    {"view", offsetof(gsc_raster_args, view), 3, {2, 4, 4}, "[C, 4, 4] or [4, 4]"},
    {"projection", offsetof(gsc_raster_args, projection), 3, {2, 4, 4}, "[2, 4, 4]"},
    {"intrinsics", offsetof(gsc_raster_args, intrinsics), 2, {2, 4}, "[2, 4]"},
    {"position", offsetof(gsc_raster_args, position), 2, {2, 3}, "[2, 3]"},
    {"background", offsetof(gsc_raster_args, background), 2, {2, 3}, "[3] or [2, 3]"},
    {"pixel_weights", offsetof(gsc_raster_args, pixel_weights), 3, {2, 4, 7}, "[2, 4, 7]"},
    {"means", offsetof(gsc_raster_args, means), 2, {5, 3}, "[N, 3]"},
    {"opacities", offsetof(gsc_raster_args, opacities), 2, {5, 1}, "[5] or [5, 1]"},
    {"scales", offsetof(gsc_raster_args, scales), 2, {5, 3}, "[5, 3]"},
    {"rotations", offsetof(gsc_raster_args, rotations), 2, {5, 4}, "[5, 4]"},
    {"covariances", offsetof(gsc_raster_args, covariances), 2, {5, 6}, "[5, 6]"},
    {"colors", offsetof(gsc_raster_args, colors), 3, {2, 5, 3}, "[5, D] or [2, 5, D]"},
    {"sh", offsetof(gsc_raster_args, sh), 3, {5, 15, 3}, "[5, K, 3]"},
    {"sh_dc", offsetof(gsc_raster_args, sh_dc), 3, {5, 1, 3}, "[5, 1, 3]"},
};

static gsc_raster_args args;
static view views[FIELDS];
static gsc__raster out;

static void use(int field) {
    const DLTensor *tensor = &views[field].tensor;
    memcpy((char *)&args + fields[field].offset, &tensor, sizeof tensor);
}

static void drop(int field) {
    const DLTensor *none = NULL;
    memcpy((char *)&args + fields[field].offset, &none, sizeof none);
}

/* Valid arguments: intrinsics, scales and rotations, colors, and all that is optional. */
static int reset(void **state) {
    (void)state;
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    args.width = WIDTH;
    args.height = HEIGHT;
    for (int i = 0; i < FIELDS; ++i) view_init(&views[i], fields[i].ndim, fields[i].shape);
    static const int given[] = {VIEW_,     INTRINSICS, POSITION, BACKGROUND, WEIGHTS,
                                MEANS,     OPACITIES,  SCALES,   ROTATIONS,  COLORS};
    for (size_t i = 0; i < sizeof given / sizeof given[0]; ++i) use(given[i]);
    return 0;
}

/* Gives a field, and takes away what it excludes. */
static void switch_to(int field) {
    use(field);
    if (field == PROJECTION) {
        drop(INTRINSICS);
        args.tan_fovx = args.tan_fovy = 0.5f;
    }
    if (field == COVARIANCES) {
        drop(SCALES);
        drop(ROTATIONS);
    }
    if (field == SH || field == SH_DC) {
        use(SH);
        use(SH_DC);
        drop(COLORS);
        args.sh_degree = 3;
    }
}

static gsc_status check(void) {
    return gsc__raster_args(&cpu, &args, &out);
}

static void expect(gsc_status status, const char *message) {
    expect_failure(check(), status, message);
}

/* ------------------------------------------------------------------ accepted */

static void valid_arguments_arrive(void **state) {
    (void)state;
    expect_ok(check());
    assert_int_equal(out.cameras, CAMERAS);
    assert_int_equal(out.gaussians, GAUSSIANS);
    assert_int_equal(out.channels, 3);
    assert_int_equal(out.width, WIDTH);
    assert_int_equal(out.height, HEIGHT);
    assert_int_equal(out.background_stride, 3);
    assert_int_equal(out.colors_stride, GAUSSIANS * 3);
    assert_ptr_equal(out.view, view_memory);
    assert_ptr_equal(out.intrinsics, view_memory);
    assert_ptr_equal(out.position, view_memory);
    assert_ptr_equal(out.pixel_weights, view_memory);
    assert_ptr_equal(out.means, view_memory);
    assert_ptr_equal(out.opacities, view_memory);
    assert_ptr_equal(out.scales, view_memory);
    assert_ptr_equal(out.rotations, view_memory);
    assert_null(out.projection);
    assert_null(out.covariances);
    assert_null(out.sh);
    assert_null(out.sh_dc);
}

static void each_tensor_arrives_in_its_own_place(void **state) {
    (void)state;
    static const size_t places[FIELDS] = {
        offsetof(gsc__raster, view),       offsetof(gsc__raster, projection),
        offsetof(gsc__raster, intrinsics), offsetof(gsc__raster, position),
        offsetof(gsc__raster, background), offsetof(gsc__raster, pixel_weights),
        offsetof(gsc__raster, means),      offsetof(gsc__raster, opacities),
        offsetof(gsc__raster, scales),     offsetof(gsc__raster, rotations),
        offsetof(gsc__raster, covariances), offsetof(gsc__raster, colors),
        offsetof(gsc__raster, sh),         offsetof(gsc__raster, sh_dc)};
    for (int field = 0; field < FIELDS; ++field) {
        reset(NULL);
        switch_to(field);
        views[field].tensor.byte_offset = 1024;
        expect_ok(check());
        for (int other = 0; other < FIELDS; ++other) {
            const void *data;
            memcpy(&data, (const char *)&out + places[other], sizeof data);
            if (other == field) {
                assert_ptr_equal(data, view_memory + 1024);
            } else {
                assert_ptr_not_equal(data, view_memory + 1024);
            }
        }
    }
}

static void defaults_are_filled_in(void **state) {
    (void)state;
    expect_ok(check());
    assert_true(out.scale_modifier == 1);
    assert_true(out.near_plane == GSC_REAL(0.2));
    assert_true(isinf(out.far_plane) && out.far_plane > 0);
    assert_true(out.radius_clip < 0);
    assert_true(out.blur == GSC_REAL(0.3));
    assert_true(out.median_default == 0);
}

static void given_scalars_arrive(void **state) {
    (void)state;
    args.flags = GSC_RASTER_ANTIALIAS | GSC_RASTER_DETERMINISTIC;
    args.scale_modifier = 0.5f;
    args.tan_fovx = 0.25f;
    args.tan_fovy = 0.125f;
    args.near_plane = 2.0f;
    args.far_plane = 8.0f;
    args.radius_clip = 1.5f;
    args.blur = -1.0f;
    args.median_default = -4.0f;
    expect_ok(check());
    assert_int_equal(out.flags, args.flags);
    assert_true(out.scale_modifier == GSC_REAL(0.5));
    assert_true(out.tan_fovx == GSC_REAL(0.25));
    assert_true(out.tan_fovy == GSC_REAL(0.125));
    assert_true(out.near_plane == 2);
    assert_true(out.far_plane == 8);
    assert_true(out.radius_clip == GSC_REAL(1.5));
    assert_true(out.blur == 0);
    assert_true(out.median_default == -4);
}

static void one_camera_may_drop_its_dimension(void **state) {
    (void)state;
    VIEW(&views[VIEW_], 4, 4);
    VIEW(&views[INTRINSICS], 4);
    VIEW(&views[POSITION], 3);
    VIEW(&views[BACKGROUND], 3);
    VIEW(&views[WEIGHTS], HEIGHT, WIDTH);
    VIEW(&views[COLORS], GAUSSIANS, 3);
    VIEW(&views[OPACITIES], GAUSSIANS);
    expect_ok(check());
    assert_int_equal(out.cameras, 1);
    assert_int_equal(out.background_stride, 0);
    assert_int_equal(out.colors_stride, 0);
    VIEW(&views[INTRINSICS], 1, 4);
    VIEW(&views[WEIGHTS], 1, HEIGHT, WIDTH);
    expect_ok(check());
}

static void no_gaussians_are_fine(void **state) {
    (void)state;
    VIEW(&views[MEANS], 0, 3);
    VIEW(&views[OPACITIES], 0);
    VIEW(&views[SCALES], 0, 3);
    VIEW(&views[ROTATIONS], 0, 4);
    VIEW(&views[COLORS], 0, 17);
    VIEW(&views[BACKGROUND], 17);
    static const int empty[] = {MEANS, OPACITIES, SCALES, ROTATIONS, COLORS};
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; ++i)
        views[empty[i]].tensor.data = NULL;
    expect_ok(check());
    assert_int_equal(out.gaussians, 0);
    assert_int_equal(out.channels, 17);
    assert_non_null(out.colors);
}

static void harmonics_may_be_stored_in_two_ways(void **state) {
    (void)state;
    switch_to(SH);
    expect_ok(check());
    assert_int_equal(out.channels, 3);
    assert_int_equal(out.sh_degree, 3);
    assert_int_equal(out.sh_coefficients, 15);

    drop(SH_DC);
    VIEW(&views[SH], GAUSSIANS, 25, 3);
    expect_ok(check());
    assert_int_equal(out.sh_coefficients, 25);

    drop(SH);
    use(SH_DC);
    args.sh_degree = 0;
    expect_ok(check());
    assert_int_equal(out.sh_coefficients, 0);
    assert_null(out.sh);
    use(SH);
    VIEW(&views[SH], GAUSSIANS, 0, 3);
    expect_ok(check());
    assert_int_equal(out.sh_coefficients, 0);
}

/* The drop-ins pass it always. */
static void degree_beside_colors_is_ignored(void **state) {
    (void)state;
    args.sh_degree = 3;
    expect_ok(check());
    assert_int_equal(out.sh_degree, 0);
}

/* ----------------------------------------------------------- broken tensors */

static void broken(int field, gsc_status status, const char *format, ...) {
    char text[256], message[300];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    snprintf(message, sizeof message, "raster_forward: %s%s", format[0] == ':' ? "" : fields[field].name,
             format[0] == ':' ? text + 1 : text);
    expect(status, message);
    reset(NULL);
    switch_to(field);
}

static void every_tensor_is_checked(void **state) {
    (void)state;
    for (int field = 0; field < FIELDS; ++field) {
        view *v = &views[field];
        const char *name = fields[field].name;
        reset(NULL);
        switch_to(field);

        view_dtype(v, kDLFloat, 16);
        broken(field, GSC_ERROR_DTYPE, " is float16, expected %s", REAL_NAME);
        view_device(v, kDLCUDA, 0);
        broken(field, GSC_ERROR_DEVICE, " is on cuda:0, expected cpu");
        v->tensor.data = NULL;
        broken(field, GSC_ERROR_INVALID_ARGUMENT, ":data of %s is NULL", name);
        v->tensor.data = view_memory + 1;
        broken(field, GSC_ERROR_LAYOUT, ":data of %s is at 0x%llx, expected a multiple of %d",
               name, (unsigned long long)(uintptr_t)(view_memory + 1), GSC_REAL_BITS / 8);

        int32_t last = v->tensor.ndim - 1;
        view_strides(v);
        int32_t broken_dim = v->shape[last] > 1 ? last : 0;
        long long dense = (long long)v->strides[broken_dim];
        v->strides[broken_dim] += 1;
        broken(field, GSC_ERROR_LAYOUT, " has stride %lld in dimension %d, expected %lld "
               "(dense row-major)", dense + 1, broken_dim, dense);

        int64_t longer[GSC__MAX_DIMS] = {1, 1, 1, 1, 1};
        view_shape(v, 5, longer);
        broken(field, GSC_ERROR_SHAPE, " is [1, 1, 1, 1, 1], expected %s",
               fields[field].expected);
    }
}

/* Every dimension of every tensor that the arguments fix. */
static void every_dimension_is_checked(void **state) {
    (void)state;
    for (int field = 0; field < FIELDS; ++field) {
        for (int32_t d = 0; d < fields[field].ndim; ++d) {
            const bool free = (field == VIEW_ && d == 0) || (field == MEANS && d == 0) ||
                              (field == COLORS && d == 2) || (field == SH && d == 1);
            char given[GSC__SHAPE_TEXT_SIZE];
            if (free) continue;
            reset(NULL);
            switch_to(field);
            views[field].shape[d] += 1;
            gsc__shape_text(views[field].shape, views[field].tensor.ndim, given);
            broken(field, GSC_ERROR_SHAPE, " is %s, expected %s", given, fields[field].expected);
        }
    }
}

static void required_tensors(void **state) {
    static const struct {
        int field;
        const char *message;
    } cases[] = {
        {VIEW_, "raster_forward: view is missing"},
        {INTRINSICS,
         "raster_forward: neither is given, expected either projection or intrinsics"},
        {MEANS, "raster_forward: means is missing"},
        {OPACITIES, "raster_forward: opacities is missing"},
        {SCALES, "raster_forward: scales is missing"},
        {ROTATIONS, "raster_forward: rotations is missing"},
        {COLORS, "raster_forward: colors (or sh) is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        reset(state);
        drop(cases[i].field);
        expect(GSC_ERROR_INVALID_ARGUMENT, cases[i].message);
    }
    reset(state);
    drop(SCALES);
    drop(ROTATIONS);
    expect(GSC_ERROR_INVALID_ARGUMENT, "raster_forward: scales (or covariances) is missing");
}

static void exclusive_tensors(void **state) {
    static const struct {
        int field;
        const char *message;
    } cases[] = {
        {PROJECTION, "raster_forward: projection and intrinsics are given, expected either "
                     "projection or intrinsics"},
        {COVARIANCES, "raster_forward: covariances and scales are given, expected either "
                      "covariances or scales and rotations"},
        {SH, "raster_forward: colors and sh are given, expected either colors or sh"},
        {SH_DC, "raster_forward: colors and sh_dc are given, expected either colors or sh"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        reset(state);
        use(cases[i].field);
        args.tan_fovx = args.tan_fovy = 1.0f;
        expect(GSC_ERROR_INVALID_ARGUMENT, cases[i].message);
    }
    reset(state);
    use(COVARIANCES);
    drop(SCALES);
    expect(GSC_ERROR_INVALID_ARGUMENT, "raster_forward: covariances and rotations are given, "
                                       "expected either covariances or scales and rotations");
}

static void too_few_harmonics(void **state) {
    (void)state;
    switch_to(SH);
    args.sh_degree = 4;
    expect(GSC_ERROR_SHAPE, "raster_forward: sh is [5, 15, 3], expected [5, K, 3] with K at least "
                            "24 for degree 4 beside sh_dc");
    drop(SH_DC);
    args.sh_degree = 3;
    expect(GSC_ERROR_SHAPE,
           "raster_forward: sh is [5, 15, 3], expected [5, K, 3] with K at least 16 for degree 3");
    drop(SH);
    use(SH_DC);
    args.sh_degree = 1;
    expect(GSC_ERROR_INVALID_ARGUMENT,
           "raster_forward: sh_degree is 1 with sh_dc alone, expected 0 or sh too");
    args.sh_degree = 5;
    expect(GSC_ERROR_INVALID_ARGUMENT, "raster_forward: sh_degree is 5, expected 0 to 4");
    args.sh_degree = -1;
    expect(GSC_ERROR_INVALID_ARGUMENT, "raster_forward: sh_degree is -1, expected 0 to 4");
}

static void channel_counts(void **state) {
    (void)state;
    drop(BACKGROUND);
    VIEW(&views[COLORS], GAUSSIANS, 0);
    expect(GSC_ERROR_SHAPE, "raster_forward: colors has 0 channels, expected 1 to 512");
    VIEW(&views[COLORS], GAUSSIANS, 513);
    expect(GSC_ERROR_OVERFLOW, "raster_forward: colors has 513 channels, expected 1 to 512");
    VIEW(&views[COLORS], GAUSSIANS, 512);
    expect_ok(check());
    assert_int_equal(out.channels, 512);
    VIEW(&views[COLORS], GAUSSIANS, 1);
    expect_ok(check());
    use(BACKGROUND);
    expect(GSC_ERROR_SHAPE, "raster_forward: background is [2, 3], expected [1] or [2, 1]");
}

static void camera_and_gaussian_counts(void **state) {
    (void)state;
    VIEW(&views[VIEW_], 0, 4, 4);
    expect(GSC_ERROR_SHAPE, "raster_forward: view is [0, 4, 4], expected at least 1 camera");
    VIEW(&views[VIEW_], 65536, 4, 4);
    expect(GSC_ERROR_OVERFLOW, "raster_forward: view has 65536 cameras, expected at most 65535");
    reset(NULL);
    VIEW(&views[MEANS], 2147418113, 3);
    expect(GSC_ERROR_OVERFLOW,
           "raster_forward: means has 2147418113 Gaussians, expected at most 2147418112");
}

/* ------------------------------------------------------------------- scalars */

static void broken_scalars(void **state) {
    static const struct {
        size_t offset;
        float value;
        gsc_status status;
        const char *message;
    } cases[] = {
#define FIELD(name) offsetof(gsc_raster_args, name)
        {FIELD(scale_modifier), INFINITY, 1, "scale_modifier is inf, expected a finite number"},
        {FIELD(scale_modifier), -1, 1, "scale_modifier is -1, expected 0 or more"},
        {FIELD(tan_fovx), INFINITY, 1, "tan_fovx is inf, expected a finite number"},
        {FIELD(tan_fovy), -INFINITY, 1, "tan_fovy is -inf, expected a finite number"},
        {FIELD(near_plane), -0.5f, 1, "near_plane is -0.5, expected 0 or more"},
        {FIELD(near_plane), INFINITY, 1, "near_plane is inf, expected a finite number"},
        {FIELD(far_plane), INFINITY, 1, "far_plane is inf, expected a finite number"},
        {FIELD(far_plane), -1, 1, "far_plane is -1, expected 0 or more"},
        {FIELD(far_plane), 0.125f, 1, "far_plane is 0.125, expected more than near_plane 0.2"},
        {FIELD(radius_clip), -1, 1, "radius_clip is -1, expected 0 or more"},
        {FIELD(radius_clip), INFINITY, 1, "radius_clip is inf, expected a finite number"},
        {FIELD(blur), -INFINITY, 1, "blur is -inf, expected a finite number"},
        {FIELD(median_default), INFINITY, 1, "median_default is inf, expected a finite number"},
#undef FIELD
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char message[256];
        reset(state);
        memcpy((char *)&args + cases[i].offset, &cases[i].value, sizeof cases[i].value);
        snprintf(message, sizeof message, "raster_forward: %s", cases[i].message);
        expect(cases[i].status, message);

        const float nan = NAN;
        memcpy((char *)&args + cases[i].offset, &nan, sizeof nan);
        assert_int_equal(check(), GSC_ERROR_INVALID_ARGUMENT);
    }
}

static void image_sizes(void **state) {
    static const struct {
        int32_t width, height;
        gsc_status status;
        const char *message;
    } cases[] = {
        {0, 4, 1, "width x height is 0 x 4, expected at least 1 x 1"},
        {4, 0, 1, "width x height is 4 x 0, expected at least 1 x 1"},
        {INT32_MIN, 4, 1, "width x height is -2147483648 x 4, expected at least 1 x 1"},
        {1048561, 1, 14, "width x height is 1048561 x 1, expected sides of at most 1048560"},
        {1, 1048561, 14, "width x height is 1 x 1048561, expected sides of at most 1048560"},
        {65536, 32768, 14,
         "width x height is 65536 x 32768, expected at most 2147483647 pixels"},
        {1048560, 2048, 0, NULL},
        {1, 1048560, 0, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        char message[256];
        reset(state);
        drop(WEIGHTS);
        args.width = cases[i].width;
        args.height = cases[i].height;
        if (!cases[i].message) {
            expect_ok(check());
            continue;
        }
        snprintf(message, sizeof message, "raster_forward: %s", cases[i].message);
        expect(cases[i].status, message);
    }
}

static void projection_needs_the_field_of_view(void **state) {
    (void)state;
    switch_to(PROJECTION);
    expect_ok(check());
    args.tan_fovx = 0.0f;
    expect(GSC_ERROR_INVALID_ARGUMENT, "raster_forward: tan_fovx and tan_fovy are 0 and 0.5, "
                                       "expected more than 0 with projection");
    args.tan_fovx = 1.0f;
    args.tan_fovy = -1.0f;
    expect(GSC_ERROR_INVALID_ARGUMENT, "raster_forward: tan_fovx and tan_fovy are 1 and -1, "
                                       "expected more than 0 with projection");
}

static void flags_and_struct_size(void **state) {
    (void)state;
    args.flags = 0xff;
    expect_ok(check());
    args.flags = 0x100;
    expect(GSC_ERROR_INVALID_ARGUMENT,
           "raster_forward: flags is 0x100, expected bits of 0xff only");
    args.flags = 0;
    args.struct_size = sizeof args - 1;
    assert_int_equal(check(), GSC_ERROR_ABI);
    args.struct_size = 0;
    assert_int_equal(check(), GSC_ERROR_ABI);
    expect_failure(gsc__raster_args(&cpu, NULL, &out), GSC_ERROR_INVALID_ARGUMENT,
                   "raster_forward: args is NULL");
}

/* -------------------------------------------------------------- mark_visible */

static void visible_reads_view_means_and_planes_only(void **state) {
    (void)state;
    uint8_t *visible = NULL;
    view result;
    VIEW(&result, CAMERAS, GAUSSIANS);
    view_dtype(&result, kDLBool, 8);
    memset(&args, 0, sizeof args);
    args.struct_size = sizeof args;
    use(VIEW_);
    use(MEANS);
    args.near_plane = 0.5f;
    expect_ok(gsc__visible_args(&cpu, &args, &result.tensor, &out, &visible));
    assert_ptr_equal(visible, view_memory);
    assert_int_equal(out.cameras, CAMERAS);
    assert_int_equal(out.gaussians, GAUSSIANS);
    assert_true(out.near_plane == GSC_REAL(0.5));
    assert_true(isinf(out.far_plane));
    view_dtype(&result, kDLUInt, 8);
    expect_ok(gsc__visible_args(&cpu, &args, &result.tensor, &out, &visible));
    view_dtype(&result, kDLInt, 8);
    expect_failure(gsc__visible_args(&cpu, &args, &result.tensor, &out, &visible),
                   GSC_ERROR_DTYPE, "raster_forward: visible is int8, expected uint8 or bool");
    VIEW(&result, GAUSSIANS);
    view_dtype(&result, kDLBool, 8);
    expect_failure(gsc__visible_args(&cpu, &args, &result.tensor, &out, &visible),
                   GSC_ERROR_SHAPE, "raster_forward: visible is [5], expected [2, 5]");
    expect_failure(gsc__visible_args(&cpu, &args, NULL, &out, &visible),
                   GSC_ERROR_INVALID_ARGUMENT, "raster_forward: visible is missing");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup(name, reset)
    const struct CMUnitTest tests[] = {
        TEST(valid_arguments_arrive),
        TEST(each_tensor_arrives_in_its_own_place),
        TEST(defaults_are_filled_in),
        TEST(given_scalars_arrive),
        TEST(one_camera_may_drop_its_dimension),
        TEST(no_gaussians_are_fine),
        TEST(harmonics_may_be_stored_in_two_ways),
        TEST(degree_beside_colors_is_ignored),
        TEST(every_tensor_is_checked),
        TEST(every_dimension_is_checked),
        TEST(required_tensors),
        TEST(exclusive_tensors),
        TEST(too_few_harmonics),
        TEST(channel_counts),
        TEST(camera_and_gaussian_counts),
        TEST(broken_scalars),
        TEST(image_sizes),
        TEST(projection_needs_the_field_of_view),
        TEST(flags_and_struct_size),
        TEST(visible_reads_view_means_and_planes_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
