/* How a block writes gradients of a run of Gaussians, most of which may be invisible, or steps
 * their parameters by Adam.
 *
 * The results of the visible ones are in shared memory, one slot each.  A gradient that is
 * overwritten is stored in one sweep over the whole run, zeros included, in 16-byte vectors across
 * row boundaries: no fill before it, and no sector written twice.  A gradient that is added to is
 * read and written only for visible Gaussians, several vectors at a time, since one at a time would
 * take as long as its latency.  So are parameters and moments that are stepped. */
#ifndef GSC_ROWS_CUH
#define GSC_ROWS_CUH

#include "adam.cuh"
#include "device.cuh"

#define NO_SLOT 255u
#define RUN_MAX GSC__CHUNK

typedef struct gsc__rows {
    int64_t first;           /* Gaussian of the first row */
    uint32_t count;          /* rows, at most RUN_MAX */
    uint32_t visible;        /* slots in use */
    const uint8_t *slots;    /* [RUN_MAX + 4] of the rows, or NO_SLOT */
    const uint32_t *indices; /* [visible] Gaussians of the slots */
} gsc__rows;

/* Goes through the elements of rows of `width`, `stride` elements at a time. */
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

/* vector: float4 or float; value(slot, element): an element of a result. */
template <typename vector, typename value_of>
static __device__ __forceinline__ void gsc__store_rows(const gsc__rows &rows, float *gradient,
                                                       uint32_t width, const value_of &value) {
    constexpr uint32_t size = sizeof(vector) / sizeof(float);
    const uint32_t start = threadIdx.x * size, stride = GSC__PROJECT_BACKWARD_BLOCK * size;
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

/* Adds to the first `used` elements of the visible rows. */
template <typename vector, typename value_of>
static __device__ __forceinline__ void gsc__add_rows(const gsc__rows &rows, float *gradient,
                                                     uint32_t width, uint32_t used,
                                                     const value_of &value) {
    constexpr uint32_t size = sizeof(vector) / sizeof(float), batch = 4;
    const uint32_t start = threadIdx.x * size, stride = GSC__PROJECT_BACKWARD_BLOCK * size;
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

/* The gradient with respect to a channel of a coefficient, rounded before it is used. */
static __device__ __forceinline__ float gsc__harmonic(const float *basis, const float *color,
                                                      uint32_t at, uint32_t element) {
    const uint32_t k = element / 3;
    return __fmul_rn(basis[at + k], color[at + element - 3 * k]);
}

/* All threads of the block call it. */
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

/* Rows that are stepped: the number in the run and the slot, or NO_SLOT where the gradient is 0. */
typedef struct gsc__stepped {
    uint32_t count;
    uint8_t rows[RUN_MAX], slots[RUN_MAX];
} gsc__stepped;

/* Of each of the three arrays, a thread has two loads of 16 bytes in flight, or four of 4. */
template <typename vector, typename value_of>
static __device__ __forceinline__ void gsc__step_rows(int64_t first, const gsc__stepped &stepped,
                                                      const gsc__gpu_step &step,
                                                      const value_of &value) {
    constexpr uint32_t size = sizeof(vector) / sizeof(float);
    constexpr uint32_t batch = size == 4 ? 2 : 4;
    const uint32_t start = threadIdx.x * size, stride = GSC__PROJECT_BACKWARD_BLOCK * size;
    const uint32_t total = stepped.count * step.width;
    gsc__row_walk walk = gsc__row_walk_of(start, stride, step.width);
    for (uint32_t at = start; at < total; at += batch * stride) {
        vector p[batch], m[batch], v[batch];
        uint64_t places[batch];
        gsc__row_walk ahead = walk;
#pragma unroll
        for (uint32_t b = 0; b < batch; ++b, gsc__row_walk_step(&ahead)) {
            p[b] = m[b] = v[b] = vector{};
            places[b] = 0;
            if (at + b * stride >= total) continue;
            places[b] = (uint64_t)(first + stepped.rows[ahead.row]) * step.width + ahead.element;
            p[b] = *(const vector *)(step.parameter + places[b]);
            m[b] = *(const vector *)(step.moment1 + places[b]);
            v[b] = *(const vector *)(step.moment2 + places[b]);
        }
#pragma unroll
        for (uint32_t b = 0; b < batch; ++b, gsc__row_walk_step(&walk)) {
            if (at + b * stride >= total) continue;
            const uint32_t slot = stepped.slots[walk.row];
            float *ps = (float *)&p[b], *ms = (float *)&m[b], *vs = (float *)&v[b];
#pragma unroll
            for (uint32_t t = 0; t < size; ++t) {
                const float gradient = slot == NO_SLOT ? 0.0f : value(slot, walk.element + t);
                gsc__adam_element(step.constants, gradient, ps[t], ms[t], vs[t]);
            }
            *(vector *)(step.parameter + places[b]) = p[b];
            *(vector *)(step.moment1 + places[b]) = m[b];
            *(vector *)(step.moment2 + places[b]) = v[b];
        }
    }
}

/* Lists the rows of the run that are stepped; those of a warp are in order. */
static __device__ __forceinline__ void gsc__list_stepped(const gsc_k_project_backward_step &args,
                                                         const gsc__rows &rows,
                                                         gsc__stepped *stepped) {
    const int32_t axes = args.radii_axes;
    if (threadIdx.x == 0) stepped->count = 0;
    __syncthreads();
    for (uint32_t begin = 0; begin < rows.count; begin += GSC__PROJECT_BACKWARD_BLOCK) {
        const uint32_t row = begin + threadIdx.x;
        bool wanted = row < rows.count;
        if (wanted && args.radii) {
            const int32_t *radii = args.radii + axes * (rows.first + row);
            wanted = radii[0] > 0 || radii[axes - 1] > 0;
        }
        const uint32_t lanes = __ballot_sync(GSC__ALL_LANES, wanted);
        uint32_t at = 0;
        if (gsc__lane() == 0 && lanes) at = atomicAdd(&stepped->count, (uint32_t)__popc(lanes));
        at = __shfl_sync(GSC__ALL_LANES, at, 0) + (uint32_t)__popc(lanes & gsc__lanes_below());
        if (!wanted) continue;
        stepped->rows[at] = (uint8_t)row;
        stepped->slots[at] = rows.slots[row];
    }
    __syncthreads();
}

static __device__ __forceinline__ void gsc__step_parameter(const gsc__gpu_step &step,
                                                           const gsc__rows &rows,
                                                           const gsc__stepped &stepped,
                                                           const float *results) {
    const float *first = results + step.result, *color = results + GSC__RESULT_COLOR;
    const uint32_t used = step.used;
    const auto harmonics = [=](uint32_t slot, uint32_t element) {
        return element < used ? gsc__harmonic(first, color, slot * GSC__RESULT_SIZE, element)
                              : 0.0f;
    };
    const auto plain = [=](uint32_t slot, uint32_t element) {
        return first[slot * GSC__RESULT_SIZE + element];
    };
    if (step.harmonics && step.vectors)
        gsc__step_rows<float4>(rows.first, stepped, step, harmonics);
    else if (step.harmonics)
        gsc__step_rows<float>(rows.first, stepped, step, harmonics);
    else if (step.vectors)
        gsc__step_rows<float4>(rows.first, stepped, step, plain);
    else
        gsc__step_rows<float>(rows.first, stepped, step, plain);
}

#endif
