/* SSIM and its gradient against recorded ones.  Recordings of flat images carry rounding noise:
 * those are compared with the double-precision reference only. */
#include "compare.h"
#include "golden_group.h"
#include "image_reference.h"
#include "library.h"
#include "tensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN_EPSILON 1e-5

static gsc_context *context;

/* The value, and the gradient with respect to the first image. */
static void run(const int64_t shape[4], const double *image, const double *target, bool valid,
                double *value, double *gradient) {
    const double one = 1;
    tensors set = {0};
    GSC_INIT(gsc_ssim_args, args);
    args.flags = valid ? GSC_SSIM_VALID : 0;
    args.image = tensors_input(&set, image, 4, shape);
    args.target = tensors_input(&set, target, 4, shape);
    args.mean = tensors_output(&set, value, 0, NULL);
    expect_ok(gsc_ssim_forward(context, &args, NULL));
    tensors_read(args.mean, value);
    args.mean = NULL;
    args.grad_mean = tensors_input(&set, &one, 0, NULL);
    args.grad_image = tensors_output(&set, gradient, 4, shape);
    expect_ok(gsc_ssim_backward(context, &args, NULL));
    tensors_read(args.grad_image, gradient);
    assert_true(tensors_guarded(&set));
    tensors_free(&set);
}

/* The same from the definition. */
static void run_reference(const int64_t shape[4], const double *image, const double *target,
                          bool valid, double *value, double *gradient) {
    image_case c = {.planes = (int)(shape[0] * shape[1]),
                    .height = (int)shape[2],
                    .width = (int)shape[3],
                    .window = 11,
                    .sigma = 1.5,
                    .c1 = 0.01 * 0.01,
                    .c2 = 0.03 * 0.03,
                    .valid = valid};
    size_t count = (size_t)(shape[0] * shape[1] * shape[2] * shape[3]);
    size_t windows = (size_t)c.planes * (size_t)image_map_height(&c) * (size_t)image_map_width(&c);
    double *map = reals_alloc(windows), *upstream = reals_alloc(windows);
    double *grad_target = reals_alloc(count);
    *value = reference_ssim(&c, image, target, map);
    for (size_t i = 0; i < windows; i++) upstream[i] = 1 / (double)windows;
    reference_ssim_backward(&c, image, target, upstream, gradient, grad_target);
    free(map);
    free(upstream);
    free(grad_target);
}

/* Means of maps in [-1, 1]: compares the absolute difference. */
static comparison compare_values(double got, double wanted) {
    comparison c = {.largest = fabs(got - wanted), .relative = fabs(got - wanted)};
    c.good = c.largest <= GOLDEN_EPSILON;
    return c;
}

static void ssim_agrees(void **state) {
    const char *name = (const char *)*state;
    golden_case c;
    assert_true(golden_open(&c, name));
    const golden_array *array = golden_find(&c, "in_img1");
    assert_non_null(array);
    bool valid = strcmp(golden_string(&c, "padding"), "valid") == 0;
    bool flat = strstr(name, "flat") != NULL;
    double *image = golden_reals(&c, "in_img1"), *target = golden_reals(&c, "in_img2");
    double *recorded = golden_reals(&c, "out_value"), *grad_image = golden_reals(&c, "grad_img1");
    double *gradient = reals_alloc(array->count), *exact = reals_alloc(array->count);
    double value, exact_value;
    run(array->shape, image, target, valid, &value, gradient);
    run_reference(array->shape, image, target, valid, &exact_value, exact);
    int wrong = compare_report(name, "value, reference", compare_values(value, exact_value));
    comparison by_recording = compare_reals(gradient, grad_image, array->count, GOLDEN_EPSILON);
    if (!flat) wrong += compare_report(name, "value", compare_values(value, recorded[0]));
    if (!flat) wrong += compare_report(name, "d image", by_recording);
    wrong += compare_report(name, "d image, ref.",
                            compare_reals(gradient, exact, array->count, GOLDEN_EPSILON));
    free(image);
    free(target);
    free(recorded);
    free(grad_image);
    free(gradient);
    free(exact);
    golden_close(&c);
    assert_int_equal(wrong, 0);
}

int main(void) {
    const char *prefixes[] = {"fused_ssim_", NULL};
    context = library_context(0);
    int failures = golden_group("golden SSIM", prefixes, ssim_agrees);
    gsc_context_free(context);
    return failures;
}
