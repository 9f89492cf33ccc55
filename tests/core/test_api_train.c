/* gsc_train_step on a mock backend: its calls, their memory, and every check of its arguments. */

#include "mock_backend.h"

enum { N = 5, COLOR_BYTES = 3 * 4 * 7 * (int)sizeof(gsc_real), RADII_BYTES = N * 4 };
#define CALLS "sizes project blend image_loss backward "

static gsc_train_args train;
static gsc_train_group groups[3];
static gsc_image_loss_args loss;
static gsc_raster_info info;
static view target, moments[3][2], loss_value, mask, radii, grad_means;

static int reset_train(void **state) {
    reset(state);
    VIEW(&target, 3, 4, 7);
    VIEW(&loss_value, 1);
    VIEW(&mask, 4, 7);
    VIEW(&radii, 5);
    view_dtype(&radii, kDLInt, 32);
    VIEW(&grad_means, 5, 3);
    memset(groups, 0, sizeof groups);
    static const int32_t parameters[3] = {GSC_PARAMETER_SCALES, GSC_PARAMETER_OPACITIES,
                                          GSC_PARAMETER_COLORS};
    for (int g = 0; g < 3; ++g) {
        for (int m = 0; m < 2; ++m) {
            VIEW(&moments[g][m], 5, 3);
            if (g == 1) VIEW(&moments[g][m], 5);
            moments[g][m].tensor.byte_offset = 1024u * (unsigned)(2 * g + m + 1);
        }
        groups[g].parameter = parameters[g];
        groups[g].moment1 = &moments[g][0].tensor;
        groups[g].moment2 = &moments[g][1].tensor;
        groups[g].lr = 0.5f * (float)(g + 1);
    }
    loss = (gsc_image_loss_args){.struct_size = sizeof loss,
                                 .l1_weight = 0.8f,
                                 .ssim_weight = 0.2f,
                                 .target = &target.tensor,
                                 .loss = &loss_value.tensor};
    info = (gsc_raster_info){.struct_size = sizeof info};
    train = (gsc_train_args){.struct_size = sizeof train,
                             .group_count = 3,
                             .groups = groups,
                             .group_stride = sizeof groups[0],
                             .raster = &args,
                             .loss = &loss,
                             .info = &info};
    grads.color = NULL;
    return 0;
}

static void expect(gsc_status status, const char *message) {
    expect_failure(gsc_train_step(&context, &train, NULL), status, message);
    assert_string_equal(mock.calls, "");
    assert_int_equal(heap.blocks, 0);
}

/* ------------------------------------------------------------------ the calls */

static void memory_of_its_own(void **state) {
    (void)state;
    expect_ok(gsc_train_step(&context, &train, NULL));
    assert_string_equal(mock.calls, CALLS);
    assert_int_equal(heap.allocations, 6); /* one scratch, and what the others are below */
    assert_int_equal(heap.blocks, 0);
    assert_int_equal(heap.bytes, 0);
    assert_int_equal(mock.buffers.state_bytes, STATE_BYTES);
    assert_int_equal(mock.buffers.intersections_bytes, FRAME_BYTES);
    assert_true(mock.buffers.scratch_bytes >= BACKWARD_SCRATCH);
    assert_non_null(mock.outputs.color);
    assert_non_null(mock.outputs.radii);
    assert_ptr_equal(mock.loss.pair.image.data, mock.outputs.color);
    assert_ptr_equal(mock.grads.color, mock.loss.pair.grad_image.data);
    assert_ptr_equal(mock.steps.radii, mock.outputs.radii);
    assert_int_equal(mock.steps.radii_axes, 1);
    assert_int_equal(info.intersections, INTERSECTIONS);
    assert_int_equal(info.intersections_bytes, FRAME_BYTES);
}

static void memory_of_the_caller(void **state) {
    (void)state;
    static view grad_color;
    VIEW(&grad_color, 1, 3, 4, 7);
    grad_color.tensor.byte_offset = 32768;
    outputs.radii = &radii.tensor;
    train.outputs = &outputs;
    train.buffers = &buffers;
    loss.grad_image = &grad_color.tensor;
    expect_ok(gsc_train_step(&context, &train, NULL));
    assert_string_equal(mock.calls, CALLS);
    assert_int_equal(heap.allocations, 0);
    assert_int_equal(mock.buffers.state_bytes, 8192);
    assert_ptr_equal(mock.outputs.color, view_memory);
    assert_ptr_equal(mock.steps.radii, view_memory);
    assert_ptr_equal(mock.grads.color, view_memory + 32768);
}

static void groups_arrive(void **state) {
    (void)state;
    train.flags = GSC_TRAIN_DECOUPLED;
    groups[2].beta1 = 0.25f;
    groups[2].epsilon = -1;
    groups[2].step = 7;
    expect_ok(gsc_train_step(&context, &train, NULL));
    for (int i = 0; i < GSC__PARAMETERS; ++i) {
        const gsc__adam_group *group = &mock.steps.groups[i];
        const int which = i == GSC_PARAMETER_SCALES - 1      ? 0
                          : i == GSC_PARAMETER_OPACITIES - 1 ? 1
                          : i == GSC_PARAMETER_COLORS - 1    ? 2
                                                             : -1;
        if (which < 0) {
            assert_null(group->parameter);
            continue;
        }
        assert_ptr_equal(group->parameter, view_memory);
        assert_ptr_equal(group->moment1, view_memory + 1024 * (2 * which + 1));
        assert_ptr_equal(group->moment2, view_memory + 1024 * (2 * which + 2));
        assert_int_equal(group->rows, N);
        assert_int_equal(group->row_size, which == 1 ? 1 : 3);
        assert_true(group->lr == 0.5 * (which + 1));
        assert_true(group->beta2 == 0.999);
        assert_true(group->decoupled);
    }
    const gsc__adam_group *last = &mock.steps.groups[GSC_PARAMETER_COLORS - 1];
    assert_true(last->beta1 == 0.25 && last->epsilon == 0 && last->step == 7);
}

static void every_row_without_radii(void **state) {
    (void)state;
    train.flags = GSC_TRAIN_ALL_ROWS;
    expect_ok(gsc_train_step(&context, &train, NULL));
    assert_null(mock.steps.radii);
    assert_null(mock.outputs.radii);
}

/* The shape of the colour, for either order of its pixels. */
static void target_is_shaped_as_the_colour(void **state) {
    (void)state;
    args.flags = GSC_RASTER_PIXEL_LAST;
    VIEW(&target, 4, 7, 3);
    view_strides(&target);
    target.strides[0] = 50;
    view_dtype(&target, kDLUInt, 8);
    expect_ok(gsc_train_step(&context, &train, NULL));
    const int64_t wanted[4] = {0, 1, 50, 3}, dense[4] = {0, 1, 21, 3};
    assert_memory_equal(mock.loss.pair.target.strides, wanted, sizeof wanted);
    assert_memory_equal(mock.loss.pair.image.strides, dense, sizeof dense);
    assert_memory_equal(mock.loss.pair.grad_image.strides, dense, sizeof dense);
    assert_true(mock.loss.pair.target.bytes && !mock.loss.pair.image.bytes);
    assert_int_equal(mock.loss.pair.channels, 3);
    assert_int_equal(mock.loss.pair.height, 4);
    assert_int_equal(mock.loss.pair.width, 7);
}

static void other_gradients_go_on(void **state) {
    (void)state;
    static view alpha, means2d;
    VIEW(&alpha, 4, 7);
    VIEW(&means2d, 5, 2);
    alpha.tensor.byte_offset = 16384;
    grads.alpha = &alpha.tensor;
    grads.means = &grad_means.tensor;
    grads.means2d = &means2d.tensor;
    train.grads = &grads;
    expect_ok(gsc_train_step(&context, &train, NULL));
    assert_ptr_equal(mock.grads.alpha, view_memory + 16384);
    assert_ptr_equal(mock.grads.means, view_memory);
    assert_int_equal(mock.grads.means2d_axes, 2);
}

/* -------------------------------------------------------------------- failures */

static void failures_keep_nothing(void **state) {
    static const char *const steps[] = {"sizes", "project", "blend", "image_loss", "backward"};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; ++i) {
        reset_train(state);
        mock.fail_in = steps[i];
        mock.fail_with = GSC_ERROR_INTERNAL;
        assert_int_equal(gsc_train_step(&context, &train, NULL), GSC_ERROR_INTERNAL);
        assert_int_equal(heap.blocks, 0);
    }
    for (int i = 1; i <= 6; ++i) {
        reset_train(state);
        heap.fail_from = i;
        assert_int_equal(gsc_train_step(&context, &train, NULL), GSC_ERROR_OUT_OF_MEMORY);
        assert_non_null(strstr(gsc_last_error(), "train_step: "));
        assert_null(strstr(mock.calls, "backward"));
        assert_int_equal(heap.blocks, 0);
    }
}

static void less_memory_makes_bands(void **state) {
    (void)state;
    heap.largest = 2000;
    expect_ok(gsc_train_step(&context, &train, NULL));
    assert_int_equal(mock.buffers.intersections_bytes, FRAME_BYTES / 4);
}

static void small_buffers_are_refused(void **state) {
    const struct {
        view *which;
        int64_t bytes;
        const char *message, *calls;
    } all[] = {{&state_view, STATE_BYTES - 1,
                "train_step: state has 999 bytes, expected at least 1000", "sizes "},
               {&scratch, PROJECT_SCRATCH - 1,
                "train_step: scratch has 499 bytes, expected at least 900", "sizes "},
               {&scratch, BACKWARD_SCRATCH - 1,
                "train_step: scratch has 899 bytes, expected at least 900", "sizes "},
               {&lists, TILE_BYTES - 1,
                "train_step: intersections has 511 bytes, expected at least 512",
                "sizes project "}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        reset_train(state);
        train.buffers = &buffers;
        all[i].which->shape[0] = all[i].bytes;
        expect_failure(gsc_train_step(&context, &train, NULL), GSC_ERROR_BUFFER_TOO_SMALL,
                       all[i].message);
        assert_string_equal(mock.calls, all[i].calls);
        assert_int_equal(info.state_bytes, STATE_BYTES);
        assert_int_equal(heap.blocks, 0);
    }
}

/* ------------------------------------------------------------------- arguments */

static void descriptors_are_checked(void **state) {
    (void)state;
    train.struct_size = 8;
    expect(GSC_ERROR_ABI, "train_step: struct_size of args is 8, expected at least 80");
    train.struct_size = sizeof train;
    train.flags = 4;
    expect(GSC_ERROR_INVALID_ARGUMENT, "train_step: flags is 0x4, expected bits of 0x3 only");
    train.flags = 0;
    train.raster = NULL;
    expect(GSC_ERROR_INVALID_ARGUMENT, "train_step: raster is NULL");
    train.raster = &args;
    train.loss = NULL;
    expect(GSC_ERROR_INVALID_ARGUMENT, "train_step: loss is NULL");
    train.loss = &loss;
    info.struct_size = 8;
    expect(GSC_ERROR_ABI, "train_step: struct_size of info is 8, expected at least 72");
    info.struct_size = sizeof info;
    args.flags = 0x1000;
    expect(GSC_ERROR_INVALID_ARGUMENT,
           "train_step: raster.flags is 0x1000, expected bits of 0xfff only");
    args.flags = 0;
    loss.flags = 2;
    expect(GSC_ERROR_INVALID_ARGUMENT, "train_step: loss.flags is 0x2, expected bits of 0x1 only");
}

static void one_camera(void **state) {
    (void)state;
    VIEW(&cameras, 2, 4, 4);
    VIEW(&intrinsics, 2, 4);
    expect(GSC_ERROR_UNSUPPORTED, "train_step: raster.view has 2 cameras, expected 1");
}

static void loss_is_checked(void **state) {
    (void)state;
    loss.image = &color.tensor;
    expect(GSC_ERROR_INVALID_ARGUMENT,
           "train_step: loss.image is given, but it is the rasterizer's colour");
    loss.image = NULL;
    loss.target = NULL;
    expect(GSC_ERROR_INVALID_ARGUMENT, "train_step: loss.target is missing");
    loss.target = &target.tensor;
    VIEW(&target, 3, 7, 4);
    expect(GSC_ERROR_SHAPE,
           "train_step: loss.target is [3, 7, 4], expected [1, 3, 4, 7] or [3, 4, 7]");
    VIEW(&target, 3, 4, 7);
    loss.mask = &mask.tensor;
    VIEW(&mask, 7, 4);
    expect(GSC_ERROR_SHAPE, "train_step: loss.mask is [7, 4], expected [1, 4, 7] or [4, 7]");
    loss.mask = NULL;
    loss.flags = GSC_SSIM_VALID;
    expect(GSC_ERROR_SHAPE, "train_step: loss.image is [1, 3, 4, 7], expected at least 11 x 11 "
                            "pixels, the window of GSC_SSIM_VALID");
}

static void groups_are_checked(void **state) {
    (void)state;
    train.groups = NULL;
    expect(GSC_ERROR_INVALID_ARGUMENT, "train_step: groups is NULL, expected 3 groups");
    train.groups = groups;
    groups[1].parameter = 9;
    expect(GSC_ERROR_INVALID_ARGUMENT, "train_step: groups[1].parameter is 9, expected 1 to 8");
    groups[1].parameter = GSC_PARAMETER_SCALES;
    expect(GSC_ERROR_INVALID_ARGUMENT, "train_step: groups[0] and groups[1] are both for scales");
    groups[1].parameter = GSC_PARAMETER_SH;
    expect(GSC_ERROR_INVALID_ARGUMENT, "train_step: groups[1] is for sh, which is not given");
    groups[1].parameter = GSC_PARAMETER_ROTATIONS;
    expect(GSC_ERROR_SHAPE, "train_step: groups[1].moment1 is [5], expected [5, 4]");
    groups[1].parameter = GSC_PARAMETER_OPACITIES;
    VIEW(&moments[1][1], 5, 2);
    expect(GSC_ERROR_SHAPE, "train_step: groups[1].moment2 is [5, 2], expected [5] or [5, 1]");
    VIEW(&moments[1][1], 5, 1);
    groups[2].moment2 = NULL;
    expect(GSC_ERROR_INVALID_ARGUMENT, "train_step: groups[2].moment2 is missing");
    groups[2].moment2 = &moments[2][1].tensor;
    groups[2].beta1 = 1;
    expect(GSC_ERROR_INVALID_ARGUMENT, "train_step: groups[2].beta1 is 1, expected less than 1");
    groups[2].beta1 = 0;
    groups[2].reserved = 1;
    expect(GSC_ERROR_INVALID_ARGUMENT,
           "train_step: groups[2].reserved is 0x1, expected bits of 0x0 only");
    groups[2].reserved = 0;
    train.group_stride = 8;
    expect(GSC_ERROR_ABI, "train_step: struct_size of groups[0] is 8, expected at least 48");
    train.group_stride = sizeof groups[0];
    expect_ok(gsc_train_step(&context, &train, NULL));
}

static void colors_of_three_channels(void **state) {
    (void)state;
    VIEW(&colors, 5, 4);
    VIEW(&target, 4, 4, 7);
    expect(GSC_ERROR_UNSUPPORTED, "train_step: groups[2] is for colors of 4 channels, expected 3");
    train.group_count = 2;
    expect_ok(gsc_train_step(&context, &train, NULL));
}

static void gradients_are_checked(void **state) {
    (void)state;
    static view grad_scales;
    VIEW(&grad_scales, 5, 3);
    train.grads = &grads;
    grads.scales = &grad_scales.tensor;
    expect(GSC_ERROR_INVALID_ARGUMENT,
           "train_step: grads.scales is wanted, but groups[0] is for scales");
    grads.scales = NULL;
    grads.color = &color.tensor;
    expect(GSC_ERROR_INVALID_ARGUMENT,
           "train_step: grads.color is given, but it comes from the loss");
}

/* Without rows, or with empty rows, there is nothing to step. */
static void nothing_to_step(void **state) {
    (void)state;
    static view sh, dc;
    VIEW(&sh, 5, 0, 3);
    VIEW(&dc, 5, 1, 3);
    VIEW(&moments[0][0], 5, 0, 3);
    VIEW(&moments[0][1], 5, 0, 3);
    args.colors = NULL;
    args.sh = &sh.tensor;
    args.sh_dc = &dc.tensor;
    groups[0].parameter = GSC_PARAMETER_SH;
    train.group_count = 1;
    expect_ok(gsc_train_step(&context, &train, NULL));
    assert_null(mock.steps.groups[GSC_PARAMETER_SH - 1].parameter);
}

#define TRAIN_TEST(name) cmocka_unit_test_setup(name, reset_train)

int main(void) {
    const struct CMUnitTest tests[] = {
        TRAIN_TEST(memory_of_its_own),
        TRAIN_TEST(memory_of_the_caller),
        TRAIN_TEST(groups_arrive),
        TRAIN_TEST(every_row_without_radii),
        TRAIN_TEST(target_is_shaped_as_the_colour),
        TRAIN_TEST(other_gradients_go_on),
        TRAIN_TEST(failures_keep_nothing),
        TRAIN_TEST(less_memory_makes_bands),
        TRAIN_TEST(small_buffers_are_refused),
        TRAIN_TEST(descriptors_are_checked),
        TRAIN_TEST(one_camera),
        TRAIN_TEST(loss_is_checked),
        TRAIN_TEST(groups_are_checked),
        TRAIN_TEST(colors_of_three_channels),
        TRAIN_TEST(gradients_are_checked),
        TRAIN_TEST(nothing_to_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
