/* The entry points over a backend that only takes notes: memory, sizes, order of calls. */

#include "views.h"

#include "../src/context.h"

#include <stdlib.h>

/* ----------------------------------------------------------- a noting backend */

static struct {
    char calls[256]; /* names in order, each followed by a space */
    gsc__raster raster;
    gsc__raster_buffers buffers;
    gsc_raster_info info;
    gsc__knn knn;
    gsc__adam_group group;
    gsc__visible_rows visible;
    int64_t *overflow;
    void *stream;
    bool info_given;
    gsc_status fail_with; /* in the call named by fail_in */
    const char *fail_in;
} notes;

enum {
    STATE_BYTES = 1000, PROJECT_SCRATCH = 500, RENDER_SCRATCH = 700, BACKWARD_SCRATCH = 900,
    FRAME_BYTES = 4096, TILE_BYTES = 512, PAIRS = 1024, KNN_SCRATCH = 300
};

static gsc_status note(const char *name) {
    strcat(strcat(notes.calls, name), " ");
    if (notes.fail_in && strcmp(notes.fail_in, name) == 0)
        return gsc__fail(notes.fail_with, "%s failed", name);
    return GSC_OK;
}

static gsc_status open_nothing(gsc_context *context) {
    (void)context;
    return GSC_OK;
}

static void close_nothing(gsc_context *context) {
    (void)context;
}

static gsc_status sizes(const gsc_context *context, const gsc__raster *raster,
                        gsc_raster_info *info) {
    (void)context;
    info->layout = (uint64_t)raster->width << 8 | 0xabc;
    info->state_bytes = STATE_BYTES;
    info->forward_scratch_bytes = PROJECT_SCRATCH;
    info->backward_scratch_bytes = BACKWARD_SCRATCH;
    if (info->intersections > 0) {
        info->forward_scratch_bytes = RENDER_SCRATCH;
        info->intersections_bytes = FRAME_BYTES;
    }
    return note("sizes");
}

static void note_raster(const gsc__raster *raster, const gsc__raster_buffers *buffers,
                        const gsc_raster_info *info, void *stream) {
    notes.raster = *raster;
    notes.buffers = *buffers;
    notes.info_given = info != NULL;
    if (info) notes.info = *info;
    notes.stream = stream;
    /* Every byte that was promised is there. */
    memset(buffers->state, 1, buffers->state_bytes);
    memset(buffers->scratch, 1, buffers->scratch_bytes);
    if (buffers->intersections) memset(buffers->intersections, 1, buffers->intersections_bytes);
}

static gsc_status project(gsc_context *context, const gsc__raster *raster,
                          const gsc__raster_buffers *buffers, const gsc__raster_outputs *outputs,
                          gsc_raster_info *info, void *stream) {
    (void)context;
    (void)outputs;
    note_raster(raster, buffers, info, stream);
    if (info) {
        info->intersections = PAIRS;
        info->intersections_bytes = FRAME_BYTES;
        info->intersections_min_bytes = TILE_BYTES;
        info->forward_scratch_bytes = RENDER_SCRATCH;
    }
    return note("project");
}

static gsc_status render(gsc_context *context, const gsc__raster *raster,
                         const gsc__raster_buffers *buffers, const gsc__raster_outputs *outputs,
                         const gsc_raster_info *info, int64_t *overflow, void *stream) {
    (void)context;
    (void)outputs;
    note_raster(raster, buffers, info, stream);
    notes.overflow = overflow;
    return note("render");
}

static gsc_status backward(gsc_context *context, const gsc__raster *raster,
                           const gsc__raster_buffers *buffers, const gsc_raster_info *info,
                           const gsc__raster_grads *grads, void *stream) {
    (void)context;
    (void)grads;
    note_raster(raster, buffers, info, stream);
    return note("backward");
}

static gsc_status mark_visible(gsc_context *context, const gsc__raster *raster, uint8_t *visible,
                               void *stream) {
    (void)context;
    (void)visible;
    (void)stream;
    notes.raster = *raster;
    return note("mark_visible");
}

static size_t knn_scratch(const gsc_context *context, const gsc__knn *knn) {
    (void)context;
    (void)knn;
    return KNN_SCRATCH;
}

static gsc_status knn(gsc_context *context, const gsc__knn *knn_args, void *stream) {
    (void)context;
    (void)stream;
    notes.knn = *knn_args;
    memset(knn_args->scratch, 1, knn_args->scratch_bytes);
    return note("knn");
}

static gsc_status ssim_forward(gsc_context *context, const gsc__ssim *ssim, void *stream) {
    (void)context;
    (void)ssim;
    (void)stream;
    return note("ssim_forward");
}

static gsc_status ssim_backward(gsc_context *context, const gsc__ssim *ssim, void *stream) {
    (void)context;
    (void)ssim;
    (void)stream;
    return note("ssim_backward");
}

static gsc_status image_loss(gsc_context *context, const gsc__image_loss *loss, void *stream) {
    (void)context;
    (void)loss;
    (void)stream;
    return note("image_loss");
}

static gsc_status adam_step(gsc_context *context, const gsc__adam_group *groups, int32_t count,
                            const gsc__visible_rows *visible, void *stream) {
    (void)context;
    (void)stream;
    assert_int_equal(count, 1);
    notes.group = groups[0];
    notes.visible = *visible;
    return note("adam_step");
}

static const gsc__backend noting = {
    "noting", open_nothing, close_nothing, sizes,        project,       render,     backward,
    mark_visible, knn_scratch, knn,        ssim_forward, ssim_backward, image_loss, adam_step};

/* --------------------------------------------------------- a counting allocator */

static struct {
    int blocks;        /* not freed yet */
    int allocations;
    size_t bytes;      /* not freed yet */
    size_t largest;    /* requests beyond it fail; 0: none do */
    int fail_from;     /* the allocation from which on all fail; 0: none */
    int misalign;      /* bytes by which blocks are off */
} heap;

static void *count_alloc(void *user, size_t bytes, size_t alignment, DLDevice device,
                         void *stream) {
    assert_ptr_equal(user, &heap);
    assert_int_equal(alignment, 256);
    assert_int_equal(device.device_type, kDLCPU);
    assert_null(stream);
    ++heap.allocations;
    if (heap.largest && bytes > heap.largest) return NULL;
    if (heap.fail_from && heap.allocations >= heap.fail_from) return NULL;
    ++heap.blocks;
    heap.bytes += bytes;
    char *block = aligned_alloc(256, (bytes + 511) / 256 * 256);
    return block + heap.misalign;
}

static void count_free(void *user, void *data, size_t bytes, DLDevice device, void *stream) {
    assert_ptr_equal(user, &heap);
    assert_int_equal(device.device_type, kDLCPU);
    assert_null(stream);
    --heap.blocks;
    heap.bytes -= bytes;
    free((char *)data - heap.misalign);
}

/* -------------------------------------------------------------------- set-up */

static gsc_context context;
static gsc_raster_args args;
static gsc_raster_outputs outputs;
static gsc_raster_buffers buffers;
static gsc_raster_grads grads;
static view cameras, intrinsics, means, opacities, scales, rotations, colors, color, state_view,
    lists, scratch;

static int reset(void **state) {
    (void)state;
    memset(&notes, 0, sizeof notes);
    memset(&heap, 0, sizeof heap);
    context = (gsc_context){
        .backend = &noting,
        .device = {kDLCPU, 0},
        .cpu_threads = 1,
        .allocator = {sizeof(gsc_allocator), &heap, count_alloc, count_free}};
    VIEW(&cameras, 4, 4);
    VIEW(&intrinsics, 4);
    VIEW(&means, 5, 3);
    VIEW(&opacities, 5);
    VIEW(&scales, 5, 3);
    VIEW(&rotations, 5, 4);
    VIEW(&colors, 5, 3);
    VIEW(&color, 3, 4, 7);
    args = (gsc_raster_args){.struct_size = sizeof args,
                             .width = 7,
                             .height = 4,
                             .view = &cameras.tensor,
                             .intrinsics = &intrinsics.tensor,
                             .means = &means.tensor,
                             .opacities = &opacities.tensor,
                             .scales = &scales.tensor,
                             .rotations = &rotations.tensor,
                             .colors = &colors.tensor};
    outputs = (gsc_raster_outputs){.struct_size = sizeof outputs, .color = &color.tensor};
    grads = (gsc_raster_grads){.struct_size = sizeof grads, .color = &color.tensor};
    view *bytes[] = {&state_view, &lists, &scratch};
    for (int i = 0; i < 3; ++i) {
        VIEW(bytes[i], 8192);
        view_dtype(bytes[i], kDLUInt, 8);
        bytes[i]->tensor.byte_offset = 8192u * (unsigned)i;
    }
    buffers = (gsc_raster_buffers){sizeof buffers, &state_view.tensor, &lists.tensor,
                                   &scratch.tensor};
    return 0;
}

static gsc_raster_info known_info(void) {
    return (gsc_raster_info){.struct_size = sizeof(gsc_raster_info),
                             .layout = 7 << 8 | 0xabc,
                             .intersections = PAIRS,
                             .intersections_min_bytes = TILE_BYTES};
}

/* --------------------------------------------------------------- two phases */

static void sizes_read_no_data(void **state) {
    (void)state;
    gsc_raster_info info = {.struct_size = sizeof info};
    means.tensor.data = colors.tensor.data = cameras.tensor.data = NULL;
    expect_ok(gsc_raster_sizes(&context, &args, &info));
    assert_int_equal(info.struct_size, sizeof info);
    assert_int_equal(info.layout, 7 << 8 | 0xabc);
    assert_int_equal(info.state_bytes, STATE_BYTES);
    assert_int_equal(info.forward_scratch_bytes, PROJECT_SCRATCH);
    assert_int_equal(info.backward_scratch_bytes, BACKWARD_SCRATCH);
    assert_int_equal(info.intersections_bytes, 0);
    info.intersections = PAIRS;
    expect_ok(gsc_raster_sizes(&context, &args, &info));
    assert_int_equal(info.intersections, PAIRS);
    assert_int_equal(info.intersections_bytes, FRAME_BYTES);
    expect_failure(gsc_raster_project(&context, &args, &buffers, &outputs, &info, NULL),
                   GSC_ERROR_INVALID_ARGUMENT, "raster_project: data of view is NULL");
}

static void project_completes_info(void **state) {
    (void)state;
    gsc_raster_info info = {.struct_size = sizeof info};
    expect_ok(gsc_raster_project(&context, &args, &buffers, NULL, &info, NULL));
    assert_string_equal(notes.calls, "sizes project ");
    assert_true(notes.info_given);
    assert_int_equal(info.intersections, PAIRS);
    assert_int_equal(info.layout, 7 << 8 | 0xabc);
    assert_int_equal(info.intersections_min_bytes, TILE_BYTES);
    assert_ptr_equal(notes.buffers.state, view_memory);
    assert_ptr_equal(notes.buffers.scratch, view_memory + 16384);
    assert_null(notes.buffers.intersections);
    assert_int_equal(heap.allocations, 0);
    expect_ok(gsc_raster_project(&context, &args, &buffers, NULL, NULL, NULL));
    assert_false(notes.info_given);
}

static void failed_project_leaves_info_alone(void **state) {
    (void)state;
    gsc_raster_info info = {.struct_size = sizeof info, .intersections = 3};
    const gsc_raster_info before = info;
    notes.fail_in = "project";
    notes.fail_with = GSC_ERROR_INTERNAL;
    buffers.scratch = NULL;
    expect_failure(gsc_raster_project(&context, &args, &buffers, &outputs, &info, NULL),
                   GSC_ERROR_INTERNAL, "project failed");
    assert_memory_equal(&info, &before, sizeof info);
    assert_int_equal(heap.blocks, 0);
}

static void scratch_comes_from_the_allocator(void **state) {
    (void)state;
    const gsc_raster_info info = known_info();
    buffers.scratch = NULL;
    expect_ok(gsc_raster_project(&context, &args, &buffers, &outputs, NULL, NULL));
    assert_int_equal(notes.buffers.scratch_bytes, PROJECT_SCRATCH);
    expect_ok(gsc_raster_render(&context, &args, &buffers, &outputs, &info, NULL, NULL));
    assert_int_equal(notes.buffers.scratch_bytes, RENDER_SCRATCH);
    expect_ok(gsc_raster_backward(&context, &args, &buffers, &info, &grads, NULL));
    assert_int_equal(notes.buffers.scratch_bytes, BACKWARD_SCRATCH);
    assert_int_equal(heap.allocations, 3);
    assert_int_equal(heap.blocks, 0);
    assert_int_equal(heap.bytes, 0);

    heap.largest = 600;
    expect_failure(gsc_raster_render(&context, &args, &buffers, &outputs, &info, NULL, NULL),
                   GSC_ERROR_OUT_OF_MEMORY, "raster_render: out of memory, 700 bytes were wanted");
}

static void buffers_too_small(void **state) {
    (void)state;
    const gsc_raster_info info = known_info();
    VIEW(&state_view, 999);
    view_dtype(&state_view, kDLUInt, 8);
    expect_failure(gsc_raster_project(&context, &args, &buffers, &outputs, NULL, NULL),
                   GSC_ERROR_BUFFER_TOO_SMALL,
                   "raster_project: state has 999 bytes, expected at least 1000");
    reset(NULL);
    lists.shape[0] = 511;
    expect_failure(gsc_raster_render(&context, &args, &buffers, &outputs, &info, NULL, NULL),
                   GSC_ERROR_BUFFER_TOO_SMALL,
                   "raster_render: intersections has 511 bytes, expected at least 512");
    lists.shape[0] = 512; /* a tile at a time */
    expect_ok(gsc_raster_render(&context, &args, &buffers, &outputs, &info, NULL, NULL));
    scratch.shape[0] = 899;
    expect_failure(gsc_raster_backward(&context, &args, &buffers, &info, &grads, NULL),
                   GSC_ERROR_BUFFER_TOO_SMALL,
                   "raster_backward: scratch has 899 bytes, expected at least 900");
}

static void info_of_other_arguments_is_refused(void **state) {
    (void)state;
    gsc_raster_info info = known_info();
    info.layout = 0x123;
    assert_int_equal(gsc_raster_render(&context, &args, &buffers, &outputs, &info, NULL, NULL),
                     GSC_ERROR_STATE);
    assert_non_null(strstr(gsc_last_error(), "raster_render: layout of info is 0x123"));
    assert_int_equal(gsc_raster_backward(&context, &args, &buffers, &info, &grads, NULL),
                     GSC_ERROR_STATE);
    assert_non_null(strstr(gsc_last_error(), "raster_backward: layout of info is 0x123"));
    expect_failure(gsc_raster_render(&context, &args, &buffers, &outputs, NULL, NULL, NULL),
                   GSC_ERROR_INVALID_ARGUMENT, "raster_render: info is NULL");
}

static void overflow_is_an_int64_scalar(void **state) {
    (void)state;
    const gsc_raster_info info = known_info();
    view overflow;
    VIEW(&overflow, 1);
    expect_failure(
        gsc_raster_render(&context, &args, &buffers, &outputs, &info, &overflow.tensor, NULL),
        GSC_ERROR_DTYPE,
        GSC_REAL_BITS == 64 ? "raster_render: overflow is float64, expected int64"
                            : "raster_render: overflow is float32, expected int64");
    view_dtype(&overflow, kDLInt, 64);
    expect_ok(
        gsc_raster_render(&context, &args, &buffers, &outputs, &info, &overflow.tensor, NULL));
    assert_ptr_equal(notes.overflow, view_memory);
    VIEW(&overflow, 2);
    view_dtype(&overflow, kDLInt, 64);
    expect_failure(
        gsc_raster_render(&context, &args, &buffers, &outputs, &info, &overflow.tensor, NULL),
        GSC_ERROR_SHAPE, "raster_render: overflow is [2], expected [] or [1]");
}

/* -------------------------------------------------------------- convenience */

static void forward_keeps_what_backward_needs(void **state) {
    (void)state;
    gsc_raster_saved *saved = NULL;
    expect_ok(gsc_raster_forward(&context, &args, &outputs, &saved, NULL));
    assert_non_null(saved);
    assert_string_equal(notes.calls, "sizes project render ");
    assert_int_equal(notes.buffers.state_bytes, STATE_BYTES);
    assert_int_equal(notes.buffers.intersections_bytes, FRAME_BYTES);
    assert_true(notes.buffers.scratch_bytes >= RENDER_SCRATCH);
    assert_int_equal(heap.blocks, 2);
    assert_int_equal(heap.bytes, STATE_BYTES + FRAME_BYTES);
    expect_ok(gsc_raster_backward_saved(&context, &args, saved, &grads, NULL));
    assert_string_equal(notes.calls, "sizes project render sizes backward ");
    assert_int_equal(notes.info.intersections, PAIRS);
    assert_int_equal(notes.buffers.scratch_bytes, BACKWARD_SCRATCH);
    assert_int_equal(heap.blocks, 2);
    gsc_raster_saved_free(saved, NULL);
    assert_int_equal(heap.blocks, 0);
    assert_int_equal(heap.bytes, 0);
    gsc_raster_saved_free(NULL, NULL);
}

static void forward_without_saved_keeps_nothing(void **state) {
    (void)state;
    expect_ok(gsc_raster_forward(&context, &args, &outputs, NULL, NULL));
    assert_string_equal(notes.calls, "sizes project render ");
    assert_int_equal(heap.blocks, 0);
    assert_int_equal(heap.bytes, 0);
}

/* Each allocation may be the one that fails. */
static void failed_forward_keeps_nothing(void **state) {
    static const char *const steps[] = {"sizes", "project", "render"};
    for (size_t i = 0; i < 3; ++i) {
        gsc_raster_saved *saved = (gsc_raster_saved *)&context;
        reset(state);
        notes.fail_in = steps[i];
        notes.fail_with = GSC_ERROR_INTERNAL;
        assert_int_equal(gsc_raster_forward(&context, &args, &outputs, &saved, NULL),
                         GSC_ERROR_INTERNAL);
        assert_null(saved);
        assert_int_equal(heap.blocks, 0);
    }
    static const char *const messages[] = {
        "raster_forward: state: out of memory, 1000 bytes were wanted",
        "raster_forward: scratch: out of memory, 500 bytes were wanted",
        "raster_forward: intersections: out of memory, 512 bytes were wanted",
        "raster_forward: scratch: out of memory, 700 bytes were wanted",
    };
    for (int i = 0; i < 4; ++i) {
        gsc_raster_saved *saved = (gsc_raster_saved *)&context;
        reset(state);
        heap.fail_from = i + 1;
        expect_failure(gsc_raster_forward(&context, &args, &outputs, &saved, NULL),
                       GSC_ERROR_OUT_OF_MEMORY, messages[i]);
        assert_null(saved);
        assert_int_equal(heap.blocks, 0);
    }
}

/* A frame that there is no room for is done in bands, and that is no failure. */
static void forward_makes_do_with_less(void **state) {
    (void)state;
    gsc_raster_saved *saved = NULL;
    gsc__fail(GSC_ERROR_INTERNAL, "before");
    heap.largest = 2000;
    expect_ok(gsc_raster_forward(&context, &args, &outputs, &saved, NULL));
    assert_int_equal(notes.buffers.intersections_bytes, FRAME_BYTES / 4);
    assert_string_equal(gsc_last_error(), "before");
    gsc_raster_saved_free(saved, NULL);
    assert_int_equal(heap.blocks, 0);
}

static void saved_must_fit(void **state) {
    (void)state;
    gsc_raster_saved *saved = NULL;
    expect_failure(gsc_raster_backward_saved(&context, &args, NULL, &grads, NULL),
                   GSC_ERROR_INVALID_ARGUMENT, "raster_backward_saved: saved is NULL");
    expect_ok(gsc_raster_forward(&context, &args, &outputs, &saved, NULL));
    gsc_context other = context;
    expect_failure(gsc_raster_backward_saved(&other, &args, saved, &grads, NULL), GSC_ERROR_STATE,
                   "raster_backward_saved: saved is of another context");
    args.width = 8;
    VIEW(&color, 3, 4, 8);
    assert_int_equal(gsc_raster_backward_saved(&context, &args, saved, &grads, NULL),
                     GSC_ERROR_STATE);
    gsc_raster_saved_free(saved, NULL);
}

static void misaligned_allocators_are_caught(void **state) {
    (void)state;
    heap.misalign = 16;
    assert_int_equal(gsc_raster_forward(&context, &args, &outputs, NULL, NULL), GSC_ERROR_LAYOUT);
    assert_non_null(strstr(gsc_last_error(), "raster_forward: state: allocator gave memory at"));
    assert_int_equal(heap.blocks, 0);
}

/* -------------------------------------------------------------------- others */

static void knn_takes_or_makes_scratch(void **state) {
    (void)state;
    gsc_knn_args knn_args = {.struct_size = sizeof knn_args, .points = &means.tensor};
    size_t bytes = 0;
    expect_ok(gsc_knn_scratch_bytes(&context, &knn_args, &bytes));
    assert_int_equal(bytes, KNN_SCRATCH);
    expect_failure(gsc_knn_scratch_bytes(&context, &knn_args, NULL), GSC_ERROR_INVALID_ARGUMENT,
                   "knn_scratch_bytes: bytes is NULL");
    expect_ok(gsc_knn(&context, &knn_args, NULL));
    assert_int_equal(notes.knn.scratch_bytes, KNN_SCRATCH);
    assert_int_equal(heap.allocations, 1);
    assert_int_equal(heap.blocks, 0);
    knn_args.scratch = &scratch.tensor;
    expect_ok(gsc_knn(&context, &knn_args, NULL));
    assert_ptr_equal(notes.knn.scratch, view_memory + 16384);
    assert_int_equal(heap.allocations, 1);
    scratch.shape[0] = 299;
    expect_failure(gsc_knn(&context, &knn_args, NULL), GSC_ERROR_BUFFER_TOO_SMALL,
                   "knn: scratch has 299 bytes, expected at least 300");
}

static void the_other_operations_reach_the_backend(void **state) {
    (void)state;
    view image, scalar, visible;
    VIEW(&image, 1, 1, 4, 7);
    VIEW(&scalar, 1);
    VIEW(&visible, 5);
    view_dtype(&visible, kDLInt, 32);
    gsc_ssim_args ssim = {.struct_size = sizeof ssim,
                          .image = &image.tensor,
                          .target = &image.tensor,
                          .grad_mean = &scalar.tensor};
    gsc_image_loss_args loss = {
        .struct_size = sizeof loss, .image = &image.tensor, .target = &image.tensor};
    gsc_adam_group group = {.parameter = &means.tensor,
                            .gradient = &means.tensor,
                            .moment1 = &means.tensor,
                            .moment2 = &means.tensor};
    gsc_adam_args adam = {.struct_size = sizeof adam,
                          .group_count = 1,
                          .groups = &group,
                          .group_stride = sizeof group,
                          .visible = &visible.tensor};
    expect_ok(gsc_ssim_forward(&context, &ssim, NULL));
    expect_ok(gsc_ssim_backward(&context, &ssim, NULL));
    expect_ok(gsc_image_loss(&context, &loss, NULL));
    expect_ok(gsc_adam_step(&context, &adam, NULL));
    VIEW(&visible, 5);
    view_dtype(&visible, kDLBool, 8);
    expect_ok(gsc_mark_visible(&context, &args, &visible.tensor, NULL));
    assert_string_equal(notes.calls,
                        "ssim_forward ssim_backward image_loss adam_step mark_visible ");
    assert_int_equal(notes.group.rows, 5);
    assert_int_equal(notes.group.row_size, 3);
    assert_int_equal(notes.visible.bytes, 4);
    adam.group_count = 0;
    adam.groups = NULL;
    notes.calls[0] = '\0';
    expect_ok(gsc_adam_step(&context, &adam, NULL));
    assert_string_equal(notes.calls, "");
}

static void context_and_stream_are_checked_everywhere(void **state) {
    (void)state;
    void *stream = &context;
    gsc_raster_info info = known_info();
    gsc_raster_saved *saved = NULL;
    size_t bytes;
    view any;
    VIEW(&any, 5);
#define BOTH(name, call)                                                             \
    do {                                                                             \
        gsc_context *used = NULL;                                                    \
        stream = NULL;                                                               \
        expect_failure(call, GSC_ERROR_INVALID_ARGUMENT, name ": context is NULL");  \
        used = &context;                                                             \
        stream = &context;                                                           \
        assert_int_equal(call, GSC_ERROR_INVALID_ARGUMENT);                          \
        assert_non_null(strstr(gsc_last_error(), name ": stream is 0x"));            \
        assert_non_null(strstr(gsc_last_error(), "expected NULL on a CPU context")); \
    } while (0)
    gsc_knn_args knn_args = {.struct_size = sizeof knn_args, .points = &means.tensor};
    gsc_ssim_args ssim = {.struct_size = sizeof ssim};
    gsc_image_loss_args loss = {.struct_size = sizeof loss};
    gsc_adam_args adam = {.struct_size = sizeof adam};
    BOTH("raster_project", gsc_raster_project(used, &args, &buffers, &outputs, &info, stream));
    BOTH("raster_render",
         gsc_raster_render(used, &args, &buffers, &outputs, &info, NULL, stream));
    BOTH("raster_backward", gsc_raster_backward(used, &args, &buffers, &info, &grads, stream));
    BOTH("raster_forward", gsc_raster_forward(used, &args, &outputs, &saved, stream));
    BOTH("mark_visible", gsc_mark_visible(used, &args, &any.tensor, stream));
    BOTH("knn", gsc_knn(used, &knn_args, stream));
    BOTH("ssim_forward", gsc_ssim_forward(used, &ssim, stream));
    BOTH("ssim_backward", gsc_ssim_backward(used, &ssim, stream));
    BOTH("image_loss", gsc_image_loss(used, &loss, stream));
    BOTH("adam_step", gsc_adam_step(used, &adam, stream));
    expect_failure(gsc_raster_sizes(NULL, &args, &info), GSC_ERROR_INVALID_ARGUMENT,
                   "raster_sizes: context is NULL");
    expect_failure(gsc_knn_scratch_bytes(NULL, &knn_args, &bytes), GSC_ERROR_INVALID_ARGUMENT,
                   "knn_scratch_bytes: context is NULL");
    assert_string_equal(notes.calls, "");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup(name, reset)
    const struct CMUnitTest tests[] = {
        TEST(sizes_read_no_data),
        TEST(project_completes_info),
        TEST(failed_project_leaves_info_alone),
        TEST(scratch_comes_from_the_allocator),
        TEST(buffers_too_small),
        TEST(info_of_other_arguments_is_refused),
        TEST(overflow_is_an_int64_scalar),
        TEST(forward_keeps_what_backward_needs),
        TEST(forward_without_saved_keeps_nothing),
        TEST(failed_forward_keeps_nothing),
        TEST(forward_makes_do_with_less),
        TEST(saved_must_fit),
        TEST(misaligned_allocators_are_caught),
        TEST(knn_takes_or_makes_scratch),
        TEST(the_other_operations_reach_the_backend),
        TEST(context_and_stream_are_checked_everywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
