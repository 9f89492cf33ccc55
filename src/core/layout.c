#include "backend.h"

/* Word by word: exclusive or, a multiplication by 2^64 over the golden ratio, and a shift that
 * brings the high bits, which depend on every bit of the word, down to the low ones. */
static uint64_t mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

uint64_t gsc__layout_hash(const gsc__raster *raster, const uint64_t own[4]) {
    const uint32_t meaning = GSC_RASTER_ANTIALIAS | GSC_RASTER_COMPAT_3DGS | GSC_RASTER_LOG_SCALES |
                             GSC_RASTER_LOGIT_OPACITIES | GSC_RASTER_FORWARD_ONLY;
    const uint64_t values[] = {own[0],
                               own[1],
                               own[2],
                               own[3],
                               raster->flags & meaning,
                               (uint64_t)raster->width,
                               (uint64_t)raster->height,
                               (uint64_t)raster->channels,
                               (uint64_t)raster->cameras,
                               (uint64_t)raster->gaussians,
                               (uint64_t)raster->sh_degree,
                               raster->sh || raster->sh_dc,
                               raster->covariances != NULL};
    uint64_t hash = UINT64_C(14695981039346656037);
    for (size_t i = 0; i < sizeof values / sizeof *values; ++i) hash = mix(hash, values[i]);
    return hash;
}
