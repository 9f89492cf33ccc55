#include "cameras.h"

#include "host.h"
#include "options.h"
#include "text.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The camera being read, for messages. */
typedef struct place {
    const char *path;
    int index;
    const cJSON *object;
} place;

static bool fail_key(const place *at, const char *key, const char *expected) {
    return fail("%s: camera %d: '%s' %s", at->path, at->index, key, expected);
}

static bool get_number(const place *at, const char *key, double *value) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(at->object, key);
    if (!item) return fail_key(at, key, "is missing");
    if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble))
        return fail_key(at, key, "is not a number");
    *value = item->valuedouble;
    return true;
}

static bool get_side(const place *at, const char *key, int32_t *side) {
    double value;
    if (!get_number(at, key, &value)) return false;
    if (!(value >= 1 && value <= MAX_SIDE) || value != floor(value)) {
        char expected[64];
        snprintf(expected, sizeof expected, "is %g, not a whole number from 1 to %d", value,
                 MAX_SIDE);
        return fail_key(at, key, expected);
    }
    *side = (int32_t)value;
    return true;
}

static bool get_focal(const place *at, const char *key, float *focal) {
    double value;
    if (!get_number(at, key, &value)) return false;
    *focal = (float)value;
    if (!(*focal > 0) || !isfinite(*focal)) return fail_key(at, key, "is not a positive number");
    return true;
}

/* Some forks write the principal point; without it, it is the middle of the image. */
static bool get_centre(const place *at, const char *key, float *centre) {
    double value = (double)*centre;
    if (cJSON_HasObjectItem(at->object, key) && !get_number(at, key, &value)) return false;
    *centre = (float)value;
    return true;
}

/* Whether a number, or all in a list, are as good as zero. */
static bool is_zero(const cJSON *item) {
    const cJSON *child;
    if (cJSON_IsNumber(item)) return fabs(item->valuedouble) <= 1e-6;
    cJSON_ArrayForEach(child, item) if (!is_zero(child)) return false;
    return cJSON_IsArray(item) || cJSON_IsNull(item) || cJSON_IsFalse(item);
}

/* Only pinhole cameras are rendered; every key that says otherwise is refused by name. */
static bool check_lens(const place *at) {
    static const char *const models[] = {"SIMPLE_PINHOLE", "PINHOLE", "SIMPLE_RADIAL",
                                         "RADIAL",         "OPENCV",  "PERSPECTIVE"};
    static const char *const keys[] = {"k1",
                                       "k2",
                                       "k3",
                                       "k4",
                                       "k5",
                                       "k6",
                                       "p1",
                                       "p2",
                                       "s1",
                                       "s2",
                                       "s3",
                                       "s4",
                                       "skew",
                                       "distortion",
                                       "distortion_params",
                                       "distortion_coefficients",
                                       "dist_coeffs",
                                       "radial_distortion",
                                       "tangential_distortion",
                                       "rolling_shutter",
                                       "is_fisheye"};
    static const char expected[] = "is set, but only pinhole cameras are rendered: undistort the "
                                   "pictures first";
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(at->object, keys[i]);
        if (item && !is_zero(item)) return fail_key(at, keys[i], expected);
    }
    for (int k = 0; k < 2; k++) {
        const char *key = k ? "model" : "camera_model";
        const cJSON *model = cJSON_GetObjectItemCaseSensitive(at->object, key);
        bool known = !cJSON_IsString(model);
        for (size_t i = 0; i < sizeof models / sizeof *models; i++)
            known |= cJSON_IsString(model) && equal_words(model->valuestring, models[i]);
        if (!known) return fail_key(at, key, expected);
    }
    return true;
}

static bool get_triple(const cJSON *array, double *values) {
    if (!cJSON_IsArray(array) || cJSON_GetArraySize(array) != 3) return false;
    for (int i = 0; i < 3; i++) {
        const cJSON *item = cJSON_GetArrayItem(array, i);
        if (!cJSON_IsNumber(item) || !isfinite(item->valuedouble)) return false;
        values[i] = item->valuedouble;
    }
    return true;
}

/* Allows for numbers rounded to two or three decimals. */
static bool is_rotation(double m[3][3]) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++) {
            double dot = m[0][i] * m[0][j] + m[1][i] * m[1][j] + m[2][i] * m[2][j];
            if (fabs(dot - (i == j)) > 0.02) return false;
        }
    double determinant = m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) -
                         m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
                         m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
    return determinant > 0;
}

static bool get_pose(const place *at, struct camera *camera) {
    const cJSON *position = cJSON_GetObjectItemCaseSensitive(at->object, "position");
    const cJSON *rotation = cJSON_GetObjectItemCaseSensitive(at->object, "rotation");
    if (!get_triple(position, camera->position))
        return fail_key(at, "position", "is missing or not three numbers");
    bool rows = cJSON_IsArray(rotation) && cJSON_GetArraySize(rotation) == 3;
    for (int i = 0; rows && i < 3; i++)
        rows = get_triple(cJSON_GetArrayItem(rotation, i), camera->rotation[i]);
    if (!rows) return fail_key(at, "rotation", "is missing or not three rows of three numbers");
    return is_rotation(camera->rotation) || fail_key(at, "rotation", "is not a rotation matrix");
}

/* img_name, or else the index in the form of 3DGS image numbers. */
static bool get_name(const place *at, char **name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(at->object, "img_name");
    char number[24];
    snprintf(number, sizeof number, "%05d", at->index);
    const char *source = number;
    if (cJSON_IsString(item) && *item->valuestring) source = item->valuestring;
    *name = format_text("%s", source);
    return *name != NULL;
}

static bool read_camera(const place *at, struct camera *camera) {
    if (!cJSON_IsObject(at->object))
        return fail("%s: camera %d: is not an object", at->path, at->index);
    if (!get_name(at, &camera->name) || !get_side(at, "width", &camera->width) ||
        !get_side(at, "height", &camera->height) || !get_focal(at, "fx", &camera->intrinsics[0]) ||
        !get_focal(at, "fy", &camera->intrinsics[1]))
        return false;
    camera->intrinsics[2] = (float)camera->width / 2;
    camera->intrinsics[3] = (float)camera->height / 2;
    return get_centre(at, "cx", &camera->intrinsics[2]) &&
           get_centre(at, "cy", &camera->intrinsics[3]) && check_lens(at) && get_pose(at, camera);
}

static bool read_cameras(camera_list *cameras, const char *path, const cJSON *root) {
    if (!cJSON_IsArray(root)) return fail("%s: is not a list of cameras", path);
    int count = cJSON_GetArraySize(root);
    if (count == 0) return fail("%s: holds no camera", path);
    cameras->items = calloc((size_t)count, sizeof *cameras->items);
    if (!cameras->items) return fail("%s: out of memory", path);
    place at = {path, 0, NULL};
    cJSON_ArrayForEach(at.object, root) {
        if (!read_camera(&at, &cameras->items[cameras->count++])) return false;
        at.index++;
    }
    return true;
}

static bool fail_syntax(const char *path, const char *text, const char *where) {
    int line = 1, column = 1;
    for (const char *c = text; where && c < where; c++) {
        column = *c == '\n' ? 1 : column + 1;
        line += *c == '\n';
    }
    return fail("%s: line %d, near column %d: not valid JSON", path, line, column);
}

bool cameras_read(camera_list *cameras, const char *path) {
    memset(cameras, 0, sizeof *cameras);
    size_t bytes;
    char *text = host_read_text(path, &bytes);
    if (!text) return false;
    const char *end = text;
    cJSON *root = cJSON_ParseWithLengthOpts(text, bytes + 1, &end, true);
    bool good = root ? read_cameras(cameras, path, root) : fail_syntax(path, text, end);
    cJSON_Delete(root);
    free(text);
    if (!good) cameras_free(cameras);
    return good;
}

void cameras_free(camera_list *cameras) {
    for (size_t i = 0; i < cameras->count; i++) {
        free(cameras->items[i].name);
        free(cameras->items[i].picture);
        free(cameras->items[i].depth_picture);
    }
    free(cameras->items);
    memset(cameras, 0, sizeof *cameras);
}

const struct camera *cameras_find(const camera_list *cameras, const char *text) {
    for (size_t i = 0; i < cameras->count; i++)
        if (strcmp(cameras->items[i].name, text) == 0) return &cameras->items[i];
    int32_t index;
    if (!read_whole_number(text, 0, INT32_MAX, &index) || (size_t)index >= cameras->count)
        return NULL;
    return &cameras->items[index];
}

void cameras_keep(camera_list *cameras, size_t index) {
    struct camera kept = cameras->items[index];
    cameras->items[index] = cameras->items[0];
    cameras->items[0] = kept;
    while (cameras->count > 1) free(cameras->items[--cameras->count].name);
}

void camera_resize(struct camera *camera, int32_t width, int32_t height) {
    float x = (float)width / (float)camera->width, y = (float)height / (float)camera->height;
    float scale = x < y ? x : y;
    float *k = camera->intrinsics;
    k[0] *= scale;
    k[1] *= scale;
    k[2] = (float)width / 2 + (k[2] - (float)camera->width / 2) * scale;
    k[3] = (float)height / 2 + (k[3] - (float)camera->height / 2) * scale;
    camera->width = width;
    camera->height = height;
}

void camera_view(const struct camera *camera, const double origin[3], float *view) {
    memset(view, 0, 16 * sizeof *view);
    for (int row = 0; row < 3; row++) {
        double shift = 0;
        for (int axis = 0; axis < 3; axis++) {
            view[4 * axis + row] = (float)camera->rotation[axis][row];
            shift -= camera->rotation[axis][row] * (camera->position[axis] - origin[axis]);
        }
        view[12 + row] = (float)shift;
    }
    view[15] = 1;
}
