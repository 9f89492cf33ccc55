/* The forward rasterizer against the reference, for all features, and against itself: any number of
 * threads and any size of the intersection buffer give the same bits, and any choice of outputs the
 * same values. */
#include "compare.h"
#include "expect.h"
#include "library.h"
#include "random_scene.h"
#include "reference.h"

#include "math/real.h"

#include <stdlib.h>
#include <string.h>

static gsc_context *one, *two, *seven; /* threads */

static void scene_agrees(void **state) {
    const named_scene *named = (const named_scene *)*state;
    for (int axes = 1; axes <= 2; axes++) {
        scene s;
        frame got, wanted;
        random_scene(&s, &named->options);
        frame_alloc(&got, &s, axes);
        frame_alloc(&wanted, &s, axes);
        library_options options = {.drop_camera = axes == 1};
        expect_ok(library_forward(two, &s, &options, &got, NULL));
        reference_rasterize(&s, &wanted);
        int wrong =
            compare_frames(named->name, &s, &got, &wanted, LIBRARY_EPSILON, LIBRARY_EPSILON > 1e-8);
        frame_free(&got);
        frame_free(&wanted);
        scene_free(&s);
        assert_int_equal(wrong, 0);
    }
}

static bool same_reals(const double *a, const double *b, size_t count) {
    return !a || !b || memcmp(a, b, count * sizeof *a) == 0;
}

static bool same_ints(const int32_t *a, const int32_t *b, size_t count) {
    return !a || !b || memcmp(a, b, count * sizeof *a) == 0;
}

/* Compares the arrays that both have, bit for bit. */
static void assert_same(const scene *s, const frame *a, const frame *b) {
    size_t pixels = scene_pixels(s), splats = scene_splats(s);
    assert_true(same_reals(a->color, b->color, pixels * (size_t)s->channels));
    assert_true(same_reals(a->alpha, b->alpha, pixels));
    assert_true(same_reals(a->depth, b->depth, pixels));
    assert_true(same_reals(a->inv_depth, b->inv_depth, pixels));
    assert_true(same_reals(a->median_depth, b->median_depth, pixels));
    assert_true(same_ints(a->radii, b->radii, splats * (size_t)a->radii_axes));
    assert_true(same_reals(a->means2d, b->means2d, 2 * splats));
    assert_true(same_reals(a->depths, b->depths, splats));
    assert_true(same_reals(a->conics, b->conics, 3 * splats));
    assert_true(same_reals(a->opacities, b->opacities, splats));
    assert_true(same_ints(a->touched, b->touched, splats));
    assert_true(same_reals(a->weight_sum, b->weight_sum, splats));
    assert_true(same_ints(a->weight_count, b->weight_count, splats));
    assert_true(same_reals(a->weight_blend, b->weight_blend, splats));
    assert_true(same_reals(a->weight_distance, b->weight_distance, splats));
}

static void threads_do_not_matter(void **state) {
    const named_scene *named = (const named_scene *)*state;
    gsc_context *contexts[] = {two, seven, seven};
    scene s;
    frame first, again;
    random_scene(&s, &named->options);
    frame_alloc(&first, &s, 1);
    frame_alloc(&again, &s, 1);
    expect_ok(library_forward(one, &s, NULL, &first, NULL));
    for (size_t i = 0; i < sizeof contexts / sizeof *contexts; i++) {
        expect_ok(library_forward(contexts[i], &s, NULL, &again, NULL));
        assert_same(&s, &first, &again);
    }
    frame_free(&first);
    frame_free(&again);
    scene_free(&s);
}

static void bands_do_not_matter(void **state) {
    const named_scene *named = (const named_scene *)*state;
    scene s;
    frame whole, bands;
    random_scene(&s, &named->options);
    frame_alloc(&whole, &s, 1);
    frame_alloc(&bands, &s, 1);
    gsc_raster_info info;
    library_options options = {.two_steps = true};
    expect_ok(library_forward(two, &s, NULL, &whole, NULL));
    expect_ok(library_forward(two, &s, &options, &bands, &info));
    assert_same(&s, &whole, &bands);
    assert_true(info.intersections_min_bytes <= info.intersections_bytes);
    size_t low = info.intersections_min_bytes, high = info.intersections_bytes;
    const size_t sizes[] = {low, low + 256, low + (high - low) / 3, high - high / 10, high};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        options.intersections = sizes[i] > low ? sizes[i] : low;
        if (options.intersections == 0) continue;
        expect_ok(library_forward(i % 2 ? two : seven, &s, &options, &bands, &info));
        assert_same(&s, &whole, &bands);
    }
    if (low > 0 && info.intersections > 0) {
        options.intersections = low / 2;
        gsc_status status = library_forward(two, &s, &options, &bands, &info);
        if (low / 2 > 0) assert_int_equal(status, GSC_ERROR_BUFFER_TOO_SMALL);
    }
    frame_free(&whole);
    frame_free(&bands);
    scene_free(&s);
}

/* Drops all outputs but the colour and output `which`. */
static void keep_only(frame *f, int which) {
    double **reals[] = {&f->alpha,      &f->depth,        &f->inv_depth,      &f->median_depth,
                        &f->means2d,    &f->depths,       &f->conics,         &f->opacities,
                        &f->weight_sum, &f->weight_blend, &f->weight_distance};
    int32_t **ints[] = {&f->radii, &f->touched, &f->weight_count};
    const int real_count = (int)(sizeof reals / sizeof *reals);
    for (int i = 0; i < real_count + 3; i++) {
        if (i == which) continue;
        if (i < real_count) {
            free(*reals[i]);
            *reals[i] = NULL;
        } else {
            free(*ints[i - real_count]);
            *ints[i - real_count] = NULL;
        }
    }
}

/* Loops for few outputs may round the last bit differently from the loop for all. */
static void outputs_do_not_matter(void **state) {
    const named_scene *named = (const named_scene *)*state;
    const double last_bit = sizeof(gsc_real) == 8 ? 1e-14 : 2e-7;
    scene s;
    frame whole, part;
    int wrong = 0;
    random_scene(&s, &named->options);
    frame_alloc(&whole, &s, 2);
    expect_ok(library_forward(two, &s, NULL, &whole, NULL));
    for (int which = -1; which < 14; which++) {
        frame_alloc(&part, &s, 2);
        keep_only(&part, which);
        expect_ok(library_forward(two, &s, NULL, &part, NULL));
        wrong += compare_frames(named->name, &s, &part, &whole, last_bit, false);
        frame_free(&part);
    }
    frame_free(&whole);
    scene_free(&s);
    assert_int_equal(wrong, 0);
}

int main(void) {
    static struct CMUnitTest tests[4 * RANDOM_SCENES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < random_scene_count; i++) {
        void *scene_state = (void *)(uintptr_t)&random_scenes[i];
        CMUnitTestFunction checks[] = {scene_agrees, threads_do_not_matter, bands_do_not_matter,
                                       outputs_do_not_matter};
        for (size_t k = 0; k < sizeof checks / sizeof *checks; k++) {
            tests[count++] =
                (struct CMUnitTest){random_scenes[i].name, checks[k], NULL, NULL, scene_state};
        }
    }
    one = library_context(1);
    two = library_context(2);
    seven = library_context(7);
    int failures = _cmocka_run_group_tests("forward rasterizer", tests, count, NULL, NULL);
    gsc_context_free(one);
    gsc_context_free(two);
    gsc_context_free(seven);
    return failures;
}
