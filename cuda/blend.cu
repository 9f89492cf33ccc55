/* Forward blending: up to three channels of colour, which the records hold, or a group of
 * GSC__BLEND_CHANNELS of more, which are staged beside the records. */
#include "walk.cuh"

/* In place of a threshold, this float marks a pixel that has stopped or is outside the image: no
 * exponent reaches it.  Its bits also count intersections. */
#define STOPPED 0x60000000

/* What a kernel makes beside colour and alpha.  DETAILS: depths, median depth, statistics. */
enum extras { PLAIN, DEPTHS, DETAILS };

template <int rows, int channels, int extras> struct pixel_sums {
    float color[channels][rows], t[rows], threshold[rows];
    float depth[extras ? rows : 1], inv_depth[extras ? rows : 1];
    float median[extras == DETAILS ? rows : 1];
};

template <int rows, int channels, int extras>
static __device__ __forceinline__ void begin_pixels(const gsc_k_blend &args,
                                                    const gsc__place &place,
                                                    pixel_sums<rows, channels, extras> &p) {
#pragma unroll
    for (int s = 0; s < rows; ++s) {
        for (int c = 0; c < channels; ++c) p.color[c][s] = 0;
        p.t[s] = 1;
        p.threshold[s] =
            gsc__inside<rows>(args.grid, place, s) ? EXPONENT_MIN : __int_as_float(STOPPED);
        if (extras) p.depth[s] = p.inv_depth[s] = 0;
        if (extras == DETAILS) p.median[s] = args.median_default;
    }
}

/* A record's samples at the lane's pixels. */
template <int rows> struct samples {
    float weight[rows], next[rows]; /* next: the transmittance behind the record */
    bool blends[rows];
};

/* Sums in fixed point do not depend on their order. */
static __device__ __forceinline__ void add_fixed(uint64_t *to, float value, float scale) {
    if (value != 0)
        atomicAdd((unsigned long long *)to, (unsigned long long)__float2ll_rn(value * scale));
}

/* Adds a record's samples to the statistics of its Gaussian.  The lanes that share the record, a
 * block's or the warp's, sum up first. */
template <int rows>
static __device__ __forceinline__ void add_statistics(const gsc_k_blend &args,
                                                      const gsc__place &place, uint32_t index,
                                                      const samples<rows> &seen) {
    constexpr int lanes = rows == 1 ? 32 : COLUMNS;
    const gsc__gpu_record &record = args.frame.records[gsc__record_of(args.frame, index)];
    int32_t count = 0, bright = 0;
    float blend = 0, weight = 0, distance = 0;
#pragma unroll
    for (int s = 0; s < rows; ++s) {
        if (!seen.blends[s]) continue;
        ++count;
        bright += seen.next[s] > 0.5f;
        blend += seen.weight[s];
        if (args.weight_sum) weight += args.pixel_weights[gsc__pixel<rows>(args.grid, place, s)];
        const float dx = (float)(place.x + place.lane_x) - record.mean[0];
        const float dy = (float)gsc__y<rows>(place, s) - record.mean[1];
        distance += sqrtf(dx * dx + dy * dy);
    }
    if (!__any_sync(GSC__ALL_LANES, count)) return;
    for (int step = lanes / 2; step; step /= 2) {
        count += __shfl_xor_sync(GSC__ALL_LANES, count, step);
        bright += __shfl_xor_sync(GSC__ALL_LANES, bright, step);
        blend += __shfl_xor_sync(GSC__ALL_LANES, blend, step);
        weight += __shfl_xor_sync(GSC__ALL_LANES, weight, step);
        distance += __shfl_xor_sync(GSC__ALL_LANES, distance, step);
    }
    if (!count || gsc__lane() % lanes) return;
    const uint32_t gaussian = min(record.gaussian, args.frame.gaussians - 1);
    if (args.touched && bright) atomicAdd(args.touched + gaussian, bright);
    if (args.weight_count) atomicAdd(args.weight_count + gaussian, count);
    if (args.weight_sum) add_fixed(args.weight_sum + gaussian, weight, *args.weight_scale);
    if (args.weight_blend) add_fixed(args.weight_blend + gaussian, blend, GSC__BLEND_SCALE);
    if (args.weight_distance)
        add_fixed(args.weight_distance + gaussian, distance, GSC__DISTANCE_SCALE);
}

/* Blends a staged record into the lane's pixels.  code: the bits for a stop at this one. */
template <int rows, int channels, int extras>
static __device__ __forceinline__ void
blend_record(const gsc_k_blend &args, const gsc__staged<channels> &record, const gsc__place &place,
             int32_t code, pixel_sums<rows, channels, extras> &p) {
    const float4 &b = record.b, &c = record.c;
    float u[rows], v[rows];
    samples<rows> seen;
    gsc__affine<rows>(record.a, b, place, u, v);
#pragma unroll
    for (int s = 0; s < rows; ++s) {
        const float exponent = fmaf(-u[s], u[s], fmaf(-v[s], v[s], b.y));
        const bool counts = exponent >= p.threshold[s];
        const float alpha = fminf(GSC__ALPHA_MAX, gsc__exp2_fast(exponent));
        const float weight = alpha * p.t[s], next = fmaf(-alpha, p.t[s], p.t[s]);
        const bool goes_on = next >= GSC__TRANSMITTANCE_MIN;
        if (extras == DETAILS) {
            seen.blends[s] = counts && goes_on;
            seen.weight[s] = weight;
            seen.next[s] = next;
        }
        if (counts && goes_on) {
#pragma unroll
            for (int k = 0; k < channels; ++k)
                p.color[k][s] = fmaf(weight, record.color[k], p.color[k][s]);
            if (extras) {
                p.depth[s] = fmaf(weight, c.y, p.depth[s]);
                p.inv_depth[s] = fmaf(weight, c.z, p.inv_depth[s]);
            }
            if (extras == DETAILS && p.t[s] > 0.5f && next < 0.5f) p.median[s] = c.y;
            p.t[s] = next;
        }
        if (counts && !goes_on) p.threshold[s] = __int_as_float(code);
    }
    if (extras == DETAILS && args.statistics)
        add_statistics<rows>(args, place, __float_as_uint(c.w), seen);
}

template <int rows, int channels, int extras>
static __device__ __forceinline__ void finish_pixels(const gsc_k_blend &args,
                                                     const gsc__place &place, uint32_t length,
                                                     const pixel_sums<rows, channels, extras> &p) {
    const int64_t pixels = (int64_t)args.grid.width * args.grid.height;
    const int64_t pixel_step = args.pixel_last ? args.channels : 1;
    const int64_t channel_step = args.pixel_last ? 1 : pixels;
#pragma unroll
    for (int c = 0; c < channels; ++c) {
        const int32_t channel = args.channel + c;
        if (channel >= args.channels) break;
        const float background = args.background ? args.background[channel] : 0;
#pragma unroll
        for (int s = 0; s < rows; ++s)
            if (gsc__inside<rows>(args.grid, place, s))
                args.color[gsc__pixel<rows>(args.grid, place, s) * pixel_step +
                           channel * channel_step] = fmaf(p.t[s], background, p.color[c][s]);
    }
#pragma unroll
    for (int s = 0; s < rows; ++s) {
        if (!gsc__inside<rows>(args.grid, place, s)) break;
        const int64_t at = gsc__pixel<rows>(args.grid, place, s);
        if (args.frame.final_t) {
            args.frame.final_t[at] = p.t[s];
            args.frame.walked[at] =
                p.threshold[s] < 0 ? length : (uint32_t)(__float_as_int(p.threshold[s]) - STOPPED);
        }
        if (args.alpha) args.alpha[at] = 1 - p.t[s];
        if (extras && args.depth) args.depth[at] = p.depth[s];
        if (extras && args.inv_depth) args.inv_depth[at] = p.inv_depth[s];
        if (extras == DETAILS && args.median_depth) args.median_depth[at] = p.median[s];
    }
}

/* Blends the hits among 32 staged records, the highest bit first. */
template <int rows, int channels, int extras>
static __device__ __forceinline__ void
blend_hits(const gsc_k_blend &args, uint32_t records, uint32_t hits, uint32_t first,
           const gsc__place &place, pixel_sums<rows, channels, extras> &p) {
    while (rows == 1 ? hits != 0 : __any_sync(GSC__ALL_LANES, hits != 0)) {
        const int32_t slot = gsc__take_hit(&hits);
        const gsc__staged<channels> record = gsc__load_staged<channels>(records, slot);
        blend_record(args, record, place, STOPPED + (int32_t)first + 31 - slot, p);
    }
}

template <int rows, int channels, int extras>
static __device__ __forceinline__ void blend(const gsc_k_blend &args, const gsc__place &place,
                                             const gsc__list &list, uint32_t stage) {
    constexpr uint32_t batch_bytes = sizeof(gsc__batch<channels>);
    const gsc__gpu_frame &frame = args.frame;
    const gsc__colors colors = {args.colors, args.channels, args.channel};
    pixel_sums<rows, channels, extras> p;
    begin_pixels(args, place, p);
    /* Slot 31 - j holds intersection j of a batch, so that the highest bit comes first. */
    const uint32_t own = 31 - gsc__lane(), length = list.length;
    const uint32_t lane_bytes = gsc__lane() * RECORD_BYTES;
    uint32_t now = own < length ? __ldg(list.intersections + own) : 0;
    if (own < length) gsc__stage_record(stage + lane_bytes, frame.records + now);
    gsc__stage_colors<channels>(stage, colors, gsc__gaussian_at<channels>(frame, now, own < length),
                                own < length);
    gsc__copy_commit();
    uint32_t ahead = 32 + own < length ? __ldg(list.intersections + 32 + own) : 0;
    uint32_t ahead_gaussian = gsc__gaussian_at<channels>(frame, ahead, 32 + own < length);
    uint32_t buffer = 0;
    bool block_alive = true;
    for (uint32_t first = 0; first < length; first += 32, buffer = batch_bytes - buffer) {
        const float z = extras && first + own < length ? frame.depths[now] : 1;
        const uint32_t index = now;
        now = ahead;
        __syncwarp();
        const uint32_t other = stage + batch_bytes - buffer;
        const bool more = first + 32 + own < length;
        if (more) gsc__stage_record(other + lane_bytes, frame.records + now);
        gsc__stage_colors<channels>(other, colors, ahead_gaussian, more);
        gsc__copy_commit();
        if (first + 64 + own < length) ahead = __ldg(list.intersections + first + 64 + own);
        gsc__copy_wait<1>();
        const uint32_t records = stage + buffer, record = records + lane_bytes;
        const float4 a = gsc__load_shared(record), b = gsc__load_shared(record + 16);
        const bool valid = (first + own < length) & gsc__draws(gsc__load_shared1(record + 32));
        const gsc__oval oval = gsc__make_affine(record, a, b, place);
        if (extras)
            gsc__store_third(record, z, 1 / z, extras == DETAILS ? __uint_as_float(index) : 0);
        ahead_gaussian = gsc__gaussian_at<channels>(frame, ahead, first + 64 + own < length);
        uint32_t hits = gsc__own_hits<rows == 1>(oval, place, valid);
        if (rows > 1 && !block_alive) hits = 0;
        __syncwarp();
        blend_hits(args, records, hits, first, place, p);
        bool alive = false;
#pragma unroll
        for (int s = 0; s < rows; ++s) alive |= p.threshold[s] < 0;
        const uint32_t alive_lanes = __ballot_sync(GSC__ALL_LANES, alive);
        if (!alive_lanes) break;
        block_alive = alive_lanes & gsc__block_lanes();
    }
    gsc__copy_wait<0>();
    finish_pixels(args, place, length, p);
}

template <int channels, int extras>
static __device__ __forceinline__ void blend_warp(const gsc_k_blend &args,
                                                  gsc__stage<channels> *stages) {
    gsc__place place;
    gsc__list list;
    const gsc__gpu_band band = gsc__band_of(args.band, args.grid, args.capacity);
    if (!gsc__place_of(args.frame, args.grid, band, &place)) return;
    gsc__list_of(args.frame, band, args.lists, place, &list);
    const uint32_t stage = gsc__stage_open(stages, gsc__warp());
    if (place.fine)
        blend<1, channels, extras>(args, place, list, stage);
    else
        blend<ROWS, channels, extras>(args, place, list, stage);
}

#define KERNEL(name, channels, extras)                             \
    extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK) \
        name(const __grid_constant__ gsc_k_blend args) {           \
        gsc__begin_kernel();                                       \
        __shared__ gsc__stage<channels> stages[WARPS];             \
        blend_warp<channels, extras>(args, stages);                \
    }

KERNEL(gsc_blend, 3, PLAIN)
KERNEL(gsc_blend_depths, 3, DEPTHS)
KERNEL(gsc_blend_details, 3, DETAILS)
KERNEL(gsc_blend_many, GSC__BLEND_CHANNELS, PLAIN)
KERNEL(gsc_blend_many_details, GSC__BLEND_CHANNELS, DETAILS)
