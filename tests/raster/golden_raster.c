/* The rasterizer against recorded images of other implementations, and against the reference. */
#include "compare.h"
#include "golden_group.h"
#include "library.h"
#include "reference.h"

#include <stdio.h>

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
    expect_ok(library_forward(context, &s, &options, &got, NULL));
    int wrong = compare_frames(name, &s, &got, &recorded, GOLDEN_EPSILON, true);
    reference_rasterize(&s, &exact);
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

int main(void) {
    const char *prefixes[] = {"inria_", "AA_",  "ACC_",    "taming_", "WD_",
                              "WP_",    "ASH_", "gsplat_", NULL};
    context = library_context(0);
    int failures = golden_group("golden rasterizer outputs", prefixes, outputs_agree);
    gsc_context_free(context);
    return failures;
}
