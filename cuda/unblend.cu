/* Backward blending of three colour channels, with depth and inverse depth if their
 * gradients are given.
 *
 * The walk of forward, from the back: T comes back by division, and what lies behind an
 * entry is one scalar per pixel.  A lane adds up the moments of its four pixels, and the
 * eight lanes of each group then share out one recursive-halving reduction for the four
 * splats that the warp's groups are at: ten shuffles for nine values. */
#include "walk.cuh"

template <bool depths> struct pixel_state {
    float red[ROWS], green[ROWS], blue[ROWS]; /* upstream gradients */
    float depth[depths ? ROWS : 1], inv_depth[depths ? ROWS : 1];
    float t[ROWS], behind[ROWS];
    uint32_t walked[ROWS];
};

template <bool depths>
static __device__ __forceinline__ void load_pixel(const gsc_k_unblend &args, int64_t at, int s,
                                                  pixel_state<depths> &p) {
    const int64_t pixels = (int64_t)args.grid.width * args.grid.height;
    const int64_t pixel_step = args.pixel_last ? 3 : 1, channel_step = args.pixel_last ? 1 : pixels;
    float g[3] = {0, 0, 0}, background = 0;
    for (int c = 0; c < 3 && args.by_color; ++c)
        g[c] = args.by_color[at * pixel_step + c * channel_step];
    p.red[s] = g[0];
    p.green[s] = g[1];
    p.blue[s] = g[2];
    if (depths) p.depth[s] = args.by_depth ? args.by_depth[at] : 0;
    if (depths) p.inv_depth[s] = args.by_inv_depth ? args.by_inv_depth[at] : 0;
    for (int c = 0; c < 3 && args.background; ++c)
        background = fmaf(args.background[c], g[c], background);
    if (args.by_alpha) background -= args.by_alpha[at];
    p.t[s] = args.frame.final_t[at];
    p.behind[s] = p.t[s] * background;
    p.walked[s] = args.frame.walked[at];
}

/* The most entries that a pixel of the lane looked at. */
template <bool depths>
static __device__ __forceinline__ uint32_t load_pixels(const gsc_k_unblend &args,
                                                       const gsc__place &place,
                                                       pixel_state<depths> &p) {
    uint32_t deepest = 0;
#pragma unroll
    for (int s = 0; s < ROWS; ++s) {
        const int32_t x = place.x + place.lane_x, y = place.y + place.lane_y + s;
        p.red[s] = p.green[s] = p.blue[s] = p.behind[s] = 0;
        if (depths) p.depth[s] = p.inv_depth[s] = 0;
        p.t[s] = 1;
        p.walked[s] = 0;
        if (x < args.grid.width && y < args.grid.height)
            load_pixel(args, (int64_t)y * args.grid.width + x, s, p);
        deepest = max(deepest, p.walked[s]);
    }
    return deepest;
}

/* One record for the lane's pixels: sums of GSC__SUMS, see kernels.h.  Returns whether
 * a pixel saw it. */
template <bool depths, bool absolute>
static __device__ __forceinline__ bool
unblend_record(const gsc_k_unblend &args, const float4 *record, const gsc__place &place, bool hit,
               uint32_t position, float z, pixel_state<depths> &p, float *sums) {
    const float4 a = record[0], b = record[1], c = record[2];
    const float x = (float)place.lane_x, y = (float)place.lane_y;
    const float u0 = fmaf(a.x, x, fmaf(a.y, y, a.z)), v0 = fmaf(a.w, y, b.x);
    const float log2_opacity = hit ? b.y : -1e30f;
    const float inverse_z = depths ? 1 / z : 0;
    bool seen = false;
#pragma unroll
    for (int i = 0; i < GSC__SUMS; ++i) sums[i] = 0;
#pragma unroll
    for (int s = 0; s < ROWS; ++s) {
        const float u = fmaf(a.y, (float)s, u0), v = fmaf(a.w, (float)s, v0);
        const float exponent = fmaf(-u, u, fmaf(-v, v, log2_opacity));
        const bool counts = exponent >= LEAST && position < p.walked[s];
        seen |= counts;
        const float raw = counts ? gsc__exp2_fast(exponent) : 0;
        const float alpha = fminf(GSC__ALPHA_MAX, raw);
        const float inverse = gsc__rcp_fast(1 - alpha);
        float dot = fmaf(b.z, p.red[s], fmaf(b.w, p.green[s], c.x * p.blue[s]));
        if (depths) dot = fmaf(z, p.depth[s], fmaf(inverse_z, p.inv_depth[s], dot));
        const float front = p.t[s] * inverse, weight = alpha * front;
        const float by_alpha = fmaf(front, dot, -p.behind[s] * inverse);
        const bool stops = args.clamp_stops && raw > GSC__ALPHA_MAX;
        const float w = stops ? 0 : raw * by_alpha, wv = w * v;
        p.t[s] = front;
        p.behind[s] = fmaf(weight, dot, p.behind[s]);
        sums[0] += w;
        sums[2] += wv;
        sums[5] = fmaf(wv, v, sums[5]);
        sums[6] = fmaf(weight, p.red[s], sums[6]);
        sums[7] = fmaf(weight, p.green[s], sums[7]);
        sums[8] = fmaf(weight, p.blue[s], sums[8]);
        if (depths)
            sums[9] = fmaf(weight, p.depth[s] - p.inv_depth[s] * inverse_z * inverse_z, sums[9]);
        if (absolute) {
            sums[10] += fabsf(w * u * a.x);
            sums[11] += fabsf(w * fmaf(u, a.y, v * a.w));
        }
    }
    /* u is affine in v along the lane's column. */
    const float u_start = fmaf(a.x, x, c.z), slope = c.w;
    sums[1] = fmaf(u_start, sums[0], slope * sums[2]);
    sums[4] = fmaf(u_start, sums[2], slope * sums[5]);
    sums[3] = fmaf(u_start, sums[1], slope * sums[4]);
    return seen;
}

/* Which of `count` values a lane of a group holds after the reduction. */
struct share {
    int first, size;
};
template <int count> static __device__ __forceinline__ share share_of() {
    constexpr int half = (count + 1) / 2, quarter = (half + 1) / 2, eighth = (quarter + 1) / 2;
    const uint32_t lane = gsc__lane();
    share s = {0, count};
    const int parts[3] = {half, quarter, eighth};
#pragma unroll
    for (int i = 0; i < 3; ++i) {
        const bool upper = lane >> (2 - i) & 1;
        s.first += upper ? parts[i] : 0;
        s.size = upper ? max(s.size - parts[i], 0) : min(s.size, parts[i]);
    }
    return s;
}

/* Sums over the group of 8 lanes; values[0] and values[1] are the lane's share. */
template <int count> static __device__ __forceinline__ void reduce_group(float *values) {
    constexpr int half = (count + 1) / 2, quarter = (half + 1) / 2, eighth = (quarter + 1) / 2;
    const bool upper4 = gsc__lane() & 4, upper2 = gsc__lane() & 2, upper1 = gsc__lane() & 1;
#pragma unroll
    for (int k = 0; k < half; ++k) {
        float low = values[k], high = k + half < count ? values[k + half] : 0;
        values[k] = (upper4 ? high : low) + __shfl_xor_sync(GSC__ALL_LANES, upper4 ? low : high, 4);
    }
#pragma unroll
    for (int k = 0; k < quarter; ++k) {
        float low = values[k], high = k + quarter < half ? values[k + quarter] : 0;
        values[k] = (upper2 ? high : low) + __shfl_xor_sync(GSC__ALL_LANES, upper2 ? low : high, 2);
    }
#pragma unroll
    for (int k = 0; k < eighth; ++k) {
        float low = values[k], high = k + eighth < quarter ? values[k + eighth] : 0;
        values[k] = (upper1 ? high : low) + __shfl_xor_sync(GSC__ALL_LANES, upper1 ? low : high, 1);
    }
}

template <bool depths, bool absolute>
static __device__ __forceinline__ void unblend(const gsc_k_unblend &args, gsc__stage *stage) {
    constexpr int count = absolute ? 12 : depths ? 10 : 9;
    gsc__place place;
    const gsc__gpu_band band = *args.band;
    if (!gsc__place_of(args.grid, band, args.bin_order, &place)) return;
    const gsc__gpu_frame &frame = args.frame;
    pixel_state<depths> p;
    uint32_t group_deepest = load_pixels(args, place, p);
    for (int step = 1; step < GROUP_LANES; step *= 2)
        group_deepest = max(group_deepest, __shfl_xor_sync(GSC__ALL_LANES, group_deepest, step));
    uint32_t length = group_deepest;
    for (int step = GROUP_LANES; step < 32; step *= 2)
        length = max(length, __shfl_xor_sync(GSC__ALL_LANES, length, step));
    if (length == 0) return;
    const share own_share = share_of<count>();
    const uint32_t *list = args.lists + (frame.offsets[place.bin] - frame.offsets[band.begin]);
    const uint32_t lane = gsc__lane();
    int64_t first = (int64_t)((length - 1) / 32) * 32;
    uint32_t record_at = first + lane < length ? list[first + lane] : 0;
    if (first + lane < length) gsc__stage_record(stage, 0, lane, frame.records + record_at);
    gsc__copy_commit();
    uint32_t ahead = first >= 32 ? list[first - 32 + lane] : 0;
    for (int buffer = 0; first >= 0; first -= 32, buffer ^= 1) {
        const uint32_t current = record_at;
        __syncwarp();
        if (first >= 32) {
            record_at = ahead;
            gsc__stage_record(stage, buffer ^ 1, lane, frame.records + record_at);
        }
        gsc__copy_commit();
        if (first >= 64) ahead = list[first - 64 + lane];
        gsc__copy_wait<1>();
        float4 *records = stage->records[buffer];
        uint32_t groups = 0;
        if (first + lane < length) {
            float4 *record = records + 3 * lane;
            groups = gsc__groups_hit(record, place);
            const float mean_x = record[0].x - (float)place.x;
            if (groups)
                gsc__make_affine(record, place, __uint_as_float(current), -record[0].z * mean_x,
                                 __fdividef(record[0].w, record[1].x));
        }
        uint32_t hits = gsc__own_hits(groups, place.group);
        const int64_t reach = (int64_t)group_deepest - first;
        if (reach < 32) hits = reach <= 0 ? 0 : hits & ((1u << reach) - 1);
        __syncwarp();
        while (__any_sync(GSC__ALL_LANES, hits != 0)) {
            /* A group without a hit left reads slot 0, whose entry always exists. */
            const int slot = hits ? 31 - __clz((int)hits) : 0;
            const bool hit = hits != 0;
            hits &= ~(1u << slot);
            const float4 *record = records + 3 * slot;
            float values[GSC__SUMS];
            const uint32_t its_record = __float_as_uint(record[2].y);
            const float z = depths && hit ? frame.depths[its_record] : 1;
            bool seen = unblend_record<depths, absolute>(args, record, place, hit,
                                                         (uint32_t)first + slot, z, p, values);
            const uint32_t seen_lanes = __ballot_sync(GSC__ALL_LANES, seen);
            if (!seen_lanes) continue;
            reduce_group<count>(values);
            if (!(seen_lanes >> (place.group * GROUP_LANES) & 0xff)) continue;
            float *to = args.sums + (int64_t)its_record * GSC__SUMS + own_share.first;
            if (own_share.size >= 1) atomicAdd(to, values[0]);
            if (own_share.size >= 2) atomicAdd(to + 1, values[1]);
        }
    }
    gsc__copy_wait<0>();
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK)
    gsc_unblend(const __grid_constant__ gsc_k_unblend args) {
    __shared__ gsc__stage stages[WARPS];
    unblend<false, false>(args, &stages[threadIdx.x >> 5]);
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK)
    gsc_unblend_depths(const __grid_constant__ gsc_k_unblend args) {
    __shared__ gsc__stage stages[WARPS];
    unblend<true, false>(args, &stages[threadIdx.x >> 5]);
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK)
    gsc_unblend_absolute(const __grid_constant__ gsc_k_unblend args) {
    __shared__ gsc__stage stages[WARPS];
    unblend<true, true>(args, &stages[threadIdx.x >> 5]);
}
