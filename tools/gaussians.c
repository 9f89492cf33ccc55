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
    int filter;       /* of filter_3D; -1: none */
    double brightest; /* of red, green and blue in place of f_dc_*; 0: none */
    bool flat;        /* without the third scale */
    int32_t degree;
} column_map;

/* A third scale for discs, relative to the smaller of the two. */
static const double flat_scale = 1e-6;

static bool find_field(const ply *file, const ply_element *vertex, const char *name, int *column) {
    *column = ply_property_index(vertex, name);
    if (*column < 0) {
        const char *hint = "";
        if (ply_property_index(vertex, "packed_position") >= 0)
            hint = " (this is a compressed scene: convert it to a standard PLY first)";
        else if (ply_property_index(vertex, "f_offset_0") >= 0)
            hint = " (this holds neural anchors of Scaffold-GS or Octree-GS, not Gaussians)";
        else if (ply_property_index(vertex, "x") >= 0 && ply_property_index(vertex, "rot_0") < 0)
            hint = " (this looks like a point cloud, not a Gaussian scene)";
        return fail("%s: element 'vertex' has no property '%s'%s", file->path, name, hint);
    }
    if (vertex->properties[*column].is_list)
        return fail("%s: property '%s' is a list", file->path, name);
    return true;
}

static bool find_columns(const ply *file, const ply_element *vertex, column_map *columns) {
    static const char *const colors[3] = {"red", "green", "blue"};
    const int red = ply_property_index(vertex, "red");
    columns->brightest = 0;
    if (red >= 0 && ply_property_index(vertex, "f_dc_0") < 0) {
        const ply_type type = vertex->properties[red].type;
        columns->brightest = type == PLY_UINT8 ? 255 : type == PLY_UINT16 ? 65535 : 1;
    }
    columns->filter = ply_property_index(vertex, "filter_3D");
    columns->flat =
        ply_property_index(vertex, "scale_1") >= 0 && ply_property_index(vertex, "scale_2") < 0;
    for (int i = 0; i < FIELDS; i++) {
        const char *name = i >= DC && columns->brightest > 0 ? colors[i - DC] : field_names[i];
        if (columns->flat && i == SCALE + 2) continue;
        if (!find_field(file, vertex, name, &columns->fields[i])) return false;
    }
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

/* The activated scales and opacity, after the filter of Mip-Splatting: its width widens every axis,
 * and the opacity falls as the volume grows. */
static void activate(const column_map *columns, const double *values, double scales[3],
                     double *opacity) {
    const int *fields = columns->fields;
    *opacity = 1 / (1 + exp(-values[fields[OPACITY]]));
    for (int i = 0; i < 2 + !columns->flat; i++) scales[i] = exp(values[fields[SCALE + i]]);
    if (columns->flat) scales[2] = flat_scale * fmin(scales[0], scales[1]);
    if (columns->filter < 0) return;
    for (int i = 0; i < 3; i++) {
        const double wider = hypot(scales[i], values[columns->filter]);
        if (wider > 0) *opacity *= scales[i] / wider;
        scales[i] = wider;
    }
}

/* 3DGS stores its parameters before activation: the logarithm of scales, the logit of
 * opacity; and the higher SH coefficients channel by channel.  False if a value is not finite. */
static bool store_row(gaussians *scene, int64_t n, const column_map *columns,
                      const double *values) {
    const int *fields = columns->fields;
    double scales[3], opacity;
    activate(columns, values, scales, &opacity);
    bool finite = store(&scene->opacities[n], opacity);
    for (int i = 0; i < 3; i++) {
        finite &= store(&scene->means[3 * n + i], values[fields[MEAN + i]] - scene->origin[i]);
        finite &= store(&scene->scales[3 * n + i], scales[i]);
    }
    for (int i = 0; i < 4; i++)
        finite &= store(&scene->rotations[4 * n + i], values[fields[ROTATION + i]]);
    float *sh = scene->sh + n * scene->sh_coefficients * 3;
    int rest = scene->sh_coefficients - 1;
    for (int channel = 0; channel < 3; channel++) {
        double dc = values[fields[DC + channel]];
        if (columns->brightest > 0) dc = (dc / columns->brightest - 0.5) / 0.28209479177387814;
        finite &= store(&sh[channel], dc);
        for (int k = 0; k < rest; k++)
            finite &= store(&sh[3 * (k + 1) + channel], values[columns->rest[channel * rest + k]]);
    }
    return finite;
}

/* Double positions are counted from the first one that is finite; float ones need no origin. */
static void choose_origin(gaussians *scene, const ply_element *vertex, const column_map *columns,
                          const double *values) {
    const int *at = columns->fields;
    for (int i = 0; i < 3; i++)
        if (vertex->properties[at[i]].type != PLY_FLOAT64 || !isfinite(values[at[i]])) return;
    for (int i = 0; i < 3; i++) scene->origin[i] = values[at[i]];
}

/* What a writer's comments say about the training.  The last one about a mode decides. */
static void follow_comments(gaussians *scene, const char *comments) {
    bool brush = false;
    for (const char *line = comments; line && *line; line += strcspn(line, "\n") + 1) {
        char name[32] = "", value[32] = "";
        sscanf(line, "%31[^: \n]%*[: ]%31[^ \r\n]", name, value);
        if (equal_words(name, "SplatRenderMode")) scene->antialiased = equal_words(value, "mip");
        if (equal_words(name, "antialiased")) scene->antialiased = equal_words(value, "1");
        brush |= strncmp(line, "Exported from Brush", 19) == 0;
    }
    scene->antialiased |= scene->filtered;
    scene->blur = scene->filtered || (scene->antialiased && brush) ? 0.1f : 0;
}

static bool read_rows(gaussians *scene, ply *file, const ply_element *vertex,
                      const column_map *columns) {
    double *values = malloc(vertex->property_count * sizeof *values);
    if (!values) return fail("%s: out of memory", file->path);
    bool good = true;
    for (int64_t n = 0; good && n < scene->count; n++) {
        good = ply_read_row(file, values);
        if (good && n == 0) choose_origin(scene, vertex, columns, values);
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
        scene->filtered = columns.filter >= 0;
        scene->flat = columns.flat;
        follow_comments(scene, file.comments);
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
