/* A host that uses the library if it is installed, and works without it otherwise:
 *
 *     cc plugin_host.c $(pkg-config --cflags gsplat_c) -o plugin_host
 *     ./plugin_host splats.ppm
 *     ./plugin_host splats.ppm /some/where/libgsplat_c.so.1
 *
 * or on Windows cl plugin_host.c /std:c11 /Iinclude, and gsplat_c.dll beside the program.
 *
 * Nothing is linked; the header provides only types and constants.  The host closes the library
 * before it writes the picture, which is allowed once all contexts are freed.
 */
#include <gsplat_c.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#include <windows.h>
#define LIBRARY "gsplat_c.dll"
#else
#include <dlfcn.h>
#define LIBRARY "libgsplat_c.so.1"
#endif

enum { WIDTH = 320, HEIGHT = 240, SPLATS = 3 };

/* From far to near. */
static float means[SPLATS][3] = {{0, 0.3f, 5}, {-0.8f, 0, 4}, {0.8f, 0, 4}};
static float scales[SPLATS][3] = {{0.4f, 0.4f, 0.4f}, {0.5f, 0.2f, 0.2f}, {0.2f, 0.5f, 0.2f}};
static float rotations[SPLATS][4] = {{1, 0, 0, 0}, {1, 0, 0, 0}, {0.92f, 0, 0, 0.38f}};
static float opacities[SPLATS] = {0.8f, 0.9f, 0.9f};
static float colors[SPLATS][3] = {{0.2f, 0.7f, 0.3f}, {0.9f, 0.2f, 0.1f}, {0.1f, 0.4f, 0.9f}};
static float view[4][4] = {{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}};
static float intrinsics[4] = {250, 250, WIDTH / 2.0f, HEIGHT / 2.0f}; /* fx fy cx cy */
static float image[HEIGHT][WIDTH][3];

/* ---------------------------------------------------------------- the library */

/* The functions that this host calls. */
typedef struct plugin {
    void *library;
    uint32_t (*abi_version)(void);
    const char *(*version)(void);
    const char *(*last_error)(void);
    gsc_status (*context_create)(const gsc_context_desc *, gsc_context **);
    void (*context_free)(gsc_context *);
    gsc_status (*rasterize)(gsc_context *, const gsc_raster_args *, const gsc_raster_outputs *,
                            gsc_raster_saved **, void *);
} plugin;

static void *open_library(const char *path) {
#if defined(_WIN32)
    void *library = LoadLibraryA(path);
    if (!library) fprintf(stderr, "%s: error %lu\n", path, GetLastError());
#else
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fprintf(stderr, "%s\n", dlerror());
#endif
    return library;
}

/* ISO C only converts an object pointer to a function pointer byte by byte. */
static int find(plugin *p, const char *name, void *function) {
#if defined(_WIN32)
    FARPROC address = GetProcAddress(p->library, name);
#else
    void *address = dlsym(p->library, name);
#endif
    if (!address) fprintf(stderr, "the library has no %s\n", name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}

static void close_plugin(plugin *p) {
    if (!p->library) return;
#if defined(_WIN32)
    FreeLibrary(p->library);
#else
    dlclose(p->library);
#endif
    p->library = NULL;
}

/* Checks the version first: its function never changes.  The same major is compatible if its
 * minor is at least the one this host was written for. */
static int open_plugin(plugin *p, const char *path) {
    memset(p, 0, sizeof *p);
    p->library = open_library(path);
    if (!p->library) return 0;
    if (!find(p, "gsplat_c_abi_version", &p->abi_version)) {
        close_plugin(p);
        return 0;
    }
    uint32_t abi = p->abi_version();
    if (abi >> 16 != GSC_ABI_MAJOR || abi < GSC_ABI_VERSION) {
        fprintf(stderr, "%s has ABI %u.%u, this program needs %d.%d\n", path, (unsigned)(abi >> 16),
                (unsigned)(abi & 0xffff), GSC_ABI_MAJOR, GSC_ABI_MINOR);
        close_plugin(p);
        return 0;
    }
    if (find(p, "gsc_version", &p->version) && find(p, "gsc_last_error", &p->last_error) &&
        find(p, "gsc_context_create", &p->context_create) &&
        find(p, "gsc_context_free", &p->context_free) && find(p, "gsc_rasterize", &p->rasterize))
        return 1;
    close_plugin(p);
    return 0;
}

/* A view of float32 memory on the CPU; dense, so it has no strides. */
static DLTensor floats(void *data, int32_t ndim, int64_t *shape) {
    DLTensor tensor = {data, {kDLCPU, 0}, ndim, {kDLFloat, 32, 1}, shape, NULL, 0};
    return tensor;
}

static gsc_status render(const plugin *p, gsc_context *context) {
    int64_t n3[] = {SPLATS, 3}, n4[] = {SPLATS, 4}, n[] = {SPLATS};
    int64_t four_by_four[] = {4, 4}, four[] = {4}, hw3[] = {HEIGHT, WIDTH, 3};
    DLTensor means_view = floats(means, 2, n3), scales_view = floats(scales, 2, n3);
    DLTensor rotations_view = floats(rotations, 2, n4), opacities_view = floats(opacities, 1, n);
    DLTensor colors_view = floats(colors, 2, n3), camera_view = floats(view, 2, four_by_four);
    DLTensor intrinsics_view = floats(intrinsics, 1, four), image_view = floats(image, 3, hw3);

    GSC_INIT(gsc_raster_args, args);
    args.flags = GSC_RASTER_PIXEL_LAST;
    args.width = WIDTH;
    args.height = HEIGHT;
    args.view = &camera_view;
    args.intrinsics = &intrinsics_view;
    args.means = &means_view;
    args.opacities = &opacities_view;
    args.scales = &scales_view;
    args.rotations = &rotations_view;
    args.colors = &colors_view;
    GSC_INIT(gsc_raster_outputs, outputs);
    outputs.color = &image_view;
    return p->rasterize(context, &args, &outputs, NULL, NULL);
}

static int draw_with(const plugin *p) {
    gsc_context_desc desc;
    gsc_context *context;
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    if (p->context_create(&desc, &context)) {
        fprintf(stderr, "%s\n", p->last_error());
        return 0;
    }
    gsc_status status = render(p, context);
    if (status) fprintf(stderr, "%s\n", p->last_error());
    p->context_free(context);
    return status == GSC_OK;
}

/* ------------------------------------------------------------------ without it */

/* Draws a disc for each splat, far ones first. */
static void draw_discs(void) {
    memset(image, 0, sizeof image);
    for (int n = 0; n < SPLATS; n++) {
        float z = means[n][2], radius = intrinsics[0] * scales[n][0] / z;
        float x0 = intrinsics[0] * means[n][0] / z + intrinsics[2];
        float y0 = intrinsics[1] * means[n][1] / z + intrinsics[3];
        for (int y = 0; y < HEIGHT; y++)
            for (int x = 0; x < WIDTH; x++) {
                float dx = (float)x + 0.5f - x0, dy = (float)y + 0.5f - y0;
                if (dx * dx + dy * dy < radius * radius)
                    memcpy(image[y][x], colors[n], sizeof colors[n]);
            }
    }
}

static void write_picture(const char *path) {
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        exit(1);
    }
    fprintf(file, "P6 %d %d 255\n", WIDTH, HEIGHT);
    const float *values = &image[0][0][0];
    for (int i = 0; i < WIDTH * HEIGHT * 3; i++) {
        float v = values[i];
        fputc(v <= 0 ? 0 : v >= 1 ? 255 : (int)(v * 255 + 0.5f), file);
    }
    if (fclose(file) != 0) perror(path);
}

int main(int argc, char **argv) {
    plugin p;
    if (open_plugin(&p, argc > 2 ? argv[2] : LIBRARY) && draw_with(&p)) {
        printf("drawn by gsplat_c %s\n", p.version());
    } else {
        draw_discs();
        printf("drawn without gsplat_c\n");
    }
    close_plugin(&p);
    write_picture(argc > 1 ? argv[1] : "splats.ppm");
    return 0;
}
