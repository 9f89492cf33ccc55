/* Step 2: the records of the visible Gaussians, without gaps and in index order, so that
 * equal depths blend in index order. */
#include "bands.cuh"
#include "project.cuh"
#include "record_sh.cuh"

static __device__ bool record_color(const gsc_k_project &args, const gsc__camera &camera, int64_t i,
                                    uint32_t row, gsc__gpu_record *record, uint8_t *gates) {
    if (!args.colors) return record_sh(args, camera, i, row, record, gates);
    const float *color = args.colors + i * args.channels;
    for (int c = 0; c < args.channels; ++c)
        if (!gsc__finite(color[c])) return false;
    for (int c = 0; c < 3; ++c) record->rgb[c] = args.channels == 3 ? color[c] : 0;
    *gates = 7;
    return true;
}

/* The Gaussian of visible number n of the block's words; counts: visible ones up to and
 * with each word. */
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

/* Lane by lane the records of Gaussians i, to places `to`; all lanes of the warp call it.  A
 * colour that is not finite culls too.  The Gaussian is counted by now, so its record stays,
 * marked so that nothing draws it: see gsc__draws. */
static __device__ __forceinline__ void write_records(const gsc_k_project &args,
                                                     const gsc__camera &camera, int64_t i,
                                                     bool mine, uint32_t to, uint32_t rows) {
    gsc__gpu_record record;
    gsc__projection p;
    float radii[2] = {0, 0}, opacity;
    uint8_t gates;
    if (stages_sh(args)) stage_sh(args, i, mine, rows);
    if (mine)
        (void)make_record(args, camera, i, load_gaussian(args, i), &record, &p, radii, &opacity);
    gsc__copy_wait<0>();
    __syncwarp();
    if (!mine) return;
    const uint32_t row = rows + gsc__lane() * 16 * GSC__SH_ROW_PIECES;
    if (!record_color(args, camera, i, row, &record, &gates)) {
        write_outputs(args, camera, i, false, p, radii, opacity);
        record.rgb[0] = record.rgb[1] = 0;
        record.rgb[2] = __int_as_float(0x7fffffff);
        gates = 0;
    }
    const float4 *from = (const float4 *)&record;
    for (int k = 0; k < 3; ++k) ((float4 *)(args.frame.records + to))[k] = from[k];
    args.frame.depths[to] = p.point[2];
    if (args.frame.gates) args.frame.gates[to] = gates;
}

/* A block's words are a warp's: at most 4 pieces of 8. */
extern "C" __global__ void __launch_bounds__(GSC__RECORD_BLOCK, 5)
    gsc_records(const __grid_constant__ gsc_k_project args) {
    gsc__begin_kernel();
    __shared__ gsc__camera camera;
    __shared__ uint32_t words[32], counts[32];
    __shared__ float4 rows[GSC__RECORD_BLOCK][GSC__SH_ROW_PIECES];
    const gsc__gpu_frame &frame = args.frame;
    const uint32_t own_words = args.record_pieces * (GSC__PIECE / 32);
    const int64_t base = (int64_t)blockIdx.x * args.record_pieces * GSC__PIECE;
    if (threadIdx.x < 32) {
        const int64_t at = base / 32 + threadIdx.x;
        const bool exists = threadIdx.x < own_words && at * 32 < args.gaussians;
        const uint32_t word = exists ? frame.seen[at] : 0;
        words[threadIdx.x] = word;
        counts[threadIdx.x] = gsc__warp_scan((uint32_t)__popc(word));
    }
    load_camera(frame, &camera);
    if (args.plan.rounds == 1 && blockIdx.x == 0 && threadIdx.x == 0) gsc__plan_bands(args.plan);
    const uint32_t first = frame.firsts[blockIdx.x * args.record_pieces], total = counts[31];
    const uint32_t warp = threadIdx.x & ~31u, warp_rows = gsc__shared_address(rows[warp]);
    for (uint32_t begin = warp; begin < total; begin += GSC__RECORD_BLOCK) {
        const uint32_t n = begin + gsc__lane();
        const int64_t i = n < total ? base + nth_seen(words, counts, n) : args.gaussians;
        const bool mine = first + n < frame.room && i < args.gaussians;
        write_records(args, camera, i, mine, first + n, warp_rows);
        __syncwarp();
    }
}
