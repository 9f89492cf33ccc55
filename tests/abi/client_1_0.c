/* A program of ABI 1.0: it uses every function, every descriptor and the status codes of that
 * version.  It is compiled and linked with the frozen headers and symbols of 1.0 and runs with
 * today's library.  Later additions do not belong here. */
#include "client_scene.h"

/* ------------------------------------------------------- library and context */

static int allocations, messages;

static void *count_alloc(void *user, size_t bytes, size_t alignment, DLDevice device,
                         void *stream) {
    CHECK(user == &allocations && alignment == 256 && device.device_type == kDLCPU && !stream);
    ++allocations;
    return client_buffer(bytes);
}

static void count_free(void *user, void *data, size_t bytes, DLDevice device, void *stream) {
    CHECK(user == &allocations && bytes > 0 && device.device_id == 0 && !stream);
    --allocations;
    free(data);
}

static void count_message(void *user, int32_t level, const char *message) {
    (void)level;
    (void)message;
    ++*(int *)user;
}

static void library(void) {
    int32_t count = -1;
    size_t size = 0;
    const DLDevice cpu = {kDLCPU, 0};
    CHECK(gsplat_c_abi_version() >> 16 == GSC_ABI_MAJOR);
    CHECK(gsplat_c_abi_version() >= ((uint32_t)1 << 16));
    CHECK(gsc_version()[0] >= '0' && gsc_build_info_json()[0] == '{');
    CHECK(strcmp(gsc_status_name(GSC_ERROR_SHAPE), "GSC_ERROR_SHAPE") == 0);
    CHECK(strcmp(gsc_status_name(GSC_ERROR_INTERNAL), "GSC_ERROR_INTERNAL") == 0);
    CHECK(gsc_status_name(30000) && gsc_status_name(-1));
    CHECK(gsc_device_count(kDLCPU, &count) == GSC_OK && count == 1);
    CHECK(gsc_device_count(kDLCUDA, &count) == GSC_OK && count >= 0);
    CHECK(gsc_device_report_json(cpu, NULL, &size) == GSC_OK && size > 2);
    char *report = malloc(size);
    CHECK(report && gsc_device_report_json(cpu, report, &size) == GSC_OK);
    CHECK(report[0] == '{' && report[size - 1] == '\0' && strlen(report) == size - 1);
    --size;
    CHECK(gsc_device_report_json(cpu, report, &size) == GSC_ERROR_BUFFER_TOO_SMALL);
    free(report);
}

static gsc_context *create(void) {
    GSC_INIT(gsc_allocator, allocator);
    allocator.user = &allocations;
    allocator.alloc = count_alloc;
    allocator.free = count_free;
    GSC_INIT(gsc_context_desc, desc);
    desc.abi_version = GSC_ABI_VERSION;
    desc.device.device_type = kDLCPU;
    desc.allocator = &allocator;
    desc.log = count_message;
    desc.log_user = &messages;
    desc.log_level = GSC_LOG_DEBUG;
    desc.cpu_threads = 2;
    gsc_context *context = NULL;
    CHECK(gsc_context_create(&desc, &context) == GSC_OK && context);
    return context;
}

static void limits(const gsc_context *context) {
    gsc_limits found;
    memset(&found, 0xa5, sizeof found);
    found.struct_size = sizeof found;
    CHECK(gsc_context_limits(context, &found) == GSC_OK);
    CHECK(found.struct_size == sizeof found && found.max_side >= 65536);
    CHECK(found.max_gaussians >= 1000000 && found.max_intersections >= 1000000);
    CHECK(found.max_pixels >= 1000000 && found.max_cameras >= 1 && found.max_channels >= 512);
    CHECK(found.max_sh_degree >= 4 && found.max_knn_k >= 256);
}

/* ---------------------------------------------------------------- rasterizer */

static gsc_raster_info frame_info;

static void with_own_buffers(gsc_context *context, const gsc_raster_args *args,
                             const gsc_raster_outputs *outputs, const gsc_raster_grads *grads) {
    GSC_INIT(gsc_raster_info, info);
    GSC_INIT(gsc_raster_buffers, buffers);
    CHECK(gsc_raster_sizes(context, args, &info) == GSC_OK);
    CHECK(info.struct_size == sizeof info && info.state_bytes > 0 && info.layout != 0);
    void *state = client_buffer(info.state_bytes);
    buffers.state = BYTES(state, info.state_bytes);
    CHECK(gsc_raster_project(context, args, &buffers, outputs, &info, NULL) == GSC_OK);
    CHECK(info.intersections >= SPLATS && info.visible >= 1);
    CHECK(info.intersections_min_bytes <= info.intersections_bytes);
    void *pairs = client_buffer(info.intersections_bytes);
    void *scratch = client_buffer(info.forward_scratch_bytes);
    buffers.intersections = BYTES(pairs, info.intersections_bytes);
    buffers.scratch = BYTES(scratch, info.forward_scratch_bytes);
    int64_t overflow = -1;
    CHECK(gsc_raster_blend(context, args, &buffers, outputs, &info, VIEW(&overflow, kDLInt, 64, 1),
                           NULL) == GSC_OK);
    CHECK(overflow == 0);
    buffers.scratch = NULL;
    CHECK(gsc_raster_backward(context, args, &buffers, &info, grads, NULL) == GSC_OK);
    frame_info = info;
    free(state);
    free(pairs);
    free(scratch);
}

/* In buffers for the frame that with_own_buffers counted. */
static void at_once(gsc_context *context, const gsc_raster_args *args,
                    const gsc_raster_outputs *outputs, const gsc_raster_grads *grads) {
    GSC_INIT(gsc_raster_info, info);
    GSC_INIT(gsc_raster_buffers, buffers);
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
    CHECK(gsc_raster_backward(context, args, &buffers, &info, grads, NULL) == GSC_OK);
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

static void with_its_memory(gsc_context *context, const gsc_raster_args *args,
                            const gsc_raster_outputs *outputs, const gsc_raster_grads *grads) {
    gsc_raster_saved *saved = NULL;
    CHECK(gsc_rasterize(context, args, outputs, &saved, NULL) == GSC_OK && saved);
    CHECK(allocations > 0);
    CHECK(gsc_rasterize_backward(context, args, saved, grads, NULL) == GSC_OK);
    gsc_raster_saved_free(saved, NULL);
    gsc_raster_saved_free(NULL, NULL);
    CHECK(allocations == 0);
}

/* The pixel that the first splat covers most, as the formula of the header says. */
static void rasterizer(gsc_context *context) {
    frame one, two;
    with_scene(context, &one, with_own_buffers);
    with_scene(context, &two, at_once);
    CHECK(memcmp(&one, &two, sizeof one) == 0);
    with_scene(context, &two, forward_only);
    CHECK(memcmp(one.color, two.color, sizeof one.color) == 0);
    with_scene(context, &two, with_its_memory);
    CHECK(memcmp(&one, &two, sizeof one) == 0);
    const int middle = HEIGHT / 2 * WIDTH + WIDTH / 2 - 2;
    CHECK(one.alpha[middle] > 0.89f && one.alpha[middle] < 0.99f);
    CHECK(one.depth[middle] > 4 * 0.85f && one.depth[middle] < 5);
    CHECK(one.color[middle] > 0.8f && one.color[middle] < 1);
    CHECK(one.color[0] == background[0] && one.alpha[0] == 0); /* a corner that no splat reaches */
    CHECK(one.radii[0] > 3 && one.radii[1] > 3);
    const float *const grads = one.grad_means;
    const size_t count = (size_t)(one.grad_view + 16 - grads);
    for (size_t i = 0; i < count; ++i) CHECK(isfinite(grads[i]));
    CHECK(one.grad_colors[0] > 0 && one.grad_background[0] > 0 && fabsf(one.grad_means[2]) > 0);

    uint8_t visible[SPLATS] = {7, 7};
    GSC_INIT(gsc_raster_args, args);
    args.far_plane = 4.5f;
    args.view = FLOATS(view, 4, 4);
    args.means = FLOATS(means, SPLATS, 3);
    CHECK(gsc_mark_visible(context, &args, BYTES(visible, SPLATS), NULL) == GSC_OK);
    CHECK(visible[0] == 1 && visible[1] == 0);
}

/* ------------------------------------------- neighbours, images and Adam */

static void neighbours(gsc_context *context) {
    float points[] = {0, 0, 0, 1, 0, 0, 3, 0, 0}, distances[6], mean[3];
    int32_t indices[6];
    size_t bytes = 0;
    GSC_INIT(gsc_knn_args, args);
    args.k = 2;
    args.points = FLOATS(points, 3, 3);
    args.indices = INTS(indices, 3, 2);
    args.distances2 = FLOATS(distances, 3, 2);
    args.mean2 = FLOATS(mean, 3);
    CHECK(gsc_knn_scratch_bytes(context, &args, &bytes) == GSC_OK);
    void *scratch = client_buffer(bytes);
    args.scratch = BYTES(scratch, bytes);
    CHECK(gsc_knn(context, &args, NULL) == GSC_OK);
    CHECK(indices[0] == 1 && indices[1] == 2 && indices[4] == 1 && indices[5] == 0);
    CHECK(distances[0] == 1 && distances[1] == 9 && mean[2] == 6.5f);
    free(scratch);
}

static void images(gsc_context *context) {
    enum { PIXELS = 3 * 16 * 16 };
    float image[PIXELS], target[PIXELS], map[PIXELS], grad[PIXELS], mean = -1, one = 1;
    float loss = -1, parts[3];
    for (int i = 0; i < PIXELS; ++i) image[i] = target[i] = 0.5f + 0.3f * sinf((float)i);
    GSC_INIT(gsc_ssim_args, ssim);
    ssim.image = FLOATS(image, 1, 3, 16, 16);
    ssim.target = FLOATS(target, 1, 3, 16, 16);
    ssim.map = FLOATS(map, 1, 3, 16, 16);
    ssim.mean = FLOATS(&mean, 1);
    ssim.grad_mean = FLOATS(&one, 1);
    ssim.grad_image = FLOATS(grad, 1, 3, 16, 16);
    CHECK(gsc_ssim_forward(context, &ssim, NULL) == GSC_OK && fabsf(mean - 1) < 1e-5f);
    CHECK(gsc_ssim_backward(context, &ssim, NULL) == GSC_OK && fabsf(grad[100]) < 1e-4f);

    for (int i = 0; i < PIXELS; ++i) image[i] = target[i] + 0.125f;
    GSC_INIT(gsc_image_loss_args, args);
    args.l1_weight = 0.5f;
    args.l2_weight = 2;
    args.image = ssim.image;
    args.target = ssim.target;
    args.loss = FLOATS(&loss, 1);
    args.parts = FLOATS(parts, 3);
    args.grad_image = FLOATS(grad, 1, 3, 16, 16);
    CHECK(gsc_image_loss(context, &args, NULL) == GSC_OK);
    CHECK(fabsf(parts[0] - 0.125f) < 1e-6f && fabsf(parts[1] - 0.015625f) < 1e-6f);
    CHECK(parts[2] < 1 && fabsf(loss - 0.09375f) < 1e-6f);
    CHECK(fabsf(grad[0] - (0.5f + 2 * 2 * 0.125f) / PIXELS) < 1e-8f);
}

static void adam(gsc_context *context) {
    float parameter[] = {1, 1}, gradient[] = {2, 2}, moment1[] = {0, 0}, moment2[] = {0, 0};
    uint8_t visible[] = {1, 0};
    gsc_adam_group group;
    memset(&group, 0, sizeof group);
    group.parameter = FLOATS(parameter, 2, 1);
    group.gradient = FLOATS(gradient, 2, 1);
    group.moment1 = FLOATS(moment1, 2, 1);
    group.moment2 = FLOATS(moment2, 2, 1);
    group.lr = 0.25f;
    group.step = 1;
    GSC_INIT(gsc_adam_args, args);
    args.group_count = 1;
    args.groups = &group;
    args.group_stride = sizeof group;
    args.visible = BYTES(visible, 2);
    CHECK(gsc_adam_step(context, &args, NULL) == GSC_OK);
    CHECK(fabsf(parameter[0] - 0.75f) < 1e-5f && fabsf(moment1[0] - 0.2f) < 1e-6f);
    CHECK(parameter[1] == 1 && moment2[1] == 0);
}

/* ------------------------------------------------------------- training step */

static void train_step(gsc_context *context, const gsc_raster_args *args,
                       const gsc_raster_outputs *outputs, const gsc_raster_grads *grads) {
    static float target[3 * HEIGHT * WIDTH], moments[2][3 * SPLATS];
    float trained[3 * SPLATS], loss_value = -1;
    memcpy(trained, colors, sizeof trained);
    memset(moments, 0, sizeof moments);
    gsc_raster_args raster = *args;
    raster.colors = FLOATS(trained, SPLATS, 3);
    GSC_INIT(gsc_image_loss_args, loss);
    loss.l2_weight = 1;
    loss.target = FLOATS(target, 1, 3, HEIGHT, WIDTH);
    loss.loss = FLOATS(&loss_value, 1);
    gsc_train_group group;
    memset(&group, 0, sizeof group);
    group.parameter = GSC_PARAMETER_COLORS;
    group.moment1 = FLOATS(moments[0], SPLATS, 3);
    group.moment2 = FLOATS(moments[1], SPLATS, 3);
    group.lr = 0.25f;
    group.step = 1;
    GSC_INIT(gsc_raster_info, info);
    GSC_INIT(gsc_train_args, train);
    train.group_count = 1;
    train.groups = &group;
    train.group_stride = sizeof group;
    train.raster = &raster;
    train.loss = &loss;
    train.outputs = outputs;
    train.info = &info;
    (void)grads;
    CHECK(gsc_train_step(context, &train, NULL) == GSC_OK);
    CHECK(loss_value > 0 && info.visible == SPLATS);
    for (int i = 0; i < 3 * SPLATS; ++i) CHECK(fabsf(colors[i] - trained[i] - 0.25f) < 1e-4f);
}

/* -------------------------------------------------------------------- errors */

static void errors(gsc_context *context) {
    float values[12] = {0};
    GSC_INIT(gsc_knn_args, args);
    args.points = FLOATS(values, 3, 4);
    CHECK(gsc_knn(context, &args, NULL) == GSC_ERROR_SHAPE);
    CHECK(strstr(gsc_last_error(), "knn: points is [3, 4]"));
    CHECK(gsc_last_error_cuda() == 0);
    args.points = VIEW(values, kDLFloat, 16, 3, 3);
    CHECK(gsc_knn(context, &args, NULL) == GSC_ERROR_DTYPE);
    args.points = NULL;
    CHECK(gsc_knn(context, &args, NULL) == GSC_ERROR_INVALID_ARGUMENT);
    args.points = FLOATS(values, 4, 3);
    args.flags = 1u << 30;
    CHECK(gsc_knn(context, &args, NULL) == GSC_ERROR_INVALID_ARGUMENT);
    args.struct_size = sizeof(size_t);
    CHECK(gsc_knn(context, &args, NULL) == GSC_ERROR_ABI);
    CHECK(gsc_knn(NULL, &args, NULL) == GSC_ERROR_INVALID_ARGUMENT);

    gsc_context *none = context;
    gsc_context_desc desc;
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    desc.abi_version = (uint32_t)(GSC_ABI_MAJOR + 1) << 16;
    CHECK(gsc_context_create(&desc, &none) == GSC_ERROR_ABI && !none);
    desc.abi_version = GSC_ABI_VERSION;
    desc.device.device_type = kDLROCM;
    CHECK(gsc_context_create(&desc, &none) == GSC_ERROR_UNSUPPORTED && !none);
}

int main(void) {
    frame f;
    library();
    gsc_context *context = create();
    limits(context);
    rasterizer(context);
    neighbours(context);
    images(context);
    adam(context);
    with_scene(context, &f, train_step);
    errors(context);
    CHECK(allocations == 0);
    gsc_context_free(context);
    gsc_context_free(NULL);
    puts("ok");
    return 0;
}
