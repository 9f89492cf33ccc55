/* A context over a backend that only takes notes, with a counting allocator. */
#ifndef GSC_TESTS_NOTING_BACKEND_H
#define GSC_TESTS_NOTING_BACKEND_H

#include "views.h"

#include "core/context.h"
#include "os/system.h"

#include <stdlib.h>

/* ----------------------------------------------------------- a noting backend */

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
} notes;

enum {
    STATE_BYTES = 1000,
    PROJECT_SCRATCH = 500,
    RENDER_SCRATCH = 700,
    BACKWARD_SCRATCH = 900,
    FRAME_BYTES = 4096,
    TILE_BYTES = 512,
    PAIRS = 1024,
    KNN_SCRATCH = 300
};

static inline gsc_status note(const char *name) {
    strcat(strcat(notes.calls, name), " ");
    if (notes.fail_in && strcmp(notes.fail_in, name) == 0)
        return gsc__fail(notes.fail_with, "%s failed", name);
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
        info->forward_scratch_bytes = RENDER_SCRATCH;
        info->intersections_bytes = FRAME_BYTES;
    }
    return note("sizes");
}

static inline void note_raster(const gsc__raster_call *call, const gsc_raster_info *info) {
    const gsc__raster_buffers *buffers = &call->buffers;
    notes.raster = call->raster;
    notes.buffers = *buffers;
    notes.info_given = info != NULL;
    if (info) notes.info = *info;
    notes.stream = call->call.stream;
    /* Every byte that was promised is there. */
    memset(buffers->state, 1, buffers->state_bytes);
    memset(buffers->scratch, 1, buffers->scratch_bytes);
    if (buffers->intersections) memset(buffers->intersections, 1, buffers->intersections_bytes);
}

static inline gsc_status project(const gsc__raster_call *call, gsc_raster_info *info) {
    note_raster(call, info);
    if (info) {
        info->intersections = PAIRS;
        info->intersections_bytes = FRAME_BYTES;
        info->intersections_min_bytes = TILE_BYTES;
        info->forward_scratch_bytes = RENDER_SCRATCH;
    }
    return note("project");
}

static inline gsc_status render(const gsc__raster_call *call, const gsc_raster_info *info,
                                int64_t *overflow) {
    notes.outputs = call->outputs;
    note_raster(call, info);
    notes.overflow = overflow;
    return note("render");
}

static inline gsc_status backward(const gsc__raster_call *call, const gsc_raster_info *info,
                                  const gsc__raster_grads *grads) {
    note_raster(call, info);
    notes.grads = *grads;
    if (grads->steps) notes.steps = *grads->steps;
    return note("backward");
}

static inline gsc_status mark_visible(const gsc__raster_call *call, uint8_t *visible) {
    (void)visible;
    notes.raster = call->raster;
    return note("mark_visible");
}

static inline size_t knn_scratch(const gsc__call *call, const gsc__knn *knn) {
    (void)call;
    (void)knn;
    return KNN_SCRATCH;
}

static inline gsc_status knn(const gsc__call *call, const gsc__knn *knn_args) {
    (void)call;
    notes.knn = *knn_args;
    memset(knn_args->scratch, 1, knn_args->scratch_bytes);
    return note("knn");
}

static inline gsc_status ssim_forward(const gsc__call *call, const gsc__ssim *ssim) {
    (void)call;
    (void)ssim;
    return note("ssim_forward");
}

static inline gsc_status ssim_backward(const gsc__call *call, const gsc__ssim *ssim) {
    (void)call;
    (void)ssim;
    return note("ssim_backward");
}

static inline gsc_status image_loss(const gsc__call *call, const gsc__image_loss *loss) {
    (void)call;
    notes.loss = *loss;
    return note("image_loss");
}

static inline gsc_status adam_step(const gsc__call *call, const gsc__adam *adam) {
    (void)call;
    assert_int_equal(adam->count, 1);
    notes.group = adam->groups[0];
    notes.visible = adam->visible;
    return note("adam_step");
}

static const gsc__backend noting = {
    .name = "noting",
    .open = open_nothing,
    .close = close_nothing,
    .raster_sizes = sizes,
    .raster_project = project,
    .raster_blend = render,
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
    size_t largest; /* requests beyond it fail; 0: none do */
    int fail_from;  /* the allocation from which on all fail; 0: none */
    int misalign;   /* bytes by which blocks are off */
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
    memset(&notes, 0, sizeof notes);
    memset(&heap, 0, sizeof heap);
    context = (gsc_context){.backend = &noting,
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
                             .intersections = PAIRS,
                             .intersections_min_bytes = TILE_BYTES};
}

#define TEST(name) cmocka_unit_test_setup(name, reset)

#endif
