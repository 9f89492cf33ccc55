/* Forward blending of three colour channels, with depth and inverse depth if wanted. */
#include "walk.cuh"

/* In place of a threshold, this float marks a pixel that has stopped or is outside the image: no
 * exponent reaches it.  Its bits also count intersections. */
#define STOPPED 0x60000000

template <int rows, bool depths> struct pixel_sums {
    float red[rows], green[rows], blue[rows], t[rows], threshold[rows];
    float depth[depths ? rows : 1], inv_depth[depths ? rows : 1];
};

template <int rows, bool depths>
static __device__ __forceinline__ void
begin_pixels(const gsc_k_blend &args, const gsc__place &place, pixel_sums<rows, depths> &p) {
#pragma unroll
    for (int s = 0; s < rows; ++s) {
        p.red[s] = p.green[s] = p.blue[s] = 0;
        p.t[s] = 1;
        p.threshold[s] =
            gsc__inside<rows>(args.grid, place, s) ? EXPONENT_MIN : __int_as_float(STOPPED);
        if (depths) p.depth[s] = p.inv_depth[s] = 0;
    }
}

/* Blends the record at `from` into the lane's pixels.  code: the bits for a stop at this one. */
template <int rows, bool depths>
static __device__ __forceinline__ void blend_record(uint32_t from, const gsc__place &place,
                                                    int32_t code, pixel_sums<rows, depths> &p) {
    const float4 a = gsc__load_shared(from), b = gsc__load_shared(from + 16);
    const float4 c = gsc__load_shared(from + 32);
    float u[rows], v[rows];
    gsc__affine<rows>(a, b, place, u, v);
#pragma unroll
    for (int s = 0; s < rows; ++s) {
        const float exponent = fmaf(-u[s], u[s], fmaf(-v[s], v[s], b.y));
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

template <int rows, bool depths>
static __device__ __forceinline__ void finish_pixels(const gsc_k_blend &args,
                                                     const gsc__place &place, uint32_t length,
                                                     const pixel_sums<rows, depths> &p) {
    const int64_t width = args.grid.width, pixels = width * args.grid.height;
    float background[3] = {0, 0, 0};
    for (int c = 0; c < 3 && args.background; ++c) background[c] = args.background[c];
    const int64_t pixel_step = args.pixel_last ? 3 : 1, channel_step = args.pixel_last ? 1 : pixels;
#pragma unroll
    for (int s = 0; s < rows; ++s) {
        if (!gsc__inside<rows>(args.grid, place, s)) break;
        const int64_t at = gsc__pixel<rows>(args.grid, place, s);
        float *color = args.color + at * pixel_step;
        color[0] = fmaf(p.t[s], background[0], p.red[s]);
        color[channel_step] = fmaf(p.t[s], background[1], p.green[s]);
        color[2 * channel_step] = fmaf(p.t[s], background[2], p.blue[s]);
        if (args.frame.final_t) {
            args.frame.final_t[at] = p.t[s];
            args.frame.walked[at] =
                p.threshold[s] < 0 ? length : (uint32_t)(__float_as_int(p.threshold[s]) - STOPPED);
        }
        if (args.alpha) args.alpha[at] = 1 - p.t[s];
        if (depths && args.depth) args.depth[at] = p.depth[s];
        if (depths && args.inv_depth) args.inv_depth[at] = p.inv_depth[s];
    }
}

/* Blends the hits among 32 staged records, the highest bit first. */
template <int rows, bool depths>
static __device__ __forceinline__ void blend_hits(uint32_t records, uint32_t hits, uint32_t first,
                                                  const gsc__place &place,
                                                  pixel_sums<rows, depths> &p) {
    while (rows == 1 ? hits != 0 : __any_sync(GSC__ALL_LANES, hits != 0)) {
        const int32_t slot = gsc__take_hit(&hits);
        blend_record(records + slot * RECORD_BYTES, place, STOPPED + (int32_t)first + 31 - slot, p);
    }
}

template <int rows, bool depths>
static __device__ __forceinline__ void blend(const gsc_k_blend &args, const gsc__place &place,
                                             const gsc__list &list, uint32_t stage) {
    const gsc__gpu_frame &frame = args.frame;
    pixel_sums<rows, depths> p;
    begin_pixels(args, place, p);
    /* Slot 31 - j holds intersection j of a batch, so that the highest bit comes first. */
    const uint32_t own = 31 - gsc__lane(), length = list.length;
    const uint32_t lane_bytes = gsc__lane() * RECORD_BYTES;
    uint32_t now = own < length ? __ldg(list.intersections + own) : 0;
    if (own < length) gsc__stage_record(stage + lane_bytes, frame.records + now);
    gsc__copy_commit();
    uint32_t ahead = 32 + own < length ? __ldg(list.intersections + 32 + own) : 0;
    uint32_t buffer = 0;
    bool block_alive = true;
    for (uint32_t first = 0; first < length; first += 32, buffer = BATCH_BYTES - buffer) {
        const float z = depths && first + own < length ? frame.depths[now] : 1;
        now = ahead;
        __syncwarp();
        if (first + 32 + own < length)
            gsc__stage_record(stage + BATCH_BYTES - buffer + lane_bytes, frame.records + now);
        gsc__copy_commit();
        if (first + 64 + own < length) ahead = __ldg(list.intersections + first + 64 + own);
        gsc__copy_wait<1>();
        const uint32_t records = stage + buffer, record = records + lane_bytes;
        const float4 a = gsc__load_shared(record), b = gsc__load_shared(record + 16);
        const bool valid = (first + own < length) & gsc__draws(gsc__load_shared1(record + 32));
        const gsc__oval oval = gsc__make_affine(record, a, b, place);
        if (depths) gsc__store_third(record, z, 1 / z, 0);
        uint32_t hits = gsc__own_hits<rows == 1>(oval, place, valid);
        if (rows > 1 && !block_alive) hits = 0;
        __syncwarp();
        blend_hits(records, hits, first, place, p);
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

template <bool depths>
static __device__ __forceinline__ void blend_warp(const gsc_k_blend &args, gsc__stage *stages) {
    gsc__place place;
    gsc__list list;
    const gsc__gpu_band band = gsc__band_of(args.band, args.grid, args.capacity);
    if (!gsc__place_of(args.frame, args.grid, band, &place)) return;
    gsc__list_of(args.frame, band, args.lists, place, &list);
    const uint32_t stage = gsc__stage_open(stages, gsc__warp());
    if (place.fine)
        blend<1, depths>(args, place, list, stage);
    else
        blend<ROWS, depths>(args, place, list, stage);
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK)
    gsc_blend(const __grid_constant__ gsc_k_blend args) {
    gsc__begin_kernel();
    __shared__ gsc__stage stages[WARPS];
    blend_warp<false>(args, stages);
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_BLOCK)
    gsc_blend_depths(const __grid_constant__ gsc_k_blend args) {
    gsc__begin_kernel();
    __shared__ gsc__stage stages[WARPS];
    blend_warp<true>(args, stages);
}
