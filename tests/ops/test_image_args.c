/* The arguments of SSIM and image loss: every check, every default, and the window. */

#include "views.h"

#include "check/args.h"
#include "core/context.h"

#include <math.h>

static gsc_context context = {.device = {kDLCPU, 0}};
static const gsc__call cpu = {.function = "f", .context = &context};

/* Images of [2, 3, 6, 9]; the outputs have other addresses, to tell them apart. */
static view image, target, map, mean, grad_map, grad_mean, grad_image, grad_target, mask, loss,
    parts;
static gsc_ssim_args args;
static gsc_image_loss_args loss_args;
static gsc__ssim ssim;
static gsc__image_loss out;

static int reset(void **state) {
    (void)state;
    view *images[] = {&image, &target, &map, &grad_map, &grad_image, &grad_target};
    for (unsigned i = 0; i < 6; ++i) {
        VIEW(images[i], 2, 3, 6, 9);
        images[i]->tensor.byte_offset = 4096u * i;
    }
    VIEW(&mean, 1);
    view_init(&grad_mean, 0, NULL);
    VIEW(&mask, 2, 6, 9);
    VIEW(&loss, 1);
    VIEW(&parts, 3);
    args = (gsc_ssim_args){
        .struct_size = sizeof args, .window = 3, .image = &image.tensor, .target = &target.tensor};
    loss_args = (gsc_image_loss_args){.struct_size = sizeof loss_args,
                                      .window = 3,
                                      .image = &image.tensor,
                                      .target = &target.tensor};
    return 0;
}

static gsc_status forward(void) {
    return gsc__ssim_forward_args(&cpu, &args, &ssim);
}

static gsc_status backward(void) {
    return gsc__ssim_backward_args(&cpu, &args, &ssim);
}

static gsc_status check_loss(void) {
    return gsc__image_loss_args(&cpu, &loss_args, &out);
}

/* -------------------------------------------------------------------- window */

static void window_is_a_normalised_gaussian(void **state) {
    (void)state;
    for (int32_t size = 1; size <= 33; size += 2) {
        gsc__window window;
        double sum = 0.0;
        gsc__gaussian_window(size, 1.5, &window);
        assert_int_equal(window.size, size);
        for (int32_t i = 0; i < size; ++i) {
            double x = i - size / 2;
            double ratio = (double)window.weights[i] / (double)window.weights[size / 2];
            assert_true(fabs(ratio - exp(-x * x / 4.5)) < 1e-6);
            assert_true(window.weights[i] == window.weights[size - 1 - i]);
            sum += (double)window.weights[i];
        }
        assert_true(fabs(sum - 1.0) < 1e-6);
    }
    gsc__window narrow;
    gsc__gaussian_window(33, 1e-3, &narrow);
    assert_true(narrow.weights[16] == 1);
    assert_true(narrow.weights[15] == 0);
    gsc__gaussian_window(3, 1e30, &narrow);
    assert_true(fabs((double)narrow.weights[0] - 1.0 / 3.0) < 1e-6);
}

/* ------------------------------------------------------------------- options */

static void defaults_are_filled_in(void **state) {
    (void)state;
    gsc__window standard;
    args.window = 0;
    expect_ok(forward());
    gsc__gaussian_window(11, 1.5, &standard);
    assert_memory_equal(&ssim.pair.window, &standard, sizeof standard);
    assert_true(ssim.pair.c1 == GSC_REAL(0.0001));
    assert_true(ssim.pair.c2 == GSC_REAL(0.0009));
    assert_int_equal(ssim.pair.batch, 2);
    assert_int_equal(ssim.pair.channels, 3);
    assert_int_equal(ssim.pair.height, 6);
    assert_int_equal(ssim.pair.width, 9);
    expect_ok(check_loss());
    assert_true(out.grad_scale == 1);
    assert_true(out.l1_weight == 0 && out.l2_weight == 0 && out.ssim_weight == 0);
}

static void given_options_arrive(void **state) {
    (void)state;
    gsc__window wide;
    args.window = 5;
    args.sigma = 2.0f;
    args.c1 = 0.5f;
    args.c2 = 0.25f;
    args.flags = GSC_SSIM_VALID;
    expect_ok(forward());
    gsc__gaussian_window(5, 2.0, &wide);
    assert_memory_equal(&ssim.pair.window, &wide, sizeof wide);
    assert_true(ssim.pair.c1 == GSC_REAL(0.5) && ssim.pair.c2 == GSC_REAL(0.25));
    assert_int_equal(ssim.pair.border, 2);
    loss_args.l1_weight = 0.5f;
    loss_args.l2_weight = -2.0f;
    loss_args.ssim_weight = 0.25f;
    loss_args.grad_scale = -8.0f;
    expect_ok(check_loss());
    assert_true(out.l1_weight == GSC_REAL(0.5) && out.l2_weight == -2);
    assert_true(out.ssim_weight == GSC_REAL(0.25) && out.grad_scale == -8);
}

static void broken_options(void **state) {
    static const struct {
        size_t offset, loss_offset;
        float value;
        const char *message;
    } cases[] = {
#define BOTH(name) offsetof(gsc_ssim_args, name), offsetof(gsc_image_loss_args, name)
        {BOTH(sigma), -1, "f: sigma is -1, expected 0 or more"},
        {BOTH(sigma), INFINITY, "f: sigma is inf, expected a finite number"},
        {BOTH(c1), -1, "f: c1 is -1, expected 0 or more"},
        {BOTH(c1), INFINITY, "f: c1 is inf, expected a finite number"},
        {BOTH(c2), -1, "f: c2 is -1, expected 0 or more"},
        {BOTH(c2), INFINITY, "f: c2 is inf, expected a finite number"},
#undef BOTH
#define ONE(name) SIZE_MAX, offsetof(gsc_image_loss_args, name)
        {ONE(l1_weight), INFINITY, "f: l1_weight is inf, expected a finite number"},
        {ONE(l2_weight), INFINITY, "f: l2_weight is inf, expected a finite number"},
        {ONE(ssim_weight), INFINITY, "f: ssim_weight is inf, expected a finite number"},
        {ONE(grad_scale), INFINITY, "f: grad_scale is inf, expected a finite number"},
#undef ONE
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
        reset(state);
        memcpy((char *)&loss_args + cases[i].loss_offset, &cases[i].value, sizeof(float));
        expect_failure(check_loss(), GSC_ERROR_INVALID_ARGUMENT, cases[i].message);
        if (cases[i].offset == SIZE_MAX) continue;
        memcpy((char *)&args + cases[i].offset, &cases[i].value, sizeof(float));
        expect_failure(forward(), GSC_ERROR_INVALID_ARGUMENT, cases[i].message);
    }
    static const int32_t windows[] = {2, -1, 35, 10, INT32_MAX};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; ++i) {
        char message[128];
        reset(state);
        args.window = windows[i];
        snprintf(message, sizeof message, "f: window is %d, expected an odd number from 1 to 33",
                 windows[i]);
        expect_failure(forward(), GSC_ERROR_INVALID_ARGUMENT, message);
    }
    reset(state);
    args.reserved = 1;
    expect_failure(forward(), GSC_ERROR_INVALID_ARGUMENT,
                   "f: reserved is 0x1, expected bits of 0x0 only");
    args.reserved = 0;
    args.flags = 2;
    expect_failure(forward(), GSC_ERROR_INVALID_ARGUMENT,
                   "f: flags is 0x2, expected bits of 0x1 only");
    args.struct_size = 16;
    loss_args.struct_size = 16;
    assert_int_equal(forward(), GSC_ERROR_ABI);
    assert_int_equal(backward(), GSC_ERROR_ABI);
    assert_int_equal(check_loss(), GSC_ERROR_ABI);
}

/* -------------------------------------------------------------------- images */

static void image_sizes(void **state) {
    (void)state;
    VIEW(&image, 2, 3, 0, 9);
    expect_failure(forward(), GSC_ERROR_SHAPE,
                   "f: image is [2, 3, 0, 9], expected at least [1, 1, 1, 1]");
    VIEW(&image, 1, 1, 65536, 32768);
    expect_failure(forward(), GSC_ERROR_OVERFLOW,
                   "f: image is [1, 1, 65536, 32768], expected sides of at most 1048560 and at "
                   "most 2147483647 pixels");
    VIEW(&image, 1, 1, 1, 1048561);
    assert_int_equal(forward(), GSC_ERROR_OVERFLOW);
    VIEW(&image, (int64_t)1 << 40, (int64_t)1 << 40, 1, 1);
    expect_failure(forward(), GSC_ERROR_OVERFLOW,
                   "f: image is [1099511627776, 1099511627776, 1, 1], expected B x C of at most "
                   "268435456");
    VIEW(&image, 6, 9);
    expect_failure(forward(), GSC_ERROR_SHAPE,
                   "f: image is [6, 9], expected [B, C, H, W] or [C, H, W]");
    reset(NULL);
    args.window = 7;
    args.flags = GSC_SSIM_VALID;
    expect_failure(forward(), GSC_ERROR_SHAPE,
                   "f: image is [2, 3, 6, 9], expected at least 7 x 7 pixels, the window of "
                   "GSC_SSIM_VALID");
    args.flags = 0;
    expect_ok(forward());
}

static void images_may_have_any_strides(void **state) {
    (void)state;
    view_strides(&image); /* [B, H, W, C] in memory */
    image.strides[0] = 6 * 9 * 3;
    image.strides[1] = 1;
    image.strides[2] = 9 * 3;
    image.strides[3] = 3;
    view_strides(&target);
    target.strides[0] = 0; /* one target for the whole batch */
    expect_ok(forward());
    assert_ptr_equal(ssim.pair.image.data, view_memory);
    assert_ptr_equal(ssim.pair.target.data, view_memory + 4096);
    assert_int_equal(ssim.pair.image.strides[1], 1);
    assert_int_equal(ssim.pair.image.strides[3], 3);
    assert_int_equal(ssim.pair.target.strides[0], 0);
    assert_int_equal(ssim.pair.target.strides[2], 9);
    assert_false(ssim.pair.image.bytes);
}

static void forward_checks_its_tensors(void **state) {
    (void)state;
    args.map = &map.tensor;
    args.mean = &mean.tensor;
    args.grad_map = &image.tensor; /* both belong to backward */
    args.grad_mean = &image.tensor;
    expect_ok(forward());
    assert_ptr_equal(ssim.map, view_memory + 8192);
    assert_ptr_equal(ssim.mean, view_memory);
    assert_null(ssim.grad_map.data);
    assert_null(ssim.grad_mean);
    args.flags = GSC_SSIM_VALID;
    expect_failure(forward(), GSC_ERROR_SHAPE, "f: map is [2, 3, 6, 9], expected [2, 3, 4, 7]");
    VIEW(&map, 2, 3, 4, 7);
    expect_ok(forward());
    view_strides(&map);
    map.strides[0] = 1;
    assert_int_equal(forward(), GSC_ERROR_LAYOUT);
    reset(NULL);
    args.mean = &parts.tensor;
    expect_failure(forward(), GSC_ERROR_SHAPE, "f: mean is [3], expected [] or [1]");
    reset(NULL);
    VIEW(&target, 2, 3, 6, 8);
    expect_failure(forward(), GSC_ERROR_SHAPE, "f: target is [2, 3, 6, 8], expected [2, 3, 6, 9]");
    VIEW(&target, 2, 3, 6, 9);
    view_dtype(&target, kDLUInt, 8);
    assert_int_equal(forward(), GSC_ERROR_DTYPE);
    args.target = NULL;
    expect_failure(forward(), GSC_ERROR_INVALID_ARGUMENT, "f: target is missing");
    args.image = NULL;
    expect_failure(forward(), GSC_ERROR_INVALID_ARGUMENT, "f: image is missing");
    reset(NULL);
    view_device(&image, kDLCUDA, 0);
    expect_failure(forward(), GSC_ERROR_DEVICE, "f: image is on cuda:0, expected cpu");
}

static void backward_checks_its_tensors(void **state) {
    (void)state;
    expect_failure(backward(), GSC_ERROR_INVALID_ARGUMENT,
                   "f: neither is given, expected either grad_map or grad_mean");
    args.grad_map = &grad_map.tensor;
    args.grad_image = &grad_image.tensor;
    args.grad_target = &grad_target.tensor;
    args.map = &mean.tensor; /* belongs to forward */
    view_strides(&grad_map);
    grad_map.strides[3] = 2;
    expect_ok(backward());
    assert_ptr_equal(ssim.grad_map.data, view_memory + 3 * 4096);
    assert_int_equal(ssim.grad_map.strides[3], 2);
    assert_ptr_equal(ssim.pair.grad_image.data, view_memory + 4 * 4096);
    assert_ptr_equal(ssim.grad_target.data, view_memory + 5 * 4096);
    assert_null(ssim.map);
    args.grad_mean = &grad_mean.tensor;
    expect_failure(backward(), GSC_ERROR_INVALID_ARGUMENT,
                   "f: grad_map and grad_mean are given, expected either grad_map or grad_mean");
    args.grad_map = NULL;
    expect_ok(backward());
    assert_ptr_equal(ssim.grad_mean, view_memory);
    assert_null(ssim.grad_map.data);
    view_strides(&grad_image);
    grad_image.strides[1] = 0;
    expect_failure(backward(), GSC_ERROR_LAYOUT,
                   "f: grad_image has stride 0 in dimension 1 of size 3, expected an output of "
                   "separate elements");
    VIEW(&grad_image, 2, 3, 6, 9);
    VIEW(&grad_target, 2, 3, 9, 6);
    expect_failure(backward(), GSC_ERROR_SHAPE,
                   "f: grad_target is [2, 3, 9, 6], expected [2, 3, 6, 9]");
    args.grad_mean = NULL;
    args.grad_map = &grad_map.tensor;
    args.flags = GSC_SSIM_VALID;
    assert_int_equal(backward(), GSC_ERROR_SHAPE);
}

/* ---------------------------------------------------------------------- loss */

static void loss_checks_its_tensors(void **state) {
    (void)state;
    loss_args.loss = &loss.tensor;
    loss_args.parts = &parts.tensor;
    loss_args.grad_image = &grad_image.tensor;
    expect_ok(check_loss());
    assert_non_null(out.loss);
    assert_non_null(out.parts);
    assert_ptr_equal(out.pair.grad_image.data, view_memory + 4 * 4096);
    assert_null(out.mask.data);
    VIEW(&parts, 4);
    expect_failure(check_loss(), GSC_ERROR_SHAPE, "f: parts is [4], expected [3]");
    VIEW(&parts, 3);
    VIEW(&loss, 2);
    expect_failure(check_loss(), GSC_ERROR_SHAPE, "f: loss is [2], expected [] or [1]");
    VIEW(&loss, 1);
    view_strides(&grad_image);
    grad_image.strides[2] = 0;
    assert_int_equal(check_loss(), GSC_ERROR_LAYOUT);
    loss_args.target = NULL;
    expect_failure(check_loss(), GSC_ERROR_INVALID_ARGUMENT, "f: target is missing");
}

static void targets_may_be_bytes(void **state) {
    (void)state;
    view_dtype(&target, kDLUInt, 8);
    expect_ok(check_loss());
    assert_true(out.pair.target.bytes);
    assert_false(out.pair.image.bytes);
    view_dtype(&target, kDLBool, 8);
    expect_failure(check_loss(), GSC_ERROR_DTYPE,
                   GSC_REAL_BITS == 64 ? "f: target is bool, expected float64 or uint8"
                                       : "f: target is bool, expected float32 or uint8");
}

static void masks_are_shared_by_channels(void **state) {
    static const int64_t own[] = {54, 0, 9, 1}, shared[] = {0, 0, 9, 1}, broadcast[] = {0, 0, 0, 1};
    (void)state;
    loss_args.mask = &mask.tensor;
    expect_ok(check_loss());
    assert_memory_equal(out.mask.strides, own, sizeof own);
    assert_false(out.mask.bytes);
    VIEW(&mask, 6, 9);
    view_dtype(&mask, kDLBool, 8);
    expect_ok(check_loss());
    assert_memory_equal(out.mask.strides, shared, sizeof shared);
    assert_true(out.mask.bytes);
    view_strides(&mask);
    mask.strides[0] = 0;
    expect_ok(check_loss());
    assert_memory_equal(out.mask.strides, broadcast, sizeof broadcast);
    VIEW(&mask, 2, 3, 6, 9);
    expect_failure(check_loss(), GSC_ERROR_SHAPE,
                   "f: mask is [2, 3, 6, 9], expected [2, 6, 9] or [6, 9]");
    VIEW(&mask, 6, 9);
    view_dtype(&mask, kDLInt, 32);
    assert_int_equal(check_loss(), GSC_ERROR_DTYPE);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup(name, reset)
    const struct CMUnitTest tests[] = {
        TEST(window_is_a_normalised_gaussian),
        TEST(defaults_are_filled_in),
        TEST(given_options_arrive),
        TEST(broken_options),
        TEST(image_sizes),
        TEST(images_may_have_any_strides),
        TEST(forward_checks_its_tensors),
        TEST(backward_checks_its_tensors),
        TEST(loss_checks_its_tensors),
        TEST(targets_may_be_bytes),
        TEST(masks_are_shared_by_channels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
