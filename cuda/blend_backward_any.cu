/* Backward blending of any number of channels: the general kernel beside blend_backward.cu's fast
 * one.  A thread has one pixel, a block 16x16 pixels; a warp sums, then adds each value with one
 * atomic operation. */
#include "sums.cuh"

#define BLOCK GSC__BLEND_ANY_BLOCK

typedef struct stage {
    float4 geometry[BLOCK]; /* mean x, mean y, r00, r01 */
    float2 shape[BLOCK];    /* r11, log2 opacity */
    uint32_t record[BLOCK];
} stage;

typedef struct pixel {
    int32_t x, y;
    int64_t at;
    float t, behind, grad_depth, grad_inv_depth;
    uint32_t walked;
} pixel;

static __device__ __forceinline__ float warp_sum(float x) {
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(GSC__ALL_LANES, x, step);
    return x;
}

static __device__ __forceinline__ float gradient(const gsc_k_blend_backward &args, const pixel &p,
                                                 int32_t channel) {
    const int64_t pixels = (int64_t)args.grid.width * args.grid.height;
    if (!args.grad_color) return 0;
    return args
        .grad_color[args.pixel_last ? p.at * args.channels + channel : channel * pixels + p.at];
}

static __device__ void load_pixel(const gsc_k_blend_backward &args, pixel *p) {
    const bool inside = p->x < args.grid.width && p->y < args.grid.height;
    p->at = inside ? (int64_t)p->y * args.grid.width + p->x : 0;
    p->t = 1;
    p->behind = p->grad_depth = p->grad_inv_depth = 0;
    p->walked = 0;
    if (!inside) return;
    p->t = args.frame.final_t[p->at];
    p->walked = args.frame.walked[p->at];
    float background = args.grad_alpha ? -args.grad_alpha[p->at] : 0;
    for (int32_t c = 0; c < args.channels && args.background; ++c)
        background = fmaf(args.background[c], gradient(args, *p, c), background);
    p->behind = p->t * background;
    if (args.grad_depth) p->grad_depth = args.grad_depth[p->at];
    if (args.grad_inv_depth) p->grad_inv_depth = args.grad_inv_depth[p->at];
}

template <int mode>
static __device__ void add_moments(const gsc_k_blend_backward &args, const stage &s, uint32_t j,
                                   float w, float u, float v, float grad_z) {
    const float values[GSC__SUMS] = {w,
                                     w * u,
                                     w * v,
                                     w * u * u,
                                     w * u * v,
                                     w * v * v,
                                     0,
                                     0,
                                     0,
                                     grad_z,
                                     fabsf(w * u * s.geometry[j].z),
                                     fabsf(w * fmaf(u, s.geometry[j].w, v * s.shape[j].x))};
    const int64_t at = (int64_t)s.record[j] * GSC__SUMS;
#pragma unroll
    for (int i = 0; i < GSC__SUMS; ++i) {
        if (i >= 6 && i < 9) continue;
        const float sum = warp_sum(values[i]);
        if (gsc__lane() == 0 && sum != 0) gsc__add_sum<mode>(args.sums, args.fixed, at + i, sum);
    }
}

template <int mode>
static __device__ __forceinline__ void add_color(const gsc_k_blend_backward &args, uint32_t record,
                                                 uint32_t gaussian, int32_t c, float sum) {
    if (args.channels == 3)
        gsc__add_sum<mode>(args.sums, args.fixed, (int64_t)record * GSC__SUMS + 6 + c, sum);
    else if (mode != GSC__SUM_FAST && args.color_sums)
        gsc__add_sum<mode>(args.color_sums, args.color_fixed,
                           (int64_t)record * args.color_width + c, sum);
    else if (mode == GSC__SUM_FAST && args.grad_colors)
        atomicAdd(args.grad_colors + (int64_t)gaussian * args.channels + c, sum);
}

/* One intersection for the warp's pixels; position: its number in the list. */
template <int mode>
static __device__ void blend_backward_entry(const gsc_k_blend_backward &args, const stage &s,
                                            uint32_t j, uint32_t position, pixel *p) {
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
    float dot = fmaf(z, p->grad_depth, p->grad_inv_depth / z);
    for (int32_t c = 0; c < args.channels && args.grad_color; ++c) {
        const float g = gradient(args, *p, c);
        dot = fmaf(color[c], g, dot);
        const float sum = warp_sum(weight * g);
        if (gsc__lane() == 0 && sum != 0) add_color<mode>(args, record, gaussian, c, sum);
    }
    const float grad_alpha = fmaf(front, dot, -p->behind * inverse);
    const float w = args.clamp_stops && raw > GSC__ALPHA_MAX ? 0 : raw * grad_alpha;
    add_moments<mode>(args, s, j, w, u, v, weight * (p->grad_depth - p->grad_inv_depth / (z * z)));
    p->behind = fmaf(weight, dot, p->behind);
    p->t = front;
}

template <int mode>
static __device__ __forceinline__ void blend_backward(const gsc_k_blend_backward &args, stage &s,
                                                      uint32_t &deepest) {
    const gsc__gpu_grid &grid = args.grid;
    const gsc__gpu_band band = gsc__band_of(args.band, grid, args.capacity);
    const uint32_t across = (1u << grid.shift_x) / 16, parts = across * ((1u << grid.shift_y) / 16);
    if (blockIdx.x / parts >= band.end - band.begin) return;
    const uint32_t tile = gsc__tile_of(args.frame, grid, blockIdx.x / parts);
    const uint32_t part = blockIdx.x % parts;
    pixel p;
    p.x = (int32_t)((tile % grid.tiles_x) << grid.shift_x) + (int32_t)(part % across) * 16 +
          (int32_t)(threadIdx.x & 15);
    p.y = (int32_t)((tile / grid.tiles_x) << grid.shift_y) + (int32_t)(part / across) * 16 +
          (int32_t)(threadIdx.x >> 4);
    load_pixel(args, &p);
    if (threadIdx.x == 0) deepest = 0;
    __syncthreads();
    atomicMax(&deepest, p.walked);
    __syncthreads();
    uint64_t begin;
    uint32_t length;
    gsc__list_range(args.frame, band, tile, &begin, &length);
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
        for (uint32_t j = count; j-- > 0;) blend_backward_entry<mode>(args, s, j, first + j, &p);
        end = first;
    }
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_ANY_BLOCK)
    gsc_blend_backward_any(const __grid_constant__ gsc_k_blend_backward args) {
    gsc__begin_kernel();
    __shared__ stage s;
    __shared__ uint32_t deepest;
    blend_backward<GSC__SUM_FAST>(args, s, deepest);
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_ANY_BLOCK)
    gsc_blend_backward_any_largest(const __grid_constant__ gsc_k_blend_backward args) {
    gsc__begin_kernel();
    __shared__ stage s;
    __shared__ uint32_t deepest;
    blend_backward<GSC__SUM_LARGEST>(args, s, deepest);
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_ANY_BLOCK)
    gsc_blend_backward_any_fixed(const __grid_constant__ gsc_k_blend_backward args) {
    gsc__begin_kernel();
    __shared__ stage s;
    __shared__ uint32_t deepest;
    blend_backward<GSC__SUM_FIXED>(args, s, deepest);
}
