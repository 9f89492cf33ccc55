/* Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), every group at once.
 *
 * The step is bound by memory: 28 bytes of an element are moved for about twelve
 * operations.  A thread takes four neighbouring elements in one load an array, and memory
 * of four hidden elements is not touched. */
#include "adam.cuh"
#include "device.cuh"

#define ELEMENTS 4

static __device__ __forceinline__ bool row_is_visible(const gsc_k_adam &args, int64_t row) {
    if (args.visible_bytes == 1) return ((const uint8_t *)args.visible)[row] != 0;
    return ((const int32_t *)args.visible)[row] != 0;
}

/* Bit k: element first + k exists and its row is visible. */
static __device__ __forceinline__ uint32_t wanted_elements(const gsc_k_adam &args,
                                                           const gsc__gpu_adam_group &group,
                                                           int64_t block_first, int64_t first) {
    const int64_t left = group.count - first, size = group.row_size;
    if (left <= 0) return 0;
    const int exist = left < ELEMENTS ? (int)left : ELEMENTS;
    uint32_t wanted = (1u << exist) - 1u;
    if (!args.visible) return wanted;
    /* 64-bit divisions are slow: one for the block, whose divisor and dividend are the same
     * for all threads, then 32 bits from its row on. */
    int64_t row = block_first / size, within = block_first - row * size + (first - block_first);
    if (within >= size && size <= 0x7fffffff) {
        uint32_t rows = (uint32_t)within / (uint32_t)size;
        row += rows;
        within -= rows * size;
    } else if (within >= size) {
        ++row;
        within -= size;
    }
    bool visible = row_is_visible(args, row);
#pragma unroll 1
    for (int k = 0; k < exist; ++k) {
        if (!visible) wanted &= ~(1u << k);
        if (++within == size && k + 1 < exist) {
            within = 0;
            visible = row_is_visible(args, ++row);
        }
    }
    return wanted;
}

static __device__ __forceinline__ void step_element(const gsc__gpu_adam_group &group, bool wanted,
                                                    float gradient, float &parameter,
                                                    float &moment1, float &moment2) {
    float p = parameter, m = moment1, v = moment2;
    gsc__adam_element(group.constants, gradient, p, m, v);
    parameter = wanted ? p : parameter;
    moment1 = wanted ? m : moment1;
    moment2 = wanted ? v : moment2;
}

extern "C" __global__ void __launch_bounds__(GSC__ADAM_BLOCK)
    gsc_adam(const __grid_constant__ gsc_k_adam args) {
    gsc__begin_kernel();
    int index = 0;
#pragma unroll 1
    while (blockIdx.x >= args.groups[index].block_end) ++index;
    const gsc__gpu_adam_group &group = args.groups[index];
    const uint32_t block = blockIdx.x - (index > 0 ? args.groups[index - 1].block_end : 0);
    const int64_t block_first = (int64_t)block * GSC__ADAM_PIECE;
    const int64_t first = block_first + threadIdx.x * ELEMENTS;
    const uint32_t wanted = wanted_elements(args, group, block_first, first);
    if (wanted == 0) return;
    if (group.vectors && first + ELEMENTS <= group.count) {
        float4 p = *(const float4 *)(group.parameter + first);
        float4 m = *(const float4 *)(group.moment1 + first);
        float4 v = *(const float4 *)(group.moment2 + first);
        const float4 g = *(const float4 *)(group.gradient + first);
        step_element(group, wanted & 1, g.x, p.x, m.x, v.x);
        step_element(group, wanted & 2, g.y, p.y, m.y, v.y);
        step_element(group, wanted & 4, g.z, p.z, m.z, v.z);
        step_element(group, wanted & 8, g.w, p.w, m.w, v.w);
        *(float4 *)(group.parameter + first) = p;
        *(float4 *)(group.moment1 + first) = m;
        *(float4 *)(group.moment2 + first) = v;
        return;
    }
    for (int k = 0; k < ELEMENTS; ++k) {
        if (!(wanted >> k & 1)) continue;
        const int64_t i = first + k;
        float p = group.parameter[i], m = group.moment1[i], v = group.moment2[i];
        step_element(group, true, group.gradient[i], p, m, v);
        group.parameter[i] = p;
        group.moment1[i] = m;
        group.moment2[i] = v;
    }
}
