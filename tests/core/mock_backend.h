/* A context on a mock backend, which records calls, with a counting allocator. */
#ifndef GSC_TESTS_MOCK_BACKEND_H
#define GSC_TESTS_MOCK_BACKEND_H

#include "views.h"

#include "core/context.h"
#include "os/system.h"

#include <stdlib.h>

/* ------------------------------------------------------------- the mock backend */

static struct {
    char calls[256]; /* names in order, each followed by a space */
    gsc__raster raster;
    gsc__raster_buffers buffers;
    gsc_raster_info info;
    gsc__knn knn;
    gsc__adam_group group;
    gsc__raster_outputs outputs;
    gsc__raster_grads grads;
    gsc__raster_steps steps; /* of grads, if there are any */
    gsc__image_loss loss;
    gsc__visible_rows visible;
    int64_t *overflow;
    void *stream;
    bool info_given;
    gsc_status fail_with; /* in the call named by fail_in */
    const char *fail_in;
    int64_t found_intersections; /* by project_blend */
} mock;

enum {
    STATE_BYTES = 1000,
    PROJECT_SCRATCH = 500,
    BLEND_SCRATCH = 700,
    BACKWARD_SCRATCH = 900,
    FRAME_BYTES = 4096,
    TILE_BYTES = 512,
    INTERSECTIONS = 1024,
    KNN_SCRATCH = 300
};

static inline gsc_status record(const char *name) {
    strcat(strcat(mock.calls, name), " ");
    if (mock.fail_in && strcmp(mock.fail_in, name) == 0)
        return gsc__fail(mock.fail_with, "%s failed", name);
    return GSC_OK;
}

static inline gsc_status open_nothing(gsc_context *context) {
    (void)context;
    return GSC_OK;
}

static inline void close_nothing(gsc_context *context) {
    (void)context;
}

static inline gsc_status sizes(const gsc__raster_call *call, gsc_raster_info *info) {
    info->layout = (uint64_t)call->raster.width << 8 | 0xabc;
    info->state_bytes = STATE_BYTES;
    info->forward_scratch_bytes = PROJECT_SCRATCH;
    info->backward_scratch_bytes = BACKWARD_SCRATCH;
    if (info->intersections > 0) {
        info->forward_scratch_bytes = BLEND_SCRATCH;
        info->intersections_bytes = FRAME_BYTES;
    }
    return record("sizes");
}

static inline void record_raster(const gsc__raster_call *call, const gsc_raster_info *info) {
    const gsc__raster_buffers *buffers = &call->buffers;
    mock.raster = call->raster;
    mock.buffers = *buffers;
    mock.info_given = info != NULL;
    if (info) mock.info = *info;
    mock.stream = call->call.stream;
    /* Writes every byte, so that a buffer that is too small shows. */
    memset(buffers->state, 1, buffers->state_bytes);
    memset(buffers->scratch, 1, buffers->scratch_bytes);
    if (buffers->intersections) memset(buffers->intersections, 1, buffers->intersections_bytes);
}

static inline gsc_status project(const gsc__raster_call *call, gsc_raster_info *info) {
    record_raster(call, info);
    if (info) {
        info->intersections = INTERSECTIONS;
        info->intersections_bytes = FRAME_BYTES;
        info->intersections_min_bytes = TILE_BYTES;
        info->forward_scratch_bytes = BLEND_SCRATCH;
    }
    return record("project");
}

static inline gsc_status blend(const gsc__raster_call *call, const gsc_raster_info *info,
                               int64_t *overflow) {
    mock.outputs = call->outputs;
    record_raster(call, info);
    mock.overflow = overflow;
    return record("blend");
}

static inline gsc_status project_blend(const gsc__raster_call *call,
                                       const gsc_raster_info *expected, gsc_raster_info *found) {
    record_raster(call, expected);
    found->visible = 1;
    found->intersections = mock.found_intersections;
    found->intersections_bytes = FRAME_BYTES;
    found->intersections_min_bytes = TILE_BYTES;
    found->forward_scratch_bytes = BLEND_SCRATCH;
    return record("project_blend");
}

static inline gsc_status backward(const gsc__raster_call *call, const gsc_raster_info *info,
                                  const gsc__raster_grads *grads) {
    record_raster(call, info);
    mock.grads = *grads;
    if (grads->steps) mock.steps = *grads->steps;
    return record("backward");
}

static inline gsc_status mark_visible(const gsc__raster_call *call, uint8_t *visible) {
    (void)visible;
    mock.raster = call->raster;
    return record("mark_visible");
}

static inline size_t knn_scratch(const gsc__call *call, const gsc__knn *knn) {
    (void)call;
    (void)knn;
    return KNN_SCRATCH;
}

static inline gsc_status knn(const gsc__call *call, const gsc__knn *knn_args) {
    (void)call;
    mock.knn = *knn_args;
    memset(knn_args->scratch, 1, knn_args->scratch_bytes);
    return record("knn");
}

static inline gsc_status ssim_forward(const gsc__call *call, const gsc__ssim *ssim) {
    (void)call;
    (void)ssim;
    return record("ssim_forward");
}

static inline gsc_status ssim_backward(const gsc__call *call, const gsc__ssim *ssim) {
    (void)call;
    (void)ssim;
    return record("ssim_backward");
}

static inline gsc_status image_loss(const gsc__call *call, const gsc__image_loss *loss) {
    (void)call;
    mock.loss = *loss;
    return record("image_loss");
}

static inline gsc_status adam_step(const gsc__call *call, const gsc__adam *adam) {
    (void)call;
    assert_int_equal(adam->count, 1);
    mock.group = adam->groups[0];
    mock.visible = adam->visible;
    return record("adam_step");
}

static const gsc__backend mock_backend = {
    .name = "mock",
    .max_side = GSC__MAX_SIDE,
    .open = open_nothing,
    .close = close_nothing,
    .raster_sizes = sizes,
    .raster_project = project,
    .raster_blend = blend,
    .raster_backward = backward,
    .mark_visible = mark_visible,
    .knn_scratch_bytes = knn_scratch,
    .knn = knn,
    .ssim_forward = ssim_forward,
    .ssim_backward = ssim_backward,
    .image_loss = image_loss,
    .adam_step = adam_step,
};

/* --------------------------------------------------------- a counting allocator */

static struct {
    int blocks; /* not freed yet */
    int allocations;
    size_t bytes;   /* not freed yet */
    size_t largest; /* larger requests fail; 0: none fails */
    int fail_from;  /* the first allocation that fails, with all later ones; 0: none fails */
    int misalign;   /* bytes by which blocks are misaligned */
} heap;

static inline void *count_alloc(void *user, size_t bytes, size_t alignment, DLDevice device,
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
    char *block = gsc__aligned_alloc(bytes + 256, 256);
    return block + heap.misalign;
}

static inline void count_free(void *user, void *data, size_t bytes, DLDevice device, void *stream) {
    assert_ptr_equal(user, &heap);
    assert_int_equal(device.device_type, kDLCPU);
    assert_null(stream);
    --heap.blocks;
    heap.bytes -= bytes;
    gsc__aligned_free((char *)data - heap.misalign);
}

/* -------------------------------------------------------------------- set-up */

static gsc_context context;
static gsc_raster_args args;
static gsc_raster_outputs outputs;
static gsc_raster_buffers buffers;
static gsc_raster_grads grads;
static view cameras, intrinsics, means, opacities, scales, rotations, colors, color, state_view,
    lists, scratch;

static inline int reset(void **state) {
    (void)state;
    memset(&mock, 0, sizeof mock);
    memset(&heap, 0, sizeof heap);
    context = (gsc_context){.backend = &mock_backend,
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
    buffers =
        (gsc_raster_buffers){sizeof buffers, &state_view.tensor, &lists.tensor, &scratch.tensor};
    return 0;
}

static inline gsc_raster_info known_info(void) {
    return (gsc_raster_info){.struct_size = sizeof(gsc_raster_info),
                             .layout = 7 << 8 | 0xabc,
                             .intersections = INTERSECTIONS,
                             .intersections_min_bytes = TILE_BYTES};
}

/* From now on the context expects INTERSECTIONS in a frame, and the backend finds this many in
 * project_blend, which a backend may lack. */
static inline void expect_frame(int64_t intersections) {
    static gsc__backend with_project_blend;
    const gsc__raster frame = {
        .cameras = 1, .width = args.width, .height = args.height, .gaussians = means.shape[0]};
    with_project_blend = mock_backend;
    with_project_blend.raster_project_blend = project_blend;
    context.backend = &with_project_blend;
    gsc__forecast_note(&context.forecasts, &frame, 1, INTERSECTIONS);
    mock.found_intersections = intersections;
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

#endif
