/* Rasterizer calls on the mock driver and the kernels that they launched. */
#ifndef GSC_TESTS_RASTER_LAUNCHES_H
#define GSC_TESTS_RASTER_LAUNCHES_H

#include "../../cuda/kernels.h"
#include "mock_device.h"
#include "raster_args_fixture.h"

enum { STATE_BYTES = 1 << 15, LIST_BYTES = 1 << 19 };

static mock_driver_state *mock;
static gsc_context *context;
static _Alignas(256) unsigned char state_memory[STATE_BYTES], lists_memory[LIST_BYTES];
static view color, depth, touched, weight_sum, weight_count, grad_color, grad_means,
    grad_background;
static view state, lists;
static gsc_raster_info info;
static gsc_raster_buffers buffers;
static gsc_raster_outputs outputs;
static gsc_raster_grads grads;

static void bytes(view *v, unsigned char *data, int64_t size) {
    VIEW(v, size);
    view_dtype(v, kDLUInt, 8);
    view_device(v, kDLCUDA, 0);
    v->tensor.data = data;
}

static void make_views(void) {
    VIEW(&color, CAMERAS, 3, HEIGHT, WIDTH);
    VIEW(&depth, CAMERAS, HEIGHT, WIDTH);
    VIEW(&touched, CAMERAS, GAUSSIANS);
    VIEW(&weight_sum, CAMERAS, GAUSSIANS);
    VIEW(&weight_count, CAMERAS, GAUSSIANS);
    VIEW(&grad_color, CAMERAS, 3, HEIGHT, WIDTH);
    VIEW(&grad_means, GAUSSIANS, 3);
    VIEW(&grad_background, CAMERAS, 3);
    view_dtype(&touched, kDLInt, 32);
    view_dtype(&weight_count, kDLInt, 32);
    view *const all[] = {&color,        &depth,      &touched,    &weight_sum,
                         &weight_count, &grad_color, &grad_means, &grad_background};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) {
        view_device(all[i], kDLCUDA, 0);
        all[i]->tensor.data = view_memory + 4096 * (i + 1);
    }
    bytes(&state, state_memory, STATE_BYTES);
    bytes(&lists, lists_memory, LIST_BYTES);
}

/* A frame of `intersections` intersections, as project would have counted them. */
static void know(int64_t intersections) {
    info = (gsc_raster_info){.struct_size = sizeof info, .intersections = intersections};
    expect_ok(gsc_raster_sizes(context, &args, &info));
    assert_true(info.state_bytes <= STATE_BYTES && info.intersections_bytes <= LIST_BYTES);
    mock->launch_count = 0;
}

static int open_context(void **unused) {
    mock_reset(mock);
    reset(unused);
    for (int i = 0; i < FIELDS; ++i) view_device(&views[i], kDLCUDA, 0);
    make_views();
    buffers = (gsc_raster_buffers){
        .struct_size = sizeof buffers, .state = &state.tensor, .intersections = &lists.tensor};
    outputs = (gsc_raster_outputs){.struct_size = sizeof outputs, .color = &color.tensor};
    grads = (gsc_raster_grads){
        .struct_size = sizeof grads, .color = &grad_color.tensor, .means = &grad_means.tensor};
    context = mock_context(0, 0);
    know(100);
    return 0;
}

static int close_context(void **unused) {
    (void)unused;
    assert_int_equal(mock->blocks + mock->async_blocks, 0);
    gsc_context_free(context);
    return 0;
}

static gsc_status run_blend(void) {
    return gsc_raster_blend(context, &args, &buffers, &outputs, &info, NULL, NULL);
}

/* ------------------------------------------------------------------- launches */

static int launches_of(const char *kernel) {
    int count = 0;
    for (int i = 0; i < mock->launch_count; ++i)
        count += strcmp(mock->launches[i].kernel, kernel) == 0;
    return count;
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_context, close_context)

#endif
