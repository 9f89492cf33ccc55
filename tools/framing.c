/* Trained scenes have single Gaussians far away, haze that is nearly transparent, and often a
 * background many times larger than the subject, so neither the bounds nor the mean shows where
 * the subject is.  The subject is taken to be all within a few median distances of the median
 * position.  Percentiles give its box; they are weighted by opacity, as the medians are. */
#include "cameras.h"
#include "text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SAMPLES = 1 << 16 };

typedef struct sample {
    float value, weight;
    float point[3];
} sample;

static int compare_samples(const void *a, const void *b) {
    float x = ((const sample *)a)->value, y = ((const sample *)b)->value;
    return (x > y) - (x < y);
}

/* The value below which the given share of the weight lies. */
static double weighted_percentile(sample *samples, size_t count, double share) {
    qsort(samples, count, sizeof *samples, compare_samples);
    double total = 0, sum = 0;
    for (size_t i = 0; i < count; i++) total += (double)samples[i].weight;
    size_t i = 0;
    while (i + 1 < count && (sum += (double)samples[i].weight) < share * total) i++;
    return (double)samples[i].value;
}

static size_t take_samples(const gaussians *scene, sample *samples) {
    int64_t step = (scene->count + MAX_SAMPLES - 1) / MAX_SAMPLES;
    size_t count = 0;
    for (int64_t n = 0; n < scene->count; n += step) {
        const float *mean = scene->means + 3 * n;
        float opacity = scene->opacities[n];
        if (!isfinite(mean[0]) || !isfinite(mean[1]) || !isfinite(mean[2])) continue;
        if (!(opacity >= 1.0f / 255)) continue;
        samples[count].weight = opacity;
        memcpy(samples[count++].point, mean, sizeof samples->point);
    }
    return count;
}

/* Sets the values to the distances from a point. */
static void measure(sample *samples, size_t count, const double *center) {
    for (size_t i = 0; i < count; i++) {
        double sum = 0;
        for (int axis = 0; axis < 3; axis++) {
            double difference = (double)samples[i].point[axis] - center[axis];
            sum += difference * difference;
        }
        samples[i].value = (float)sqrt(sum);
    }
}

static double axis_percentile(sample *samples, size_t count, int axis, double share) {
    for (size_t i = 0; i < count; i++) samples[i].value = samples[i].point[axis];
    return weighted_percentile(samples, count, share);
}

/* Centre and half diagonal of the subject's box. */
static void find_subject(sample *samples, size_t count, double *center, double *radius) {
    const double subject_reach = 4; /* median distances; long objects have parts at 3.5 */
    const double outliers = 0.005;
    for (int axis = 0; axis < 3; axis++) center[axis] = axis_percentile(samples, count, axis, 0.5);
    measure(samples, count, center);
    double reach = subject_reach * weighted_percentile(samples, count, 0.5);
    size_t kept = 0;
    while (kept < count && (double)samples[kept].value <= reach) kept++; /* they are sorted */
    if (kept == 0) return;
    double square = 0;
    for (int axis = 0; axis < 3; axis++) {
        double low = axis_percentile(samples, kept, axis, outliers);
        double high = axis_percentile(samples, kept, axis, 1 - outliers);
        center[axis] = (low + high) / 2;
        square += (high - low) * (high - low) / 4;
    }
    *radius = sqrt(square);
}

/* Places the camera to the front right of the sphere and a little above.  In 3DGS, y points down
 * in scenes and in cameras. */
static void look_at(struct camera *camera, const double *center, double radius) {
    const double pi = 3.14159265358979323846;
    const double azimuth = 30 * pi / 180, elevation = 15 * pi / 180, half_fov = 22.5 * pi / 180;
    double forward[3] = {-sin(azimuth) * cos(elevation), sin(elevation),
                         cos(azimuth) * cos(elevation)};
    double right[3] = {cos(azimuth), 0, sin(azimuth)};
    double down[3] = {forward[1] * right[2] - forward[2] * right[1],
                      forward[2] * right[0] - forward[0] * right[2],
                      forward[0] * right[1] - forward[1] * right[0]};
    int32_t side = camera->width < camera->height ? camera->width : camera->height;
    double distance = radius / sin(half_fov);
    for (int i = 0; i < 3; i++) {
        camera->rotation[i][0] = right[i];
        camera->rotation[i][1] = down[i];
        camera->rotation[i][2] = forward[i];
        camera->position[i] = center[i] - distance * forward[i];
    }
    camera->intrinsics[0] = camera->intrinsics[1] = (float)(side / (2 * tan(half_fov)));
    camera->intrinsics[2] = (float)camera->width / 2;
    camera->intrinsics[3] = (float)camera->height / 2;
    camera->near_plane = (float)(distance / 50);
}

bool cameras_frame(camera_list *cameras, const gaussians *scene, int32_t width, int32_t height) {
    memset(cameras, 0, sizeof *cameras);
    sample *samples = malloc(MAX_SAMPLES * sizeof *samples);
    cameras->items = calloc(1, sizeof *cameras->items);
    char *name = format_text("view");
    if (!samples || !cameras->items || !name) {
        free(samples);
        free(name);
        cameras_free(cameras);
        return fail("no memory to frame the scene");
    }
    struct camera *camera = &cameras->items[cameras->count++];
    camera->name = name;
    camera->width = width;
    camera->height = height;
    double center[3] = {0, 0, 0}, radius = 1;
    size_t count = take_samples(scene, samples);
    if (count > 0) find_subject(samples, count, center, &radius);
    if (!(radius > 0)) radius = 1;
    for (int axis = 0; axis < 3; axis++) center[axis] += scene->origin[axis];
    look_at(camera, center, radius);
    free(samples);
    return true;
}
