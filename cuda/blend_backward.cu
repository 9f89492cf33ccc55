/* Backward blending of three colour channels, with depth and inverse depth if their gradients are
 * given.
 *
 * The walk of forward, from the back: a division restores T, and everything behind an intersection
 * is one scalar per pixel.  A lane adds up the moments of its pixels, then lanes reduce them by
 * recursive halving: in a wide warp the eight lanes of each block, ten shuffles for nine values of
 * four splats at once; in a fine warp all lanes. */
#include "sums.cuh"
#include "walk.cuh"

template <int rows, bool depths> struct pixel_state {
    float red[rows], green[rows], blue[rows]; /* upstream gradients */
    float depth[depths ? rows : 1], inv_depth[depths ? rows : 1];
    float t[rows], behind[rows];
    uint32_t walked[rows];
};

template <int rows, bool depths>
static __device__ __forceinline__ void load_pixel(const gsc_k_blend_backward &args, int64_t at,
                                                  int s, pixel_state<rows, depths> &p) {
    const int64_t pixels = (int64_t)args.grid.width * args.grid.height;
    const int64_t pixel_step = args.pixel_last ? 3 : 1, channel_step = args.pixel_last ? 1 : pixels;
    float g[3] = {0, 0, 0}, background = 0;
    for (int c = 0; c < 3 && args.grad_color; ++c)
        g[c] = args.grad_color[at * pixel_step + c * channel_step];
    p.red[s] = g[0];
    p.green[s] = g[1];
    p.blue[s] = g[2];
    if (depths) p.depth[s] = args.grad_depth ? args.grad_depth[at] : 0;
    if (depths) p.inv_depth[s] = args.grad_inv_depth ? args.grad_inv_depth[at] : 0;
    for (int c = 0; c < 3 && args.background; ++c)
        background = fmaf(args.background[c], g[c], background);
    if (args.grad_alpha) background -= args.grad_alpha[at];
    p.t[s] = args.frame.final_t[at];
    p.behind[s] = p.t[s] * background;
    p.walked[s] = args.frame.walked[at];
}

/* Returns the most intersections that a pixel of the lane visited. */
template <int rows, bool depths>
static __device__ __forceinline__ uint32_t load_pixels(const gsc_k_blend_backward &args,
                                                       const gsc__place &place,
                                                       pixel_state<rows, depths> &p) {
    uint32_t deepest = 0;
#pragma unroll
    for (int s = 0; s < rows; ++s) {
        p.red[s] = p.green[s] = p.blue[s] = p.behind[s] = 0;
        if (depths) p.depth[s] = p.inv_depth[s] = 0;
        p.t[s] = 1;
        p.walked[s] = 0;
        if (gsc__inside<rows>(args.grid, place, s))
            load_pixel(args, gsc__pixel<rows>(args.grid, place, s), s, p);
        deepest = max(deepest, p.walked[s]);
    }
    return deepest;
}

/* Sets the sum for the first pixel, adds to it for the others. */
static __device__ __forceinline__ void add(float *sum, float x, bool first) {
    *sum = first ? x : *sum + x;
}
static __device__ __forceinline__ void add_product(float *sum, float x, float y, bool first) {
    *sum = first ? x * y : fmaf(x, y, *sum);
}

/* Makes the sums of one record over the lane's pixels, see GSC__SUMS.  Along a column of four
 * pixels u is affine in v, so the moments of v give those of u; with one pixel that saves nothing.
 * Returns whether a pixel saw the record. */
template <int rows, bool depths, bool absolute>
static __device__ __forceinline__ bool
blend_backward_record(const gsc_k_blend_backward &args, const float4 &a, const float4 &b,
                      const float4 &c, const gsc__place &place, uint32_t position,
                      pixel_state<rows, depths> &p, float *sums) {
    constexpr bool use_slope = rows > 1;
    const float z = depths ? c.w : 0, inverse_z = depths ? gsc__rcp_fast(z) : 0;
    float u[rows], v[rows];
    gsc__affine<rows>(a, b, place, u, v);
    bool seen = false;
#pragma unroll
    for (int s = 0; s < rows; ++s) {
        const float exponent = fmaf(-u[s], u[s], fmaf(-v[s], v[s], b.y));
        const bool counts = exponent >= EXPONENT_MIN && position < p.walked[s];
        seen |= counts;
        const float raw = counts ? gsc__exp2_fast(exponent) : 0;
        const float alpha = fminf(GSC__ALPHA_MAX, raw);
        const float inverse = gsc__rcp_fast(1 - alpha);
        float dot = fmaf(b.z, p.red[s], fmaf(b.w, p.green[s], c.x * p.blue[s]));
        if (depths) dot = fmaf(z, p.depth[s], fmaf(inverse_z, p.inv_depth[s], dot));
        const float front = p.t[s] * inverse, weight = alpha * front;
        const float grad_alpha = fmaf(front, dot, -p.behind[s] * inverse);
        const float w = raw > args.alpha_limit ? 0 : raw * grad_alpha, wv = w * v[s];
        p.t[s] = front;
        p.behind[s] = fmaf(weight, dot, p.behind[s]);
        add(sums, w, s == 0);
        add(sums + 2, wv, s == 0);
        add_product(sums + 5, wv, v[s], s == 0);
        if (!use_slope) {
            const float wu = w * u[s];
            add(sums + 1, wu, s == 0);
            add_product(sums + 3, wu, u[s], s == 0);
            add_product(sums + 4, wu, v[s], s == 0);
        }
        add_product(sums + 6, weight, p.red[s], s == 0);
        add_product(sums + 7, weight, p.green[s], s == 0);
        add_product(sums + 8, weight, p.blue[s], s == 0);
        if (depths)
            add_product(sums + 9, weight, p.depth[s] - p.inv_depth[s] * inverse_z * inverse_z,
                        s == 0);
        if (absolute) {
            add(sums + 10, fabsf(w * u[s] * a.z), s == 0);
            add(sums + 11, fabsf(w * fmaf(u[s], a.w, v[s] * b.x)), s == 0);
        }
    }
    if (use_slope) {
        const float u_start = fmaf(a.z, (float)place.lane_x, c.z);
        const float slope = depths ? a.w * gsc__rcp_fast(b.x) : c.w;
        sums[1] = fmaf(u_start, sums[0], slope * sums[2]);
        sums[4] = fmaf(u_start, sums[2], slope * sums[5]);
        sums[3] = fmaf(u_start, sums[1], slope * sums[4]);
    }
    return seen;
}

/* Which of `count` values a lane holds after the reduction: at most two among 8 lanes, one among
 * 32. */
struct share {
    int first, size;
};
template <int count, int lanes> static __device__ __forceinline__ share share_of() {
    share s = {0, count};
    int parts = count;
#pragma unroll
    for (int step = lanes / 2; step; step /= 2) {
        parts = (parts + 1) / 2;
        const bool upper = gsc__lane() & step;
        s.first += upper ? parts : 0;
        s.size = upper ? max(s.size - parts, 0) : min(s.size, parts);
    }
    return s;
}

/* Sums over groups of `lanes` lanes; leaves the lane's share in the first values. */
template <int count, int lanes> static __device__ __forceinline__ void reduce(float *values) {
    constexpr int half = (count + 1) / 2, step = lanes / 2;
    const bool upper = gsc__lane() & step;
#pragma unroll
    for (int k = 0; k < half; ++k) {
        const float low = values[k], high = k + half < count ? values[k + half] : 0;
        const float kept = count > 1 && upper ? high : low, sent = count > 1 && !upper ? high : low;
        values[k] = kept + __shfl_xor_sync(GSC__ALL_LANES, sent, step);
    }
    if constexpr (lanes > 2) reduce<half, lanes / 2>(values);
}

template <int mode>
static __device__ __forceinline__ void add_where(const gsc_k_blend_backward &args, bool wanted,
                                                 float *to, float x) {
    if (mode != GSC__SUM_FAST) {
        if (wanted) gsc__add_sum<mode>(args.sums, args.fixed, to - args.sums, x);
        return;
    }
    asm volatile("{\n\t.reg .pred wanted;\n\tsetp.ne.u32 wanted, %0, 0;\n\t"
                 "@wanted red.global.add.f32 [%1], %2;\n\t}" ::"r"((uint32_t)wanted),
                 "l"(to), "f"(x)
                 : "memory");
}

/* Which of each record's sums a lane adds. */
typedef struct lane_output {
    float *first;                /* of record 0 */
    int32_t min_slot, min_slot2; /* lower slots do not add the first, the second value */
} lane_output;

template <int count, int rows>
static __device__ __forceinline__ lane_output lane_output_of(const gsc_k_blend_backward &args) {
    constexpr int lanes = rows == 1 ? 32 : COLUMNS;
    const share own = share_of<count, lanes>();
    lane_output output = {args.sums + own.first, own.size >= 1 ? 0 : 32, own.size >= 2 ? 0 : 32};
    asm("" : "+l"(output.first), "+r"(output.min_slot), "+r"(output.min_slot2));
    return output;
}

template <int rows, bool depths, bool absolute, int mode>
static __device__ __forceinline__ void
blend_backward_hits(const gsc_k_blend_backward &args, const lane_output &output, uint32_t records,
                    uint32_t hits, uint32_t first, const gsc__place &place,
                    pixel_state<rows, depths> &p) {
    constexpr int count = absolute ? 12 : depths ? 10 : 9;
    while (rows == 1 ? hits != 0 : __any_sync(GSC__ALL_LANES, hits != 0)) {
        const int32_t slot = gsc__take_hit(&hits);
        const uint32_t from = records + slot * RECORD_BYTES;
        const float4 a = gsc__load_shared(from), b = gsc__load_shared(from + 16);
        const float4 c = gsc__load_shared(from + 32);
        float values[GSC__SUMS];
        const bool seen = blend_backward_record<rows, depths, absolute>(args, a, b, c, place,
                                                                        first + slot, p, values);
        if (!__any_sync(GSC__ALL_LANES, seen)) continue;
        reduce<count, rows == 1 ? 32 : COLUMNS>(values);
        float *to = output.first + (int64_t)__float_as_uint(c.y) * GSC__SUMS;
        add_where<mode>(args, slot >= output.min_slot, to, values[0]);
        if (rows > 1) add_where<mode>(args, slot >= output.min_slot2, to + 1, values[1]);
    }
}

template <int rows, bool depths, bool absolute, int mode>
static __device__ __forceinline__ void blend_backward(const gsc_k_blend_backward &args,
                                                      const gsc__place &place,
                                                      const gsc__list &list, uint32_t stage) {
    constexpr int count = absolute ? 12 : depths ? 10 : 9;
    const gsc__gpu_frame &frame = args.frame;
    pixel_state<rows, depths> p;
    uint32_t block_deepest = load_pixels(args, place, p);
    for (int step = 1; step < COLUMNS; step *= 2)
        block_deepest = max(block_deepest, __shfl_xor_sync(GSC__ALL_LANES, block_deepest, step));
    uint32_t length = block_deepest;
    for (int step = COLUMNS; step < 32; step *= 2)
        length = max(length, __shfl_xor_sync(GSC__ALL_LANES, length, step));
    length = __shfl_sync(GSC__ALL_LANES, length, 0);
    length = min(length, list.length); /* a damaged state may hold more */
    if (length == 0) return;
    const lane_output output = lane_output_of<count, rows>(args);
    const uint32_t lane = gsc__lane(), lane_bytes = lane * RECORD_BYTES;
    uint32_t batch = (length - 1) / 32;
    uint32_t next = batch * 32 + lane < length
                        ? gsc__record_of(frame, __ldg(list.intersections + batch * 32 + lane))
                        : 0;
    if (batch * 32 + lane < length) gsc__stage_record(stage + lane_bytes, frame.records + next);
    gsc__copy_commit();
    uint32_t ahead =
        batch >= 1 ? gsc__record_of(frame, __ldg(list.intersections + batch * 32 - 32 + lane)) : 0;
    uint32_t buffer = 0;
    while (true) {
        const uint32_t first = batch * 32, now = next;
        const float z = depths && first + lane < length ? frame.depths[now] : 1;
        __syncwarp();
        if (batch >= 1) {
            next = ahead;
            gsc__stage_record(stage + BATCH_BYTES - buffer + lane_bytes, frame.records + next);
        }
        gsc__copy_commit();
        if (batch >= 2)
            ahead = gsc__record_of(frame, __ldg(list.intersections + first - 64 + lane));
        gsc__copy_wait<1>();
        const uint32_t records = stage + buffer, record = records + lane_bytes;
        const float4 a = gsc__load_shared(record), b = gsc__load_shared(record + 16);
        const bool valid = (first + lane < length) & gsc__draws(gsc__load_shared1(record + 32));
        const gsc__oval oval = gsc__make_affine(record, a, b, place);
        const float start = -a.z * (a.x - (float)place.x);
        gsc__store_third(record, __uint_as_float(now), start, depths ? z : oval.k);
        uint32_t hits = gsc__own_hits<rows == 1>(oval, place, valid);
        /* Nothing counts beyond the block's deepest pixel. */
        if (rows > 1) {
            const int32_t reach = (int32_t)(block_deepest - first);
            if (reach < 32) hits = reach <= 0 ? 0 : hits & ((1u << reach) - 1);
        }
        __syncwarp();
        blend_backward_hits<rows, depths, absolute, mode>(args, output, records, hits, first, place,
                                                          p);
        if (batch == 0) break;
        --batch;
        buffer = BATCH_BYTES - buffer;
    }
    gsc__copy_wait<0>();
}

template <bool depths, bool absolute, int mode>
static __device__ __forceinline__ void blend_backward_warp(const gsc_k_blend_backward &args,
                                                           gsc__stage *stages) {
    gsc__place place;
    gsc__list list;
    const gsc__gpu_band band = gsc__band_of(args.band, args.grid, args.capacity);
    if (!gsc__place_of(args.frame, args.grid, band, &place)) return;
    gsc__list_of(args.frame, band, args.lists, place, &list);
    const uint32_t stage = gsc__stage_open(stages, gsc__warp());
    if (place.fine)
        blend_backward<1, depths, absolute, mode>(args, place, list, stage);
    else
        blend_backward<ROWS, depths, absolute, mode>(args, place, list, stage);
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK)
    gsc_blend_backward(const __grid_constant__ gsc_k_blend_backward args) {
    gsc__begin_kernel();
    __shared__ gsc__stage stages[WARPS];
    blend_backward_warp<false, false, GSC__SUM_FAST>(args, stages);
}

/* 80 registers are enough without spilling, and allow a fifth more warps than what the compiler
 * takes by itself. */
extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK, 768 / GSC__BLEND_BLOCK)
    gsc_blend_backward_depths(const __grid_constant__ gsc_k_blend_backward args) {
    gsc__begin_kernel();
    __shared__ gsc__stage stages[WARPS];
    blend_backward_warp<true, false, GSC__SUM_FAST>(args, stages);
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK)
    gsc_blend_backward_absolute(const __grid_constant__ gsc_k_blend_backward args) {
    gsc__begin_kernel();
    __shared__ gsc__stage stages[WARPS];
    blend_backward_warp<true, true, GSC__SUM_FAST>(args, stages);
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK)
    gsc_blend_backward_largest(const __grid_constant__ gsc_k_blend_backward args) {
    gsc__begin_kernel();
    __shared__ gsc__stage stages[WARPS];
    blend_backward_warp<false, false, GSC__SUM_LARGEST>(args, stages);
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK)
    gsc_blend_backward_fixed(const __grid_constant__ gsc_k_blend_backward args) {
    gsc__begin_kernel();
    __shared__ gsc__stage stages[WARPS];
    blend_backward_warp<false, false, GSC__SUM_FIXED>(args, stages);
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK)
    gsc_blend_backward_all_largest(const __grid_constant__ gsc_k_blend_backward args) {
    gsc__begin_kernel();
    __shared__ gsc__stage stages[WARPS];
    blend_backward_warp<true, true, GSC__SUM_LARGEST>(args, stages);
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK)
    gsc_blend_backward_all_fixed(const __grid_constant__ gsc_k_blend_backward args) {
    gsc__begin_kernel();
    __shared__ gsc__stage stages[WARPS];
    blend_backward_warp<true, true, GSC__SUM_FIXED>(args, stages);
}
