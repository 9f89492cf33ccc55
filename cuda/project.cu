/* Step 1: cameras, which Gaussians one sees, and their records.
 *
 * Two kernels, because only the visible ones get memory: the first finds them and counts
 * what they reach, the second writes their records without gaps and in index order, so
 * that equal depths blend in index order.  The projection is done twice, which costs less
 * than keeping it for every Gaussian.
 *
 * This file is compiled without contraction to fused multiply-adds, as bins.cu is: what
 * is counted here and emitted there must agree to the last bit. */
#include "bands.cuh"
#include "record_sh.cuh"
#include "spans.cuh"

static __device__ gsc__camera_source source_of(const gsc__gpu_camera_source &from) {
    gsc__camera_source source = from.source;
    if (from.host_view) source.view = from.view;
    if (from.host_projection) source.projection = from.projection;
    if (from.host_intrinsics) source.intrinsics = from.intrinsics;
    if (from.host_position) source.position = from.position;
    return source;
}

extern "C" __global__ void gsc_begin(const __grid_constant__ gsc_k_begin args) {
    gsc__begin_kernel();
    const gsc__camera_source source = source_of(args.source);
    gsc__camera camera;
    memset(&camera, 0, sizeof camera); /* kernels copy it whole */
    gsc__camera_make(&source, &camera);
    memcpy(args.camera, &camera, sizeof camera);
    const gsc__gpu_header header = {args.magic, args.layout, 0, 0, 0};
    *args.header = header;
}

/* Half-extents in pixels, rounded up, and whether their box meets the image. */
static __device__ bool splat_radii(const gsc_k_project &args, const gsc__camera &camera,
                                   const gsc__projection &p, float log2_alpha, float radii[2]) {
    if (camera.compat) {
        radii[0] = radii[1] = gsc__compat_radius(&p);
    } else {
        if (!(log2_alpha >= 0)) return false;
        float reach = gsc__sqrt(log2_alpha / GSC__HALF_LOG2_E);
        radii[0] = gsc__ceil(reach * gsc__sqrt(p.cov[0]));
        radii[1] = gsc__ceil(reach * gsc__sqrt(p.cov[2]));
    }
    if (radii[0] <= args.radius_clip && radii[1] <= args.radius_clip) return false;
    for (int axis = 0; axis < 2; ++axis) {
        radii[axis] = gsc__fmin(radii[axis], 1e9f);
        float size = axis == 0 ? camera.width : camera.height;
        float centre = p.mean[axis] + 0.5f;
        if (camera.compat) continue;
        if (!(centre + radii[axis] > 0 && centre - radii[axis] < size)) return false;
    }
    return true;
}

/* Pixels [*first, *last] along one axis that the splat can reach: its ellipse's box and,
 * in compat, the 16-pixel tiles of the original's square.  False if that square touches
 * no tile; an empty range only means that the splat blends nowhere. */
static __device__ bool pixel_range(const gsc__camera &camera, float mean, float radius,
                                   float extent, float size, bool reaches, int32_t *first,
                                   int32_t *last) {
    float pad = 0.01f + 2e-6f * extent;
    *first = (int32_t)gsc__ceil(gsc__clamp(mean - extent - pad, 0, size));
    *last = (int32_t)gsc__floor(gsc__clamp(mean + extent + pad, -1, size - 1));
    if (!reaches) *last = *first - 1;
    if (!camera.compat) return true;
    const float tile = GSC__COMPAT_TILE;
    float limit = gsc__ceil(size / tile) * tile;
    int32_t begin = (int32_t)(gsc__clamp(mean - radius, 0, limit) / tile);
    int32_t end = (int32_t)(gsc__clamp(mean + radius + (tile - 1), 0, limit) / tile);
    if (begin >= end) return false;
    *first = max(*first, begin * GSC__COMPAT_TILE);
    *last = min(*last, end * GSC__COMPAT_TILE - 1);
    return true;
}

static __device__ bool record_ranges(const gsc__camera &camera, const gsc__projection &p,
                                     const float radii[2], float log2_alpha,
                                     gsc__gpu_record *record) {
    const bool reaches = log2_alpha >= 0;
    int32_t first[2], last[2];
    for (int axis = 0; axis < 2; ++axis) {
        float variance = axis == 0 ? p.cov[0] : p.cov[2];
        float extent = reaches ? gsc__sqrt(log2_alpha / GSC__HALF_LOG2_E * variance) : 0;
        if (!pixel_range(camera, p.mean[axis], radii[axis], extent,
                         axis == 0 ? camera.width : camera.height, reaches, &first[axis],
                         &last[axis]))
            return false;
    }
    bool empty = last[0] < first[0] || last[1] < first[1];
    record->columns = empty ? 1u : (uint32_t)first[0] | (uint32_t)last[0] << 16;
    record->rows = empty ? 1u : (uint32_t)first[1] | (uint32_t)last[1] << 16;
    return true;
}

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

static __device__ bool project_gaussian(const gsc_k_project &args, const gsc__camera &camera,
                                        int64_t i, gsc__projection *p) {
    const float *mean = args.means + 3 * i;
    gsc__to_camera(&camera, mean, p->point);
    if (!gsc__in_depth_range(&camera, p->point)) {
        if (args.prefiltered) args.frame.header->outside = 1;
        return false;
    }
    gsc__project_mean(&camera, mean, p);
    gsc__project_jacobian(&camera, p);
    if (args.covariances) {
        gsc__project_covariance(args.covariances + 6 * i, p);
    } else {
        float scale[3];
        for (int j = 0; j < 3; ++j) {
            const float stored = args.scales[3 * i + j];
            scale[j] = args.scale_modifier * (args.log_scales ? gsc__exp(stored) : stored);
        }
        gsc__project_axes(&camera, scale, args.rotations + 4 * i, p);
    }
    return gsc__blur(&camera, p) && gsc__finite(p->mean[0]) && gsc__finite(p->mean[1]);
}

static __device__ void write_outputs(const gsc_k_project &args, const gsc__camera &camera,
                                     int64_t i, bool seen, const gsc__projection &p,
                                     const float radii[2], float opacity) {
    if (args.radii && args.radii_axes == 2) {
        args.radii[2 * i] = seen ? (int32_t)radii[0] : 0;
        args.radii[2 * i + 1] = seen ? (int32_t)radii[1] : 0;
    } else if (args.radii) {
        args.radii[i] = seen ? (int32_t)gsc__fmax(radii[0], radii[1]) : 0;
    }
    const float centre = camera.compat ? 0 : 0.5f;
    if (args.means2d) {
        args.means2d[2 * i] = seen ? p.mean[0] + centre : 0;
        args.means2d[2 * i + 1] = seen ? p.mean[1] + centre : 0;
    }
    if (args.out_depths) args.out_depths[i] = seen ? p.point[2] : 0;
    if (args.out_opacities) args.out_opacities[i] = seen ? opacity : 0;
    if (args.conics) {
        args.conics[3 * i] = seen ? p.cov[2] / p.det : 0;
        args.conics[3 * i + 1] = seen ? -p.cov[1] / p.det : 0;
        args.conics[3 * i + 2] = seen ? p.cov[0] / p.det : 0;
    }
}

/* All of a record but its colour.  True if the Gaussian is visible; it may still reach
 * no pixel centre, as an empty box says. */
static __device__ bool make_record(const gsc_k_project &args, const gsc__camera &camera, int64_t i,
                                   gsc__gpu_record *record, gsc__projection *p, float radii[2],
                                   float *opacity) {
    *opacity = args.opacities[i];
    if (args.logit_opacities) *opacity = gsc__sigmoid(*opacity);
    if (!project_gaussian(args, camera, i, p)) return false;
    *opacity *= p->compensation;
    record->mean[0] = p->mean[0];
    record->mean[1] = p->mean[1];
    record->log2_opacity = *opacity > 0 ? gsc__log2(*opacity) : -1e30f;
    record->gaussian = (uint32_t)i;
    gsc__whiten(p, &record->r00, &record->r01, &record->r11);
    const float log2_alpha = record->log2_opacity + GSC__LOG2_255;
    return gsc__finite(*opacity) && gsc__finite(record->r01) &&
           splat_radii(args, camera, *p, log2_alpha, radii) &&
           record_ranges(camera, *p, radii, log2_alpha, record);
}

static __device__ __forceinline__ bool reaches_pixels(const gsc__gpu_record &record) {
    return (record.columns >> 16) >= (record.columns & 0xffff);
}

static __device__ void load_camera(const gsc__gpu_frame &frame, gsc__camera *camera) {
    if (threadIdx.x < sizeof *camera / 4)
        ((uint32_t *)camera)[threadIdx.x] = ((const uint32_t *)frame.camera)[threadIdx.x];
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(GSC__PIECE)
    gsc_project(const __grid_constant__ gsc_k_project args) {
    gsc__begin_kernel();
    __shared__ gsc__camera camera;
    __shared__ row_deal deals[GSC__PIECE / 32];
    __shared__ uint32_t block_pairs;
    const gsc__gpu_frame &frame = args.frame;
    if (threadIdx.x == 0) block_pairs = 0;
    load_camera(frame, &camera);
    const int64_t i = (int64_t)blockIdx.x * GSC__PIECE + threadIdx.x;
    gsc__gpu_record record;
    bool visible = false;
    if (i < args.gaussians) {
        gsc__projection p;
        float radii[2] = {0, 0}, opacity;
        const bool inside = make_record(args, camera, i, &record, &p, radii, &opacity);
        write_outputs(args, camera, i, inside, p, radii, opacity);
        visible = inside && reaches_pixels(record);
    }
    const uint32_t word = __ballot_sync(GSC__ALL_LANES, visible);
    if (gsc__lane() == 0) frame.seen[blockIdx.x * (GSC__PIECE / 32) + (threadIdx.x >> 5)] = word;
    const int count = __syncthreads_count(visible);
    if (threadIdx.x == 0) frame.firsts[blockIdx.x] = (uint32_t)count;
    row_deal *deal = deals + (threadIdx.x >> 5);
    int32_t row = 0, rows = 0;
    if (visible) {
        row = (int32_t)(record.rows & 0xffff) >> args.grid.shift_y;
        rows = ((int32_t)(record.rows >> 16) >> args.grid.shift_y) - row + 1;
    }
    const uint32_t total = deal_rows(deal, record, row, rows);
    uint32_t pairs = 0;
    for (uint32_t k = gsc__lane(); k < total; k += 32) {
        const uint2 span = dealt_span(deal, dealt_to(deal, k, &row), args.grid, row);
        if (span.x < span.y) pairs += span.y - span.x;
    }
    for (int step = 16; step; step /= 2) pairs += __shfl_xor_sync(GSC__ALL_LANES, pairs, step);
    if (gsc__lane() == 0 && pairs) atomicAdd(&block_pairs, pairs);
    __syncthreads();
    if (threadIdx.x == 0) args.pairs[blockIdx.x] = block_pairs;
}

/* Each warp has a run of the pieces, so that neighbouring lanes read neighbours. */
extern "C" __global__ void __launch_bounds__(1024)
    gsc_sum_pieces(const __grid_constant__ gsc_k_sum_pieces args) {
    gsc__begin_kernel();
    __shared__ uint64_t warps[33];
    uint32_t *counts = args.frame.firsts;
    const uint32_t run = (args.pieces + 1023) / 1024 * 32;
    const uint32_t begin = min((threadIdx.x >> 5) * run, args.pieces);
    const uint32_t end = min(begin + run, args.pieces);
    uint64_t pairs = 0, all_pairs, all_visible;
    uint32_t visible = 0;
#pragma unroll 8
    for (uint32_t i = begin + gsc__lane(); i < end; i += 32) {
        visible += counts[i];
        pairs += args.pairs[i];
    }
    (void)gsc__block_scan(pairs, warps, &all_pairs);
    uint32_t first = (uint32_t)gsc__block_scan((uint64_t)visible, warps, &all_visible);
    first = __shfl_sync(GSC__ALL_LANES, first, 0);
#pragma unroll 8
    for (uint32_t i = begin; i < end; i += 32) {
        const uint32_t at = i + gsc__lane(), count = at < end ? counts[at] : 0;
        const uint32_t sum = gsc__warp_scan(count);
        if (at < end) counts[at] = first + sum - count;
        first += __shfl_sync(GSC__ALL_LANES, sum, 31);
    }
    if (threadIdx.x) return;
    counts[args.pieces] = (uint32_t)all_visible;
    args.frame.header->visible = (uint32_t)all_visible;
    args.frame.header->intersections = all_pairs;
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

/* A colour that is not finite culls too.  The Gaussian is counted by now, so its record
 * stays, marked so that nothing draws it: see gsc__draws. */
static __device__ void write_record(const gsc_k_project &args, const gsc__camera &camera, int64_t i,
                                    uint32_t row, uint32_t to) {
    gsc__gpu_record record;
    gsc__projection p;
    float radii[2] = {0, 0}, opacity;
    uint8_t gates;
    const int count = (args.sh_degree + 1) * (args.sh_degree + 1);
    if (!args.colors && count <= STAGED) stage_sh(args, i, count, row);
    (void)make_record(args, camera, i, &record, &p, radii, &opacity);
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
extern "C" __global__ void __launch_bounds__(GSC__RECORD_BLOCK, 6)
    gsc_records(const __grid_constant__ gsc_k_project args) {
    gsc__begin_kernel();
    __shared__ gsc__camera camera;
    __shared__ uint32_t words[32], counts[32];
    __shared__ __align__(16) unsigned char rows[GSC__RECORD_BLOCK][ROW_BYTES];
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
    const uint32_t row = gsc__shared_address(rows[threadIdx.x]);
    for (uint32_t n = threadIdx.x; n < total; n += GSC__RECORD_BLOCK) {
        const int64_t i = base + nth_seen(words, counts, n);
        if (first + n < frame.room && i < args.gaussians)
            write_record(args, camera, i, row, first + n);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    gsc_mark_visible(const __grid_constant__ gsc_k_mark_visible args) {
    gsc__begin_kernel();
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= args.gaussians) return;
    const gsc__camera_source source = source_of(args.source);
    gsc__camera camera;
    float point[3];
    gsc__camera_make_view(&source, &camera);
    gsc__to_camera(&camera, args.means + 3 * i, point);
    args.visible[i] = gsc__in_depth_range(&camera, point);
}
