/* What `gsplat-c bench` times. */
#ifndef GSPLAT_C_TOOLS_BENCH_CASES_H
#define GSPLAT_C_TOOLS_BENCH_CASES_H

#include "renderer.h"

enum { BENCH_ARRAYS = 8 };

struct bench {
    renderer to; /* aimed at the camera */
    const gaussians *scene;
    struct array arrays[BENCH_ARRAYS]; /* of the current case */
};

struct bench_case {
    const char *name, *what;
    unsigned inputs; /* bit i: arrays[i] is an input, besides the scene */
    /* Both return false after fail(); NULL: nothing to prepare. */
    bool (*prepare)(struct bench *bench);
    bool (*run)(struct bench *bench);
};

extern const struct bench_case bench_cases[];
extern const size_t bench_case_count;

/* Bytes of the inputs of a prepared case without the scene. */
size_t bench_input_bytes(const struct bench *bench, const struct bench_case *what);
/* Frees what a case prepared. */
void bench_release(struct bench *bench);

/* Gaussians with random position, size and colour in a cube; the same for the same count. */
bool bench_scene(gaussians *scene, int64_t count, int32_t sh_degree);

#endif
