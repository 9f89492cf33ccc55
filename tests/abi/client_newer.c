/* A program of a later minor version: its headers have `uint64_t added_later[3]` at the end of
 * every struct.  What this library does not know must be zero, or the call fails and says so. */
#include "client_scene.h"

#define EXPECT_REFUSED(object, call)                                                \
    do {                                                                            \
        char known[64];                                                             \
        (object).added_later[2] = 1;                                                \
        CHECK((call) == GSC_ERROR_ABI);                                             \
        snprintf(known, sizeof known, "is set, this library knows %zu bytes of it", \
                 sizeof(object) - sizeof(object).added_later);                      \
        CHECK(strstr(gsc_last_error(), known));                                     \
        (object).added_later[2] = 0;                                                \
        CHECK((call) == GSC_OK);                                                    \
    } while (0)

/* ------------------------------------------------------------------- context */

static void *take(void *user, size_t bytes, size_t alignment, DLDevice device, void *stream) {
    (void)user, (void)alignment, (void)device, (void)stream;
    return client_buffer(bytes);
}

static void give_back(void *user, void *data, size_t bytes, DLDevice device, void *stream) {
    (void)user, (void)bytes, (void)device, (void)stream;
    free(data);
}

static gsc_status create_and_free(const gsc_context_desc *desc) {
    gsc_context *context;
    gsc_status status = gsc_context_create(desc, &context);
    gsc_context_free(context);
    return status;
}

static void contexts(void) {
    GSC_INIT(gsc_allocator, allocator);
    allocator.alloc = take;
    allocator.free = give_back;
    gsc_context_desc desc;
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    CHECK(desc.abi_version > gsplat_c_abi_version());
    desc.allocator = &allocator;
    EXPECT_REFUSED(desc, create_and_free(&desc));
    EXPECT_REFUSED(allocator, create_and_free(&desc));
}

/* A result that the library does not know becomes zero. */
static void limits(const gsc_context *context) {
    gsc_limits found;
    memset(&found, 0xa5, sizeof found);
    found.struct_size = sizeof found;
    CHECK(gsc_context_limits(context, &found) == GSC_OK && found.max_channels >= 512);
    CHECK(found.struct_size == sizeof found);
    for (int i = 0; i < 3; ++i) CHECK(found.added_later[i] == 0);
}

/* ---------------------------------------------------------------- rasterizer */

static void two_steps(gsc_context *context, const gsc_raster_args *given_args,
                      const gsc_raster_outputs *given_outputs,
                      const gsc_raster_grads *given_grads) {
    gsc_raster_args args = *given_args;
    gsc_raster_outputs outputs = *given_outputs;
    gsc_raster_grads grads = *given_grads;
    GSC_INIT(gsc_raster_info, info);
    GSC_INIT(gsc_raster_buffers, buffers);
    EXPECT_REFUSED(args, gsc_raster_sizes(context, &args, &info));
    EXPECT_REFUSED(info, gsc_raster_sizes(context, &args, &info));
    void *state = client_buffer(info.state_bytes);
    buffers.state = BYTES(state, info.state_bytes);
    EXPECT_REFUSED(args, gsc_raster_project(context, &args, &buffers, &outputs, &info, NULL));
    EXPECT_REFUSED(buffers, gsc_raster_project(context, &args, &buffers, &outputs, &info, NULL));
    EXPECT_REFUSED(outputs, gsc_raster_project(context, &args, &buffers, &outputs, &info, NULL));
    EXPECT_REFUSED(info, gsc_raster_project(context, &args, &buffers, &outputs, &info, NULL));
    void *pairs = client_buffer(info.intersections_bytes);
    buffers.intersections = BYTES(pairs, info.intersections_bytes);
    EXPECT_REFUSED(outputs,
                   gsc_raster_blend(context, &args, &buffers, &outputs, &info, NULL, NULL));
    EXPECT_REFUSED(info, gsc_raster_blend(context, &args, &buffers, &outputs, &info, NULL, NULL));
    EXPECT_REFUSED(buffers, gsc_raster_backward(context, &args, &buffers, &info, &grads, NULL));
    EXPECT_REFUSED(info, gsc_raster_backward(context, &args, &buffers, &info, &grads, NULL));
    EXPECT_REFUSED(grads, gsc_raster_backward(context, &args, &buffers, &info, &grads, NULL));
    free(state);
    free(pairs);
}

static void one_step(gsc_context *context, const gsc_raster_args *given_args,
                     const gsc_raster_outputs *given_outputs, const gsc_raster_grads *given_grads) {
    gsc_raster_args args = *given_args;
    gsc_raster_outputs outputs = *given_outputs;
    gsc_raster_grads grads = *given_grads;
    gsc_raster_saved *saved;
    uint8_t visible[SPLATS];
    EXPECT_REFUSED(args, gsc_rasterize(context, &args, &outputs, NULL, NULL));
    EXPECT_REFUSED(outputs, gsc_rasterize(context, &args, &outputs, NULL, NULL));
    CHECK(gsc_rasterize(context, &args, &outputs, &saved, NULL) == GSC_OK);
    EXPECT_REFUSED(args, gsc_rasterize_backward(context, &args, saved, &grads, NULL));
    EXPECT_REFUSED(grads, gsc_rasterize_backward(context, &args, saved, &grads, NULL));
    gsc_raster_saved_free(saved, NULL);
    EXPECT_REFUSED(args, gsc_mark_visible(context, &args, BYTES(visible, SPLATS), NULL));
}

/* -------------------------------------------------------------- everything else */

static void others(gsc_context *context) {
    float image[64] = {0}, target[64] = {0}, grad[64], one = 1;
    size_t bytes;
    GSC_INIT(gsc_knn_args, knn);
    knn.points = FLOATS(image, 8, 3);
    EXPECT_REFUSED(knn, gsc_knn_scratch_bytes(context, &knn, &bytes));
    EXPECT_REFUSED(knn, gsc_knn(context, &knn, NULL));
    GSC_INIT(gsc_ssim_args, ssim);
    ssim.image = FLOATS(image, 1, 1, 8, 8);
    ssim.target = FLOATS(target, 1, 1, 8, 8);
    ssim.grad_mean = FLOATS(&one, 1);
    ssim.grad_image = FLOATS(grad, 1, 1, 8, 8);
    EXPECT_REFUSED(ssim, gsc_ssim_forward(context, &ssim, NULL));
    EXPECT_REFUSED(ssim, gsc_ssim_backward(context, &ssim, NULL));
    GSC_INIT(gsc_image_loss_args, loss);
    loss.image = ssim.image;
    loss.target = ssim.target;
    EXPECT_REFUSED(loss, gsc_image_loss(context, &loss, NULL));

    gsc_adam_group groups[2];
    memset(groups, 0, sizeof groups);
    groups[0].parameter = FLOATS(image, 8);
    groups[0].gradient = FLOATS(target, 8);
    groups[0].moment1 = FLOATS(image + 16, 8);
    groups[0].moment2 = FLOATS(target + 16, 8);
    groups[1] = groups[0];
    groups[1].parameter = FLOATS(image + 8, 8);
    GSC_INIT(gsc_adam_args, adam);
    adam.group_count = 2;
    adam.groups = groups;
    adam.group_stride = sizeof groups[0];
    EXPECT_REFUSED(adam, gsc_adam_step(context, &adam, NULL));
    EXPECT_REFUSED(groups[1], gsc_adam_step(context, &adam, NULL));
}

int main(void) {
    frame f;
    contexts();
    gsc_context *context = client_context();
    limits(context);
    with_scene(context, &f, two_steps);
    with_scene(context, &f, one_step);
    others(context);
    gsc_context_free(context);
    puts("ok");
    return 0;
}
