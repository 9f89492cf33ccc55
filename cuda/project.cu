/* Step 1: cameras, and which Gaussians one sees.
 *
 * A thread projects one Gaussian.  The visible ones are written without gaps and in
 * index order, so that equal depths blend in index order: each block learns how many
 * the blocks before it have by looking back over their counts (Merrill & Garland 2016),
 * with a ticket as block number, so that whom it waits for is always running. */
#include "../src/sh_math.h"
#include "device.cuh"

static __device__ gsc__camera_source source_of(const gsc__gpu_camera_source &from) {
    gsc__camera_source source = from.source;
    if (from.host_view) source.view = from.view;
    if (from.host_projection) source.projection = from.projection;
    if (from.host_intrinsics) source.intrinsics = from.intrinsics;
    if (from.host_position) source.position = from.position;
    return source;
}

extern "C" __global__ void gsc_camera(const __grid_constant__ gsc_k_camera args) {
    const gsc__camera_source source = source_of(args.source);
    gsc__camera_make(&source, args.camera);
    args.header->magic = args.magic;
    args.header->layout = args.layout;
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

static __device__ bool record_sh(const gsc_k_project &args, const gsc__camera &camera, int64_t i,
                                 gsc__gpu_record *record, uint8_t *gates) {
    float direction[3], basis[GSC__SH_MAX_COEFFICIENTS], sum[3] = {0.5f, 0.5f, 0.5f};
    gsc__sh_direction(args.means + 3 * i, camera.position, direction);
    gsc__sh_basis(args.sh_degree, direction, basis);
    const float *rest = args.sh + 3 * (int64_t)args.sh_coefficients * i;
    const float *dc = args.sh_dc ? args.sh_dc + 3 * i : rest;
    if (!args.sh_dc) rest += 3;
    for (int c = 0; c < 3; ++c) sum[c] += basis[0] * dc[c];
    const int count = (args.sh_degree + 1) * (args.sh_degree + 1);
#pragma unroll
    for (int k = 1; k < GSC__SH_MAX_COEFFICIENTS; ++k) {
        if (k >= count) break;
        for (int c = 0; c < 3; ++c) sum[c] += basis[k] * rest[3 * (k - 1) + c];
    }
    *gates = 0;
    for (int c = 0; c < 3; ++c) {
        if (!gsc__finite(sum[c])) return false;
        record->rgb[c] = gsc__fmax(sum[c], 0);
        *gates |= (uint8_t)((sum[c] > 0) << c);
    }
    return true;
}

static __device__ bool record_color(const gsc_k_project &args, const gsc__camera &camera, int64_t i,
                                    gsc__gpu_record *record, uint8_t *gates) {
    if (!args.colors) return record_sh(args, camera, i, record, gates);
    const float *color = args.colors + i * args.channels;
    for (int c = 0; c < args.channels; ++c)
        if (!gsc__finite(color[c])) return false;
    for (int c = 0; c < 3 && args.channels == 3; ++c) record->rgb[c] = color[c];
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
        for (int j = 0; j < 3; ++j) scale[j] = args.scale_modifier * args.scales[3 * i + j];
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

/* Fills record, depth and gates.  True if the Gaussian can blend somewhere. */
static __device__ bool make_record(const gsc_k_project &args, const gsc__camera &camera, int64_t i,
                                   gsc__gpu_record *record, float *depth, uint8_t *gates) {
    gsc__projection p;
    float radii[2] = {0, 0}, opacity = args.opacities[i];
    bool inside = project_gaussian(args, camera, i, &p);
    if (inside) {
        opacity *= p.compensation;
        record->mean[0] = p.mean[0];
        record->mean[1] = p.mean[1];
        record->log2_opacity = opacity > 0 ? gsc__log2(opacity) : -1e30f;
        record->gaussian = (uint32_t)i;
        *depth = p.point[2];
        gsc__whiten(&p, &record->r00, &record->r01, &record->r11);
        const float log2_alpha = record->log2_opacity + GSC__LOG2_255;
        inside = gsc__finite(opacity) && gsc__finite(record->r01) &&
                 splat_radii(args, camera, p, log2_alpha, radii) &&
                 record_ranges(camera, p, radii, log2_alpha, record) &&
                 record_color(args, camera, i, record, gates);
    }
    write_outputs(args, camera, i, inside, p, radii, opacity);
    return inside && (record->columns >> 16) >= (record->columns & 0xffff);
}

/* Visible Gaussians of all blocks before this one; one warp. */
static __device__ uint32_t look_back(uint64_t *blocks, uint32_t block, uint32_t own) {
    const uint64_t partial = 1ull << 32, complete = 2ull << 32;
    volatile uint64_t *states = blocks;
    if (block == 0) {
        if (gsc__lane() == 0) states[0] = complete | own;
        return 0;
    }
    if (gsc__lane() == 0) states[block] = partial | own;
    uint32_t before = 0;
    for (int64_t last = (int64_t)block - 1;; last -= 32) {
        int64_t at = last - gsc__lane();
        uint64_t state;
        do state = at >= 0 ? states[at] : complete;
        while (__any_sync(GSC__ALL_LANES, state >> 32 == 0));
        uint32_t ended = __ballot_sync(GSC__ALL_LANES, state >> 32 == 2);
        uint32_t stop = ended ? (uint32_t)__ffs((int)ended) - 1 : 31;
        uint32_t sum = gsc__lane() <= stop ? (uint32_t)state : 0;
        for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(GSC__ALL_LANES, sum, step);
        before += sum;
        if (ended) break;
    }
    if (gsc__lane() == 0) states[block] = complete | (before + own);
    return before;
}

extern "C" __global__ void __launch_bounds__(GSC__PROJECT_BLOCK)
    gsc_project(const __grid_constant__ gsc_k_project args) {
    __shared__ gsc__camera camera;
    __shared__ uint32_t block, first, warps[33];
    const gsc__gpu_frame &frame = args.frame;
    if (threadIdx.x == 0) block = atomicAdd(&frame.header->ticket, 1u);
    if (threadIdx.x < sizeof camera / 4)
        ((uint32_t *)&camera)[threadIdx.x] = ((const uint32_t *)frame.camera)[threadIdx.x];
    __syncthreads();
    const int64_t i = (int64_t)block * GSC__PROJECT_BLOCK + threadIdx.x;
    gsc__gpu_record record;
    float depth = 0;
    uint8_t gates = 0;
    bool visible = i < args.gaussians && make_record(args, camera, i, &record, &depth, &gates);
    uint32_t total, at = gsc__block_scan(visible, warps, &total);
    if (threadIdx.x < 32) {
        uint32_t before = look_back(args.blocks, block, total);
        if (threadIdx.x == 0) first = before;
        if (threadIdx.x == 0 && block == gridDim.x - 1) frame.header->visible = before + total;
    }
    __syncthreads();
    if (!visible) return;
    at += first;
    const float4 *from = (const float4 *)&record;
    float4 *to = (float4 *)(frame.records + at);
    for (int k = 0; k < 3; ++k) to[k] = from[k];
    frame.depths[at] = depth;
    frame.gates[at] = gates;
}

extern "C" __global__ void __launch_bounds__(256)
    gsc_mark_visible(const __grid_constant__ gsc_k_mark_visible args) {
    const int64_t i = (int64_t)blockIdx.x * 256 + threadIdx.x;
    if (i >= args.gaussians) return;
    const gsc__camera_source source = source_of(args.source);
    gsc__camera camera;
    float point[3];
    gsc__camera_make_view(&source, &camera);
    gsc__to_camera(&camera, args.means + 3 * i, point);
    args.visible[i] = gsc__in_depth_range(&camera, point);
}
