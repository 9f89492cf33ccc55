/* Renders three Gaussians to an image file, start to finish:
 *
 *     cc three_splats.c $(pkg-config --cflags --libs gsplat_c) && ./a.out > splats.ppm
 */
#include <gsplat_c.h>

#include <stdio.h>

enum { WIDTH = 320, HEIGHT = 240, SPLATS = 3 };

static float means[SPLATS][3] = {{-0.8f, 0, 4}, {0, 0.3f, 5}, {0.8f, 0, 4}};
static float scales[SPLATS][3] = {{0.5f, 0.2f, 0.2f}, {0.4f, 0.4f, 0.4f}, {0.2f, 0.5f, 0.2f}};
static float rotations[SPLATS][4] = {{1, 0, 0, 0}, {1, 0, 0, 0}, {0.92f, 0, 0, 0.38f}};
static float opacities[SPLATS] = {0.9f, 0.8f, 0.9f};
static float colors[SPLATS][3] = {{0.9f, 0.2f, 0.1f}, {0.2f, 0.7f, 0.3f}, {0.1f, 0.4f, 0.9f}};
static float view[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
static float intrinsics[4] = {250, 250, WIDTH / 2.0f, HEIGHT / 2.0f}; /* fx fy cx cy */
static float background[3] = {1, 1, 1};
static float image[HEIGHT][WIDTH][3];

/* A view of float32 memory on the CPU; dense, so it has no strides. */
static DLTensor floats(void *data, int32_t ndim, int64_t *shape) {
    DLTensor tensor = {data, {kDLCPU, 0}, ndim, {kDLFloat, 32, 1}, shape, NULL, 0};
    return tensor;
}

static gsc_status render(gsc_context *context) {
    int64_t n3[] = {SPLATS, 3}, n4[] = {SPLATS, 4}, n[] = {SPLATS};
    int64_t four_by_four[] = {4, 4}, four[] = {4}, three[] = {3}, hw3[] = {HEIGHT, WIDTH, 3};
    DLTensor means_view = floats(means, 2, n3), scales_view = floats(scales, 2, n3);
    DLTensor rotations_view = floats(rotations, 2, n4), opacities_view = floats(opacities, 1, n);
    DLTensor colors_view = floats(colors, 2, n3), camera_view = floats(view, 2, four_by_four);
    DLTensor intrinsics_view = floats(intrinsics, 1, four);
    DLTensor background_view = floats(background, 1, three), image_view = floats(image, 3, hw3);

    GSC_INIT(gsc_raster_args, args);
    args.flags = GSC_RASTER_PIXEL_LAST;
    args.width = WIDTH;
    args.height = HEIGHT;
    args.view = &camera_view;
    args.intrinsics = &intrinsics_view;
    args.background = &background_view;
    args.means = &means_view;
    args.opacities = &opacities_view;
    args.scales = &scales_view;
    args.rotations = &rotations_view;
    args.colors = &colors_view;
    GSC_INIT(gsc_raster_outputs, outputs);
    outputs.color = &image_view;
    return gsc_rasterize(context, &args, &outputs, NULL, NULL);
}

static int byte(float value) {
    return value <= 0 ? 0 : value >= 1 ? 255 : (int)(value * 255 + 0.5f);
}

int main(void) {
    GSC_INIT(gsc_context_desc, desc);
    desc.abi_version = GSC_ABI_VERSION;
    desc.device.device_type = kDLCPU;
    gsc_context *context;
    if (gsc_context_create(&desc, &context) || render(context)) {
        fprintf(stderr, "%s\n", gsc_last_error());
        return 1;
    }
    gsc_context_free(context);

    printf("P3 %d %d 255\n", WIDTH, HEIGHT);
    for (int y = 0; y < HEIGHT; ++y)
        for (int x = 0; x < WIDTH; ++x)
            printf("%d %d %d\n", byte(image[y][x][0]), byte(image[y][x][1]), byte(image[y][x][2]));
    return 0;
}
