#include "gaussians.h"

#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEGREE = 4, MAX_REST = 3 * ((MAX_DEGREE + 1) * (MAX_DEGREE + 1) - 1) };

/* The properties that every scene has, in the order in which their columns are kept. */
enum { MEAN = 0, SCALE = 3, ROTATION = 6, OPACITY = 10, DC = 11, FIELDS = 14 };
static const char *const field_names[FIELDS] = {
    "x",     "y",     "z",     "scale_0", "scale_1", "scale_2", "rot_0",
    "rot_1", "rot_2", "rot_3", "opacity", "f_dc_0",  "f_dc_1",  "f_dc_2",
};

typedef struct column_map {
    int fields[FIELDS];
    int rest[MAX_REST];
    int32_t degree;
} column_map;

static bool find_field(const ply *file, const ply_element *vertex, const char *name, int *column) {
    *column = ply_property_index(vertex, name);
    if (*column < 0) {
        const char *hint = "";
        if (ply_property_index(vertex, "packed_position") >= 0)
            hint = " (this is a compressed scene: convert it to a standard PLY first)";
        else if (ply_property_index(vertex, "x") >= 0 && ply_property_index(vertex, "f_dc_0") < 0)
            hint = " (this looks like a point cloud, not a Gaussian scene)";
        return fail("%s: element 'vertex' has no property '%s'%s", file->path, name, hint);
    }
    if (vertex->properties[*column].is_list)
        return fail("%s: property '%s' is a list", file->path, name);
    return true;
}

static bool find_columns(const ply *file, const ply_element *vertex, column_map *columns) {
    for (int i = 0; i < FIELDS; i++)
        if (!find_field(file, vertex, field_names[i], &columns->fields[i])) return false;
    int count = 0;
    for (size_t i = 0; i < vertex->property_count; i++)
        if (strncmp(vertex->properties[i].name, "f_rest_", 7) == 0) count++;
    int32_t degree = 0;
    while (degree <= MAX_DEGREE && 3 * ((degree + 1) * (degree + 1) - 1) != count) degree++;
    if (degree > MAX_DEGREE)
        return fail("%s: element 'vertex' has %d properties f_rest_*; spherical harmonics of "
                    "degree 0 to 4 have 0, 9, 24, 45 or 72",
                    file->path, count);
    columns->degree = degree;
    for (int i = 0; i < count; i++) {
        char name[24];
        snprintf(name, sizeof name, "f_rest_%d", i);
        if (!find_field(file, vertex, name, &columns->rest[i])) return false;
    }
    return true;
}

static bool store(float *to, double value) {
    *to = (float)value;
    return isfinite(*to);
}

/* 3DGS stores its parameters before activation: the logarithm of scales, the logit of
 * opacity; and the higher SH coefficients channel by channel.  False if a value is not finite. */
static bool store_row(gaussians *scene, int64_t n, const column_map *columns,
                      const double *values) {
    const int *fields = columns->fields;
    bool finite = store(&scene->opacities[n], 1 / (1 + exp(-values[fields[OPACITY]])));
    for (int i = 0; i < 3; i++) {
        finite &= store(&scene->means[3 * n + i], values[fields[MEAN + i]]);
        finite &= store(&scene->scales[3 * n + i], exp(values[fields[SCALE + i]]));
    }
    for (int i = 0; i < 4; i++)
        finite &= store(&scene->rotations[4 * n + i], values[fields[ROTATION + i]]);
    float *sh = scene->sh + n * scene->sh_coefficients * 3;
    int rest = scene->sh_coefficients - 1;
    for (int channel = 0; channel < 3; channel++) {
        finite &= store(&sh[channel], values[fields[DC + channel]]);
        for (int k = 0; k < rest; k++)
            finite &= store(&sh[3 * (k + 1) + channel], values[columns->rest[channel * rest + k]]);
    }
    return finite;
}

static bool read_rows(gaussians *scene, ply *file, const ply_element *vertex,
                      const column_map *columns) {
    double *values = malloc(vertex->property_count * sizeof *values);
    if (!values) return fail("%s: out of memory", file->path);
    bool good = true;
    for (int64_t n = 0; good && n < scene->count; n++) {
        good = ply_read_row(file, values);
        if (good && !store_row(scene, n, columns, values)) scene->non_finite++;
    }
    free(values);
    return good;
}

bool gaussians_allocate(gaussians *scene, int64_t count, int32_t sh_degree) {
    memset(scene, 0, sizeof *scene);
    scene->count = count;
    scene->sh_degree = sh_degree;
    scene->sh_coefficients = (sh_degree + 1) * (sh_degree + 1);
    const size_t row = 3 + 3 + 4 + 1 + 3 * (size_t)scene->sh_coefficients;
    scene->means = calloc(count ? (size_t)count : 1, row * sizeof(float));
    if (!scene->means) return fail("no memory for %lld Gaussians", (long long)count);
    scene->scales = scene->means + 3 * count;
    scene->rotations = scene->scales + 3 * count;
    scene->opacities = scene->rotations + 4 * count;
    scene->sh = scene->opacities + count;
    return true;
}

bool gaussians_read(gaussians *scene, const char *path) {
    ply file;
    if (!ply_open(&file, path)) return false;
    column_map columns;
    bool good = false;
    const ply_element *vertex = ply_find(&file, "vertex");
    if (vertex && find_columns(&file, vertex, &columns)) {
        good = gaussians_allocate(scene, vertex->count, columns.degree);
        if (good && !read_rows(scene, &file, vertex, &columns)) {
            gaussians_free(scene);
            good = false;
        }
        scene->format = file.format;
    }
    ply_close(&file);
    return good;
}

void gaussians_free(gaussians *scene) {
    free(scene->means);
    memset(scene, 0, sizeof *scene);
}

void gaussians_normalize_rotations(gaussians *scene) {
    for (int64_t n = 0; n < scene->count; n++) {
        float *q = scene->rotations + 4 * n;
        float length = sqrtf(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
        if (!(length > 0)) continue;
        for (int i = 0; i < 4; i++) q[i] /= length;
    }
}
