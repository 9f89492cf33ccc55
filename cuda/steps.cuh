/* How a block makes steps of Adam for a run of Gaussians, from their gradients in shared
 * memory: parameter and moments are read and written where Gaussians are stepped, several
 * pieces at a time, as gradients are that are added to. */
#ifndef GSC_STEPS_CUH
#define GSC_STEPS_CUH

#include "adam.cuh"
#include "rows.cuh"

/* Rows that are stepped: each is a row of the run and its slot, NO_SLOT for gradient 0. */
typedef struct gsc__stepped {
    uint32_t count;
    uint8_t rows[RUN_MAX], slots[RUN_MAX];
} gsc__stepped;

/* Pieces that a thread has on their way at once: two of 16 bytes or GSC__STEP_BATCH of 4, of
 * three arrays. */
#ifndef GSC__STEP_BATCH
#define GSC__STEP_BATCH 4
#endif
#ifndef GSC__STEP_BATCH4
#define GSC__STEP_BATCH4 2
#endif
template <typename vector, typename value_of>
static __device__ __forceinline__ void gsc__step_rows(int64_t first, const gsc__stepped &stepped,
                                                      const gsc__gpu_step &step,
                                                      const value_of &value) {
    constexpr uint32_t size = sizeof(vector) / sizeof(float);
    constexpr uint32_t batch = size == 4 ? GSC__STEP_BATCH4 : GSC__STEP_BATCH;
    const uint32_t start = threadIdx.x * size, stride = GSC__UNPROJECT_BLOCK * size;
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

/* The rows of the run that are stepped, those of a warp in order. */
static __device__ __forceinline__ void
gsc__list_stepped(const gsc_k_unproject_step &args, const gsc__rows &rows, gsc__stepped *stepped) {
    const int32_t axes = args.radii_axes;
    if (threadIdx.x == 0) stepped->count = 0;
    __syncthreads();
    for (uint32_t begin = 0; begin < rows.count; begin += GSC__UNPROJECT_BLOCK) {
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
