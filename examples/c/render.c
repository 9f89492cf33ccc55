/* Renders a trained 3DGS scene on the CPU:
 *
 *     cc render.c $(pkg-config --cflags --libs gsplat_c) -o render
 *     ./render point_cloud.ply view.ppm
 *     ./render point_cloud.ply view.ppm 3 -1 -4  0 0 0    from a point, and at one
 *
 * Scenes have the form that training stores: binary little-endian PLY, float properties, y
 * pointing down.
 */
#include <gsplat_c.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1280, HEIGHT = 720, MAX_PROPERTIES = 128 };
static const float focal_length = 870; /* pixels */

/* Parameters after activation, as the library takes them. */
typedef struct scene {
    int64_t count;
    int64_t coefficients;              /* of spherical harmonics, per channel */
    float *means, *scales, *rotations; /* [count, 3], [count, 3], [count, 4] */
    float *opacities, *sh;             /* [count], [count, coefficients, 3] */
} scene;

static void fail(const char *path, const char *problem) {
    fprintf(stderr, "%s: %s\n", path, problem);
    exit(1);
}

/* ----------------------------------------------------------------------- PLY */

/* Columns of the vertex rows by name. */
typedef struct header {
    int64_t count;
    int properties;
    char names[MAX_PROPERTIES][32];
} header;

static void read_header(header *h, FILE *file, const char *path) {
    char line[256], type[16], element[32];
    memset(h, 0, sizeof *h);
    if (!fgets(line, sizeof line, file) || strncmp(line, "ply", 3) != 0) fail(path, "no PLY file");
    while (fgets(line, sizeof line, file)) {
        long long rows;
        if (strncmp(line, "end_header", 10) == 0) return;
        if (strncmp(line, "format", 6) == 0 && !strstr(line, "binary_little_endian"))
            fail(path, "expected binary_little_endian");
        if (sscanf(line, "element %31s %lld", element, &rows) == 2) {
            if (strcmp(element, "vertex") != 0 || rows < 0 || rows > 1 << 30)
                fail(path, "expected vertices and nothing else");
            h->count = rows;
        }
        if (strncmp(line, "property", 8) != 0) continue;
        if (h->properties == MAX_PROPERTIES) fail(path, "too many properties");
        if (sscanf(line, "property %15s %31s", type, h->names[h->properties++]) != 2 ||
            strcmp(type, "float") != 0)
            fail(path, "expected float properties");
    }
    fail(path, "the header has no end");
}

static int column(const header *h, const char *path, const char *name) {
    for (int i = 0; i < h->properties; i++)
        if (strcmp(h->names[i], name) == 0) return i;
    fprintf(stderr, "%s: no property %s\n", path, name);
    exit(1);
}

/* The first column of a vector; its components are adjacent. */
static int columns(const header *h, const char *path, const char *first, const char *last,
                   int count) {
    int begin = column(h, path, first);
    if (column(h, path, last) != begin + count - 1) fail(path, "properties in an unusual order");
    return begin;
}

static float *floats(int64_t count) {
    float *data = malloc((size_t)(count > 0 ? count : 1) * sizeof *data);
    if (!data) fail("render", "out of memory");
    return data;
}

static int count_rest(const header *h) {
    int count = 0;
    for (int i = 0; i < h->properties; i++) count += strncmp(h->names[i], "f_rest_", 7) == 0;
    return count;
}

/* Training stores the logarithm of scales, the logit of opacities, and the higher
 * coefficients channel by channel. */
static void read_scene(scene *s, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        perror(path);
        exit(1);
    }
    header h;
    read_header(&h, file, path);
    int x = columns(&h, path, "x", "z", 3), scale = columns(&h, path, "scale_0", "scale_2", 3);
    int rotation = columns(&h, path, "rot_0", "rot_3", 4), opacity = column(&h, path, "opacity");
    int dc = columns(&h, path, "f_dc_0", "f_dc_2", 3), rest = count_rest(&h), rest_begin = 0;
    if (rest != 0 && rest != 9 && rest != 24 && rest != 45 && rest != 72)
        fail(path, "the number of f_rest properties is of no degree");
    if (rest > 0) {
        char last[32];
        snprintf(last, sizeof last, "f_rest_%d", rest - 1);
        rest_begin = columns(&h, path, "f_rest_0", last, rest);
    }

    s->count = h.count;
    s->coefficients = 1 + rest / 3;
    s->means = floats(3 * h.count);
    s->scales = floats(3 * h.count);
    s->rotations = floats(4 * h.count);
    s->opacities = floats(h.count);
    s->sh = floats(3 * s->coefficients * h.count);
    for (int64_t n = 0; n < h.count; n++) {
        float row[MAX_PROPERTIES], *sh = s->sh + 3 * s->coefficients * n;
        if (fread(row, sizeof *row, (size_t)h.properties, file) != (size_t)h.properties)
            fail(path, "cut short");
        memcpy(s->means + 3 * n, row + x, 3 * sizeof *row);
        memcpy(s->rotations + 4 * n, row + rotation, 4 * sizeof *row);
        memcpy(sh, row + dc, 3 * sizeof *row);
        for (int i = 0; i < 3; i++) s->scales[3 * n + i] = expf(row[scale + i]);
        s->opacities[n] = 1 / (1 + expf(-row[opacity]));
        for (int i = 0; i < rest; i++)
            sh[3 * (1 + i % (rest / 3)) + i / (rest / 3)] = row[rest_begin + i];
    }
    fclose(file);
}

static void free_scene(scene *s) {
    free(s->means);
    free(s->scales);
    free(s->rotations);
    free(s->opacities);
    free(s->sh);
}

/* -------------------------------------------------------------------- camera */

typedef struct vector {
    double x, y, z;
} vector;

static vector minus(vector a, vector b) {
    return (vector){a.x - b.x, a.y - b.y, a.z - b.z};
}

static double dot(vector a, vector b) {
    return a.x * b.x + a.y * b.y + a.z * b.z;
}

static vector cross(vector a, vector b) {
    return (vector){a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

static vector unit(vector a) {
    double length = sqrt(dot(a, a));
    return (vector){a.x / length, a.y / length, a.z / length};
}

/* World to camera, column-major: x right, y down, z forward. */
static void look_at(float view[16], vector eye, vector target) {
    const vector down = {0, 1, 0};
    vector forward = unit(minus(target, eye));
    vector right = unit(cross(down, forward));
    vector axes[3] = {right, cross(forward, right), forward};
    memset(view, 0, 16 * sizeof *view);
    for (int i = 0; i < 3; i++) {
        view[i] = (float)axes[i].x;
        view[4 + i] = (float)axes[i].y;
        view[8 + i] = (float)axes[i].z;
        view[12 + i] = (float)-dot(axes[i], eye);
    }
    view[15] = 1;
}

/* From the front right and slightly above, at a few times the spread of the Gaussians. */
static void look_at_scene(float view[16], const scene *s) {
    double mean[3] = {0, 0, 0}, square = 0;
    for (int64_t i = 0; i < 3 * s->count; i++)
        mean[i % 3] += (double)s->means[i] / (double)s->count;
    for (int64_t i = 0; i < 3 * s->count; i++) {
        double offset = (double)s->means[i] - mean[i % 3];
        square += offset * offset / (double)s->count;
    }
    double away = 3.5 * sqrt(square);
    vector target = {mean[0], mean[1], mean[2]};
    vector eye = {mean[0] + 0.5 * away, mean[1] - 0.25 * away, mean[2] - 0.83 * away};
    look_at(view, eye, target);
}

/* ------------------------------------------------------------------ rendering */

/* A view of float32 memory on the CPU; dense, so it has no strides. */
static DLTensor tensor(float *data, int32_t ndim, int64_t *shape) {
    return (DLTensor){data, {kDLCPU, 0}, ndim, {kDLFloat, 32, 1}, shape, NULL, 0};
}

static int32_t degree(int64_t coefficients) {
    int32_t degree = 0;
    while ((degree + 1) * (degree + 1) < coefficients) degree++;
    return degree;
}

/* image: [HEIGHT, WIDTH, 3] */
static gsc_status render(gsc_context *context, const scene *s, float view[16], float *image) {
    float pinhole[4] = {focal_length, focal_length, WIDTH / 2.0f, HEIGHT / 2.0f};
    DLTensor means = tensor(s->means, 2, (int64_t[]){s->count, 3});
    DLTensor scales = tensor(s->scales, 2, (int64_t[]){s->count, 3});
    DLTensor rotations = tensor(s->rotations, 2, (int64_t[]){s->count, 4});
    DLTensor opacities = tensor(s->opacities, 1, (int64_t[]){s->count});
    DLTensor sh = tensor(s->sh, 3, (int64_t[]){s->count, s->coefficients, 3});
    DLTensor camera = tensor(view, 2, (int64_t[]){4, 4});
    DLTensor intrinsics = tensor(pinhole, 1, (int64_t[]){4});
    DLTensor color = tensor(image, 3, (int64_t[]){HEIGHT, WIDTH, 3});

    GSC_INIT(gsc_raster_args, args);
    args.flags = GSC_RASTER_PIXEL_LAST;
    args.width = WIDTH;
    args.height = HEIGHT;
    args.view = &camera;
    args.intrinsics = &intrinsics;
    args.means = &means;
    args.scales = &scales;
    args.rotations = &rotations;
    args.opacities = &opacities;
    args.sh = &sh;
    args.sh_degree = degree(s->coefficients);
    GSC_INIT(gsc_raster_outputs, outputs);
    outputs.color = &color;
    return gsc_rasterize(context, &args, &outputs, NULL, NULL);
}

static void write_picture(const char *path, const float *image) {
    FILE *file = fopen(path, "wb");
    if (!file) {
        perror(path);
        exit(1);
    }
    fprintf(file, "P6 %d %d 255\n", WIDTH, HEIGHT);
    for (int i = 0; i < WIDTH * HEIGHT * 3; i++) {
        float v = image[i];
        fputc(v <= 0 ? 0 : v >= 1 ? 255 : (int)(v * 255 + 0.5f), file);
    }
    if (fclose(file) != 0) {
        perror(path);
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 3 && argc != 9) {
        fprintf(stderr, "usage: %s SCENE.ply PICTURE.ppm [EYE_X Y Z TARGET_X Y Z]\n", argv[0]);
        return 2;
    }
    scene s;
    float view[16];
    read_scene(&s, argv[1]);
    if (argc == 9) {
        vector eye = {atof(argv[3]), atof(argv[4]), atof(argv[5])};
        vector target = {atof(argv[6]), atof(argv[7]), atof(argv[8])};
        look_at(view, eye, target);
    } else {
        look_at_scene(view, &s);
    }

    float *image = floats((int64_t)WIDTH * HEIGHT * 3);
    gsc_context_desc desc;
    gsc_context *context;
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    if (gsc_context_create(&desc, &context) || render(context, &s, view, image))
        fail(argv[1], gsc_last_error());
    gsc_context_free(context);
    write_picture(argv[2], image);
    printf("%s: %lld Gaussians\n", argv[2], (long long)s.count);
    free(image);
    free_scene(&s);
    return 0;
}
