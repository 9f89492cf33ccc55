/* Finite input never raises the floating-point exceptions "invalid" and "divide by zero", in no
 * operation and on no thread: a host may trap them. */
#define _GNU_SOURCE /* feenableexcept */
#include "expect.h"
#include "library.h"
#include "math/real.h"
#include "train_call.h"

#include <fenv.h>
#include <stdlib.h>

#define STORED (GSC_RASTER_LOG_SCALES | GSC_RASTER_LOGIT_OPACITIES)

static const train_case cases[] = {
    {.name = "3DGS",
     .scene = {.seed = 1, .gaussians = 1003, SH(3), .sh_split = true, .flags = STORED},
     .statistics = true},
    {.name = "degree 4",
     .scene = {.seed = 4, .gaussians = 50, SH(4), .flags = GSC_RASTER_LOGIT_OPACITIES}},
    {.name = "colours, covariances, decoupled decay",
     .scene = {.seed = 6, .gaussians = 300, .covariances = true, .background_rows = 1},
     .flags = GSC_TRAIN_DECOUPLED,
     .weight_decay = 0.01f,
     .bytes = true},
    {.name = "pixel last, decay, mask",
     .scene = {.seed = 7, .gaussians = 100, .flags = GSC_RASTER_PIXEL_LAST | STORED},
     .weight_decay = 0.02f,
     .bytes = true,
     .mask = true},
    {.name = "compat, antialias, in bands",
     .scene = {.seed = 10,
               .gaussians = 1500,
               SH(1),
               .projection = true,
               .flags = GSC_RASTER_COMPAT_3DGS | GSC_RASTER_ANTIALIAS | STORED,
               .size_max = 4},
     .bands = true},
    {.name = "five channels",
     .scene = {.seed = 12, .gaussians = 300, .channels = 5},
     .not_trained = 1u << (GSC_PARAMETER_COLORS - 1)},
    {.name = "faint and tiny",
     .scene = {.seed = 14,
               .gaussians = 2000,
               .opacity_min = 0.0039,
               .opacity_max = 0.005,
               .size_min = 0.02,
               .size_max = 0.2}},
    {.name = "wide and flat",
     .scene = {.seed = 15, .gaussians = 500, .spread = 3, .size_min = 0.01, .size_max = 8}},
};
enum { CASES = sizeof cases / sizeof cases[0], THREADS = 3, WATCHED = FE_INVALID | FE_DIVBYZERO };

/* Threads inherit the traps of the one that starts them.  Without traps only this thread's flags
 * are known. */
static void watch(void) {
    feclearexcept(WATCHED);
#if defined(__GLIBC__) && defined(__x86_64__)
    feenableexcept(WATCHED);
#endif
}

static void expect_none(void) {
    assert_int_equal(fetestexcept(WATCHED), 0);
#if defined(__GLIBC__) && defined(__x86_64__)
    fedisableexcept(WATCHED);
#endif
}

/* The rasterizer forward and backward, the image loss with SSIM, Adam, and the training step. */
static void training(void **state) {
    const train_case *c = *state;
    gsc_context *context = library_context(THREADS);
    scene input;
    side one, four;
    train_call call;
    raster_scene_make(&input, &c->scene);
    side_open(&one, c, &input);
    side_open(&four, c, &input);
    watch();
    train_four_calls(context, c, &four);
    train_call_make(&call, c, &one);
    if (c->bands) train_call_own_buffers(context, &call, &one);
    expect_ok(gsc_train_step(context, &call.args, NULL));
    expect_none();
    side_close(&four);
    side_close(&one);
    scene_free(&input);
    gsc_context_free(context);
}

/* A last leaf that is not full, duplicates, and fewer points than neighbours. */
static void neighbours(void **state) {
    enum { POINTS = 5003, K = 5 };
    static const int64_t counts[] = {POINTS, 1000, 17, 3, 1};
    gsc_real *points = calloc(3 * POINTS, sizeof *points);
    gsc_real *distances2 = calloc(POINTS * K, sizeof *distances2);
    gsc_context *context = library_context(THREADS);
    uint32_t random = 1;
    (void)state;
    assert_true(points && distances2);
    for (int i = 0; i < 3 * POINTS; i++) {
        random = random * 1664525u + 1013904223u;
        points[i] = (gsc_real)(random >> (i % 2 ? 8 : 26));
    }
    watch();
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        int64_t points_shape[] = {counts[i], 3}, table_shape[] = {counts[i], K};
        const DLDataType real = {kDLFloat, 8 * sizeof(gsc_real), 1};
        DLTensor input = {
            .data = points, .device = {kDLCPU, 0}, .ndim = 2, .dtype = real, .shape = points_shape};
        DLTensor output = {.data = distances2,
                           .device = {kDLCPU, 0},
                           .ndim = 2,
                           .dtype = real,
                           .shape = table_shape};
        GSC_INIT(gsc_knn_args, args);
        args.k = K;
        args.points = &input;
        args.distances2 = &output;
        expect_ok(gsc_knn(context, &args, NULL));
    }
    expect_none();
    gsc_context_free(context);
    free(distances2);
    free(points);
}

int main(void) {
    struct CMUnitTest tests[CASES + 1];
    for (int i = 0; i < CASES; i++)
        tests[i] =
            (struct CMUnitTest){cases[i].name, training, NULL, NULL, (void *)(uintptr_t)&cases[i]};
    tests[CASES] = (struct CMUnitTest)cmocka_unit_test(neighbours);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
