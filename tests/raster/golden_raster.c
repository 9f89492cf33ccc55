/* The rasterizer against what other implementations drew, and against the reference. */
#include "compare.h"
#include "golden.h"
#include "library.h"
#include "reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define GOLDEN_EPSILON 1e-4 /* relative L2 */

static gsc_context *context;

static void outputs_agree(void **state) {
    const char *name = (const char *)*state;
    golden_case c;
    assert_true(golden_open(&c, name));
    scene s;
    golden_scene(&c, &s);
    frame recorded, exact, got;
    golden_frame(&c, &s, &recorded);
    frame_alloc(&got, &s, recorded.radii_axes);
    frame_alloc(&exact, &s, recorded.radii_axes);
    library_options options = {.drop_camera = s.cameras == 1};
    gsc_status status = library_forward(context, &s, &options, &got, NULL);
    if (status != GSC_OK) print_error("%s: %s\n", name, gsc_last_error());
    assert_int_equal(status, GSC_OK);
    int wrong = compare_frames(name, &s, &got, &recorded, GOLDEN_EPSILON, true);
    reference_render(&s, &exact);
    char title[2 * GOLDEN_NAME];
    snprintf(title, sizeof title, "%s, reference", name);
    wrong += compare_frames(title, &s, &got, &exact, LIBRARY_EPSILON, true);
    frame_free(&exact);
    frame_free(&got);
    frame_free(&recorded);
    scene_free(&s);
    golden_close(&c);
    assert_int_equal(wrong, 0);
}

/* A folder without cases would pass unseen. */
static void every_kind_is_there(void **state) {
    (void)state;
    static char names[GOLDEN_MAX_CASES][GOLDEN_NAME];
    const char *kinds[] = {"inria_", "AA_", "ACC_", "taming_", "WD_", "WP_", "ASH_", "gsplat_"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *prefixes[] = {kinds[i], NULL};
        if (golden_list(prefixes, names) == 0) {
            fail_msg("no case %s* in %s", kinds[i], golden_folder());
        }
    }
}

int main(void) {
    static char names[GOLDEN_MAX_CASES][GOLDEN_NAME];
    static struct CMUnitTest tests[GOLDEN_MAX_CASES + 1];
    const char *prefixes[] = {"inria_", "AA_",  "ACC_",    "taming_", "WD_",
                              "WP_",    "ASH_", "gsplat_", NULL};
    int count = golden_list(prefixes, names);
    for (int i = 0; i < count; i++) {
        tests[i] = (struct CMUnitTest){names[i], outputs_agree, NULL, NULL, names[i]};
    }
    tests[count] = (struct CMUnitTest)cmocka_unit_test(every_kind_is_there);
    context = library_context(0);
    int failures =
        _cmocka_run_group_tests("golden rasterizer outputs", tests, (size_t)count + 1, NULL, NULL);
    gsc_context_free(context);
    return failures;
}
