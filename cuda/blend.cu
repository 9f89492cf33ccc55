/* Forward blending of three colour channels, with depth and inverse depth if wanted. */
#include "walk.cuh"

/* In place of a threshold this float, whose bits count list entries, marks a pixel that
 * has stopped (or is outside the image): no exponent reaches it. */
#define STOPPED 0x60000000

template <bool depths> struct pixel_sums {
    float red[ROWS], green[ROWS], blue[ROWS], t[ROWS], threshold[ROWS];
    float depth[depths ? ROWS : 1], inv_depth[depths ? ROWS : 1];
};

template <bool depths>
static __device__ __forceinline__ void
begin_pixels(const gsc_k_blend &args, const gsc__place &place, pixel_sums<depths> &p) {
#pragma unroll
    for (int s = 0; s < ROWS; ++s) {
        const bool inside = place.x + place.lane_x < args.grid.width &&
                            place.y + place.lane_y + s < args.grid.height;
        p.red[s] = p.green[s] = p.blue[s] = 0;
        p.t[s] = 1;
        p.threshold[s] = inside ? LEAST : __int_as_float(STOPPED);
        if (depths) p.depth[s] = p.inv_depth[s] = 0;
    }
}

/* One record for the lane's pixels.  code: the bits of a stop at this entry. */
template <bool depths>
static __device__ __forceinline__ void blend_record(const float4 *record, const gsc__place &place,
                                                    bool hit, int32_t code, pixel_sums<depths> &p) {
    const float4 a = record[0], b = record[1], c = record[2];
    const float x = (float)place.lane_x, y = (float)place.lane_y;
    const float u0 = fmaf(a.x, x, fmaf(a.y, y, a.z)), v0 = fmaf(a.w, y, b.x);
    const float log2_opacity = hit ? b.y : -1e30f;
#pragma unroll
    for (int s = 0; s < ROWS; ++s) {
        const float u = fmaf(a.y, (float)s, u0), v = fmaf(a.w, (float)s, v0);
        const float exponent = fmaf(-u, u, fmaf(-v, v, log2_opacity));
        const bool counts = exponent >= p.threshold[s];
        const float alpha = fminf(GSC__ALPHA_MAX, gsc__exp2_fast(exponent));
        const float weight = alpha * p.t[s], next = fmaf(-alpha, p.t[s], p.t[s]);
        const bool goes_on = next >= GSC__TRANSMITTANCE_MIN;
        if (counts && goes_on) {
            p.red[s] = fmaf(weight, b.z, p.red[s]);
            p.green[s] = fmaf(weight, b.w, p.green[s]);
            p.blue[s] = fmaf(weight, c.x, p.blue[s]);
            if (depths) {
                p.depth[s] = fmaf(weight, c.y, p.depth[s]);
                p.inv_depth[s] = fmaf(weight, c.z, p.inv_depth[s]);
            }
            p.t[s] = next;
        }
        if (counts && !goes_on) p.threshold[s] = __int_as_float(code);
    }
}

template <bool depths>
static __device__ __forceinline__ void finish_pixels(const gsc_k_blend &args,
                                                     const gsc__place &place, uint32_t length,
                                                     const pixel_sums<depths> &p) {
    const int64_t width = args.grid.width, pixels = width * args.grid.height;
    const int32_t x = place.x + place.lane_x;
    if (x >= args.grid.width) return;
    float background[3] = {0, 0, 0};
    for (int c = 0; c < 3 && args.background; ++c) background[c] = args.background[c];
    const int64_t pixel_step = args.pixel_last ? 3 : 1, channel_step = args.pixel_last ? 1 : pixels;
#pragma unroll
    for (int s = 0; s < ROWS; ++s) {
        const int32_t y = place.y + place.lane_y + s;
        if (y >= args.grid.height) break;
        const int64_t at = y * width + x;
        float *color = args.color + at * pixel_step;
        color[0] = fmaf(p.t[s], background[0], p.red[s]);
        color[channel_step] = fmaf(p.t[s], background[1], p.green[s]);
        color[2 * channel_step] = fmaf(p.t[s], background[2], p.blue[s]);
        args.frame.final_t[at] = p.t[s];
        args.frame.walked[at] =
            p.threshold[s] < 0 ? length : (uint32_t)(__float_as_int(p.threshold[s]) - STOPPED);
        if (args.alpha) args.alpha[at] = 1 - p.t[s];
        if (depths && args.depth) args.depth[at] = p.depth[s];
        if (depths && args.inv_depth) args.inv_depth[at] = p.inv_depth[s];
    }
}

template <bool depths>
static __device__ __forceinline__ void blend(const gsc_k_blend &args, gsc__stage *stage) {
    gsc__place place;
    const gsc__gpu_band band = *args.band;
    if (!gsc__place_of(args.grid, band, args.bin_order, &place)) return;
    const gsc__gpu_frame &frame = args.frame;
    const uint64_t base = frame.offsets[place.bin];
    const uint32_t length = (uint32_t)(frame.offsets[place.bin + 1] - base);
    const uint32_t *list = args.lists + (base - frame.offsets[band.begin]);
    pixel_sums<depths> p;
    begin_pixels(args, place, p);
    /* Slot 31 - j holds entry j of a batch, so that the highest bit comes first. */
    const uint32_t own = 31 - gsc__lane();
    if (own < length) gsc__stage_record(stage, 0, gsc__lane(), frame.records + list[own]);
    gsc__copy_commit();
    uint32_t ahead = 32 + own < length ? list[32 + own] : 0;
    int buffer = 0;
    bool group_alive = true;
    for (uint32_t first = 0; first < length; first += 32, buffer ^= 1) {
        __syncwarp();
        if (first + 32 + own < length)
            gsc__stage_record(stage, buffer ^ 1, gsc__lane(), frame.records + ahead);
        gsc__copy_commit();
        if (first + 64 + own < length) ahead = list[first + 64 + own];
        gsc__copy_wait<1>();
        float4 *records = stage->records[buffer];
        uint32_t groups = 0;
        if (first + own < length) {
            float4 *record = records + 3 * gsc__lane();
            groups = gsc__groups_hit(record, place);
            if (groups) {
                float z = depths ? frame.depths[list[first + own]] : 0;
                gsc__make_affine(record, place, z, depths ? 1 / z : 0, 0);
            }
        }
        uint32_t hits = gsc__own_hits(groups, place.group);
        if (!group_alive) hits = 0;
        __syncwarp();
        while (__any_sync(GSC__ALL_LANES, hits != 0)) {
            /* A group without a hit left reads slot 31, whose entry always exists. */
            const int slot = hits ? 31 - __clz((int)hits) : 31;
            const bool hit = hits != 0;
            hits &= ~(1u << slot);
            blend_record(records + 3 * slot, place, hit, STOPPED + (int32_t)(first + 31 - slot), p);
        }
        bool alive = false;
#pragma unroll
        for (int s = 0; s < ROWS; ++s) alive |= p.threshold[s] < 0;
        const uint32_t alive_lanes = __ballot_sync(GSC__ALL_LANES, alive);
        if (!alive_lanes) break;
        group_alive = alive_lanes >> (place.group * GROUP_LANES) & 0xff;
    }
    gsc__copy_wait<0>();
    finish_pixels(args, place, length, p);
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK)
    gsc_blend(const __grid_constant__ gsc_k_blend args) {
    __shared__ gsc__stage stages[WARPS];
    blend<false>(args, &stages[threadIdx.x >> 5]);
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK)
    gsc_blend_depths(const __grid_constant__ gsc_k_blend args) {
    __shared__ gsc__stage stages[WARPS];
    blend<true>(args, &stages[threadIdx.x >> 5]);
}
