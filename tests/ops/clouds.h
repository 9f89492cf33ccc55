/* Clouds of points that break neighbour searches: flat, far away, full of duplicates or ties, of
 * very different densities, at the limits of the number range, not finite. */
#ifndef TESTS_CLOUDS_H
#define TESTS_CLOUDS_H

#include "random.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t random_state = 1;
static float uniform(void) { /* [0, 1) */
    return (float)(xorshift64(&random_state) >> 40) * 0x1p-24f;
}

static float between(float low, float high) {
    return low + (high - low) * uniform();
}

static void cube(float *p) {
    p[0] = uniform(), p[1] = uniform(), p[2] = uniform();
}
static void line(float *p) {
    float t = uniform();
    p[0] = t, p[1] = 2 * t, p[2] = -t;
}
static void axis(float *p) {
    p[0] = uniform(), p[1] = 0, p[2] = 0;
}
static void plane(float *p) {
    p[0] = uniform(), p[1] = uniform(), p[2] = 0;
}
static void one_place(float *p) {
    p[0] = 0.1f, p[1] = 0.2f, p[2] = 0.3f;
}
static void seven_places(float *p) {
    p[0] = floorf(7 * uniform()), p[1] = p[2] = 0.1f;
}
static void lattice(float *p) {
    for (int i = 0; i < 3; ++i) p[i] = floorf(between(-4, 4));
}
static void two_clusters(float *p) {
    cube(p);
    if (uniform() < 0.5f) p[0] += 1e6f;
}
/* One cluster is far smaller than a cell of any grid over both. */
static void two_dense_clusters(float *p) {
    bool dense = uniform() < 0.5f;
    for (int i = 0; i < 3; ++i) p[i] = dense ? between(-1e-4f, 1e-4f) : 1e9f * between(1, 1.001f);
}
static void far_away(float *p) {
    for (int i = 0; i < 3; ++i) p[i] = 1e5f + uniform();
}
static void mostly_finite(float *p) {
    cube(p);
    float chance = uniform();
    if (chance < 0.1f) p[0] = NAN;
    if (chance > 0.9f) p[2] = chance > 0.95f ? INFINITY : -INFINITY;
}
static void never_finite(float *p) {
    p[0] = 1, p[1] = NAN, p[2] = 2;
}
static void huge(float *p) { /* squared distances overflow */
    for (int i = 0; i < 3; ++i) p[i] = FLT_MAX * between(-1, 1);
}
static void tiny(float *p) { /* squared distances underflow */
    for (int i = 0; i < 3; ++i) p[i] = 1e-30f * uniform();
}
static void outlier(float *p) {
    for (int i = 0; i < 3; ++i) p[i] = expf(between(-20, 20));
}

static void thousand_places(float *p) {
    p[0] = floorf(1000 * uniform()), p[1] = p[2] = 0;
}

typedef void cloud_fn(float *p);
static cloud_fn *const clouds[] = {cube,     line,          axis,
                                   plane,    one_place,     seven_places,
                                   lattice,  two_clusters,  two_dense_clusters,
                                   far_away, mostly_finite, never_finite,
                                   huge,     tiny,          outlier};

static void *allocate(int64_t count, size_t size) {
    void *data = malloc((size_t)(count > 0 ? count : 1) * size);
    if (!data) abort();
    return data;
}

static float *cloud(cloud_fn *fn, int64_t count) {
    float *points = allocate(count, 3 * sizeof *points);
    for (int64_t i = 0; i < count; ++i) fn(points + 3 * i);
    return points;
}

#endif
