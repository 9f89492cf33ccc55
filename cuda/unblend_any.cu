/* Backward blending of any number of channels: the thorough kernel beside unblend.cu's
 * fast one.  One thread a pixel, a block 16x16 pixels; sums over a warp, then one atomic
 * add a value. */
#include "device.cuh"

#define BLOCK 256

typedef struct stage {
    float4 geometry[BLOCK]; /* mean x, mean y, r00, r01 */
    float2 shape[BLOCK];    /* r11, log2 opacity */
    uint32_t record[BLOCK];
} stage;

typedef struct pixel {
    int32_t x, y;
    int64_t at;
    float t, behind, by_depth, by_inv_depth;
    uint32_t walked;
} pixel;

static __device__ __forceinline__ float warp_sum(float x) {
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(GSC__ALL_LANES, x, step);
    return x;
}

static __device__ __forceinline__ float gradient(const gsc_k_unblend &args, const pixel &p,
                                                 int32_t channel) {
    const int64_t pixels = (int64_t)args.grid.width * args.grid.height;
    if (!args.by_color) return 0;
    return args
        .by_color[args.pixel_last ? p.at * args.channels + channel : channel * pixels + p.at];
}

static __device__ void load_pixel(const gsc_k_unblend &args, pixel *p) {
    const bool inside = p->x < args.grid.width && p->y < args.grid.height;
    p->at = inside ? (int64_t)p->y * args.grid.width + p->x : 0;
    p->t = 1;
    p->behind = p->by_depth = p->by_inv_depth = 0;
    p->walked = 0;
    if (!inside) return;
    p->t = args.frame.final_t[p->at];
    p->walked = args.frame.walked[p->at];
    float background = args.by_alpha ? -args.by_alpha[p->at] : 0;
    for (int32_t c = 0; c < args.channels && args.background; ++c)
        background = fmaf(args.background[c], gradient(args, *p, c), background);
    p->behind = p->t * background;
    if (args.by_depth) p->by_depth = args.by_depth[p->at];
    if (args.by_inv_depth) p->by_inv_depth = args.by_inv_depth[p->at];
}

static __device__ void add_moments(const gsc_k_unblend &args, const stage &s, uint32_t j, float w,
                                   float u, float v, float by_z) {
    const float values[GSC__SUMS] = {w,
                                     w * u,
                                     w * v,
                                     w * u * u,
                                     w * u * v,
                                     w * v * v,
                                     0,
                                     0,
                                     0,
                                     by_z,
                                     fabsf(w * u * s.geometry[j].z),
                                     fabsf(w * fmaf(u, s.geometry[j].w, v * s.shape[j].x))};
    float *to = args.sums + (int64_t)s.record[j] * GSC__SUMS;
#pragma unroll
    for (int i = 0; i < GSC__SUMS; ++i) {
        if (i >= 6 && i < 9) continue;
        const float sum = warp_sum(values[i]);
        if (gsc__lane() == 0 && sum != 0) atomicAdd(to + i, sum);
    }
}

/* One entry for the warp's pixels; position: in the list. */
static __device__ void unblend_entry(const gsc_k_unblend &args, const stage &s, uint32_t j,
                                     uint32_t position, pixel *p) {
    const float dx = (float)p->x - s.geometry[j].x, dy = (float)p->y - s.geometry[j].y;
    const float u = fmaf(s.geometry[j].z, dx, s.geometry[j].w * dy), v = s.shape[j].x * dy;
    const float exponent = fmaf(-u, u, fmaf(-v, v, s.shape[j].y));
    const bool counts = position < p->walked && exponent >= -GSC__LOG2_255;
    if (!__any_sync(GSC__ALL_LANES, counts)) return;
    const uint32_t record = s.record[j], gaussian = gsc__gaussian_of(args.frame, record);
    const float *color = args.channels == 3 ? args.frame.records[record].rgb
                                            : args.colors + (int64_t)gaussian * args.channels;
    const float z = args.frame.depths[record];
    const float raw = counts ? gsc__exp2_fast(exponent) : 0;
    const float alpha = fminf(GSC__ALPHA_MAX, raw), inverse = 1 / (1 - alpha);
    const float front = p->t * inverse, weight = alpha * front;
    float dot = fmaf(z, p->by_depth, p->by_inv_depth / z);
    for (int32_t c = 0; c < args.channels && args.by_color; ++c) {
        const float g = gradient(args, *p, c);
        dot = fmaf(color[c], g, dot);
        const float sum = warp_sum(weight * g);
        if (gsc__lane() || sum == 0) continue;
        if (args.channels == 3)
            atomicAdd(args.sums + (int64_t)record * GSC__SUMS + 6 + c, sum);
        else if (args.by_colors)
            atomicAdd(args.by_colors + (int64_t)gaussian * args.channels + c, sum);
    }
    const float by_alpha = fmaf(front, dot, -p->behind * inverse);
    const float w = args.clamp_stops && raw > GSC__ALPHA_MAX ? 0 : raw * by_alpha;
    add_moments(args, s, j, w, u, v, weight * (p->by_depth - p->by_inv_depth / (z * z)));
    p->behind = fmaf(weight, dot, p->behind);
    p->t = front;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    gsc_unblend_any(const __grid_constant__ gsc_k_unblend args) {
    __shared__ stage s;
    __shared__ uint32_t deepest;
    const gsc__gpu_band band = *args.band;
    const gsc__gpu_grid &grid = args.grid;
    const uint32_t across = (1u << grid.shift_x) / 16, tiles = across * ((1u << grid.shift_y) / 16);
    if (blockIdx.x / tiles >= band.end - band.begin) return;
    const uint32_t bin = args.bin_order[blockIdx.x / tiles], part = blockIdx.x % tiles;
    pixel p;
    p.x = (int32_t)((bin % grid.bins_x) << grid.shift_x) + (int32_t)(part % across) * 16 +
          (int32_t)(threadIdx.x & 15);
    p.y = (int32_t)((bin / grid.bins_x) << grid.shift_y) + (int32_t)(part / across) * 16 +
          (int32_t)(threadIdx.x >> 4);
    load_pixel(args, &p);
    if (threadIdx.x == 0) deepest = 0;
    __syncthreads();
    atomicMax(&deepest, p.walked);
    __syncthreads();
    uint64_t begin;
    uint32_t length;
    gsc__list_range(args.frame, band, bin, &begin, &length);
    const uint32_t *list = args.lists + begin;
    for (uint32_t end = min(deepest, length); end > 0;) {
        const uint32_t count = min(end, (uint32_t)BLOCK), first = end - count;
        __syncthreads();
        if (threadIdx.x < count) {
            const uint32_t record = gsc__record_of(args.frame, list[first + threadIdx.x]);
            const gsc__gpu_record *from = args.frame.records + record;
            s.geometry[threadIdx.x] = *(const float4 *)from;
            s.shape[threadIdx.x] =
                make_float2(from->r11, gsc__draws(from->rgb[2]) ? from->log2_opacity : -1e30f);
            s.record[threadIdx.x] = record;
        }
        __syncthreads();
        for (uint32_t j = count; j-- > 0;) unblend_entry(args, s, j, first + j, &p);
        end = first;
    }
}
