#define _DEFAULT_SOURCE /* setenv */
/* Every public operation on the mock driver: the current context, the stream of the work, which
 * calls wait, and tensors on the wrong device. */

#include "../../cuda/kernels.h"
#include "mock_device.h"
#include "raster_args_fixture.h"

#include "gpu/raster.h"

enum { PIXELS = CAMERAS * WIDTH * HEIGHT, STATE_BYTES = 1 << 15 };

static mock_driver_state *mock;
static gsc_context *context;
static _Alignas(256) unsigned char state_memory[STATE_BYTES], lists_memory[STATE_BYTES];
static view color, radii, state_bytes, lists_bytes, grad_color, grad_means, visible, scalar;
static view points, indices, image, map, rows;
static gsc_raster_info info;

static void on_gpu(view *v) {
    view_device(v, kDLCUDA, 0);
}

static void bytes(view *v, unsigned char *data, int64_t size) {
    VIEW(v, size);
    view_dtype(v, kDLUInt, 8);
    v->tensor.data = data;
    on_gpu(v);
}

static int open_context(void **unused) {
    mock_reset(mock);
    reset(unused);
    for (int i = 0; i < FIELDS; ++i) on_gpu(&views[i]);
    VIEW(&color, CAMERAS, 3, HEIGHT, WIDTH);
    VIEW(&radii, CAMERAS, GAUSSIANS);
    view_dtype(&radii, kDLInt, 32);
    VIEW(&grad_color, CAMERAS, 3, HEIGHT, WIDTH);
    VIEW(&grad_means, GAUSSIANS, 3);
    VIEW(&visible, CAMERAS, GAUSSIANS);
    view_dtype(&visible, kDLUInt, 8);
    view_init(&scalar, 0, NULL);
    VIEW(&points, 40, 3);
    VIEW(&indices, 40, 3);
    view_dtype(&indices, kDLInt, 64);
    VIEW(&image, 1, 3, 16, 20);
    VIEW(&map, 1, 3, 16, 20);
    VIEW(&rows, 40, 3);
    view *const all[] = {&color,  &radii,   &grad_color, &grad_means, &visible, &scalar,
                         &points, &indices, &image,      &map,        &rows};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; ++i) on_gpu(all[i]);
    bytes(&state_bytes, state_memory, STATE_BYTES);
    bytes(&lists_bytes, lists_memory, STATE_BYTES);
    context = mock_context(0, 0);
    memset(&info, 0, sizeof info);
    info.struct_size = sizeof info;
    info.intersections = 100;
    expect_ok(gsc_raster_sizes(context, &args, &info));
    assert_true(info.state_bytes <= STATE_BYTES);
    return 0;
}

static int close_context(void **unused) {
    (void)unused;
    assert_int_equal(mock->blocks + mock->async_blocks, 0);
    gsc_context_free(context);
    assert_int_equal(mock->retained[0] + mock->libraries + mock->pinned, 0);
    return 0;
}

/* ------------------------------------------------------------------ operations */

static gsc_status project(gsc_raster_info *found, void *stream) {
    GSC_INIT(gsc_raster_buffers, buffers);
    GSC_INIT(gsc_raster_outputs, outputs);
    buffers.state = &state_bytes.tensor;
    outputs.radii = &radii.tensor;
    return gsc_raster_project(context, &args, &buffers, &outputs, found, stream);
}

static gsc_status project_only(void *stream) {
    return project(NULL, stream);
}

static gsc_status project_and_wait(void *stream) {
    gsc_raster_info found = info;
    return project(&found, stream);
}

static gsc_status run_blend(void *stream) {
    GSC_INIT(gsc_raster_buffers, buffers);
    GSC_INIT(gsc_raster_outputs, outputs);
    buffers.state = &state_bytes.tensor;
    buffers.intersections = &lists_bytes.tensor;
    outputs.color = &color.tensor;
    return gsc_raster_blend(context, &args, &buffers, &outputs, &info, NULL, stream);
}

static gsc_status backward(void *stream) {
    GSC_INIT(gsc_raster_buffers, buffers);
    GSC_INIT(gsc_raster_grads, grads);
    buffers.state = &state_bytes.tensor;
    buffers.intersections = &lists_bytes.tensor;
    grads.color = &grad_color.tensor;
    grads.means = &grad_means.tensor;
    return gsc_raster_backward(context, &args, &buffers, &info, &grads, stream);
}

static gsc_status forward(void *stream) {
    GSC_INIT(gsc_raster_outputs, outputs);
    GSC_INIT(gsc_raster_grads, grads);
    gsc_raster_saved *saved;
    outputs.color = &color.tensor;
    grads.color = &grad_color.tensor;
    grads.means = &grad_means.tensor;
    GSC__TRY(gsc_rasterize(context, &args, &outputs, &saved, stream));
    gsc_status status = gsc_rasterize_backward(context, &args, saved, &grads, stream);
    gsc_raster_saved_free(saved, stream);
    return status;
}

static gsc_status mark_visible(void *stream) {
    return gsc_mark_visible(context, &args, &visible.tensor, stream);
}

static gsc_status knn(void *stream) {
    GSC_INIT(gsc_knn_args, knn);
    knn.points = &points.tensor;
    knn.indices = &indices.tensor;
    return gsc_knn(context, &knn, stream);
}

static gsc_status ssim(void *stream) {
    GSC_INIT(gsc_ssim_args, ssim);
    ssim.image = ssim.target = &image.tensor;
    ssim.map = &map.tensor;
    GSC__TRY(gsc_ssim_forward(context, &ssim, stream));
    ssim.map = NULL;
    ssim.grad_map = &image.tensor;
    ssim.grad_image = &map.tensor;
    return gsc_ssim_backward(context, &ssim, stream);
}

static gsc_status image_loss(void *stream) {
    GSC_INIT(gsc_image_loss_args, loss);
    loss.image = loss.target = &image.tensor;
    loss.ssim_weight = 1;
    loss.loss = &scalar.tensor;
    loss.grad_image = &map.tensor;
    return gsc_image_loss(context, &loss, stream);
}

static gsc_status adam_step(void *stream) {
    const gsc_adam_group group = {
        &rows.tensor, &rows.tensor, &rows.tensor, &rows.tensor, 0.1f, 0, 0, 0, 0, 1};
    GSC_INIT(gsc_adam_args, adam);
    adam.groups = &group;
    adam.group_count = 1;
    adam.group_stride = sizeof group;
    return gsc_adam_step(context, &adam, stream);
}

/* Of the first camera: only the means are stepped. */
static gsc_status train_step(void *stream) {
    static const int per_camera[] = {VIEW_, INTRINSICS, POSITION, BACKGROUND, COLORS};
    gsc_raster_args one = args;
    DLTensor cut[5];
    const DLTensor **const places[5] = {&one.view, &one.intrinsics, &one.position, &one.background,
                                        &one.colors};
    for (int i = 0; i < 5; ++i) {
        cut[i] = views[per_camera[i]].tensor;
        cut[i].shape += 1;
        cut[i].ndim -= 1;
        *places[i] = &cut[i];
    }
    one.pixel_weights = NULL;
    DLTensor target = color.tensor;
    target.shape += 1;
    target.ndim -= 1;
    const gsc_train_group group = {.moment1 = &grad_means.tensor,
                                   .moment2 = &grad_means.tensor,
                                   .parameter = GSC_PARAMETER_MEANS,
                                   .lr = 0.1f};
    GSC_INIT(gsc_image_loss_args, loss);
    GSC_INIT(gsc_train_args, train);
    loss.ssim_weight = 1;
    loss.target = &target;
    loss.loss = &scalar.tensor;
    train.raster = &one;
    train.loss = &loss;
    train.groups = &group;
    train.group_count = 1;
    train.group_stride = sizeof group;
    return gsc_train_step(context, &train, stream);
}

static const struct {
    const char *name;
    gsc_status (*run)(void *stream);
    int waits;
} operations[] = {
    {"project, no info", project_only, 0},
    {"project", project_and_wait, 1},
    {"blend", run_blend, 0},
    {"backward", backward, 0},
    {"forward and backward", forward, 1},
    {"mark_visible", mark_visible, 0},
    {"knn", knn, 0},
    {"ssim", ssim, 0},
    {"image_loss", image_loss, 0},
    {"adam_step", adam_step, 0},
    {"train_step", train_step, 1},
};
enum { OPERATIONS = sizeof operations / sizeof operations[0] };

static void *current(void) {
    void *now;
    expect_ok(gsc__driver_try()->cuCtxGetCurrent(&now));
    return now;
}

/* ----------------------------------------------------------------------- tests */

static void run_all(void *expected) {
    for (int i = 0; i < OPERATIONS; ++i) {
        mock->launch_count = 0;
        expect_ok(operations[i].run(NULL));
        assert_true(mock->launch_count > 0);
        assert_ptr_equal(current(), expected);
        for (int k = 0; k < mock->launch_count; ++k)
            assert_ptr_equal(mock->launches[k].context, gsc__gpu_of(context)->device.primary);
    }
}

static void the_current_context_stays(void **unused) {
    const gsc__driver *driver = gsc__driver_try();
    void *primary = gsc__gpu_of(context)->device.primary, *other = &info, *popped;
    (void)unused;
    run_all(NULL);
    driver->cuCtxPushCurrent(other);
    run_all(other);
    driver->cuCtxPushCurrent(primary);
    const int pushes = mock->pushes;
    run_all(primary);
    assert_int_equal(mock->pushes, pushes);
    driver->cuCtxPopCurrent(&popped);
    driver->cuCtxPopCurrent(&popped);
    assert_null(current());
}

static void all_work_goes_to_the_callers_stream(void **unused) {
    void *const streams[] = {NULL, (void *)1, (void *)2, &info};
    (void)unused;
    for (int i = 0; i < OPERATIONS; ++i) {
        for (int s = 0; s < 4; ++s) {
            mock->launch_count = 0;
            mock->stream = &mock;
            expect_ok(operations[i].run(streams[s]));
            assert_ptr_equal(mock->stream, streams[s]);
            for (int k = 0; k < mock->launch_count; ++k)
                assert_ptr_equal(mock->launches[k].stream, streams[s]);
        }
    }
}

static void only_the_documented_calls_wait(void **unused) {
    (void)unused;
    for (int i = 0; i < OPERATIONS; ++i) {
        mock->synchronisations = 0;
        expect_ok(operations[i].run(NULL));
        assert_int_equal(mock->synchronisations, operations[i].waits);
    }
}

static void waiting_is_refused_while_the_stream_is_captured(void **unused) {
    (void)unused;
    setenv("MOCK_DRIVER_CAPTURING", "1", 1);
    for (int i = 0; i < OPERATIONS; ++i) {
        mock->synchronisations = 0;
        gsc_status status = operations[i].run(NULL);
        assert_int_equal(status, operations[i].waits ? GSC_ERROR_UNSUPPORTED : GSC_OK);
        assert_int_equal(mock->synchronisations, 0);
        assert_int_equal(mock->async_blocks, 0);
        if (operations[i].waits)
            assert_non_null(strstr(gsc_last_error(), "the stream is being captured"));
    }
    for (int i = 0; i < GSC__STAGING_SLOTS; ++i)
        assert_false(gsc__gpu_of(context)->staging.taken[i]);
}

static void a_failed_launch_leaves_nothing_behind(void **unused) {
    (void)unused;
    setenv("MOCK_DRIVER_FAIL", "cuLaunchKernelEx=700", 1);
    for (int i = 0; i < OPERATIONS; ++i) {
        assert_int_equal(operations[i].run(NULL), GSC_ERROR_CUDA);
        assert_int_equal(gsc_last_error_cuda(), 700);
        assert_null(current());
        assert_int_equal(mock->async_blocks, 0);
    }
}

static void expect_refusal(int field, const char *given) {
    char text[128];
    snprintf(text, sizeof text, "raster_project: %s is on %s, expected cuda:0", fields[field].name,
             given);
    expect_failure(project_only(NULL), GSC_ERROR_DEVICE, text);
}

static void tensors_elsewhere_are_refused(void **unused) {
    static const int may_be_host[] = {VIEW_, INTRINSICS, POSITION, BACKGROUND};
    static const int device_only[] = {WEIGHTS, MEANS, OPACITIES, SCALES, ROTATIONS, COLORS};
    (void)unused;
    for (size_t i = 0; i < sizeof may_be_host / sizeof may_be_host[0]; ++i) {
        view *v = &views[may_be_host[i]];
        view_device(v, kDLCPU, 0);
        expect_ok(project_only(NULL));
        view_device(v, kDLCUDAHost, 0);
        expect_ok(project_only(NULL));
        view_device(v, kDLCUDA, 1);
        expect_refusal(may_be_host[i], "cuda:1");
        on_gpu(v);
    }
    for (size_t i = 0; i < sizeof device_only / sizeof device_only[0]; ++i) {
        view *v = &views[device_only[i]];
        view_device(v, kDLCPU, 0);
        expect_refusal(device_only[i], "cpu");
        view_device(v, kDLCUDAHost, 0);
        expect_refusal(device_only[i], "cuda_host");
        view_device(v, kDLCUDA, 1);
        expect_refusal(device_only[i], "cuda:1");
        view_device(v, kDLCUDAManaged, 0);
        expect_ok(project_only(NULL));
        on_gpu(v);
    }
}

static const mock_launch *launch_of(const char *kernel) {
    const mock_launch *seen = mock_find_launch(mock, kernel, 0);
    if (!seen) fail_msg("%s was not launched", kernel);
    return seen;
}

/* Every warp that order_tiles may ask for exists: one for each tile, and three more for each long
 * list. */
static void blending_has_warps_for_long_lists(void **unused) {
    static const struct {
        gsc_status (*run)(void *stream);
        const char *kernel;
    } passes[] = {{run_blend, "gsc_blend"}, {backward, "gsc_blend_backward"}};
    gsc_k_find_tiles find;
    (void)unused;
    for (int i = 0; i < 2; ++i) {
        mock->launch_count = 0;
        expect_ok(passes[i].run(NULL));
        if (i == 0) memcpy(&find, launch_of("gsc_find_tiles")->args, sizeof find);
        const gsc_k_order_tiles order = find.order; /* backward uses the same buffer */
        const int tiles = order.grid.tiles;
        const int cells = (1 << order.grid.shift_x) / 16 * (1 << order.grid.shift_y) / 8;
        const int most = (int)order.long_lists < tiles ? (int)order.long_lists : tiles;
        const mock_launch *seen = launch_of(passes[i].kernel);
        assert_int_equal(tiles, order.grid.tiles_x * order.grid.tiles_y);
        assert_int_equal(order.long_lists, 132 * 32 / cells + 1);
        assert_true(seen->block[0] % 32 == 0);
        assert_true((int)(seen->grid[0] * seen->block[0] / 32) >= (tiles + 3 * most) * cells);
    }
}

/* begin zeroes exactly the bytes that project adds to and records reads: a group for every
 * chunk. */
static void groups_hold_every_piece(void **unused) {
    gsc_k_begin begin;
    gsc_k_project found, made;
    (void)unused;
    mock->launch_count = 0;
    expect_ok(project_only(NULL));
    expect_ok(run_blend(NULL));
    const mock_launch *seen = launch_of("gsc_project");
    memcpy(&begin, launch_of("gsc_begin")->args, sizeof begin);
    memcpy(&found, seen->args, sizeof found);
    memcpy(&made, launch_of("gsc_records")->args, sizeof made);
    assert_int_equal(begin.group_count, ((seen->grid[0] - 1) >> found.frame.group_shift) + 1);
    assert_ptr_equal(begin.groups, found.frame.groups);
    assert_ptr_equal(begin.header, found.frame.header);
    assert_ptr_equal(made.frame.groups, found.frame.groups);
    assert_ptr_equal(made.frame.seen, found.frame.seen);
    assert_int_equal(made.frame.group_shift, found.frame.group_shift);
    assert_true(found.frame.seen + 8 * seen->grid[0] <= begin.groups);
    assert_true((void *)(begin.groups + begin.group_count) <= (void *)found.frame.offsets);
    for (int64_t n = 0; n < INT64_C(1) << 31; n = 3 * n + 200) {
        const gsc__raster raster = {.width = 16, .height = 16, .cameras = 1, .gaussians = n};
        const int64_t chunks = (n + GSC__CHUNK - 1) / GSC__CHUNK;
        gsc__gpu_layout layout;
        gsc__gpu_layout_plan(&raster, 0, &layout);
        const int64_t size = INT64_C(1) << layout.group_shift, count = layout.group_count;
        assert_true(count * size >= chunks && (count - 1) * size < chunks);
        assert_true(count <= 8 * size + 1 && (size == 32 || chunks > 2 * size * size));
        const gsc__raster_buffers buffers = {.state = mock};
        gsc__gpu_frame frame;
        gsc__gpu_frame_open(&layout, &buffers, 0, &frame);
        assert_true((char *)frame.offsets - (char *)frame.groups >= 4 * count);
    }
}

/* blend_backward reads the gradient of the colour, and the radii from project decide. */
static void a_training_step_in_order(void **unused) {
    static const char *const order[] = {"gsc_begin",
                                        "gsc_project",
                                        "gsc_records",
                                        "gsc_blend",
                                        "gsc_ssim_grad",
                                        "gsc_blend_backward",
                                        "gsc_project_backward_step"};
    enum { KERNELS = sizeof order / sizeof order[0] };
    const mock_launch *found[KERNELS];
    gsc_k_project project_args;
    gsc_k_blend_backward blend_backward;
    gsc_k_project_backward_step step;
    (void)unused;
    mock->launch_count = 0;
    expect_ok(train_step(NULL));
    for (int i = 0; i < KERNELS; ++i) {
        found[i] = launch_of(order[i]);
        if (i > 0) assert_true(found[i - 1] < found[i]);
    }
    assert_int_equal(found[6]->args_bytes, sizeof step);
    memcpy(&project_args, found[1]->args, sizeof project_args);
    memcpy(&blend_backward, found[5]->args, sizeof blend_backward);
    memcpy(&step, found[6]->args, sizeof step);
    assert_non_null(blend_backward.grad_color);
    assert_non_null(step.radii);
    assert_ptr_equal(step.radii, project_args.radii);
    assert_ptr_equal(step.project_backward.sums, blend_backward.sums);
    assert_int_equal(step.steps, 1);
    assert_ptr_equal(step.step[0].parameter, views[MEANS].tensor.data);
    assert_int_equal(step.step[0].width, 3);
    assert_int_equal(step.project_backward.gradients + step.project_backward.sh_gradients, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_training_step_in_order, open_context, close_context),
        cmocka_unit_test_setup_teardown(groups_hold_every_piece, open_context, close_context),
        cmocka_unit_test_setup_teardown(the_current_context_stays, open_context, close_context),
        cmocka_unit_test_setup_teardown(all_work_goes_to_the_callers_stream, open_context,
                                        close_context),
        cmocka_unit_test_setup_teardown(only_the_documented_calls_wait, open_context,
                                        close_context),
        cmocka_unit_test_setup_teardown(waiting_is_refused_while_the_stream_is_captured,
                                        open_context, close_context),
        cmocka_unit_test_setup_teardown(a_failed_launch_leaves_nothing_behind, open_context,
                                        close_context),
        cmocka_unit_test_setup_teardown(tensors_elsewhere_are_refused, open_context, close_context),
        cmocka_unit_test_setup_teardown(blending_has_warps_for_long_lists, open_context,
                                        close_context),
    };
    (void)cpu;
    (void)out;
    (void)drop;
    mock = mock_open();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
