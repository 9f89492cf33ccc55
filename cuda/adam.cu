/* Adam (Kingma and Ba 2015) and AdamW (Loshchilov and Hutter 2019), every group at once.
 *
 * The step is bound by memory: it moves 28 bytes of an element for about twelve operations.
 * Where every row is stepped, a thread takes four neighbouring elements, with one load per
 * array.  Where only visible rows are stepped, a thread per element of all rows would mostly
 * have nothing to do: a block lists the visible rows of a run, and its warps share the elements
 * of all groups as one sequence, so that narrow rows leave no warp without work. */
#include "adam.cuh"
#include "device.cuh"

#define ELEMENTS 4

extern "C" __global__ void __launch_bounds__(GSC__ADAM_BLOCK)
    gsc_adam(const __grid_constant__ gsc_k_adam args) {
    gsc__begin_kernel();
    int index = 0;
#pragma unroll 1
    while (blockIdx.x >= args.groups[index].block_end) ++index;
    const gsc__gpu_adam_group &group = args.groups[index];
    const uint32_t block = blockIdx.x - (index > 0 ? args.groups[index - 1].block_end : 0);
    const int64_t first = (int64_t)block * GSC__ADAM_CHUNK + threadIdx.x * ELEMENTS;
    const int64_t end = min(first + ELEMENTS, group.count);
    if (group.vectors && first + ELEMENTS <= group.count) {
        float4 p = *(const float4 *)(group.parameter + first);
        float4 m = *(const float4 *)(group.moment1 + first);
        float4 v = *(const float4 *)(group.moment2 + first);
        const float4 g = *(const float4 *)(group.gradient + first);
        gsc__adam_element(group.constants, g.x, p.x, m.x, v.x);
        gsc__adam_element(group.constants, g.y, p.y, m.y, v.y);
        gsc__adam_element(group.constants, g.z, p.z, m.z, v.z);
        gsc__adam_element(group.constants, g.w, p.w, m.w, v.w);
        *(float4 *)(group.parameter + first) = p;
        *(float4 *)(group.moment1 + first) = m;
        *(float4 *)(group.moment2 + first) = v;
        return;
    }
#pragma unroll 1
    for (int64_t i = first; i < end; ++i) {
        float p = group.parameter[i], m = group.moment1[i], v = group.moment2[i];
        gsc__adam_element(group.constants, group.gradient[i], p, m, v);
        group.parameter[i] = p;
        group.moment1[i] = m;
        group.moment2[i] = v;
    }
}

/* ---------------------------------------------------------------- visible rows */

#define WARPS (GSC__ADAM_BLOCK / 32)
#define MASKS (GSC__ADAM_ROWS / 32)
#define BATCH 4 /* elements of a lane at once */
#define CHUNK (32 * BATCH)

static __device__ __forceinline__ bool row_is_visible(const gsc_k_adam_rows &args, int64_t row) {
    if (args.visible_bytes == 1) return ((const uint8_t *)args.visible)[row] != 0;
    return ((const int32_t *)args.visible)[row] != 0;
}

/* Lists the visible rows of the block, in order; returns their number.  All threads call it. */
static __device__ __forceinline__ uint32_t list_visible(const gsc_k_adam_rows &args, int64_t first,
                                                        uint16_t *rows) {
    __shared__ uint32_t masks[MASKS];
    const int64_t left = args.rows - first;
#pragma unroll
    for (uint32_t row = threadIdx.x; row < GSC__ADAM_ROWS; row += GSC__ADAM_BLOCK) {
        const bool visible =
            row < args.block_rows && row < left && row_is_visible(args, first + row);
        const uint32_t lanes = __ballot_sync(GSC__ALL_LANES, visible);
        if (gsc__lane() == 0) masks[row / 32] = lanes;
    }
    __syncthreads();
    uint32_t count = 0;
#pragma unroll
    for (uint32_t k = 0; k < MASKS; ++k) {
        const uint32_t lanes = masks[k], lane = gsc__lane();
        if (threadIdx.x / 32 == k % WARPS && (lanes >> lane & 1))
            rows[count + (uint32_t)__popc(lanes & gsc__lanes_below())] = (uint16_t)(32 * k + lane);
        count += (uint32_t)__popc(lanes);
    }
    __syncthreads();
    return count;
}

/* Steps elements at, at + 32.. of the `total` in visible rows, with all loads of a lane in flight
 * at once; lanes beyond the end load the last element. */
static __device__ __forceinline__ void step_elements(const gsc__gpu_adam_columns &columns,
                                                     int64_t first, const uint16_t *rows,
                                                     uint32_t at, uint32_t total) {
    const int64_t base = first * columns.row_size;
    float *parameter = columns.parameter, *moment1 = columns.moment1, *moment2 = columns.moment2;
    const float *gradient = columns.gradient;
    float p[BATCH], m[BATCH], v[BATCH], g[BATCH];
    uint64_t places[BATCH];
#pragma unroll
    for (uint32_t b = 0; b < BATCH; ++b) {
        const uint32_t i = min(at + 32 * b, total - 1);
        /* Exact: neither i nor the width is above GSC__ADAM_CAPACITY. */
        const uint32_t slot = __umulhi(2 * i, columns.reciprocal);
        /* 32 bits are enough: a row wider than GSC__ADAM_CAPACITY is the block's only one. */
        places[b] = base + rows[slot] * (uint32_t)columns.row_size + (i - slot * columns.width);
        p[b] = parameter[places[b]];
        m[b] = moment1[places[b]];
        v[b] = moment2[places[b]];
        g[b] = gradient[places[b]];
    }
#pragma unroll
    for (uint32_t b = 0; b < BATCH; ++b) {
        /* Keeps the compiler from moving loads to where they are needed, and makes it compute
         * addresses again, which takes fewer registers than keeping them. */
        asm volatile("" : "+l"(places[b]), "+f"(p[b]), "+f"(m[b]), "+f"(v[b]), "+f"(g[b]));
        if (at + 32 * b >= total) continue;
        gsc__adam_element(columns.constants, g[b], p[b], m[b], v[b]);
        parameter[places[b]] = p[b];
        moment1[places[b]] = m[b];
        moment2[places[b]] = v[b];
    }
}

extern "C" __global__ void __launch_bounds__(GSC__ADAM_BLOCK)
    gsc_adam_rows(const __grid_constant__ gsc_k_adam_rows args) {
    gsc__begin_kernel();
    __shared__ uint16_t rows[GSC__ADAM_ROWS];
    const uint32_t block = blockIdx.x / args.slices, slice = blockIdx.x - block * args.slices;
    const int64_t first = (int64_t)block * args.block_rows;
    const uint32_t visible = list_visible(args, first, rows);
    if (visible == 0) return;
    /* Chunks, a batch of every lane each, are numbered across all groups; those of the group at
     * `index` begin at `begin`. */
    uint32_t index = 0, begin = 0;
#pragma unroll 1
    for (uint32_t chunk = slice * WARPS + threadIdx.x / 32;; chunk += args.slices * WARPS) {
        uint32_t total;
#pragma unroll 1
        for (;; ++index) {
            if (index == args.count) return;
            total = visible * args.columns[index].width;
            const uint32_t end = begin + (total + CHUNK - 1) / CHUNK;
            if (chunk < end) break;
            begin = end;
        }
        step_elements(args.columns[index], first, rows, (chunk - begin) * CHUNK + gsc__lane(),
                      total);
    }
}
