/* The rasterizer's tensors: what it rejects, and why. */

#include "raster_args_fixture.h"

/* ----------------------------------------------------------- broken tensors */

static void broken(int field, gsc_status status, const char *format, ...) {
    char text[256], message[300];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    snprintf(message, sizeof message, "rasterize: %s%s", format[0] == ':' ? "" : fields[field].name,
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
        broken(field, GSC_ERROR_LAYOUT, ":data of %s is at 0x%llx, expected a multiple of %d", name,
               (unsigned long long)(uintptr_t)(view_memory + 1), GSC_REAL_BITS / 8);

        int32_t last = v->tensor.ndim - 1;
        view_strides(v);
        int32_t broken_dim = v->shape[last] > 1 ? last : 0;
        long long dense = (long long)v->strides[broken_dim];
        v->strides[broken_dim] += 1;
        if (field == VIEW_ || field == PROJECTION)
            broken(field, GSC_ERROR_LAYOUT,
                   " has strides [16, 4, 2], expected dense matrices, by rows or by columns");
        else if (field != POSITION)
            broken(field, GSC_ERROR_LAYOUT,
                   " has stride %lld in dimension %d, expected %lld "
                   "(dense row-major)",
                   dense + 1, broken_dim, dense);

        int64_t longer[GSC__MAX_DIMS] = {1, 1, 1, 1, 1};
        view_shape(v, 5, longer);
        broken(field, GSC_ERROR_SHAPE, " is [1, 1, 1, 1, 1], expected %s", fields[field].expected);
    }
}

static void transpose(int field) {
    view_strides(&views[field]);
    views[field].strides[1] = 1;
    views[field].strides[2] = 4;
}

static void positions_may_have_any_strides(void **state) {
    (void)state;
    expect_ok(check());
    assert_int_equal(out.position_stride, 3);
    assert_int_equal(out.camera.position_step, 1);
    view_strides(&views[POSITION]);
    views[POSITION].strides[0] = 16;
    views[POSITION].strides[1] = 4;
    expect_ok(check());
    assert_int_equal(out.position_stride, 16);
    assert_int_equal(out.camera.position_step, 4);
    assert_ptr_equal(out.camera.position, views[POSITION].tensor.data);
}

static void matrices_may_be_transposed(void **state) {
    (void)state;
    for (int by_rows = 0; by_rows < 2; ++by_rows) {
        reset(NULL);
        switch_to(PROJECTION);
        args.flags = by_rows ? GSC_RASTER_VIEW_ROW_MAJOR : 0;
        expect_ok(check());
        assert_int_equal(out.camera.view_by_rows, by_rows);
        assert_int_equal(out.camera.projection_by_rows, by_rows);
        transpose(PROJECTION);
        expect_ok(check());
        assert_int_equal(out.camera.view_by_rows, by_rows);
        assert_int_equal(out.camera.projection_by_rows, !by_rows);
        transpose(VIEW_);
        expect_ok(check());
        assert_int_equal(out.camera.view_by_rows, !by_rows);
        assert_ptr_equal(out.camera.view, views[VIEW_].tensor.data);
    }
    views[VIEW_].strides[0] = 32;
    expect(GSC_ERROR_LAYOUT, "rasterize: view has strides [32, 1, 4], expected dense "
                             "matrices, by rows or by columns");
    views[VIEW_].shape[0] = views[PROJECTION].shape[0] = 1; /* where it has no effect */
    drop(POSITION);
    drop(BACKGROUND);
    drop(WEIGHTS);
    views[COLORS].shape[0] = 1;
    expect_ok(check());
    assert_false(out.camera.view_by_rows);
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
        {VIEW_, "rasterize: view is missing"},
        {INTRINSICS, "rasterize: neither is given, expected either projection or intrinsics"},
        {MEANS, "rasterize: means is missing"},
        {OPACITIES, "rasterize: opacities is missing"},
        {SCALES, "rasterize: scales is missing"},
        {ROTATIONS, "rasterize: rotations is missing"},
        {COLORS, "rasterize: colors (or sh) is missing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        reset(state);
        drop(cases[i].field);
        expect(GSC_ERROR_INVALID_ARGUMENT, cases[i].message);
    }
    reset(state);
    drop(SCALES);
    drop(ROTATIONS);
    expect(GSC_ERROR_INVALID_ARGUMENT, "rasterize: scales (or covariances) is missing");
}

static void exclusive_tensors(void **state) {
    static const struct {
        int field;
        const char *message;
    } cases[] = {
        {PROJECTION, "rasterize: projection and intrinsics are given, expected either "
                     "projection or intrinsics"},
        {COVARIANCES, "rasterize: covariances and scales are given, expected either "
                      "covariances or scales and rotations"},
        {SH, "rasterize: colors and sh are given, expected either colors or sh"},
        {SH_DC, "rasterize: colors and sh_dc are given, expected either colors or sh"},
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
    expect(GSC_ERROR_INVALID_ARGUMENT, "rasterize: covariances and rotations are given, "
                                       "expected either covariances or scales and rotations");
}

static void too_few_harmonics(void **state) {
    (void)state;
    switch_to(SH);
    args.sh_degree = 4;
    expect(GSC_ERROR_SHAPE, "rasterize: sh is [5, 15, 3], expected [5, K, 3] with K at least "
                            "24 for degree 4 beside sh_dc");
    drop(SH_DC);
    args.sh_degree = 3;
    expect(GSC_ERROR_SHAPE,
           "rasterize: sh is [5, 15, 3], expected [5, K, 3] with K at least 16 for degree 3");
    drop(SH);
    use(SH_DC);
    args.sh_degree = 1;
    expect(GSC_ERROR_INVALID_ARGUMENT,
           "rasterize: sh_degree is 1 with sh_dc alone, expected 0 or sh too");
    args.sh_degree = 5;
    expect(GSC_ERROR_INVALID_ARGUMENT, "rasterize: sh_degree is 5, expected 0 to 4");
    args.sh_degree = -1;
    expect(GSC_ERROR_INVALID_ARGUMENT, "rasterize: sh_degree is -1, expected 0 to 4");
}

static void channel_counts(void **state) {
    (void)state;
    drop(BACKGROUND);
    VIEW(&views[COLORS], GAUSSIANS, 0);
    expect(GSC_ERROR_SHAPE, "rasterize: colors has 0 channels, expected 1 to 512");
    VIEW(&views[COLORS], GAUSSIANS, 513);
    expect(GSC_ERROR_OVERFLOW, "rasterize: colors has 513 channels, expected 1 to 512");
    VIEW(&views[COLORS], GAUSSIANS, 512);
    expect_ok(check());
    assert_int_equal(out.channels, 512);
    VIEW(&views[COLORS], GAUSSIANS, 1);
    expect_ok(check());
    use(BACKGROUND);
    expect(GSC_ERROR_SHAPE, "rasterize: background is [2, 3], expected [1] or [2, 1]");
}

static void camera_and_gaussian_counts(void **state) {
    (void)state;
    VIEW(&views[VIEW_], 0, 4, 4);
    expect(GSC_ERROR_SHAPE, "rasterize: view has 0 cameras, expected 1 to 65535");
    VIEW(&views[VIEW_], 65536, 4, 4);
    expect(GSC_ERROR_OVERFLOW, "rasterize: view has 65536 cameras, expected 1 to 65535");
    reset(NULL);
    VIEW(&views[MEANS], 2147418113, 3);
    expect(GSC_ERROR_OVERFLOW,
           "rasterize: means has 2147418113 Gaussians, expected at most 2147418112");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_tensor_is_checked),
        TEST(matrices_may_be_transposed),
        TEST(positions_may_have_any_strides),
        TEST(every_dimension_is_checked),
        TEST(required_tensors),
        TEST(exclusive_tensors),
        TEST(too_few_harmonics),
        TEST(channel_counts),
        TEST(camera_and_gaussian_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
