/* Backward blending of up to three channels of colour, which the records hold, or of a group of
 * GSC__BLEND_CHANNELS of more, which are staged beside the records.
 *
 * The walk of forward, from the back: a division restores T, and everything behind an intersection
 * is one scalar per pixel.  A lane adds up the moments of its pixels, then lanes reduce them by
 * recursive halving: in a wide warp the eight lanes of each block, ten shuffles for nine values of
 * four splats at once; in a fine warp all lanes.
 *
 * Everything but the absolute gradients is linear in the upstream gradient, so groups of channels
 * add up.  For absolute gradients the first group takes the other channels from global memory, and
 * only its moments count. */
#include "sums.cuh"
#include "walk.cuh"

template <int rows, int channels, bool depths> struct pixel_state {
    float color[channels][rows]; /* upstream gradients */
    float depth[depths ? rows : 1], inv_depth[depths ? rows : 1];
    float t[rows], behind[rows];
    uint32_t walked[rows];
};

static __device__ __forceinline__ float grad_color(const gsc_k_blend_backward &args, int64_t at,
                                                   int32_t channel) {
    const int64_t pixels = (int64_t)args.grid.width * args.grid.height;
    return args.grad_color[args.pixel_last ? at * args.channels + channel : channel * pixels + at];
}

template <int rows, int channels, bool depths>
static __device__ __forceinline__ void load_pixel(const gsc_k_blend_backward &args, int64_t at,
                                                  int s, pixel_state<rows, channels, depths> &p) {
    const int32_t left = args.grad_color ? args.channels - args.channel : 0;
    float background = 0;
#pragma unroll
    for (int c = 0; c < channels; ++c)
        p.color[c][s] = c < left ? grad_color(args, at, args.channel + c) : 0;
    if (depths) p.depth[s] = args.grad_depth ? args.grad_depth[at] : 0;
    if (depths) p.inv_depth[s] = args.grad_inv_depth ? args.grad_inv_depth[at] : 0;
#pragma unroll
    for (int c = 0; c < channels; ++c)
        if (args.background && c < left)
            background = fmaf(args.background[args.channel + c], p.color[c][s], background);
    if (channels > 3 && args.whole)
        for (int32_t c = channels; c < left && args.background; ++c)
            background = fmaf(args.background[c], grad_color(args, at, c), background);
    if (args.grad_alpha) background -= args.grad_alpha[at];
    p.t[s] = args.frame.final_t[at];
    p.behind[s] = p.t[s] * background;
    p.walked[s] = args.frame.walked[at];
}

/* Returns the most intersections that a pixel of the lane visited. */
template <int rows, int channels, bool depths>
static __device__ __forceinline__ uint32_t load_pixels(const gsc_k_blend_backward &args,
                                                       const gsc__place &place,
                                                       pixel_state<rows, channels, depths> &p) {
    uint32_t deepest = 0;
#pragma unroll
    for (int s = 0; s < rows; ++s) {
        for (int c = 0; c < channels; ++c) p.color[c][s] = 0;
        if (depths) p.depth[s] = p.inv_depth[s] = 0;
        p.behind[s] = 0;
        p.t[s] = 1;
        p.walked[s] = 0;
        if (gsc__inside<rows>(args.grid, place, s))
            load_pixel(args, gsc__pixel<rows>(args.grid, place, s), s, p);
        deepest = max(deepest, p.walked[s]);
    }
    return deepest;
}

/* The share of the channels behind the first group in a sample's product of colour and upstream
 * gradient. */
static __device__ float product_behind_group(const gsc_k_blend_backward &args, uint32_t gaussian,
                                             int64_t at) {
    const float *color = args.colors + (int64_t)gaussian * args.channels;
    float dot = 0;
    for (int32_t c = GSC__BLEND_CHANNELS; c < args.channels && args.grad_color; ++c)
        dot = fmaf(color[c], grad_color(args, at, c), dot);
    return dot;
}

/* Sets the sum for the first pixel, adds to it for the others. */
static __device__ __forceinline__ void add(float *sum, float x, bool first) {
    *sum = first ? x : *sum + x;
}
static __device__ __forceinline__ void add_product(float *sum, float x, float y, bool first) {
    *sum = first ? x * y : fmaf(x, y, *sum);
}

/* A record's sums over the lane's pixels: see GSC__SUMS, and those of more than three channels. */
template <int channels> struct record_sums { float moments[GSC__SUMS], color[channels]; };

/* Makes the sums of one record.  Along a column of four pixels u is affine in v, so the moments of
 * v give those of u; with one pixel that saves nothing.  Returns whether a pixel saw the record. */
template <int rows, int channels, bool depths, bool absolute>
static __device__ __forceinline__ bool
blend_backward_record(const gsc_k_blend_backward &args, const gsc__staged<channels> &record,
                      const gsc__place &place, uint32_t position,
                      pixel_state<rows, channels, depths> &p, record_sums<channels> &out) {
    constexpr bool use_slope = rows > 1;
    const float4 &a = record.a, &b = record.b, &c = record.c;
    const float z = depths ? c.w : 0, inverse_z = depths ? gsc__rcp_fast(z) : 0;
    float *sums = out.moments, *color_sums = channels > 3 ? out.color : out.moments + 6;
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
        float dot = record.color[channels - 1] * p.color[channels - 1][s];
#pragma unroll
        for (int k = channels - 2; k >= 0; --k) dot = fmaf(record.color[k], p.color[k][s], dot);
        if (depths) dot = fmaf(z, p.depth[s], fmaf(inverse_z, p.inv_depth[s], dot));
        if (channels > 3 && args.whole && counts)
            dot += product_behind_group(args, __float_as_uint(b.z),
                                        gsc__pixel<rows>(args.grid, place, s));
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
#pragma unroll
        for (int k = 0; k < channels; ++k)
            add_product(color_sums + k, weight, p.color[k][s], s == 0);
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
    if (channels > 3) sums[6] = sums[7] = sums[8] = 0;
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

/* Where a record's sums are added: rows of `width`. */
typedef struct target {
    float *sums;
    uint64_t *fixed;
    uint32_t width;
} target;

template <int mode>
static __device__ __forceinline__ void add_where(const target &to, bool wanted, float *at,
                                                 float x) {
    if (mode != GSC__SUM_FAST) {
        if (wanted) gsc__add_sum<mode>(to.sums, to.fixed, at - to.sums, x);
        return;
    }
    asm volatile("{\n\t.reg .pred wanted;\n\tsetp.ne.u32 wanted, %0, 0;\n\t"
                 "@wanted red.global.add.f32 [%1], %2;\n\t}" ::"r"((uint32_t)wanted),
                 "l"(at), "f"(x)
                 : "memory");
}

/* Which of each record's sums a lane adds. */
typedef struct lane_output {
    float *first;                /* of row 0 */
    int32_t min_slot, min_slot2; /* lower slots do not add the first, the second value */
} lane_output;

/* left: how many of the `count` values there are. */
template <int count, int rows>
static __device__ __forceinline__ lane_output lane_output_of(float *sums, int32_t left) {
    constexpr int lanes = rows == 1 ? 32 : COLUMNS;
    const share own = share_of<count, lanes>();
    lane_output output = {sums + own.first, own.size >= 1 && own.first < left ? 0 : 32,
                          own.size >= 2 && own.first + 1 < left ? 0 : 32};
    asm("" : "+l"(output.first), "+r"(output.min_slot), "+r"(output.min_slot2));
    return output;
}

/* Reduces the sums of a record in each block, or in the warp, and adds them to its row. */
template <int count, int rows, int mode>
static __device__ __forceinline__ void add_sums(const target &to, const lane_output &output,
                                                int32_t slot, uint32_t row, float *values) {
    reduce<count, rows == 1 ? 32 : COLUMNS>(values);
    float *at = output.first + (int64_t)row * to.width;
    add_where<mode>(to, slot >= output.min_slot, at, values[0]);
    if (rows > 1) add_where<mode>(to, slot >= output.min_slot2, at + 1, values[1]);
}

/* The sums of colours in more than three channels belong to Gaussians, reproducible ones to
 * records. */
template <int mode>
static __device__ __forceinline__ target color_target(const gsc_k_blend_backward &args) {
    const target fast = {args.grad_colors, NULL, (uint32_t)args.channels};
    const target reproducible = {args.color_sums, args.color_fixed, args.color_width};
    return mode == GSC__SUM_FAST ? fast : reproducible;
}

/* Kernels of one walk: what they sum up, and how. */
template <int rows_, int channels_, bool depths_, bool absolute_, int mode_> struct variant {
    static constexpr int rows = rows_, channels = channels_, mode = mode_;
    static constexpr bool depths = depths_, absolute = absolute_;
    static constexpr int count = absolute ? 12 : depths ? 10 : 9; /* moments */
    typedef pixel_state<rows, channels, depths> pixels;
};

template <typename V>
static __device__ __forceinline__ void
blend_backward_hits(const gsc_k_blend_backward &args, const lane_output outputs[2],
                    uint32_t records, uint32_t hits, uint32_t first, const gsc__place &place,
                    typename V::pixels &p) {
    constexpr int channels = V::channels;
    while (V::rows == 1 ? hits != 0 : __any_sync(GSC__ALL_LANES, hits != 0)) {
        const int32_t slot = gsc__take_hit(&hits);
        const gsc__staged<channels> record = gsc__load_staged<channels>(records, slot);
        record_sums<channels> sums;
        const bool seen = blend_backward_record<V::rows, channels, V::depths, V::absolute>(
            args, record, place, first + slot, p, sums);
        if (!__any_sync(GSC__ALL_LANES, seen)) continue;
        const uint32_t index = __float_as_uint(record.c.y);
        const target to = {args.sums, args.fixed, GSC__SUMS};
        if (channels == 3 || args.moments)
            add_sums<V::count, V::rows, V::mode>(to, outputs[0], slot, index, sums.moments);
        if (channels > 3)
            add_sums<channels, V::rows, V::mode>(
                color_target<V::mode>(args), outputs[1], slot,
                V::mode == GSC__SUM_FAST ? __float_as_uint(record.b.z) : index, sums.color);
    }
}

template <typename V>
static __device__ __forceinline__ void blend_backward(const gsc_k_blend_backward &args,
                                                      const gsc__place &place,
                                                      const gsc__list &list, uint32_t stage) {
    constexpr int channels = V::channels;
    constexpr uint32_t batch_bytes = sizeof(gsc__batch<channels>);
    const gsc__gpu_frame &frame = args.frame;
    const gsc__colors colors = {args.colors, args.channels, args.channel};
    typename V::pixels p;
    uint32_t block_deepest = load_pixels(args, place, p);
    for (int step = 1; step < COLUMNS; step *= 2)
        block_deepest = max(block_deepest, __shfl_xor_sync(GSC__ALL_LANES, block_deepest, step));
    uint32_t length = block_deepest;
    for (int step = COLUMNS; step < 32; step *= 2)
        length = max(length, __shfl_xor_sync(GSC__ALL_LANES, length, step));
    length = __shfl_sync(GSC__ALL_LANES, length, 0);
    length = min(length, list.length); /* a damaged state may hold more */
    if (length == 0) return;
    float *grad_colors = color_target<V::mode>(args).sums;
    const lane_output outputs[2] = {
        lane_output_of<V::count, V::rows>(args.sums, V::count),
        channels > 3
            ? lane_output_of<channels, V::rows>(grad_colors + args.channel,
                                                grad_colors ? args.channels - args.channel : 0)
            : lane_output{}};
    const uint32_t lane = gsc__lane(), lane_bytes = lane * RECORD_BYTES;
    uint32_t batch = (length - 1) / 32;
    const bool has_last = batch * 32 + lane < length;
    uint32_t next =
        has_last ? gsc__record_of(frame, __ldg(list.intersections + batch * 32 + lane)) : 0;
    if (has_last) gsc__stage_record(stage + lane_bytes, frame.records + next);
    gsc__stage_colors<channels>(stage, colors, gsc__gaussian_at<channels>(frame, next, has_last),
                                has_last);
    gsc__copy_commit();
    uint32_t ahead =
        batch >= 1 ? gsc__record_of(frame, __ldg(list.intersections + batch * 32 - 32 + lane)) : 0;
    uint32_t ahead_gaussian = gsc__gaussian_at<channels>(frame, ahead, batch >= 1);
    uint32_t buffer = 0;
    while (true) {
        const uint32_t first = batch * 32, now = next;
        const float z = V::depths && first + lane < length ? frame.depths[now] : 1;
        __syncwarp();
        if (batch >= 1) {
            const uint32_t other = stage + batch_bytes - buffer;
            next = ahead;
            gsc__stage_record(other + lane_bytes, frame.records + next);
            gsc__stage_colors<channels>(other, colors, ahead_gaussian, true);
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
        if (channels > 3) {
            const uint32_t gaussian = __float_as_uint(gsc__load_shared1(record + 44));
            gsc__store_red(record, __uint_as_float(min(gaussian, frame.gaussians - 1)));
        }
        gsc__store_third(record, __uint_as_float(now), start, V::depths ? z : oval.k);
        ahead_gaussian = gsc__gaussian_at<channels>(frame, ahead, batch >= 2);
        uint32_t hits = gsc__own_hits<V::rows == 1>(oval, place, valid);
        /* Nothing counts beyond the block's deepest pixel. */
        if (V::rows > 1) {
            const int32_t reach = (int32_t)(block_deepest - first);
            if (reach < 32) hits = reach <= 0 ? 0 : hits & ((1u << reach) - 1);
        }
        __syncwarp();
        blend_backward_hits<V>(args, outputs, records, hits, first, place, p);
        if (batch == 0) break;
        --batch;
        buffer = batch_bytes - buffer;
    }
    gsc__copy_wait<0>();
}

template <int channels, bool depths, bool absolute, int mode>
static __device__ __forceinline__ void blend_backward_warp(const gsc_k_blend_backward &args,
                                                           gsc__stage<channels> *stages) {
    gsc__place place;
    gsc__list list;
    const gsc__gpu_band band = gsc__band_of(args.band, args.grid, args.capacity);
    if (!gsc__place_of(args.frame, args.grid, band, &place)) return;
    gsc__list_of(args.frame, band, args.lists, place, &list);
    const uint32_t stage = gsc__stage_open(stages, gsc__warp());
    if (place.fine)
        blend_backward<variant<1, channels, depths, absolute, mode>>(args, place, list, stage);
    else
        blend_backward<variant<ROWS, channels, depths, absolute, mode>>(args, place, list, stage);
}

/* warps: for which a multiprocessor has to have registers. */
#define KERNEL(name, warps, channels, depths, absolute, mode)                           \
    extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK, (warps) / WARPS)     \
        name(const __grid_constant__ gsc_k_blend_backward args) {                       \
        gsc__begin_kernel();                                                            \
        __shared__ gsc__stage<channels> stages[WARPS];                                  \
        blend_backward_warp<channels, depths, absolute, GSC__SUM_##mode>(args, stages); \
    }

KERNEL(gsc_blend_backward, 0, 3, false, false, FAST)
/* 80 registers are enough without spilling, and allow a fifth more warps than what the compiler
 * takes by itself. */
KERNEL(gsc_blend_backward_depths, 24, 3, true, false, FAST)
KERNEL(gsc_blend_backward_absolute, 0, 3, true, true, FAST)
KERNEL(gsc_blend_backward_largest, 0, 3, false, false, LARGEST)
KERNEL(gsc_blend_backward_fixed, 0, 3, false, false, FIXED)
KERNEL(gsc_blend_backward_all_largest, 0, 3, true, true, LARGEST)
KERNEL(gsc_blend_backward_all_fixed, 0, 3, true, true, FIXED)
KERNEL(gsc_blend_backward_many, 0, GSC__BLEND_CHANNELS, true, true, FAST)
KERNEL(gsc_blend_backward_many_largest, 0, GSC__BLEND_CHANNELS, true, true, LARGEST)
KERNEL(gsc_blend_backward_many_fixed, 0, GSC__BLEND_CHANNELS, true, true, FIXED)
