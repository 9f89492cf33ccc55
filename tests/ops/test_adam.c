/* Adam against the textbook in double precision: groups, masks, corrections, decay. */
#include "expect.h"
#include "image_tensor.h"

#include "math/real.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef GSC_DOUBLE
#define TOLERANCE 1e-13
#else
#define TOLERANCE 3e-6
#endif

enum { PARAMETER, GRADIENT, MOMENT1, MOMENT2, ARRAYS };

typedef struct group {
    int64_t shape[3];
    int ndim;
    float lr, beta1, beta2, epsilon, weight_decay;
    int32_t step;
    size_t count, row_size;
    gsc_real *arrays[ARRAYS];
    double *wanted[ARRAYS];
    DLTensor views[ARRAYS];
} group;

/* Values as after some training steps; the gradients of a few rows are zero. */
static void group_fill(group *g) {
    g->count = 1;
    g->row_size = 1;
    for (int k = 0; k < g->ndim; k++) g->count *= (size_t)g->shape[k];
    for (int k = 1; k < g->ndim; k++) g->row_size *= (size_t)g->shape[k];
    for (int a = 0; a < ARRAYS; a++) {
        g->arrays[a] = malloc((g->count + 1) * sizeof(gsc_real));
        assert_non_null(g->arrays[a]);
        g->wanted[a] = image_random_values(g->count, a == MOMENT2 ? 0 : -1, 1);
        for (size_t i = 0; i < g->count; i++) {
            if (a == GRADIENT && i / g->row_size % 5 == 2) g->wanted[a][i] = 0;
            g->arrays[a][i] = (gsc_real)g->wanted[a][i];
        }
        g->views[a] = (DLTensor){.data = g->arrays[a],
                                 .device = {kDLCPU, 0},
                                 .ndim = g->ndim,
                                 .dtype = {kDLFloat, GSC_REAL_BITS, 1},
                                 .shape = g->shape};
    }
}

static void group_free(group *g) {
    for (int a = 0; a < ARRAYS; a++) {
        free(g->arrays[a]);
        free(g->wanted[a]);
    }
}

static double beta_of(float given, double standard) {
    return given == 0 ? standard : given < 0 ? 0 : (double)given;
}

/* The update rule as documented at gsc_adam_step; visible NULL: every row. */
static void reference_step(group *g, bool decoupled, const int32_t *visible) {
    const double beta1 = beta_of(g->beta1, 0.9), beta2 = beta_of(g->beta2, 0.999);
    const double epsilon = beta_of(g->epsilon, 1e-8), lr = (double)g->lr;
    const double decay = (double)g->weight_decay;
    for (size_t i = 0; i < g->count; i++) {
        if (visible && !visible[i / g->row_size]) continue;
        double *p = &g->wanted[PARAMETER][i], *m = &g->wanted[MOMENT1][i];
        double *v = &g->wanted[MOMENT2][i], gradient = g->wanted[GRADIENT][i];
        if (decoupled)
            *p -= lr * decay * *p;
        else
            gradient += decay * *p;
        *m = beta1 * *m + (1 - beta1) * gradient;
        *v = beta2 * *v + (1 - beta2) * gradient * gradient;
        const double b1 = g->step ? 1 - pow(beta1, g->step) : 1;
        const double b2 = g->step ? 1 - pow(beta2, g->step) : 1;
        *p -= lr * (*m / b1) / (sqrt(*v / b2) + epsilon);
    }
}

static void step(gsc_context *context, group *groups, uint32_t count, bool decoupled,
                 const DLTensor *visible) {
    gsc_adam_group described[8];
    memset(described, 0, sizeof described);
    for (uint32_t i = 0; i < count; i++) {
        group *g = &groups[i];
        described[i] = (gsc_adam_group){&g->views[PARAMETER],
                                        &g->views[GRADIENT],
                                        &g->views[MOMENT1],
                                        &g->views[MOMENT2],
                                        g->lr,
                                        g->beta1,
                                        g->beta2,
                                        g->epsilon,
                                        g->weight_decay,
                                        g->step};
    }
    GSC_INIT(gsc_adam_args, args);
    args.flags = decoupled ? GSC_ADAM_DECOUPLED : 0;
    args.group_count = count;
    args.groups = described;
    args.group_stride = sizeof described[0];
    args.visible = visible;
    const gsc_status status = gsc_adam_step(context, &args, NULL);
    if (status != GSC_OK) fail_msg("%s", gsc_last_error());
}

static void assert_group(const group *g) {
    for (int a = 0; a < ARRAYS; a++)
        for (size_t i = 0; i < g->count; i++) {
            const double got = (double)g->arrays[a][i], wanted = g->wanted[a][i];
            if (isnan(wanted) ? !isnan(got) : !(fabs(got - wanted) <= TOLERANCE))
                fail_msg("array %d, element %zu is %g, wanted %g", a, i, got, wanted);
        }
}

/* Groups like those of a scene, with more elements than one thread takes at a time. */
static const group scene_groups[] = {
    {.shape = {1200, 3}, .ndim = 2, .lr = 1e-3f, .step = 1},
    {.shape = {1200}, .ndim = 1, .lr = 0.05f, .step = 7, .epsilon = 1e-15f},
    {.shape = {1200, 15, 3}, .ndim = 3, .lr = 1e-2f, .step = 100000, .beta1 = 0.8f, .beta2 = 0.9f},
    {.shape = {1200, 4}, .ndim = 2, .lr = 1e-2f, .beta1 = -1, .beta2 = 0.5f, .epsilon = 1e-4f},
};
enum { GROUPS = sizeof scene_groups / sizeof *scene_groups, ROWS = 1200 };

/* Every row mask type, alone and mixed with decay of either kind; three steps each. */
static void agrees_with_the_textbook(void **state) {
    gsc_context *context = (gsc_context *)*state;
    int32_t ints[ROWS];
    uint8_t bytes[ROWS];
    int64_t rows = ROWS;
    for (int k = 0; k < 4 * 3; k++) {
        for (int i = 0; i < ROWS; i++) {
            /* Single rows, runs, and a long range without any. */
            ints[i] = i > 800 && i < 1000 ? 0 : image_random() < 0.6 ? 1 + i % 3 : 0;
            bytes[i] = (uint8_t)(ints[i] != 0);
            if (k % 4 == 1) ints[i] *= i % 2 ? 0x100 : -5; /* low byte 0; negative */
        }
        DLTensor visible = {.data = k % 4 == 1 ? (void *)ints : (void *)bytes,
                            .device = {kDLCPU, 0},
                            .ndim = 1,
                            .dtype = {k % 4 == 1   ? kDLInt
                                      : k % 4 == 2 ? kDLUInt
                                                   : kDLBool,
                                      k % 4 == 1 ? 32 : 8, 1},
                            .shape = &rows};
        group groups[GROUPS];
        memcpy(groups, scene_groups, sizeof groups);
        for (int i = 0; i < GROUPS; i++) {
            group_fill(&groups[i]);
            groups[i].weight_decay = k / 4 ? 0.1f * (float)(i + 1) : 0;
        }
        for (int repeat = 0; repeat < 3; repeat++) {
            step(context, groups, GROUPS, k / 4 == 2, k % 4 ? &visible : NULL);
            for (int i = 0; i < GROUPS; i++) {
                reference_step(&groups[i], k / 4 == 2, k % 4 ? ints : NULL);
                assert_group(&groups[i]);
            }
        }
        for (int i = 0; i < GROUPS; i++) group_free(&groups[i]);
    }
}

/* Without correction the first step from rest is lr (1 - beta1) / sqrt(1 - beta2). */
static void selective_adam_of_3dgs(void **state) {
    int64_t rows = 4;
    int32_t radii[] = {3, 0, 1, 0};
    DLTensor visible = {
        .data = radii, .device = {kDLCPU, 0}, .ndim = 1, .dtype = {kDLInt, 32, 1}, .shape = &rows};
    group g = {.shape = {4, 2}, .ndim = 2, .lr = 0.01f, .epsilon = 1e-15f};
    group_fill(&g);
    for (size_t i = 0; i < g.count; i++) {
        g.arrays[PARAMETER][i] = g.arrays[MOMENT1][i] = g.arrays[MOMENT2][i] = 0;
        g.arrays[GRADIENT][i] = i % 2 ? 5 : -5;
    }
    step((gsc_context *)*state, &g, 1, false, &visible);
    for (size_t i = 0; i < g.count; i++) {
        const double wanted = radii[i / 2] ? (i % 2 ? -1 : 1) * 0.01 * 0.1 / sqrt(0.001) : 0;
        assert_true(fabs((double)g.arrays[PARAMETER][i] - wanted) < 1e-8);
        assert_true((g.arrays[MOMENT2][i] > 0) == (radii[i / 2] != 0));
    }
    group_free(&g);
}

/* A NaN gradient spoils its own element permanently, and no other. */
static void nan_gradients(void **state) {
    group g = {.shape = {40, 3}, .ndim = 2, .lr = 0.01f, .step = 2};
    group_fill(&g);
    g.arrays[GRADIENT][31] = (gsc_real)NAN;
    g.wanted[GRADIENT][31] = NAN;
    g.arrays[GRADIENT][77] = (gsc_real)INFINITY;
    g.wanted[GRADIENT][77] = INFINITY;
    reference_step(&g, false, NULL);
    g.wanted[MOMENT1][77] = g.wanted[MOMENT2][77] = NAN; /* infinite; compared below */
    step((gsc_context *)*state, &g, 1, false, NULL);
    assert_true(isinf(g.arrays[MOMENT1][77]) && isinf(g.arrays[MOMENT2][77]));
    assert_true(isnan(g.arrays[PARAMETER][77]) && isnan(g.arrays[PARAMETER][31]));
    for (int a = 0; a < ARRAYS; a++) {
        g.arrays[a][77] = 0;
        g.wanted[a][77] = 0;
    }
    assert_group(&g);
    group_free(&g);
}

static void nothing_to_do(void **state) {
    group g[2] = {{.shape = {0, 3}, .ndim = 2, .lr = 1}, {.shape = {5, 0}, .ndim = 2, .lr = 1}};
    group_fill(&g[0]);
    group_fill(&g[1]);
    step((gsc_context *)*state, g, 2, false, NULL);
    step((gsc_context *)*state, g, 0, false, NULL);
    group_free(&g[0]);
    group_free(&g[1]);
}

static void same_bits_for_any_threads(void **state) {
    (void)state;
    group results[3];
    const group start = {.shape = {3001, 59}, .ndim = 2, .lr = 0.01f, .step = 3};
    gsc_real *first[ARRAYS];
    for (int i = 0; i < 3; i++) {
        gsc_context *context = image_context((const int[]){1, 2, 7}[i], false);
        results[i] = start;
        group_fill(&results[i]);
        for (int a = 0; a < ARRAYS; a++)
            for (size_t k = 0; k < results[i].count; k++) /* the same in each run */
                results[i].arrays[a][k] = (gsc_real)(a == MOMENT2) + (gsc_real)(k % 97) / 97;
        step(context, &results[i], 1, false, NULL);
        gsc_context_free(context);
        for (int a = 0; a < ARRAYS; a++) {
            if (i == 0) first[a] = results[0].arrays[a];
            assert_memory_equal(results[i].arrays[a], first[a],
                                results[i].count * sizeof(gsc_real));
        }
    }
    for (int i = 0; i < 3; i++) group_free(&results[i]);
}

static void out_of_memory(void **state) {
    (void)state;
    image_memory_left = (size_t)1 << 30;
    gsc_context *context = image_context(1, true);
    image_memory_left = 0;
    group g = {.shape = {4, 3}, .ndim = 2, .lr = 1};
    group_fill(&g);
    gsc_adam_group described = {.parameter = &g.views[PARAMETER],
                                .gradient = &g.views[GRADIENT],
                                .moment1 = &g.views[MOMENT1],
                                .moment2 = &g.views[MOMENT2],
                                .lr = 1};
    GSC_INIT(gsc_adam_args, args);
    args.group_count = 1;
    args.groups = &described;
    args.group_stride = sizeof described;
    assert_int_equal(gsc_adam_step(context, &args, NULL), GSC_ERROR_OUT_OF_MEMORY);
    assert_non_null(strstr(gsc_last_error(), "adam_step"));
    assert_group(&g);
    group_free(&g);
    gsc_context_free(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_textbook),
        cmocka_unit_test(selective_adam_of_3dgs),
        cmocka_unit_test(nan_gradients),
        cmocka_unit_test(nothing_to_do),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests_name("adam", tests, image_open_context, image_close_context);
}
