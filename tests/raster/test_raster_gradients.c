/* The rasterizer's gradients against the reference, for all features, and against themselves for
 * any number of threads. */
#include "compare.h"
#include "expect.h"
#include "library.h"
#include "math/real.h"
#include "random_scene.h"
#include "reference.h"

#include <stdlib.h>
#include <string.h>

/* Compat's gradient with respect to the view ignores the 1e-7 that its projection adds to w. */
#ifdef GSC_DOUBLE
#define EXACT_EPSILON 1e-9
#define COMPAT_EPSILON 1e-6
#else
#define EXACT_EPSILON 1e-4
#define COMPAT_EPSILON 1e-4
#endif

static gsc_context *one, *two, *seven; /* threads */

static void gradients_agree(void **state) {
    const named_scene *named = (const named_scene *)*state;
    for (int ndc = 0; ndc < 2; ndc++) {
        scene s;
        gradients got, wanted;
        random_scene(&s, &named->options);
        if (ndc) s.flags |= GSC_RASTER_GRAD2D_NDC;
        gradients_alloc(&got, &s);
        gradients_alloc(&wanted, &s);
        random_upstream(&s, &got, named->options.seed);
        random_upstream(&s, &wanted, named->options.seed);
        assert_true(library_mute_flips(two, &s, &got) <= COMPARE_MAX_FLIPS);
        assert_true(library_mute_flips(two, &s, &wanted) <= COMPARE_MAX_FLIPS);
        library_options options = {.drop_camera = ndc};
        expect_ok(library_backward(two, &s, &options, &got));
        reference_backward(&s, &wanted);
        double epsilon = s.flags & GSC_RASTER_COMPAT_3DGS ? COMPAT_EPSILON : EXACT_EPSILON;
        int wrong = compare_gradients(named->name, &s, &got, &wanted, epsilon);
        gradients_free(&got);
        gradients_free(&wanted);
        scene_free(&s);
        assert_int_equal(wrong, 0);
    }
}

static void threads_do_not_matter(void **state) {
    const named_scene *named = (const named_scene *)*state;
    gsc_context *contexts[] = {two, seven};
    scene s;
    gradients first, again;
    random_scene(&s, &named->options);
    gradients_alloc(&first, &s);
    gradients_alloc(&again, &s);
    random_upstream(&s, &first, named->options.seed);
    random_upstream(&s, &again, named->options.seed);
    expect_ok(library_backward(one, &s, NULL, &first));
    for (size_t i = 0; i < 2; i++) {
        expect_ok(library_backward(contexts[i], &s, NULL, &again));
        assert_int_equal(compare_gradients(named->name, &s, &again, &first, 0), 0);
    }
    gradients_free(&first);
    gradients_free(&again);
    scene_free(&s);
}

/* The same gradient in pixel and in NDC units differs by half the image's size. */
static void units_differ_by_half_the_image(void **state) {
    (void)state;
    const random_scene_options options = {.seed = 7};
    scene s;
    gradients pixels, ndc;
    random_scene(&s, &options);
    gradients_alloc(&pixels, &s);
    gradients_alloc(&ndc, &s);
    random_upstream(&s, &pixels, 1);
    random_upstream(&s, &ndc, 1);
    expect_ok(library_backward(two, &s, NULL, &pixels));
    s.flags |= GSC_RASTER_GRAD2D_NDC;
    expect_ok(library_backward(two, &s, NULL, &ndc));
    double largest = 0;
    for (int i = 0; i < 2 * s.gaussians; i++) {
        pixels.means2d[i] *= (i % 2 ? s.height : s.width) / 2.0;
        pixels.means2d_abs[i] *= (i % 2 ? s.height : s.width) / 2.0;
        largest = largest > ndc.means2d_abs[i] ? largest : ndc.means2d_abs[i];
    }
    assert_true(largest > 0);
    assert_int_equal(compare_gradients("units", &s, &ndc, &pixels, 1e-6), 0);
    gradients_free(&pixels);
    gradients_free(&ndc);
    scene_free(&s);
}

int main(void) {
    static struct CMUnitTest tests[2 * RANDOM_SCENES_MAX + 1];
    size_t count = 0;
    for (size_t i = 0; i < random_scene_count; i++) {
        void *scene_state = (void *)(uintptr_t)&random_scenes[i];
        const char *name = random_scenes[i].name;
        tests[count++] = (struct CMUnitTest){name, gradients_agree, NULL, NULL, scene_state};
        tests[count++] = (struct CMUnitTest){name, threads_do_not_matter, NULL, NULL, scene_state};
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(units_differ_by_half_the_image);
    one = library_context(1);
    two = library_context(2);
    seven = library_context(7);
    int failures = _cmocka_run_group_tests("rasterizer gradients", tests, count, NULL, NULL);
    gsc_context_free(one);
    gsc_context_free(two);
    gsc_context_free(seven);
    return failures;
}
