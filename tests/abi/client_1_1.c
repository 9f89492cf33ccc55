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
    CHECK(gsc_raster_render(context, args, &buffers, outputs, &info, NULL, NULL) == GSC_OK);
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
    CHECK(gsc_raster_draw(context, args, &buffers, outputs, &info, NULL) == GSC_OK);
    CHECK(info.intersections == frame_info.intersections && info.visible == frame_info.visible);
    free(state);
    free(pairs);
}

static void forward_only(gsc_context *context, const gsc_raster_args *given,
                         const gsc_raster_outputs *outputs, const gsc_raster_grads *grads) {
    gsc_raster_args args = *given;
    (void)grads;
    args.flags = GSC_RASTER_FORWARD_ONLY;
    CHECK(gsc_raster_forward(context, &args, outputs, NULL, NULL) == GSC_OK);
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
    CHECK(gsc_view_objects(view_of, NULL, 2, objects, views, &strided) == GSC_OK);
    CHECK(!objects[0] && objects[1] == &views[1] && views[1].data == memory && strided == 2);
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
    puts("ok");
    return 0;
}
