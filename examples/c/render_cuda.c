/* Renders on a CUDA device with memory, a stream and events of the CUDA Runtime:
 *
 *     cc render_cuda.c $(pkg-config --cflags --libs gsplat_c) -I$CUDA/include \
 *         $CUDA/lib64/libcudart_static.a -ldl -lrt -lpthread -lm
 *     ./a.out knot.ppm
 *
 * $CUDA is a toolkit; the shared Runtime, -lcudart, works too.  The library and the Runtime both
 * use the device's primary context, so they can share pointers and streams.
 */
#include <cuda_runtime_api.h>
#include <gsplat_c.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1280, HEIGHT = 720, SPLATS = 200000, RUNS = 20 };

static float view[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1};
static float intrinsics[4] = {900, 900, WIDTH / 2.0f, HEIGHT / 2.0f}; /* fx fy cx cy */
static float background[3] = {1, 1, 1};
static float means[SPLATS][3], scales[SPLATS][3], rotations[SPLATS][4];
static float opacities[SPLATS], colors[SPLATS][3];
static float image[HEIGHT][WIDTH][3];

static void check(cudaError_t result, const char *what) {
    if (result == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(result));
    exit(1);
}

/* A tensor and its shape, in memory that was borrowed or allocated. */
typedef struct tensor {
    DLTensor view;
    int64_t shape[3];
} tensor;

static void describe(tensor *t, void *data, DLDevice device, int ndim, int64_t a, int64_t b,
                     int64_t c) {
    *t = (tensor){.shape = {a, b, c}};
    t->view = (DLTensor){data, device, ndim, {kDLFloat, 32, 1}, t->shape, NULL, 0};
}

/* Device memory of `bytes` bytes, with the values of `from` if that is not NULL. */
static void *device_memory(const void *from, size_t bytes, cudaStream_t stream) {
    void *data;
    check(cudaMalloc(&data, bytes), "cudaMalloc");
    if (from)
        check(cudaMemcpyAsync(data, from, bytes, cudaMemcpyHostToDevice, stream),
              "cudaMemcpyAsync");
    return data;
}

/* Small round Gaussians along a trefoil knot, spread around it on a sunflower's spiral. */
static void make_knot(void) {
    for (int i = 0; i < SPLATS; i++) {
        double t = 6.283185307 * i / SPLATS, around = 2.399963 * i;
        double radius = 0.28 * sqrt(fmod(i * 0.618034, 1));
        double ring = 2 + cos(3 * t);
        means[i][0] = (float)(ring * cos(2 * t) + radius * cos(around));
        means[i][1] = (float)(0.8 * ring * sin(2 * t) + radius * sin(around));
        means[i][2] = (float)(8 + sin(3 * t) + radius * cos(2 * around));
        for (int j = 0; j < 3; j++) {
            scales[i][j] = 0.012f;
            colors[i][j] = (float)(0.5 + 0.45 * sin(t * 3 + 2.1 * j));
        }
        rotations[i][0] = 1;
        opacities[i] = 0.8f;
    }
}

static void write_image(const char *path) {
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        exit(1);
    }
    fprintf(file, "P6 %d %d 255\n", WIDTH, HEIGHT);
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            for (int c = 0; c < 3; c++) {
                float v = image[y][x][c];
                fputc(v <= 0 ? 0 : v >= 1 ? 255 : (int)(v * 255 + 0.5f), file);
            }
    if (fclose(file) != 0) perror(path);
}

/* The median of RUNS calls after one that loads and allocates, between events. */
static float render(gsc_context *context, const gsc_raster_args *args,
                    const gsc_raster_outputs *outputs, cudaStream_t stream) {
    cudaEvent_t begin, end;
    float times[RUNS];
    check(cudaEventCreate(&begin), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
    for (int run = -1; run < RUNS; run++) {
        float passed;
        check(cudaEventRecord(begin, stream), "cudaEventRecord");
        if (gsc_rasterize(context, args, outputs, NULL, stream)) {
            fprintf(stderr, "%s\n", gsc_last_error());
            exit(1);
        }
        check(cudaEventRecord(end, stream), "cudaEventRecord");
        check(cudaEventSynchronize(end), "rendering");
        check(cudaEventElapsedTime(&passed, begin, end), "cudaEventElapsedTime");
        int i = run;
        if (run < 0) continue;
        for (; i > 0 && times[i - 1] > passed; i--) times[i] = times[i - 1];
        times[i] = passed;
    }
    check(cudaEventDestroy(begin), "cudaEventDestroy");
    check(cudaEventDestroy(end), "cudaEventDestroy");
    return times[RUNS / 2];
}

/* The Gaussians and the image on the device, and the descriptors that point to them. */
typedef struct scene {
    void *memory[6];
    tensor tensors[9];
    gsc_raster_args args;
    gsc_raster_outputs outputs;
} scene;

static void open_scene(scene *s, DLDevice device, cudaStream_t stream) {
    const DLDevice host = {kDLCPU, 0};
    tensor *t = s->tensors;
    memset(s, 0, sizeof *s);
    s->memory[0] = device_memory(means, sizeof means, stream);
    s->memory[1] = device_memory(scales, sizeof scales, stream);
    s->memory[2] = device_memory(rotations, sizeof rotations, stream);
    s->memory[3] = device_memory(opacities, sizeof opacities, stream);
    s->memory[4] = device_memory(colors, sizeof colors, stream);
    s->memory[5] = device_memory(NULL, sizeof image, stream);
    describe(&t[0], s->memory[0], device, 2, SPLATS, 3, 0);
    describe(&t[1], s->memory[1], device, 2, SPLATS, 3, 0);
    describe(&t[2], s->memory[2], device, 2, SPLATS, 4, 0);
    describe(&t[3], s->memory[3], device, 1, SPLATS, 0, 0);
    describe(&t[4], s->memory[4], device, 2, SPLATS, 3, 0);
    describe(&t[5], s->memory[5], device, 3, HEIGHT, WIDTH, 3);
    describe(&t[6], view, host, 2, 4, 4, 0); /* the camera may stay on the host */
    describe(&t[7], intrinsics, host, 1, 4, 0, 0);
    describe(&t[8], background, host, 1, 3, 0, 0);

    s->args.struct_size = sizeof s->args;
    s->args.flags = GSC_RASTER_PIXEL_LAST;
    s->args.width = WIDTH;
    s->args.height = HEIGHT;
    s->args.means = &t[0].view;
    s->args.scales = &t[1].view;
    s->args.rotations = &t[2].view;
    s->args.opacities = &t[3].view;
    s->args.colors = &t[4].view;
    s->args.view = &t[6].view;
    s->args.intrinsics = &t[7].view;
    s->args.background = &t[8].view;
    s->outputs.struct_size = sizeof s->outputs;
    s->outputs.color = &t[5].view;
}

int main(int argc, char **argv) {
    const DLDevice device = {kDLCUDA, 0};
    gsc_context_desc desc;
    gsc_context *context;
    gsc_context_desc_init(&desc, device);
    if (gsc_context_create(&desc, &context)) {
        fprintf(stderr, "%s\n", gsc_last_error());
        return 1;
    }
    struct cudaDeviceProp about;
    cudaStream_t stream;
    check(cudaSetDevice(device.device_id), "cudaSetDevice");
    check(cudaGetDeviceProperties(&about, device.device_id), "cudaGetDeviceProperties");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");

    scene s;
    make_knot();
    open_scene(&s, device, stream);
    float milliseconds = render(context, &s.args, &s.outputs, stream);
    check(cudaMemcpyAsync(image, s.memory[5], sizeof image, cudaMemcpyDeviceToHost, stream),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
    write_image(argc > 1 ? argv[1] : "knot.ppm");
    printf("%s: %d Gaussians, %dx%d, %.3f ms\n", about.name, SPLATS, WIDTH, HEIGHT,
           (double)milliseconds);

    gsc_context_free(context);
    for (int i = 0; i < 6; i++) check(cudaFree(s.memory[i]), "cudaFree");
    check(cudaStreamDestroy(stream), "cudaStreamDestroy");
    return 0;
}
