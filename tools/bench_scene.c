#include "bench_cases.h"

#include <math.h>

/* SplitMix64 (Steele et al. 2014): the same numbers on every system. */
static float random_unit(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (float)((z ^ (z >> 31)) >> 40) * (1.0f / 16777216);
}

/* Sizes follow the mean distance of neighbours, so that any count fills the cube. */
bool bench_scene(gaussians *scene, int64_t count, int32_t sh_degree) {
    if (!gaussians_allocate(scene, count, sh_degree)) return false;
    uint64_t state = 1;
    const float spacing = 2.0f / cbrtf((float)count);
    for (int64_t n = 0; n < count; n++) {
        for (int i = 0; i < 3; i++) scene->means[3 * n + i] = 2 * random_unit(&state) - 1;
        for (int i = 0; i < 3; i++)
            scene->scales[3 * n + i] = spacing * (0.1f + 0.5f * random_unit(&state));
        for (int i = 0; i < 4; i++) scene->rotations[4 * n + i] = 2 * random_unit(&state) - 1;
        scene->opacities[n] = random_unit(&state);
        float *sh = scene->sh + n * scene->sh_coefficients * 3;
        for (int i = 0; i < 3; i++) sh[i] = 3 * random_unit(&state) - 1.5f;
        for (int i = 3; i < 3 * scene->sh_coefficients; i++)
            sh[i] = 0.2f * random_unit(&state) - 0.1f;
    }
    return true;
}
