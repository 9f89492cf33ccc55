/* SSIM against its definition: values, maps and gradients in every layout, the same bits
 * for any number of threads, and, in the float64 build, finite differences. */
#include "expect.h"
#include "image_reference.h"
#include "image_tensor.h"
#include "math/real.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef GSC_DOUBLE
#define TOLERANCE 1e-12
#else
#define TOLERANCE 4e-6
#endif
#define C1 ((double)GSC_REAL(0.0001))
#define C2 ((double)GSC_REAL(0.0009))

typedef struct ssim_result {
    double mean, *map, *grad_image, *grad_target; /* NULL: not wanted */
} ssim_result;

/* One pair of images, and how the test passes it. */
typedef struct ssim_case {
    int shape[4];
    int window;
    double sigma;
    bool valid;
    int layout, layout_target, layout_out;
    double grad_mean;
    const double *grad_map; /* dense; NULL: grad_mean */
    int layout_grad_map;
} ssim_case;

static image_case reference_case(const ssim_case *c) {
    return (image_case){.planes = c->shape[0] * c->shape[1],
                        .height = c->shape[2],
                        .width = c->shape[3],
                        .window = c->window,
                        .sigma = c->sigma,
                        .c1 = C1,
                        .c2 = C2,
                        .valid = c->valid};
}

static void map_shape(const ssim_case *c, int shape[4]) {
    const image_case r = reference_case(c);
    shape[0] = c->shape[0];
    shape[1] = c->shape[1];
    shape[2] = image_map_height(&r);
    shape[3] = image_map_width(&r);
}

/* Calls the public functions for the outputs that result wants. */
static void run(gsc_context *context, const ssim_case *c, const double *x, const double *y,
                ssim_result *result) {
    int shape[4], scalar[4] = {1, 1, 1, 1};
    map_shape(c, shape);
    enum { IMAGE, TARGET, MAP, MEAN, GRAD_MAP, GRAD_MEAN, GRAD_IMAGE, GRAD_TARGET, TENSORS };
    image_tensor t[TENSORS];
    image_tensor_make(&t[IMAGE], c->layout, c->shape, x);
    image_tensor_make(&t[TARGET], c->layout_target, c->shape, y);
    image_tensor_make(&t[MAP], LAYOUT_DENSE, shape, NULL);
    image_tensor_make(&t[MEAN], LAYOUT_DENSE, scalar, NULL);
    image_tensor_make(&t[GRAD_MAP], c->layout_grad_map, shape, c->grad_map);
    image_tensor_make(&t[GRAD_MEAN], LAYOUT_DENSE, scalar, &c->grad_mean);
    image_tensor_make(&t[GRAD_IMAGE], c->layout_out, c->shape, NULL);
    image_tensor_make(&t[GRAD_TARGET], c->layout_out, c->shape, NULL);
    t[MEAN].view.ndim = 0;
    t[GRAD_MEAN].view.ndim = 1;

    GSC_INIT(gsc_ssim_args, args);
    args.flags = c->valid ? GSC_SSIM_VALID : 0;
    args.window = c->window == 11 ? 0 : c->window;
    args.sigma = c->sigma == 1.5 ? 0 : (float)c->sigma;
    args.image = &t[IMAGE].view;
    args.target = &t[TARGET].view;
    args.map = result->map ? &t[MAP].view : NULL;
    args.mean = &t[MEAN].view;
    expect_ok(gsc_ssim_forward(context, &args, NULL));
    assert_true(image_tensor_read(&t[MEAN], &result->mean));
    if (result->map) assert_true(image_tensor_read(&t[MAP], result->map));

    args.grad_map = c->grad_map ? &t[GRAD_MAP].view : NULL;
    args.grad_mean = c->grad_map ? NULL : &t[GRAD_MEAN].view;
    args.grad_image = result->grad_image ? &t[GRAD_IMAGE].view : NULL;
    args.grad_target = result->grad_target ? &t[GRAD_TARGET].view : NULL;
    expect_ok(gsc_ssim_backward(context, &args, NULL));
    if (result->grad_image) assert_true(image_tensor_read(&t[GRAD_IMAGE], result->grad_image));
    if (result->grad_target) assert_true(image_tensor_read(&t[GRAD_TARGET], result->grad_target));
    for (int i = 0; i < TENSORS; i++) image_tensor_free(&t[i]);
}

static void result_alloc(ssim_result *result, const ssim_case *c) {
    result->map = image_zeros(image_elements(c->shape));
    result->grad_image = image_zeros(image_elements(c->shape));
    result->grad_target = image_zeros(image_elements(c->shape));
}

static void result_free(ssim_result *result) {
    free(result->map);
    free(result->grad_image);
    free(result->grad_target);
}

static void check(gsc_context *context, const ssim_case *c, const double *x, const double *y,
                  double tolerance) {
    const image_case reference = reference_case(c);
    const size_t count = image_elements(c->shape);
    int shape[4];
    map_shape(c, shape);
    const size_t map_count = image_elements(shape);
    ssim_result got, wanted;
    result_alloc(&got, c);
    result_alloc(&wanted, c);
    run(context, c, x, y, &got);
    wanted.mean = reference_ssim(&reference, x, y, wanted.map);
    double *upstream = image_zeros(map_count);
    for (size_t i = 0; i < map_count; i++)
        upstream[i] = c->grad_map ? c->grad_map[i] : c->grad_mean / (double)map_count;
    reference_ssim_backward(&reference, x, y, upstream, wanted.grad_image, wanted.grad_target);
    assert_true(values_close("mean", &got.mean, &wanted.mean, 1, tolerance));
    assert_true(values_close("map", got.map, wanted.map, map_count, tolerance));
    tolerance *= 3;
    assert_true(values_close("image", got.grad_image, wanted.grad_image, count, tolerance));
    assert_true(values_close("target", got.grad_target, wanted.grad_target, count, tolerance));
    free(upstream);
    result_free(&got);
    result_free(&wanted);
}

static const ssim_case standard = {
    .shape = {1, 3, 20, 30}, .window = 11, .sigma = 1.5, .grad_mean = 1};

/* Sizes around the window, single rows and columns, several tiles in both directions. */
static void agrees_with_the_definition(void **state) {
    gsc_context *context = (gsc_context *)*state;
    static const int shapes[][4] = {{1, 1, 1, 1},   {1, 3, 7, 5},    {1, 1, 10, 10}, {1, 1, 11, 11},
                                    {2, 4, 12, 17}, {1, 1, 480, 11}, {1, 1, 1, 300}, {3, 1, 64, 48},
                                    {1, 7, 16, 16}, {1, 1, 130, 270}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int valid = 0; valid < 2; valid++) {
            ssim_case c = standard;
            memcpy(c.shape, shapes[i], sizeof c.shape);
            c.valid = valid;
            c.grad_mean = valid ? -2.5 : 1;
            if (valid && (c.shape[2] < 11 || c.shape[3] < 11)) continue;
            double *x = image_random_values(image_elements(c.shape), 0, 1);
            double *y = image_random_values(image_elements(c.shape), 0, 1);
            check(context, &c, x, y, TOLERANCE);
            free(x);
            free(y);
        }
}

static void any_window(void **state) {
    gsc_context *context = (gsc_context *)*state;
    static const int windows[] = {1, 3, 7, 11, 13, 33};
    static const double sigmas[] = {1.5, 0.5, 1.5, 4, 1.5, 6};
    for (int i = 0; i < 6; i++)
        for (int valid = 0; valid < 2; valid++) {
            ssim_case c = standard;
            c.shape[1] = 1;
            c.shape[2] = 70;
            c.shape[3] = 45;
            c.window = windows[i];
            c.sigma = sigmas[i];
            c.valid = valid;
            double *x = image_random_values(image_elements(c.shape), 0, 1);
            double *y = image_random_values(image_elements(c.shape), 0, 1);
            check(context, &c, x, y, TOLERANCE);
            free(x);
            free(y);
        }
}

static void any_layout(void **state) {
    gsc_context *context = (gsc_context *)*state;
    ssim_case c = {.shape = {2, 3, 14, 23}, .window = 11, .sigma = 1.5};
    const size_t count = image_elements(c.shape), plane = 14 * 23;
    double *x = image_random_values(count, 0, 1), *y = image_random_values(count, 0, 1);
    double *shared = image_zeros(count), *upstream = image_random_values(count, -1, 1);
    for (size_t i = 0; i < count; i++) shared[i] = y[i % plane];
    for (int valid = 0; valid < 2; valid++)
        for (int layout = 0; layout < LAYOUT_COUNT; layout++)
            for (int other = 0; other < LAYOUT_COUNT; other++) {
                c.valid = valid;
                c.layout = layout;
                c.layout_target = other;
                c.layout_out = (layout + other) % LAYOUT_COUNT;
                c.layout_grad_map = (layout + 2 * other) % LAYOUT_COUNT;
                c.grad_map = upstream;
                check(context, &c, x, y, TOLERANCE);
            }
    c.layout_target = LAYOUT_EXPANDED;
    check(context, &c, x, shared, TOLERANCE);
    /* One upstream value for the whole map, like the gradient of a sum. */
    c.valid = false;
    c.layout_grad_map = LAYOUT_EXPANDED;
    for (size_t i = 0; i < count; i++) upstream[i] = i % plane == 0 ? 0.25 : upstream[i % plane];
    check(context, &c, x, shared, TOLERANCE);
    free(x);
    free(y);
    free(shared);
    free(upstream);
}

/* Variances far smaller than the squared means. */
static void flat_and_bright(void **state) {
    gsc_context *context = (gsc_context *)*state;
    ssim_case c = standard;
    c.shape[2] = 80;
    const size_t count = image_elements(c.shape);
    for (int level = 0; level < 4; level++) {
        const double base = (const double[]){0, 0.1, 0.9, 200}[level];
        double *x = image_random_values(count, base - 0.003, base + 0.003);
        double *y = image_random_values(count, base - 0.003, base + 0.003);
        check(context, &c, x, y, base < 100 ? TOLERANCE : 100 * TOLERANCE);
        free(x);
        free(y);
    }
    double *x = image_random_values(count, 0.75, 0.75);
    ssim_result got;
    result_alloc(&got, &c);
    run(context, &c, x, x, &got);
    assert_true(fabs(got.mean - 1) < 1e-6);
    for (size_t i = 0; i < count; i++) assert_true(fabs(got.grad_image[i]) < 1e-6 / (double)count);
    result_free(&got);
    free(x);
}

static bool same(const double *a, const double *b, size_t count) {
    return memcmp(a, b, count * sizeof *a) == 0;
}

static void symmetric(void **state) {
    gsc_context *context = (gsc_context *)*state;
    const ssim_case c = standard;
    const size_t count = image_elements(c.shape);
    double *x = image_random_values(count, 0, 1), *y = image_random_values(count, 0, 1);
    ssim_result both, image_only, target_only;
    result_alloc(&both, &c);
    result_alloc(&image_only, &c);
    result_alloc(&target_only, &c);
    free(image_only.grad_target);
    free(target_only.grad_image);
    image_only.grad_target = target_only.grad_image = NULL;
    run(context, &c, x, y, &both);
    run(context, &c, x, y, &image_only);
    run(context, &c, y, x, &target_only);
    assert_true(values_close("mean", &target_only.mean, &image_only.mean, 1, TOLERANCE));
    assert_true(same(image_only.grad_image, target_only.grad_target, count));
    assert_true(values_close("both", both.grad_image, image_only.grad_image, count, TOLERANCE));
    result_free(&both);
    result_free(&image_only);
    result_free(&target_only);
    free(x);
    free(y);
}

static void same_bits_for_any_threads(void **state) {
    (void)state;
    ssim_case c = standard;
    c.shape[2] = 150;
    c.shape[3] = 333;
    const size_t count = image_elements(c.shape);
    double *x = image_random_values(count, 0, 1), *y = image_random_values(count, 0, 1);
    ssim_result results[4];
    for (int i = 0; i < 4; i++) {
        gsc_context *context = image_context((const int[]){1, 2, 7, 2}[i], false);
        result_alloc(&results[i], &c);
        run(context, &c, x, y, &results[i]);
        gsc_context_free(context);
        assert_true(same(&results[i].mean, &results[0].mean, 1));
        assert_true(same(results[i].map, results[0].map, count));
        assert_true(same(results[i].grad_image, results[0].grad_image, count));
        assert_true(same(results[i].grad_target, results[0].grad_target, count));
    }
    for (int i = 0; i < 4; i++) result_free(&results[i]);
    free(x);
    free(y);
}

/* A NaN affects the windows that contain it, and nothing else in its tile. */
static void nan_stays_local(void **state) {
    gsc_context *context = (gsc_context *)*state;
    double *x = image_random_values(2500, 0, 1), *y = image_random_values(2500, 0, 1);
    const int shape[] = {1, 1, 50, 50};
    image_tensor image, target, map;
    x[24 * 50 + 24] = NAN;
    image_tensor_make(&image, LAYOUT_DENSE, shape, x);
    image_tensor_make(&target, LAYOUT_DENSE, shape, y);
    image_tensor_make(&map, LAYOUT_DENSE, shape, y);
    GSC_INIT(gsc_ssim_args, args);
    args.image = &image.view;
    args.target = &target.view;
    args.map = &map.view;
    expect_ok(gsc_ssim_forward(context, &args, NULL));
    for (int i = 0; i < 2500; i++) {
        const bool sees = abs(i / 50 - 24) <= 5 && abs(i % 50 - 24) <= 5;
        assert_int_equal(!!isnan(((const gsc_real *)map.memory)[i]), sees);
    }
    image_tensor_free(&image);
    image_tensor_free(&target);
    image_tensor_free(&map);
    free(x);
    free(y);
}

static void out_of_memory(void **state) {
    (void)state;
    const int shape[] = {1, 1, 16, 16};
    image_memory_left = (size_t)1 << 30;
    gsc_context *context = image_context(1, true);
    image_tensor image, grad;
    const double *x = (const double[256]){0};
    image_tensor_make(&image, LAYOUT_DENSE, shape, x);
    image_tensor_make(&grad, LAYOUT_DENSE, (const int[]){1, 1, 1, 1}, x);
    grad.view.ndim = 0;
    GSC_INIT(gsc_ssim_args, args);
    args.image = args.target = args.map = args.grad_image = &image.view;
    args.grad_mean = &grad.view;
    image_memory_left = 1000;
    assert_int_equal(gsc_ssim_forward(context, &args, NULL), GSC_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(gsc_last_error(), "ssim_forward"));
    assert_int_equal(gsc_ssim_backward(context, &args, NULL), GSC_ERROR_OUT_OF_MEMORY);
    assert_int_equal(image_memory_left, 1000);
    gsc_context_free(context);
    image_tensor_free(&image);
    image_tensor_free(&grad);
}

#ifdef GSC_DOUBLE
/* Gradients against differences of the library's own values. */
static void finite_differences(void **state) {
    gsc_context *context = (gsc_context *)*state;
    for (int valid = 0; valid < 2; valid++) {
        ssim_case c = {.shape = {1, 2, 13, 15}, .window = 11, .sigma = 1.5, .grad_mean = 1};
        c.valid = valid;
        const size_t count = image_elements(c.shape);
        double *images[] = {image_random_values(count, 0, 1), image_random_values(count, 0, 1)};
        ssim_result got, moved;
        result_alloc(&got, &c);
        result_alloc(&moved, &c);
        run(context, &c, images[0], images[1], &got);
        const double step = 1e-5;
        for (int k = 0; k < 2; k++) {
            double *difference = image_zeros(count);
            for (size_t i = 0; i < count; i++) {
                const double value = images[k][i];
                images[k][i] = value + step;
                run(context, &c, images[0], images[1], &moved);
                difference[i] = moved.mean / (2 * step);
                images[k][i] = value - step;
                run(context, &c, images[0], images[1], &moved);
                difference[i] -= moved.mean / (2 * step);
                images[k][i] = value;
            }
            const double *gradient = k ? got.grad_target : got.grad_image;
            assert_true(values_close("difference", gradient, difference, count, 1e-6));
            free(difference);
        }
        result_free(&got);
        result_free(&moved);
        free(images[0]);
        free(images[1]);
    }
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_definition),
        cmocka_unit_test(any_window),
        cmocka_unit_test(any_layout),
        cmocka_unit_test(flat_and_bright),
        cmocka_unit_test(symmetric),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(nan_stays_local),
        cmocka_unit_test(out_of_memory),
#ifdef GSC_DOUBLE
        cmocka_unit_test(finite_differences),
#endif
    };
    return cmocka_run_group_tests_name("ssim", tests, image_open_context, image_close_context);
}
