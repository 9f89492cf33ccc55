/* The image loss against a sum over pixels and windows: every mix of terms, masks, byte targets,
 * with and without each output. */
#include "expect.h"
#include "image_reference.h"
#include "image_tensor.h"

#include "math/real.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GSC_DOUBLE
#define TOLERANCE 1e-12
#else
#define TOLERANCE 2e-6
#endif
#define C1 ((double)GSC_REAL(0.0001))
#define C2 ((double)GSC_REAL(0.0009))

enum { MASK_NONE, MASK_REAL, MASK_BOOL, MASK_BYTES, MASK_SHARED, MASK_EMPTY, MASK_COUNT };

typedef struct loss_case {
    int shape[4];
    int layout, layout_target;
    float l1, l2, ssim, grad_scale;
    bool valid, bytes, no_parts, no_grad;
    int mask;
    double *x, *y, *weights; /* [B, C, H, W], the same, [B, H, W] */
} loss_case;

typedef struct loss_result {
    double loss, parts[3], *grad;
} loss_result;

static size_t elements(const loss_case *c) {
    return image_elements(c->shape);
}
static size_t area(const loss_case *c) {
    return (size_t)c->shape[2] * (size_t)c->shape[3];
}
static size_t mask_index(const loss_case *c, size_t i) {
    return i / area(c) / (size_t)c->shape[1] * area(c) + i % area(c);
}

/* Random images; if y is to be bytes, it holds n / 255 as the library reads it. */
static void fill(loss_case *c) {
    const size_t count = elements(c), pixels = count / (size_t)c->shape[1];
    c->x = image_random_values(count, 0, 1);
    c->y = image_random_values(count, 0, 1);
    c->weights = image_zeros(pixels);
    for (size_t i = 0; c->bytes && i < count; i++)
        c->y[i] = (double)((gsc_real)floor(c->y[i] * 256) / GSC_REAL(255.0));
    for (size_t i = 0; i < pixels; i++) {
        const double r = image_random();
        c->weights[i] = c->mask == MASK_NONE    ? 1
                        : c->mask == MASK_EMPTY ? 0
                        : c->mask == MASK_REAL  ? (double)(gsc_real)r
                        : c->mask == MASK_BYTES ? floor(r * 4)
                        : r < 0.5               ? 1
                                                : 0;
        if (c->mask == MASK_SHARED) c->weights[i] = c->weights[i % area(c)];
    }
}

static void empty(loss_case *c) {
    free(c->x);
    free(c->y);
    free(c->weights);
}

/* Index of the centre pixel of window i of the map. */
static size_t centre(const image_case *r, size_t i) {
    const size_t height = (size_t)image_map_height(r), width = (size_t)image_map_width(r);
    const size_t border = r->valid ? (size_t)r->window / 2 : 0;
    return (i / (height * width) * (size_t)r->height + i / width % height + border) *
               (size_t)r->width +
           i % width + border;
}

static void reference(const loss_case *c, loss_result *result) {
    const image_case r = {
        c->shape[0] * c->shape[1], c->shape[2], c->shape[3], 11, 1.5, C1, C2, c->valid};
    const size_t count = elements(c);
    const size_t windows =
        (size_t)r.planes * (size_t)image_map_height(&r) * (size_t)image_map_width(&r);
    double *map = image_zeros(windows), *other = image_zeros(count), pixel_sum = 0, window_sum = 0;
    memset(result->parts, 0, sizeof result->parts);
    for (size_t i = 0; i < count; i++) pixel_sum += c->weights[mask_index(c, i)];
    for (size_t i = 0; i < windows; i++) window_sum += c->weights[mask_index(c, centre(&r, i))];
    const double per_pixel = pixel_sum > 0 ? 1 / pixel_sum : 0;
    const double per_window = window_sum > 0 ? 1 / window_sum : 0;
    reference_ssim(&r, c->x, c->y, map);
    for (size_t i = 0; i < windows; i++) {
        const double weight = c->weights[mask_index(c, centre(&r, i))] * per_window;
        result->parts[2] += weight * map[i];
        map[i] = -(double)c->ssim * weight;
    }
    reference_ssim_backward(&r, c->x, c->y, map, result->grad, other);
    for (size_t i = 0; i < count; i++) {
        const double weight = c->weights[mask_index(c, i)] * per_pixel, d = c->x[i] - c->y[i];
        result->parts[0] += weight * fabs(d);
        result->parts[1] += weight * d * d;
        result->grad[i] += weight * ((double)c->l1 * ((d > 0) - (d < 0)) + 2 * (double)c->l2 * d);
        result->grad[i] *= c->grad_scale != 0 ? (double)c->grad_scale : 1;
    }
    result->loss = (double)c->l1 * result->parts[0] + (double)c->l2 * result->parts[1] +
                   (double)c->ssim * (1 - result->parts[2]);
    free(map);
    free(other);
}

/* The mask of the case: [B, H, W] or [H, W] of reals, bools or bytes. */
static void make_mask(const loss_case *c, image_tensor *mask) {
    const int shape[4] = {1, c->shape[0], c->shape[2], c->shape[3]};
    const size_t count = elements(c) / (size_t)c->shape[1];
    uint8_t *bytes = malloc(count);
    assert_non_null(bytes);
    for (size_t i = 0; i < count; i++) bytes[i] = (uint8_t)c->weights[i];
    if (c->mask == MASK_BOOL || c->mask == MASK_BYTES)
        image_tensor_make_bytes(mask, LAYOUT_EVERY_SECOND, shape, bytes);
    else
        image_tensor_make(mask, c->layout == LAYOUT_PIXEL_LAST ? LAYOUT_DENSE : c->layout, shape,
                          c->weights);
    if (c->mask == MASK_BOOL) mask->view.dtype.code = kDLBool;
    const int dropped = c->mask == MASK_SHARED ? 2 : 1;
    mask->view.ndim -= dropped;
    mask->view.shape += dropped;
    mask->view.strides += dropped;
    free(bytes);
}

static void make_target(const loss_case *c, image_tensor *target) {
    if (!c->bytes) {
        image_tensor_make(target, c->layout_target, c->shape, c->y);
        return;
    }
    uint8_t *bytes = malloc(elements(c));
    assert_non_null(bytes);
    for (size_t i = 0; i < elements(c); i++) bytes[i] = (uint8_t)lround(c->y[i] * 255);
    image_tensor_make_bytes(target, c->layout_target, c->shape, bytes);
    free(bytes);
}

static void run(gsc_context *context, const loss_case *c, loss_result *result) {
    const int scalar[4] = {1, 1, 1, 1}, three[4] = {1, 1, 1, 3};
    image_tensor image, target, mask, loss, parts, grad;
    image_tensor_make(&image, c->layout, c->shape, c->x);
    make_target(c, &target);
    make_mask(c, &mask);
    image_tensor_make(&loss, LAYOUT_DENSE, scalar, NULL);
    image_tensor_make(&parts, LAYOUT_DENSE, three, NULL);
    image_tensor_make(&grad, c->layout, c->shape, NULL);
    loss.view.ndim = 0;
    parts.view.ndim = 1;
    parts.view.shape += 3;
    parts.view.strides += 3;

    GSC_INIT(gsc_image_loss_args, args);
    args.flags = c->valid ? GSC_SSIM_VALID : 0;
    args.l1_weight = c->l1;
    args.l2_weight = c->l2;
    args.ssim_weight = c->ssim;
    args.grad_scale = c->grad_scale;
    args.image = &image.view;
    args.target = &target.view;
    args.mask = c->mask == MASK_NONE ? NULL : &mask.view;
    args.loss = &loss.view;
    args.parts = c->no_parts ? NULL : &parts.view;
    args.grad_image = c->no_grad ? NULL : &grad.view;
    const gsc_status status = gsc_image_loss(context, &args, NULL);
    if (status != GSC_OK) fail_msg("%s", gsc_last_error());
    assert_true(image_tensor_read(&loss, &result->loss));
    if (!c->no_parts) assert_true(image_tensor_read(&parts, result->parts));
    if (!c->no_grad) assert_true(image_tensor_read(&grad, result->grad));
    image_tensor *all[] = {&image, &target, &mask, &loss, &parts, &grad};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) image_tensor_free(all[i]);
}

/* Fills, runs, compares. */
static void check(gsc_context *context, loss_case *c) {
    fill(c);
    loss_result got = {.grad = image_zeros(elements(c))};
    loss_result wanted = {.grad = image_zeros(elements(c))};
    reference(c, &wanted);
    run(context, c, &got);
    assert_true(values_close("loss", &got.loss, &wanted.loss, 1, TOLERANCE));
    if (!c->no_parts) assert_true(values_close("parts", got.parts, wanted.parts, 3, TOLERANCE));
    if (!c->no_grad)
        assert_true(values_close("grad", got.grad, wanted.grad, elements(c), 3 * TOLERANCE));
    free(got.grad);
    free(wanted.grad);
    empty(c);
}

static const loss_case standard = {.shape = {2, 3, 17, 24}, .l1 = 0.8f, .ssim = 0.2f};

static void any_mix(void **state) {
    static const float mixes[][3] = {{0.8f, 0, 0.2f}, {1, 0, 0},        {0, 1, 0},
                                     {0, 0, 1},       {0.3f, -0.5f, 2}, {0, 0, 0}};
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
        for (int wish = 0; wish < 4; wish++) {
            loss_case c = standard;
            c.l1 = mixes[i][0];
            c.l2 = mixes[i][1];
            c.ssim = mixes[i][2];
            c.no_parts = wish & 1;
            c.no_grad = wish & 2;
            c.grad_scale = i % 2 ? -3 : 0;
            check((gsc_context *)*state, &c);
        }
}

static void any_mask(void **state) {
    for (int mask = 0; mask < MASK_COUNT; mask++)
        for (int k = 0; k < 8; k++) {
            loss_case c = standard;
            c.mask = mask;
            c.valid = k & 1;
            c.bytes = k & 2;
            c.l2 = k & 4 ? 0.5f : 0;
            check((gsc_context *)*state, &c);
        }
}

static void any_layout(void **state) {
    for (int layout = 0; layout < LAYOUT_COUNT; layout++)
        for (int target = 0; target < LAYOUT_COUNT; target++)
            for (int bytes = 0; bytes < 2; bytes++) {
                loss_case c = standard;
                c.layout = layout;
                c.layout_target = target;
                c.bytes = bytes;
                c.mask = MASK_REAL;
                check((gsc_context *)*state, &c);
            }
}

static void many_tiles(void **state) {
    loss_case c = standard;
    c.shape[0] = c.shape[1] = 1;
    c.shape[2] = 140;
    c.shape[3] = 265;
    c.mask = MASK_REAL;
    check((gsc_context *)*state, &c);
}

/* Half of the pixels are exactly equal; the others differ slightly. */
static void no_gradient_of_l1_where_equal(void **state) {
    loss_case c = standard;
    c.l1 = 1;
    c.ssim = 0;
    fill(&c);
    for (size_t i = 0; i < elements(&c); i++)
        c.y[i] = i % 2 ? c.x[i] : (double)((gsc_real)c.x[i] * GSC_REAL(1.0000002));
    loss_result got = {.grad = image_zeros(elements(&c))};
    run((gsc_context *)*state, &c, &got);
    for (size_t i = 0; i < elements(&c); i++)
        assert_true(i % 2 || c.x[i] == c.y[i] ? got.grad[i] == 0 : got.grad[i] < 0);
    free(got.grad);
    empty(&c);
}

static void same_bits_for_any_threads(void **state) {
    (void)state;
    loss_case c = standard;
    c.shape[2] = 150;
    c.shape[3] = 150;
    c.mask = MASK_REAL;
    fill(&c);
    loss_result results[3];
    for (int i = 0; i < 3; i++) {
        gsc_context *context = image_context((const int[]){1, 2, 7}[i], false);
        results[i].grad = image_zeros(elements(&c));
        run(context, &c, &results[i]);
        gsc_context_free(context);
        assert_memory_equal(&results[i].loss, &results[0].loss, sizeof(double));
        assert_memory_equal(results[i].parts, results[0].parts, sizeof results[0].parts);
        assert_memory_equal(results[i].grad, results[0].grad, elements(&c) * sizeof(double));
    }
    for (int i = 0; i < 3; i++) free(results[i].grad);
    empty(&c);
}

static void out_of_memory(void **state) {
    (void)state;
    loss_case c = standard;
    c.mask = MASK_REAL;
    fill(&c);
    image_tensor image, mask;
    image_tensor_make(&image, LAYOUT_DENSE, c.shape, c.x);
    make_mask(&c, &mask);
    image_memory_left = (size_t)1 << 30;
    gsc_context *context = image_context(1, true);
    GSC_INIT(gsc_image_loss_args, args);
    args.image = args.target = args.grad_image = &image.view;
    args.mask = &mask.view;
    args.ssim_weight = 1;
    /* No memory for the mask's sums; then memory for the sums, but none for the pass. */
    for (size_t left = 0; left < 3000; left += 1000) {
        image_memory_left = left;
        assert_int_equal(gsc_image_loss(context, &args, NULL), GSC_ERROR_OUT_OF_MEMORY);
        assert_non_null(strstr(gsc_last_error(), "image_loss"));
        assert_int_equal(image_memory_left, left);
    }
    gsc_context_free(context);
    image_tensor_free(&image);
    image_tensor_free(&mask);
    empty(&c);
}

#ifdef GSC_DOUBLE
static void finite_differences(void **state) {
    loss_case c = {
        .shape = {1, 2, 12, 13}, .l1 = 0.5f, .l2 = 0.7f, .ssim = 0.3f, .mask = MASK_REAL};
    fill(&c);
    const size_t count = elements(&c);
    loss_result got = {.grad = image_zeros(count)}, moved = {.grad = image_zeros(count)};
    double *difference = image_zeros(count);
    const double step = 1e-6;
    run((gsc_context *)*state, &c, &got);
    for (size_t i = 0; i < count; i++) {
        const double value = c.x[i];
        c.x[i] = value + step;
        run((gsc_context *)*state, &c, &moved);
        difference[i] = moved.loss / (2 * step);
        c.x[i] = value - step;
        run((gsc_context *)*state, &c, &moved);
        difference[i] -= moved.loss / (2 * step);
        c.x[i] = value;
    }
    assert_true(values_close("difference", got.grad, difference, count, 1e-6));
    free(got.grad);
    free(moved.grad);
    free(difference);
    empty(&c);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_mix),
        cmocka_unit_test(any_mask),
        cmocka_unit_test(any_layout),
        cmocka_unit_test(many_tiles),
        cmocka_unit_test(no_gradient_of_l1_where_equal),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(out_of_memory),
#ifdef GSC_DOUBLE
        cmocka_unit_test(finite_differences),
#endif
    };
    return cmocka_run_group_tests_name("image_loss", tests, image_open_context,
                                       image_close_context);
}
