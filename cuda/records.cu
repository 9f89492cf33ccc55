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

/* A thread's share of the visible Gaussians before a piece. */
static __device__ __forceinline__ uint32_t share_before(const gsc__gpu_frame &frame,
                                                        uint32_t piece) {
    const uint4 *groups = (const uint4 *)frame.groups, *seen = (const uint4 *)frame.seen;
    const uint4 none = make_uint4(0, 0, 0, 0);
    const uint32_t group = piece >> frame.group_shift, quads = GSC__PIECE / 128;
    const uint32_t begin = (group << frame.group_shift) * quads, end = piece * quads;
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

/* For backward: where the records of the block's pieces begin, and those of the last one end. */
static __device__ __forceinline__ void write_firsts(const gsc_k_project &args, uint32_t piece,
                                                    uint32_t first, const uint32_t *counts) {
    const uint32_t pieces = (uint32_t)((args.gaussians + GSC__PIECE - 1) / GSC__PIECE);
    const uint32_t own = min(args.record_pieces, pieces - piece), k = threadIdx.x;
    if (k < own || (k == own && piece + own == pieces))
        args.frame.firsts[piece + k] = first + (k > 0 ? counts[k * (GSC__PIECE / 32) - 1] : 0);
}

/* The host looks for the magic number. */
static __device__ __forceinline__ void report_header(const gsc__gpu_header *header,
                                                     gsc__gpu_header *report) {
    report->layout = header->layout;
    report->intersections = header->intersections;
    report->visible = header->visible;
    report->outside = header->outside;
    __threadfence_system();
    *(volatile uint64_t *)&report->magic = header->magic;
}

/* A block's words are a warp's: at most 4 pieces of 8.  They, the camera and what makes `first`
 * are on their way at once. */
extern "C" __global__ void __launch_bounds__(GSC__RECORD_BLOCK, 5)
    gsc_records(const __grid_constant__ gsc_k_project args) {
    gsc__begin_kernel();
    __shared__ gsc__camera camera;
    __shared__ uint32_t words[32], counts[32], shares[GSC__RECORD_BLOCK / 32];
    __shared__ float4 rows[GSC__RECORD_BLOCK][GSC__SH_ROW_PIECES];
    const gsc__gpu_frame &frame = args.frame;
    const uint32_t own_words = args.record_pieces * (GSC__PIECE / 32);
    const uint32_t piece = blockIdx.x * args.record_pieces;
    const int64_t base = (int64_t)piece * GSC__PIECE, at = base / 32 + threadIdx.x;
    const bool exists = threadIdx.x < own_words && at * 32 < args.gaussians;
    request_camera(frame, &camera);
    const uint32_t word = exists ? frame.seen[at] : 0;
    uint32_t share = share_before(frame, piece);
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
    if (frame.firsts) write_firsts(args, piece, first, counts);
    const uint32_t total = counts[31];
    const uint32_t warp = threadIdx.x & ~31u, warp_rows = gsc__shared_address(rows[warp]);
    for (uint32_t begin = warp; begin < total; begin += GSC__RECORD_BLOCK) {
        const uint32_t n = begin + gsc__lane();
        const int64_t i = n < total ? base + nth_seen(words, counts, n) : args.gaussians;
        const bool mine = first + n < frame.room && i < args.gaussians;
        write_records(args, camera, i, mine, first + n, warp_rows);
        __syncwarp();
    }
}
