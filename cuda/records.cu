/* Step 2: the records of the visible Gaussians, without gaps and in index order, so that Gaussians
 * of equal depth blend in index order. */
#include "../src/math/sh_math.h"
#include "bands.cuh"
#include "project.cuh"
#include "sh_rows.cuh"

/* Coefficients of degrees up to 3 are staged in shared memory: the copies run while the rest of the
 * record is made, and take no registers. */
static __device__ __forceinline__ bool stages_sh(const gsc_k_project &args) {
    return !args.colors && args.sh_degree < 4;
}

static __device__ __forceinline__ gsc__sh_rows sh_rows_of(const gsc_k_project &args) {
    const uint32_t count = (uint32_t)((args.sh_degree + 1) * (args.sh_degree + 1));
    const gsc__sh_rows rows = {args.sh, args.sh_dc, (uint32_t)args.sh_coefficients, 3 * count};
    return rows;
}

/* All lanes call it, each with its Gaussian; rows: of the warp.  Each lane copies its own narrow
 * row: sharing them would take more time to find out which lane copies which element. */
static __device__ __forceinline__ void stage_sh(const gsc_k_project &args, int64_t i, bool mine,
                                                uint32_t rows) {
    const gsc__sh_rows source = sh_rows_of(args);
    if (gsc__sh_rows_are_wide(source)) {
        gsc__stage_wide_rows(source, (uint32_t)i, __ballot_sync(GSC__ALL_LANES, mine), rows);
        return;
    }
    const uint32_t row = rows + gsc__lane() * 16 * GSC__SH_ROW_VECTORS;
    const uint32_t end = mine ? source.end : 0, skip = source.sh_dc ? 3 : 0;
    const float *rest = source.sh + 3 * (int64_t)source.coefficients * i - skip;
    for (uint32_t j = 0; j < min(skip, end); ++j) gsc__copy4(row + 4 * j, source.sh_dc + 3 * i + j);
    for (uint32_t j = skip; j < end; ++j) gsc__copy4(row + 4 * j, rest + j);
    gsc__copy_commit();
}

static __device__ __forceinline__ void add_staged(uint32_t row, int count, const float *basis,
                                                  float sum[3]) {
#pragma unroll
    for (int j = 0; j < 3 * GSC__SH_ROW_COEFFICIENTS / 4; ++j) {
        const float4 four = gsc__load_shared(row + 16 * j);
        const float part[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int t = 0; t < 4; ++t) {
            const int k = (4 * j + t) / 3, c = (4 * j + t) % 3;
            if (k < count) sum[c] = fmaf(basis[k], part[t], sum[c]);
        }
    }
}

static __device__ __forceinline__ void add_stored(const gsc_k_project &args, int64_t i, int count,
                                                  const float *basis, float sum[3]) {
    const float *rest = args.sh + 3 * (int64_t)args.sh_coefficients * i;
    const float *dc = args.sh_dc ? args.sh_dc + 3 * i : rest;
    if (!args.sh_dc) rest += 3;
#pragma unroll
    for (int k = 0; k < GSC__SH_MAX_COEFFICIENTS; ++k) {
        if (k >= count) break;
        for (int c = 0; c < 3; ++c)
            sum[c] = fmaf(basis[k], k ? rest[3 * (k - 1) + c] : dc[c], sum[c]);
    }
}

static __device__ bool record_sh(const gsc_k_project &args, const gsc__camera &camera, int64_t i,
                                 uint32_t row, gsc__gpu_record *record, uint8_t *unclamped) {
    const int count = (args.sh_degree + 1) * (args.sh_degree + 1);
    float direction[3], basis[GSC__SH_MAX_COEFFICIENTS], sum[3] = {0.5f, 0.5f, 0.5f};
    gsc__sh_direction(args.means + 3 * i, camera.position, direction);
    gsc__sh_basis(args.sh_degree, direction, basis);
    if (stages_sh(args))
        add_staged(row, count, basis, sum);
    else
        add_stored(args, i, count, basis, sum);
    *unclamped = 0;
    for (int c = 0; c < 3; ++c) {
        if (!gsc__finite(sum[c])) return false;
        record->rgb[c] = gsc__fmax(sum[c], 0);
        *unclamped |= (uint8_t)((sum[c] > 0) << c);
    }
    return true;
}

static __device__ bool record_color(const gsc_k_project &args, const gsc__camera &camera, int64_t i,
                                    uint32_t row, gsc__gpu_record *record, uint8_t *unclamped) {
    if (!args.colors) return record_sh(args, camera, i, row, record, unclamped);
    const float *color = args.colors + i * args.channels;
    for (int c = 0; c < args.channels; ++c)
        if (!gsc__finite(color[c])) return false;
    for (int c = 0; c < 3; ++c)
        record->rgb[c] = args.channels <= 3 && c < args.channels ? color[c] : 0;
    *unclamped = 7;
    return true;
}

/* The number of the block's n-th visible Gaussian; counts: visible ones up to and including each
 * word. */
static __device__ int64_t nth_seen(const uint32_t *words, const uint32_t *counts, uint32_t n) {
    uint32_t at = 0;
    for (uint32_t step = 16; step; step /= 2)
        if (counts[at + step - 1] <= n) at += step;
    if (at) n -= counts[at - 1];
    uint32_t bit = 0, word = words[at];
    for (uint32_t step = 16; step; step /= 2) {
        const uint32_t below = (uint32_t)__popc(word >> bit & ((1u << step) - 1));
        if (below <= n) {
            n -= below;
            bit += step;
        }
    }
    return (int64_t)at * 32 + bit;
}

/* Each lane writes the record of its Gaussian i to place `to`; all lanes of the warp call it.  A
 * colour that is not finite culls too.  As the Gaussian is counted by now, its record stays, with
 * a mark that keeps it from being drawn: see gsc__draws. */
static __device__ __forceinline__ void write_records(const gsc_k_project &args,
                                                     const gsc__camera &camera, int64_t i,
                                                     bool mine, uint32_t to, uint32_t rows) {
    gsc__gpu_record record;
    gsc__projection p;
    float radii[2] = {0, 0}, opacity;
    uint8_t unclamped;
    if (stages_sh(args)) stage_sh(args, i, mine, rows);
    if (mine)
        (void)make_record(args, camera, i, load_gaussian(args, i), &record, &p, radii, &opacity);
    gsc__copy_wait<0>();
    __syncwarp();
    if (!mine) return;
    const uint32_t row = rows + gsc__lane() * 16 * GSC__SH_ROW_VECTORS;
    if (!record_color(args, camera, i, row, &record, &unclamped)) {
        write_outputs(args, camera, i, false, p, radii, opacity);
        record.rgb[0] = record.rgb[1] = 0;
        record.rgb[2] = __int_as_float(0x7fffffff);
        unclamped = 0;
    }
    const float4 *from = (const float4 *)&record;
    for (int k = 0; k < 3; ++k) ((float4 *)(args.frame.records + to))[k] = from[k];
    args.frame.depths[to] = p.point[2];
    if (args.frame.unclamped) args.frame.unclamped[to] = unclamped;
}

/* A thread's share of the visible Gaussians before a chunk. */
static __device__ __forceinline__ uint32_t share_before(const gsc__gpu_frame &frame,
                                                        uint32_t chunk) {
    const uint4 *groups = (const uint4 *)frame.groups, *seen = (const uint4 *)frame.seen;
    const uint4 none = make_uint4(0, 0, 0, 0);
    const uint32_t group = chunk >> frame.group_shift, quads = GSC__CHUNK / 128;
    const uint32_t begin = (group << frame.group_shift) * quads, end = chunk * quads;
    uint32_t sum = 0;
    for (uint32_t k = threadIdx.x; 4 * k < group || begin + k < end; k += GSC__RECORD_BLOCK) {
        const uint4 sums = 4 * k < group ? groups[k] : none;
        const uint4 marks = begin + k < end ? seen[begin + k] : none;
        sum += sums.x + (4 * k + 1 < group ? sums.y : 0) + (4 * k + 2 < group ? sums.z : 0) +
               (4 * k + 3 < group ? sums.w : 0);
        sum += (uint32_t)(__popc(marks.x) + __popc(marks.y) + __popc(marks.z) + __popc(marks.w));
    }
    return sum;
}

/* For backward: where the records of the block's chunks begin, and where the last ones end. */
static __device__ __forceinline__ void write_firsts(const gsc_k_project &args, uint32_t chunk,
                                                    uint32_t first, const uint32_t *counts) {
    const uint32_t chunks = (uint32_t)((args.gaussians + GSC__CHUNK - 1) / GSC__CHUNK);
    const uint32_t own = min(args.record_chunks, chunks - chunk), k = threadIdx.x;
    if (k < own || (k == own && chunk + own == chunks))
        args.frame.firsts[chunk + k] = first + (k > 0 ? counts[k * (GSC__CHUNK / 32) - 1] : 0);
}

/* The host waits for the magic number. */
static __device__ __forceinline__ void report_header(const gsc__gpu_header *header,
                                                     gsc__gpu_header *report) {
    report->layout = header->layout;
    report->intersections = header->intersections;
    report->visible = header->visible;
    report->outside = header->outside;
    __threadfence_system();
    *(volatile uint64_t *)&report->magic = header->magic;
}

/* One warp holds the block's words: at most 4 chunks of 8.  The loads of words, camera and what
 * `first` sums up are in flight at once. */
extern "C" __global__ void __launch_bounds__(GSC__RECORD_BLOCK, 5)
    gsc_records(const __grid_constant__ gsc_k_project args) {
    gsc__begin_kernel();
    __shared__ gsc__camera camera;
    __shared__ uint32_t words[32], counts[32], shares[GSC__RECORD_BLOCK / 32];
    __shared__ float4 rows[GSC__RECORD_BLOCK][GSC__SH_ROW_VECTORS];
    const gsc__gpu_frame &frame = args.frame;
    const uint32_t own_words = args.record_chunks * (GSC__CHUNK / 32);
    const uint32_t chunk = blockIdx.x * args.record_chunks;
    const int64_t base = (int64_t)chunk * GSC__CHUNK, at = base / 32 + threadIdx.x;
    const bool exists = threadIdx.x < own_words && at * 32 < args.gaussians;
    request_camera(frame, &camera);
    const uint32_t word = exists ? frame.seen[at] : 0;
    uint32_t share = share_before(frame, chunk);
    for (int step = 16; step; step /= 2) share += __shfl_xor_sync(GSC__ALL_LANES, share, step);
    if (gsc__lane() == 0) shares[threadIdx.x >> 5] = share;
    if (threadIdx.x < 32) {
        words[threadIdx.x] = word;
        counts[threadIdx.x] = gsc__warp_scan((uint32_t)__popc(word));
    }
    gsc__copy_wait<0>();
    __syncthreads();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        if (args.report) report_header(frame.header, args.report);
        if (args.plan.rounds == 1) gsc__plan_bands(args.plan);
    }
    uint32_t first = 0;
    for (int w = 0; w < GSC__RECORD_BLOCK / 32; ++w) first += shares[w];
    if (frame.firsts) write_firsts(args, chunk, first, counts);
    const uint32_t total = counts[31];
    const uint32_t warp = threadIdx.x & ~31u, warp_rows = gsc__shared_address(rows[warp]);
    for (uint32_t begin = warp; begin < total; begin += GSC__RECORD_BLOCK) {
        const uint32_t n = begin + gsc__lane();
        const int64_t i = n < total ? base + nth_seen(words, counts, n) : args.gaussians;
        const bool mine = first + n < frame.record_capacity && i < args.gaussians;
        write_records(args, camera, i, mine, first + n, warp_rows);
        __syncwarp();
    }
}
