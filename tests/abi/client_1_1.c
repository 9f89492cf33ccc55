/* A program of ABI 1.1: what that version added to 1.0.  Until the version is frozen it is
 * compiled with the headers of today. */
#include "client_scene.h"

static gsc_raster_info frame_info;

static void in_two_steps(gsc_context *context, const gsc_raster_args *args,
                         const gsc_raster_outputs *outputs, const gsc_raster_grads *grads) {
    GSC_INIT(gsc_raster_info, info);
    GSC_INIT(gsc_raster_buffers, buffers);
    (void)grads;
    CHECK(gsc_raster_sizes(context, args, &info) == GSC_OK);
    void *state = client_buffer(info.state_bytes);
    buffers.state = BYTES(state, info.state_bytes);
    CHECK(gsc_raster_project(context, args, &buffers, outputs, &info, NULL) == GSC_OK);
    void *pairs = client_buffer(info.intersections_bytes);
    buffers.intersections = BYTES(pairs, info.intersections_bytes);
    CHECK(gsc_raster_blend(context, args, &buffers, outputs, &info, NULL, NULL) == GSC_OK);
    frame_info = info;
    free(state);
    free(pairs);
}

/* In buffers for the frame that in_two_steps counted. */
static void at_once(gsc_context *context, const gsc_raster_args *args,
                    const gsc_raster_outputs *outputs, const gsc_raster_grads *grads) {
    GSC_INIT(gsc_raster_info, info);
    GSC_INIT(gsc_raster_buffers, buffers);
    (void)grads;
    CHECK(gsc_raster_forecast(context, args, &info) == GSC_OK);
    CHECK(info.struct_size == sizeof info && info.state_bytes > 0);
    CHECK(info.visible >= 0 && info.intersections >= 0);
    info.visible = frame_info.visible;
    info.intersections = frame_info.intersections;
    CHECK(gsc_raster_sizes(context, args, &info) == GSC_OK);
    void *state = client_buffer(info.state_bytes), *pairs = client_buffer(info.intersections_bytes);
    buffers.state = BYTES(state, info.state_bytes);
    buffers.intersections = BYTES(pairs, info.intersections_bytes);
    CHECK(gsc_raster_project_blend(context, args, &buffers, outputs, &info, NULL) == GSC_OK);
    CHECK(info.intersections == frame_info.intersections && info.visible == frame_info.visible);
    free(state);
    free(pairs);
}

static void forward_only(gsc_context *context, const gsc_raster_args *given,
                         const gsc_raster_outputs *outputs, const gsc_raster_grads *grads) {
    gsc_raster_args args = *given;
    (void)grads;
    args.flags = GSC_RASTER_FORWARD_ONLY;
    CHECK(gsc_rasterize(context, &args, outputs, NULL, NULL) == GSC_OK);
}

static int view_of(void *object, DLTensor *out) {
    *out = *(DLTensor *)object;
    return 0;
}

static void objects_are_viewed(void) {
    float memory[6];
    int64_t shape[] = {2, 3}, strides[] = {1, 2};
    DLTensor array = {.data = memory, .ndim = 2, .shape = shape, .strides = strides}, views[2];
    void *objects[] = {NULL, &array};
    uint64_t strided = 0;
    CHECK(gsc_view_objects(view_of, NULL, 2, 0, objects, views, &strided) == GSC_OK);
    CHECK(!objects[0] && objects[1] == &views[1] && views[1].data == memory);
    CHECK(strided == 2);
    objects[1] = &array;
    CHECK(gsc_view_objects(view_of, NULL, 2, 2, objects, views, &strided) == GSC_OK);
    CHECK(strided == 0);
}

static int lent; /* tensors that are out */

static void take_back(DLManagedTensorVersioned *tensor) {
    --lent;
    free(tensor->dl_tensor.shape);
    free(tensor->manager_ctx);
    free(tensor);
}

static int lend(DLTensor *prototype, DLManagedTensorVersioned **tensor, void *user,
                gsc_set_error_fn *set_error) {
    DLManagedTensorVersioned *made = calloc(1, sizeof *made);
    (void)user;
    (void)set_error;
    made->manager_ctx = client_buffer((size_t)prototype->shape[0]);
    made->deleter = take_back;
    made->dl_tensor = *prototype;
    made->dl_tensor.data = made->manager_ctx;
    made->dl_tensor.shape = malloc(sizeof *prototype->shape);
    made->dl_tensor.shape[0] = prototype->shape[0];
    *tensor = made;
    ++lent;
    return 0;
}

static void in_lent_memory(gsc_context *context, const gsc_raster_args *args,
                           const gsc_raster_outputs *outputs, const gsc_raster_grads *grads) {
    gsc_raster_saved *saved = NULL;
    DLManagedTensorVersioned *taken[2];
    GSC_INIT(gsc_raster_info, info);
    (void)grads;
    CHECK(gsc_rasterize(context, args, outputs, &saved, NULL) == GSC_OK);
    CHECK(gsc_raster_saved_take(saved, taken, &info) == GSC_OK);
    CHECK(lent == 2 && taken[0]->dl_tensor.shape[0] >= (int64_t)info.state_bytes);
    CHECK(info.intersections == frame_info.intersections);
    for (int i = 0; i < 2; ++i) taken[i]->deleter(taken[i]);
    CHECK(lent == 0);
}

static gsc_context *lent_context(void) {
    gsc_context_desc desc;
    gsc_context *context = NULL;
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    desc.allocate = lend;
    CHECK(gsc_context_create(&desc, &context) == GSC_OK);
    return context;
}

int main(void) {
    frame first, other;
    CHECK(gsplat_c_abi_version() >= ((uint32_t)1 << 16 | 1));
    objects_are_viewed();
    gsc_context *context = client_context();
    with_scene(context, &first, in_two_steps);
    with_scene(context, &other, at_once);
    CHECK(memcmp(first.color, other.color, sizeof first.color) == 0);
    CHECK(memcmp(first.alpha, other.alpha, sizeof first.alpha) == 0);
    with_scene(context, &other, forward_only);
    CHECK(memcmp(first.color, other.color, sizeof first.color) == 0);
    gsc_context_free(context);
    context = lent_context();
    with_scene(context, &other, in_lent_memory);
    CHECK(memcmp(first.color, other.color, sizeof first.color) == 0);
    gsc_context_free(context);
    puts("ok");
    return 0;
}
