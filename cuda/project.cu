/* Step 1: which Gaussians a camera sees, and how many tiles they reach.
 *
 * Only visible Gaussians get memory: this kernel finds and counts them, and records.cu projects
 * them again to write their records.  That costs less than keeping results for every Gaussian. */
#include "project.cuh"
#include "spans.cuh"

/* ------------------------------------------------------------------- finding */

/* The largest length to which the Gaussian's axes map a unit vector.  scale: as stored. */
static __device__ __forceinline__ float longest_axis(const gsc_k_project &args,
                                                     const gsc__camera &camera, int64_t i,
                                                     const float scale[3]) {
    float longest = args.log_scales
                        ? gsc__exp(fmaxf(fmaxf(scale[0], scale[1]), scale[2]))
                        : fmaxf(fmaxf(fabsf(scale[0]), fabsf(scale[1])), fabsf(scale[2]));
    longest *= fabsf(args.scale_modifier);
    if (!camera.compat || !args.rotations) return longest;
    /* A quaternion of length l makes (1 - l^2) I + l^2 R. */
    const float *q = args.rotations + 4 * i;
    const float norm2 = q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3];
    return longest * (fabsf(1 - norm2) + norm2);
}

/* The mean in pixels along both axes, times its depth. */
static __device__ __forceinline__ void mean_by_depth(const gsc__camera &camera, const float *mean,
                                                     const float point[3], float at[2]) {
    at[0] = fmaf(camera.fx, point[0], camera.cx * point[2]);
    at[1] = fmaf(camera.fy, point[1], camera.cy * point[2]);
    if (!camera.by_clip) return;
    float h[3];
    for (int i = 0; i < 3; ++i) h[i] = gsc__dot3(camera.clip[i], mean) + camera.clip[i][3];
    const float half = 0.5f * point[2] * gsc__rcp_fast(h[2] + 1e-7f);
    at[0] = fmaf(half * h[0], camera.width, 0.5f * (camera.width - 1) * point[2]);
    at[1] = fmaf(half * h[1], camera.height, 0.5f * (camera.height - 1) * point[2]);
}

/* What the bounds depend on, as stored. */
typedef struct outline {
    float mean[3], scale[3], opacity;
} outline;

/* Loads that depend on no others.  Covariances have no bounds, so any scale will do. */
static __device__ __forceinline__ outline load_outline(const gsc_k_project &args, int64_t i) {
    const float *sizes = args.covariances ? args.means : args.scales;
    outline in = {};
    if (i >= args.gaussians) return in;
    for (int k = 0; k < 3; ++k) in.mean[k] = args.means[3 * i + k];
    for (int k = 0; k < 3; ++k) in.scale[k] = sizes[3 * i + k];
    in.opacity = args.opacities[i];
    return in;
}

/* Whether make_record() may find the Gaussian visible: bounds of what it computes, with a margin
 * for rounding.  Everything is multiplied by the depth, which saves a reciprocal and roots.  True
 * also for NaN and for Gaussians that the bounds do not cover. */
static __device__ bool may_be_seen(const gsc_k_project &args, const gsc__camera &camera,
                                   const outline &in, int64_t i) {
    const float longest = longest_axis(args, camera, i, in.scale);
    const bool bounded = !args.covariances && (args.logit_opacities || in.opacity <= 1);
    float point[3], at[2];
    gsc__to_camera(&camera, in.mean, point);
    mean_by_depth(camera, in.mean, point, at);
    bool outside = false;
    for (int axis = 0; axis < 2; ++axis) {
        const float size = axis == 0 ? camera.width : camera.height;
        const float reach =
            fmaf(camera.reach_of_size[axis], longest,
                 fmaf(camera.reach_of_depth[axis], point[2], 1e-4f * fabsf(at[axis])));
        outside |= at[axis] + reach < 0 || at[axis] - reach > size * point[2];
    }
    return gsc__in_depth_range(&camera, point) ? !outside || !bounded : args.prefiltered;
}

/* Of a block. */
typedef struct chunk_memory {
    gsc__camera camera;
    row_work work[GSC__CHUNK / 32];
    uint32_t seen[GSC__CHUNK / 32];
    uint32_t visible, intersections, candidates;
    uint8_t list[GSC__CHUNK]; /* the candidates */
} chunk_memory;

/* Lists the Gaussians that the block's threads have to project, without gaps, and returns their
 * number.  In most scenes most Gaussians lie outside the image, and a warp would pay for 32 if it
 * had a single candidate.  Which warp's candidates come first may vary: that moves work between
 * threads, never results. */
static __device__ __forceinline__ uint32_t list_candidates(bool mine, chunk_memory *memory) {
    const uint32_t word = __ballot_sync(GSC__ALL_LANES, mine);
    if (word) {
        uint32_t first = 0;
        if (gsc__lane() == 0) first = atomicAdd(&memory->candidates, (uint32_t)__popc(word));
        first = __shfl_sync(GSC__ALL_LANES, first, 0);
        if (mine)
            memory->list[first + (uint32_t)__popc(word & gsc__lanes_below())] =
                (uint8_t)threadIdx.x;
    }
    __syncthreads();
    return memory->candidates;
}

/* A warp's candidates: which are visible, and how many tiles those reach. */
static __device__ __forceinline__ void project_candidates(const gsc_k_project &args, int64_t base,
                                                          uint32_t candidates,
                                                          chunk_memory *memory) {
    row_work *work = memory->work + (threadIdx.x >> 5);
    gsc__gpu_record record;
    bool visible = false;
    int32_t row = 0, rows = 0;
    if (threadIdx.x < candidates) {
        gsc__projection p;
        float radii[2] = {0, 0}, opacity;
        const uint32_t at = memory->list[threadIdx.x];
        const bool inside =
            make_record(args, memory->camera, base + at, load_gaussian(args, base + at), &record,
                        &p, radii, &opacity);
        write_outputs(args, memory->camera, base + at, inside, p, radii, opacity);
        visible = inside && reaches_pixels(record);
        if (visible) {
            atomicOr(&memory->seen[at >> 5], 1u << (at & 31));
            row = (int32_t)(record.rows & 0xffff) >> args.grid.shift_y;
            rows = ((int32_t)(record.rows >> 16) >> args.grid.shift_y) - row + 1;
        }
    }
    const uint32_t count = (uint32_t)__popc(__ballot_sync(GSC__ALL_LANES, visible));
    const uint32_t total = distribute_rows(work, record, row, rows);
    uint32_t intersections = 0;
    for (uint32_t k = gsc__lane(); k < total; k += 32) {
        const uint2 span = row_span(work, row_owner(work, k, &row), args.grid, row);
        if (span.x < span.y) intersections += span.y - span.x;
    }
    for (int step = 16; step; step /= 2)
        intersections += __shfl_xor_sync(GSC__ALL_LANES, intersections, step);
    if (gsc__lane() == 0) {
        atomicAdd(&memory->visible, count);
        atomicAdd(&memory->intersections, intersections);
    }
}

/* Blocks per multiprocessor, which limit registers: on capability 7.5 it holds 1024 threads. */
#define PROJECT_BLOCKS (__CUDA_ARCH__ < 800 ? 4 : 6)
extern "C" __global__ void __launch_bounds__(GSC__CHUNK, PROJECT_BLOCKS)
    gsc_project(const __grid_constant__ gsc_k_project args) {
    gsc__begin_kernel();
    __shared__ chunk_memory memory;
    const gsc__gpu_frame &frame = args.frame;
    const int64_t base = (int64_t)blockIdx.x * GSC__CHUNK, own = base + threadIdx.x;
    if (threadIdx.x == 0) memory.visible = memory.intersections = memory.candidates = 0;
    if (threadIdx.x < GSC__CHUNK / 32) memory.seen[threadIdx.x] = 0;
    const outline in = load_outline(args, own);
    load_camera(frame, &memory.camera);
    const bool mine = own < args.gaussians && may_be_seen(args, memory.camera, in, own);
    if (own < args.gaussians && !mine) {
        const gsc__projection nothing = {};
        const float none[2] = {0, 0};
        write_outputs(args, memory.camera, own, false, nothing, none, 0);
    }
    const uint32_t candidates = list_candidates(mine, &memory);
    if ((threadIdx.x & ~31u) < candidates) project_candidates(args, base, candidates, &memory);
    if (candidates > 0) __syncthreads();
    if (threadIdx.x < GSC__CHUNK / 32)
        frame.seen[blockIdx.x * (GSC__CHUNK / 32) + threadIdx.x] = memory.seen[threadIdx.x];
    /* Results are not used, so that no block waits for them. */
    if (threadIdx.x > 0 || memory.visible == 0) return;
    atomicAdd(frame.groups + (blockIdx.x >> frame.group_shift), memory.visible);
    atomicAdd(&frame.header->visible, memory.visible);
    atomicAdd(&frame.header->intersections, (uint64_t)memory.intersections);
}
