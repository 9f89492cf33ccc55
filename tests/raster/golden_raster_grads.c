/* The rasterizer's gradients against recorded ones, and against the reference where the
 * recordings are known to be off:
 *  - ACC_ (accelerated) counts the background twice, so that it is compared with the
 *    gradients of a background twice as bright; its tiny3 and saturated cases lack
 *    whole groups of Gaussians and say nothing;
 *  - WP_ (poses) adds the part of the view direction to rho in world axes, leaves the
 *    principal point out, and builds theta from the clamped point where x/z is clamped. */
#include "compare.h"
#include "golden_group.h"
#include "library.h"
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GOLDEN_EPSILON 1e-3 /* relative L2 */
#ifdef GSC_DOUBLE
#define REFERENCE_EPSILON 1e-6 /* of views orthogonal to float32 */
#else
#define REFERENCE_EPSILON 1e-4
#endif

static gsc_context *context;

typedef struct grads_case {
    golden_case c;
    scene s;
    frame images; /* in double precision, for the upstream gradients */
} grads_case;

static void open_case(grads_case *g, const char *name) {
    assert_true(golden_open(&g->c, name));
    golden_scene(&g->c, &g->s);
    frame_alloc(&g->images, &g->s, 1);
    reference_rasterize(&g->s, &g->images);
}

static void close_case(grads_case *g) {
    frame_free(&g->images);
    scene_free(&g->s);
    golden_close(&g->c);
}

static void backward(const grads_case *g, gradients *out) {
    library_options options = {.drop_camera = g->s.cameras == 1};
    expect_ok(library_backward(context, &g->s, &options, out));
}

/* Gradients from the loss of the recording. */
static void backward_as_recorded(const grads_case *g, gradients *out) {
    gradients_alloc(out, &g->s);
    golden_upstream(&g->c, &g->s, &g->images, out);
    backward(g, out);
}

static void gradients_agree_with_reference(void **state) {
    grads_case g;
    open_case(&g, (const char *)*state);
    gradients got, exact;
    gradients_alloc(&got, &g.s);
    gradients_alloc(&exact, &g.s);
    golden_upstream(&g.c, &g.s, &g.images, &got);
    golden_upstream(&g.c, &g.s, &g.images, &exact);
    assert_true(library_mute_flips(context, &g.s, &got) <= COMPARE_MAX_FLIPS);
    assert_true(library_mute_flips(context, &g.s, &exact) <= COMPARE_MAX_FLIPS);
    backward(&g, &got);
    reference_backward(&g.s, &exact);
    char title[2 * GOLDEN_NAME];
    snprintf(title, sizeof title, "%s, reference", g.c.name);
    int wrong = compare_gradients(title, &g.s, &got, &exact, REFERENCE_EPSILON);
    gradients_free(&exact);
    gradients_free(&got);
    close_case(&g);
    assert_int_equal(wrong, 0);
}

static void gradients_agree(void **state) {
    const char *name = (const char *)*state;
    grads_case g;
    open_case(&g, name);
    bool doubled = strncmp(name, "ACC_", 4) == 0;
    for (int i = 0; doubled && i < g.s.channels; i++) g.s.background[i] *= 2;
    gradients got, recorded;
    backward_as_recorded(&g, &got);
    golden_gradients(&g.c, &g.s, &recorded);
    int wrong = compare_gradients(name, &g.s, &got, &recorded, GOLDEN_EPSILON);
    gradients_free(&recorded);
    gradients_free(&got);
    close_case(&g);
    assert_int_equal(wrong, 0);
}

/* Rotation and translation of a small motion T' = exp(rho, theta) T of world-to-camera. */
typedef struct pose_gradient {
    double rho[3], theta[3];
} pose_gradient;

/* Adds the contribution of a force on a point in camera space. */
static void push(pose_gradient *pose, const double point[3], const double force[3]) {
    for (int a = 0; a < 3; a++) {
        int b = (a + 1) % 3, c = (a + 2) % 3;
        pose->rho[a] += force[a];
        pose->theta[a] += point[b] * force[c] - point[c] * force[b];
    }
}

/* The gradient as the original records it, from ours with respect to the view (whose columns are
 * forces on the columns of the view), the position and the projected means. */
static pose_gradient pose_from(const grads_case *g, const gradients *got) {
    pose_gradient pose = {0};
    for (int column = 0; column < 4; column++) {
        pose_gradient part = {0};
        push(&part, g->s.view + 4 * column, got->view + 4 * column);
        for (int a = 0; a < 3; a++) {
            pose.theta[a] += part.theta[a];
            if (column == 3) pose.rho[a] += part.rho[a] + got->position[a];
        }
    }
    double *pinhole = golden_reals(&g->c, "in_projmatrix_raw");
    for (int i = 0; i < g->s.gaussians; i++) {
        const double *m = g->s.means + 3 * i, *v = g->s.view;
        double point[3], force[3] = {0, 0, 0};
        for (int a = 0; a < 3; a++) {
            point[a] = v[a] * m[0] + v[4 + a] * m[1] + v[8 + a] * m[2] + v[12 + a];
        }
        force[2] =
            -(got->means2d[2 * i] * pinhole[8] + got->means2d[2 * i + 1] * pinhole[9]) / point[2];
        push(&pose, point, force);
    }
    free(pinhole);
    return pose;
}

static bool is_clamped(const scene *s) {
    reference_camera camera;
    reference_splat *splats = (reference_splat *)calloc((size_t)s->gaussians, sizeof *splats);
    assert_non_null(splats);
    reference_camera_load(s, 0, &camera);
    reference_project(s, 0, &camera, splats);
    bool clamped = false;
    for (int i = 0; i < s->gaussians; i++) {
        clamped |= splats[i].visible && (splats[i].clamped[0] || splats[i].clamped[1]);
    }
    free(splats);
    return clamped;
}

static void poses_agree(void **state) {
    const char *name = (const char *)*state;
    grads_case g;
    open_case(&g, name);
    gradients got;
    backward_as_recorded(&g, &got);
    pose_gradient pose = pose_from(&g, &got);
    double *theta = golden_reals(&g.c, "grad_theta"), *rho = golden_reals(&g.c, "grad_rho");
    int wrong = compare_report(name, "d rho", compare_reals(pose.rho, rho, 3, GOLDEN_EPSILON));
    double allowed = is_clamped(&g.s) ? 0.05 : GOLDEN_EPSILON;
    wrong += compare_report(name, "d theta", compare_reals(pose.theta, theta, 3, allowed));
    free(theta);
    free(rho);
    gradients_free(&got);
    close_case(&g);
    assert_int_equal(wrong, 0);
}

static bool is_recorded_well(const char *name) {
    return strcmp(name, "ACC_tiny3") != 0 && strcmp(name, "ACC_saturated") != 0;
}

int main(void) {
    static char names[GOLDEN_MAX_CASES][GOLDEN_NAME];
    static struct CMUnitTest tests[3 * GOLDEN_MAX_CASES + 1];
    const char *prefixes[] = {"inria_", "AA_",  "ACC_",    "taming_", "WD_",
                              "WP_",    "ASH_", "gsplat_", NULL};
    int cases = golden_list(prefixes, names);
    size_t count = 0;
    tests[count++] =
        (struct CMUnitTest)cmocka_unit_test_prestate(every_prefix_has_cases, (void *)prefixes);
    for (int i = 0; i < cases; i++) {
        char *name = names[i];
        tests[count++] =
            (struct CMUnitTest){name, gradients_agree_with_reference, NULL, NULL, name};
        if (is_recorded_well(name)) {
            tests[count++] = (struct CMUnitTest){name, gradients_agree, NULL, NULL, name};
        }
        if (strncmp(name, "WP_", 3) == 0) {
            tests[count++] = (struct CMUnitTest){name, poses_agree, NULL, NULL, name};
        }
    }
    context = library_context(0);
    int failures = _cmocka_run_group_tests("golden rasterizer gradients", tests, count, NULL, NULL);
    gsc_context_free(context);
    return failures;
}
