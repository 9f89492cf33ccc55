/* How a block writes the gradients of a run of Gaussians, most of which may be invisible.
 *
 * The results of the visible ones stand in shared memory, one slot each.  A gradient that
 * is overwritten is stored in one sweep over the whole run, zeros and all, in 16-byte
 * pieces across row boundaries: neither a fill beforehand nor a sector written twice.  One
 * that is added to is read and written where Gaussians are visible, several pieces at a
 * time, since the latency of a lone one would be all that counts. */
#ifndef GSC_ROWS_CUH
#define GSC_ROWS_CUH

#include "device.cuh"

#define NO_SLOT 255u
#define RUN_MAX GSC__PIECE

typedef struct gsc__rows {
    int64_t first;           /* Gaussian of the first row */
    uint32_t count;          /* rows, at most RUN_MAX */
    uint32_t visible;        /* slots in use */
    const uint8_t *slots;    /* [RUN_MAX + 4] of the rows, or NO_SLOT */
    const uint32_t *indices; /* [visible] Gaussians of the slots */
} gsc__rows;

/* Steps through the elements of rows of `width`, `stride` elements at a time. */
typedef struct gsc__row_walk {
    uint32_t row, element, width, rows_a_step, elements_a_step;
} gsc__row_walk;

static __device__ __forceinline__ gsc__row_walk gsc__row_walk_of(uint32_t start, uint32_t stride,
                                                                 uint32_t width) {
    const uint32_t row = start / width, rows = stride / width;
    gsc__row_walk walk = {row, start - row * width, width, rows, stride - rows * width};
    return walk;
}

static __device__ __forceinline__ void gsc__row_walk_step(gsc__row_walk *walk) {
    walk->row += walk->rows_a_step;
    walk->element += walk->elements_a_step;
    if (walk->element >= walk->width) {
        walk->element -= walk->width;
        ++walk->row;
    }
}

/* vector: float4 or float; value(slot, element). */
template <typename vector, typename value_of>
static __device__ __forceinline__ void gsc__store_rows(const gsc__rows &rows, float *gradient,
                                                       uint32_t width, const value_of &value) {
    constexpr uint32_t size = sizeof(vector) / sizeof(float);
    const uint32_t start = threadIdx.x * size, stride = GSC__UNPROJECT_BLOCK * size;
    const uint32_t total = rows.count * width;
    float *to = gradient + rows.first * width;
    gsc__row_walk walk = gsc__row_walk_of(start, stride, width);
    for (uint32_t at = start; at + size <= total; at += stride) {
        vector v;
        float *part = (float *)&v;
#pragma unroll
        for (uint32_t t = 0; t < size; ++t) part[t] = 0;
        uint32_t slot = rows.slots[walk.row];
        if (slot != NO_SLOT || walk.element + size > width) {
            uint32_t row = walk.row, element = walk.element;
#pragma unroll
            for (uint32_t t = 0; t < size; ++t) {
                if (slot != NO_SLOT) part[t] = value(slot, element);
                if (++element == width) {
                    element = 0;
                    slot = rows.slots[++row];
                }
            }
        }
        __stcs((vector *)(to + at), v);
        gsc__row_walk_step(&walk);
    }
}

/* The first `used` elements of the visible rows. */
template <typename vector, typename value_of>
static __device__ __forceinline__ void gsc__add_rows(const gsc__rows &rows, float *gradient,
                                                     uint32_t width, uint32_t used,
                                                     const value_of &value) {
    constexpr uint32_t size = sizeof(vector) / sizeof(float), batch = 4;
    const uint32_t start = threadIdx.x * size, stride = GSC__UNPROJECT_BLOCK * size;
    const uint32_t total = rows.visible * used;
    gsc__row_walk walk = gsc__row_walk_of(start, stride, used);
    for (uint32_t at = start; at < total; at += batch * stride) {
        vector sums[batch], *to[batch];
        gsc__row_walk ahead = walk;
#pragma unroll
        for (uint32_t b = 0; b < batch; ++b, gsc__row_walk_step(&ahead)) {
            sums[b] = vector{};
            to[b] = (vector *)gradient;
            if (at + b * stride >= total) continue;
            to[b] = (vector *)(gradient + (int64_t)rows.indices[ahead.row] * width + ahead.element);
            sums[b] = *to[b];
        }
#pragma unroll
        for (uint32_t b = 0; b < batch; ++b, gsc__row_walk_step(&walk)) {
            if (at + b * stride >= total) continue;
            float *part = (float *)&sums[b];
#pragma unroll
            for (uint32_t t = 0; t < size; ++t) part[t] += value(walk.row, walk.element + t);
            *to[b] = sums[b];
        }
    }
}

/* The gradient by a coefficient and a channel; rounded before anything is done with it. */
static __device__ __forceinline__ float gsc__harmonic(const float *basis, const float *color,
                                                      uint32_t at, uint32_t element) {
    const uint32_t k = element / 3;
    return __fmul_rn(basis[at + k], color[at + element - 3 * k]);
}

/* Every thread of the block calls it. */
template <typename value_of>
static __device__ __forceinline__ void
gsc__put_rows(const gsc__rows &rows, const gsc__gpu_gradient &out, const value_of &value) {
    const bool aligned = ((uint64_t)out.to & 15) == 0;
    if (!out.overwrite) {
        if (aligned && out.width % 4 == 0)
            gsc__add_rows<float4>(rows, out.to, out.width, (out.used + 3) & ~3u, value);
        else
            gsc__add_rows<float>(rows, out.to, out.width, out.used, value);
        return;
    }
    if (!aligned) {
        gsc__store_rows<float>(rows, out.to, out.width, value);
        return;
    }
    gsc__store_rows<float4>(rows, out.to, out.width, value);
    const uint32_t total = rows.count * out.width, at = (total & ~3u) + threadIdx.x;
    if (at >= total) return;
    const uint32_t row = at / out.width, slot = rows.slots[row];
    out.to[rows.first * out.width + at] = slot == NO_SLOT ? 0 : value(slot, at - row * out.width);
}

#endif
