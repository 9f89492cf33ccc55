/* The rasterizer's public arguments: values that arrive, defaults, numbers out of range. */

#include "raster_args_fixture.h"

#include <math.h>

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
    assert_ptr_equal(out.camera.view, view_memory);
    assert_ptr_equal(out.camera.intrinsics, view_memory);
    assert_ptr_equal(out.camera.position, view_memory);
    assert_ptr_equal(out.pixel_weights, view_memory);
    assert_ptr_equal(out.means, view_memory);
    assert_ptr_equal(out.opacities, view_memory);
    assert_ptr_equal(out.scales, view_memory);
    assert_ptr_equal(out.rotations, view_memory);
    assert_null(out.camera.projection);
    assert_null(out.covariances);
    assert_null(out.sh);
    assert_null(out.sh_dc);
}

static void each_tensor_arrives_in_its_own_place(void **state) {
    (void)state;
    static const size_t places[FIELDS] = {offsetof(gsc__raster, camera.view),
                                          offsetof(gsc__raster, camera.projection),
                                          offsetof(gsc__raster, camera.intrinsics),
                                          offsetof(gsc__raster, camera.position),
                                          offsetof(gsc__raster, background),
                                          offsetof(gsc__raster, pixel_weights),
                                          offsetof(gsc__raster, means),
                                          offsetof(gsc__raster, opacities),
                                          offsetof(gsc__raster, scales),
                                          offsetof(gsc__raster, rotations),
                                          offsetof(gsc__raster, covariances),
                                          offsetof(gsc__raster, colors),
                                          offsetof(gsc__raster, sh),
                                          offsetof(gsc__raster, sh_dc)};
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
    assert_true(out.camera.near_plane == GSC_REAL(0.2));
    assert_true(isinf(out.camera.far_plane) && out.camera.far_plane > 0);
    assert_true(out.radius_clip < 0);
    assert_true(out.camera.blur == GSC_REAL(0.3));
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
    assert_true(out.camera.tan_fov[0] == GSC_REAL(0.25));
    assert_true(out.camera.tan_fov[1] == GSC_REAL(0.125));
    assert_true(out.camera.near_plane == 2);
    assert_true(out.camera.far_plane == 8);
    assert_true(out.radius_clip == GSC_REAL(1.5));
    assert_true(out.camera.blur == 0);
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
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; ++i) views[empty[i]].tensor.data = NULL;
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

/* The drop-in modules always pass it. */
static void degree_beside_colors_is_ignored(void **state) {
    (void)state;
    args.sh_degree = 3;
    expect_ok(check());
    assert_int_equal(out.sh_degree, 0);
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
        snprintf(message, sizeof message, "rasterize: %s", cases[i].message);
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
        {65536, 32768, 14, "width x height is 65536 x 32768, expected at most 2147483647 pixels"},
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
        snprintf(message, sizeof message, "rasterize: %s", cases[i].message);
        expect(cases[i].status, message);
    }
}

static void projection_needs_the_field_of_view(void **state) {
    (void)state;
    switch_to(PROJECTION);
    expect_ok(check());
    args.tan_fovx = 0.0f;
    expect(GSC_ERROR_INVALID_ARGUMENT, "rasterize: tan_fovx and tan_fovy are 0 and 0.5, "
                                       "expected more than 0 with projection");
    args.tan_fovx = 1.0f;
    args.tan_fovy = -1.0f;
    expect(GSC_ERROR_INVALID_ARGUMENT, "rasterize: tan_fovx and tan_fovy are 1 and -1, "
                                       "expected more than 0 with projection");
}

static void flags_and_struct_size(void **state) {
    (void)state;
    args.flags = 0xfff;
    expect_ok(check());
    args.flags = 0x1000;
    expect(GSC_ERROR_INVALID_ARGUMENT, "rasterize: flags is 0x1000, expected bits of 0xfff only");
    args.flags = GSC_RASTER_COMPAT_MIP | GSC_RASTER_ANTIALIAS;
    expect(GSC_ERROR_INVALID_ARGUMENT,
           "rasterize: flags have GSC_RASTER_COMPAT_MIP, expected GSC_RASTER_COMPAT_3DGS and "
           "GSC_RASTER_ANTIALIAS with it");
    args.flags = 0;
    args.struct_size = sizeof args - 1;
    assert_int_equal(check(), GSC_ERROR_ABI);
    args.struct_size = 0;
    assert_int_equal(check(), GSC_ERROR_ABI);
    expect_failure(gsc__raster_args(&cpu, NULL, &out), GSC_ERROR_INVALID_ARGUMENT,
                   "rasterize: args is NULL");
}

/* -------------------------------------------------------------- host memory */

/* A CUDA context accepts camera tensors in host memory and must detect them; managed memory counts
 * as device memory. */
static void cameras_in_host_memory(void **state) {
    gsc_context device = {.backend = &any_backend, .device = {kDLCUDA, 1}};
    const gsc__call cuda = {.function = "rasterize", .context = &device};
    static const struct {
        int field;
        size_t flag;
    } cameras[] = {
        {VIEW_, offsetof(gsc__raster, host_view)},
        {INTRINSICS, offsetof(gsc__raster, host_intrinsics)},
        {PROJECTION, offsetof(gsc__raster, host_projection)},
        {POSITION, offsetof(gsc__raster, host_position)},
        {BACKGROUND, offsetof(gsc__raster, host_background)},
    };
    static const struct {
        DLDeviceType type;
        bool on_host;
    } places[] = {{kDLCPU, true}, {kDLCUDAHost, true}, {kDLCUDAManaged, false}, {kDLCUDA, false}};
    for (size_t i = 0; i < sizeof cameras / sizeof cameras[0]; ++i) {
        for (size_t p = 0; p < sizeof places / sizeof places[0]; ++p) {
            reset(state);
            for (int f = 0; f < FIELDS; ++f) view_device(&views[f], kDLCUDA, 1);
            if (cameras[i].field == PROJECTION) switch_to(PROJECTION);
            view_device(&views[cameras[i].field], (int32_t)places[p].type,
                        places[p].type == kDLCUDA);
            expect_ok(gsc__raster_args(&cuda, &args, &out));
            for (size_t k = 0; k < sizeof cameras / sizeof cameras[0]; ++k) {
                const bool flag = *(const bool *)((const char *)&out + cameras[k].flag);
                assert_int_equal(flag, k == i && places[p].on_host);
            }
        }
    }
    reset(state);
    for (int f = 0; f < FIELDS; ++f) view_device(&views[f], kDLCUDA, 1);
    view_device(&views[MEANS], kDLCPU, 0);
    expect_failure(gsc__raster_args(&cuda, &args, &out), GSC_ERROR_DEVICE,
                   "rasterize: means is on cpu, expected cuda:1");
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
    assert_true(out.camera.near_plane == GSC_REAL(0.5));
    assert_true(isinf(out.camera.far_plane));
    view_dtype(&result, kDLUInt, 8);
    expect_ok(gsc__visible_args(&cpu, &args, &result.tensor, &out, &visible));
    view_dtype(&result, kDLInt, 8);
    expect_failure(gsc__visible_args(&cpu, &args, &result.tensor, &out, &visible), GSC_ERROR_DTYPE,
                   "rasterize: visible is int8, expected uint8 or bool");
    VIEW(&result, GAUSSIANS);
    view_dtype(&result, kDLBool, 8);
    expect_failure(gsc__visible_args(&cpu, &args, &result.tensor, &out, &visible), GSC_ERROR_SHAPE,
                   "rasterize: visible is [5], expected [2, 5]");
    expect_failure(gsc__visible_args(&cpu, &args, NULL, &out, &visible), GSC_ERROR_INVALID_ARGUMENT,
                   "rasterize: visible is missing");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(valid_arguments_arrive),
        TEST(each_tensor_arrives_in_its_own_place),
        TEST(defaults_are_filled_in),
        TEST(given_scalars_arrive),
        TEST(one_camera_may_drop_its_dimension),
        TEST(no_gaussians_are_fine),
        TEST(harmonics_may_be_stored_in_two_ways),
        TEST(degree_beside_colors_is_ignored),
        TEST(broken_scalars),
        TEST(image_sizes),
        TEST(projection_needs_the_field_of_view),
        TEST(flags_and_struct_size),
        TEST(cameras_in_host_memory),
        TEST(visible_reads_view_means_and_planes_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
