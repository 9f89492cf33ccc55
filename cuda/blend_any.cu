/* Forward blending of any number of channels, with median depth and statistics: the general kernel
 * beside blend.cu's fast one.
 *
 * A thread has one pixel, a block 16x16 pixels, and records are staged 256 at a time.  Channels are
 * blended in groups of GROUP, each of which walks the list again: cheaper than spilling. */
#include "device.cuh"

#define GROUP 8
#define BLOCK GSC__BLEND_ANY_BLOCK

typedef struct stage {
    float4 geometry[BLOCK]; /* mean x, mean y, r00, r01 */
    float2 shape[BLOCK];    /* r11, log2 opacity */
    uint32_t record[BLOCK];
} stage;

typedef struct pixel {
    int32_t x, y;
    int64_t at;
    bool inside;
} pixel;

/* Sums in fixed point do not depend on their order. */
static __device__ __forceinline__ void add_fixed(uint64_t *to, float value, float scale) {
    for (int step = 16; step; step /= 2) value += __shfl_xor_sync(GSC__ALL_LANES, value, step);
    if (gsc__lane() == 0 && value != 0)
        atomicAdd((unsigned long long *)to, (unsigned long long)__float2ll_rn(value * scale));
}

static __device__ void add_statistics(const gsc_k_blend &args, const pixel &p, uint32_t gaussian,
                                      bool blends, float weight, float next, float dx, float dy) {
    const uint32_t blending = __ballot_sync(GSC__ALL_LANES, blends);
    const uint32_t bright = __ballot_sync(GSC__ALL_LANES, blends && next > 0.5f);
    if (!blending) return;
    if (gsc__lane() == 0 && args.touched && bright)
        atomicAdd(args.touched + gaussian, __popc(bright));
    if (gsc__lane() == 0 && args.weight_count)
        atomicAdd(args.weight_count + gaussian, __popc(blending));
    if (args.weight_sum)
        add_fixed(args.weight_sum + gaussian, blends ? args.pixel_weights[p.at] : 0,
                  *args.weight_scale);
    if (args.weight_blend)
        add_fixed(args.weight_blend + gaussian, blends ? weight : 0, GSC__BLEND_SCALE);
    if (args.weight_distance)
        add_fixed(args.weight_distance + gaussian, blends ? sqrtf(dx * dx + dy * dy) : 0,
                  GSC__DISTANCE_SCALE);
}

typedef struct sums {
    float color[GROUP], depth, inv_depth, median, t;
    uint32_t walked;
    bool alive;
} sums;

static __device__ __forceinline__ void add_color(const gsc_k_blend &args, uint32_t record,
                                                 uint32_t gaussian, int32_t channel, float weight,
                                                 float color[GROUP]) {
    const float *from = args.channels == 3
                            ? args.frame.records[record].rgb
                            : args.colors + (int64_t)gaussian * args.channels + channel;
#pragma unroll
    for (int k = 0; k < GROUP; ++k)
        if (channel + k < args.channels) color[k] = fmaf(weight, from[k], color[k]);
}

/* Blends records [0, count) of the stage, the first of which has list position `first`. */
static __device__ void walk(const gsc_k_blend &args, const stage &s, uint32_t count, uint32_t first,
                            const pixel &p, int32_t channel, bool statistics, sums *out) {
    for (uint32_t j = 0; j < count; ++j) {
        const float dx = (float)p.x - s.geometry[j].x, dy = (float)p.y - s.geometry[j].y;
        const float u = fmaf(s.geometry[j].z, dx, s.geometry[j].w * dy), v = s.shape[j].x * dy;
        const float exponent = fmaf(-u, u, fmaf(-v, v, s.shape[j].y));
        const bool counts = out->alive && exponent >= -GSC__LOG2_255;
        const float alpha = fminf(GSC__ALPHA_MAX, gsc__exp2_fast(exponent));
        const float next = fmaf(-alpha, out->t, out->t), weight = alpha * out->t;
        const bool blends = counts && next >= GSC__TRANSMITTANCE_MIN;
        const uint32_t record = s.record[j];
        if (!statistics && !blends && !counts) continue;
        const uint32_t gaussian = gsc__gaussian_of(args.frame, record);
        if (statistics) add_statistics(args, p, gaussian, blends, weight, next, dx, dy);
        if (blends) {
            add_color(args, record, gaussian, channel, weight, out->color);
            const float z = args.frame.depths[record];
            out->depth = fmaf(weight, z, out->depth);
            out->inv_depth = fmaf(weight, 1 / z, out->inv_depth);
            if (out->t > 0.5f && next < 0.5f) out->median = z;
            out->t = next;
            out->walked = first + j + 1;
        }
        if (counts && !blends) out->alive = false;
    }
}

static __device__ void write_pixel(const gsc_k_blend &args, const pixel &p, int32_t channel,
                                   const sums &s) {
    const int64_t pixels = (int64_t)args.grid.width * args.grid.height;
    for (int k = 0; k < GROUP && channel + k < args.channels; ++k) {
        const int64_t at =
            args.pixel_last ? p.at * args.channels + channel + k : (channel + k) * pixels + p.at;
        const float background = args.background ? args.background[channel + k] : 0;
        args.color[at] = fmaf(s.t, background, s.color[k]);
    }
    if (channel > 0) return;
    if (args.frame.final_t) {
        args.frame.final_t[p.at] = s.t;
        args.frame.walked[p.at] = s.walked;
    }
    if (args.alpha) args.alpha[p.at] = 1 - s.t;
    if (args.depth) args.depth[p.at] = s.depth;
    if (args.inv_depth) args.inv_depth[p.at] = s.inv_depth;
    if (args.median_depth) args.median_depth[p.at] = s.median;
}

extern "C" __global__ void __launch_bounds__(GSC__BLEND_ANY_BLOCK)
    gsc_blend_any(const __grid_constant__ gsc_k_blend args) {
    gsc__begin_kernel();
    __shared__ stage s;
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
    p.inside = p.x < grid.width && p.y < grid.height;
    p.at = (int64_t)p.y * grid.width + p.x;
    uint64_t begin;
    uint32_t length;
    gsc__list_range(args.frame, band, tile, &begin, &length);
    const uint32_t *list = args.lists + begin;
    const bool wants = args.touched || args.weight_count || args.weight_sum || args.weight_blend ||
                       args.weight_distance;
    for (int32_t channel = 0; channel < args.channels; channel += GROUP) {
        sums out = {{0}, 0, 0, args.median_default, 1, 0, p.inside};
        for (uint32_t first = 0; first < length; first += BLOCK) {
            const uint32_t i = first + threadIdx.x;
            if (!__syncthreads_or(out.alive)) break;
            if (i < length) {
                const uint32_t record = list[i];
                const gsc__gpu_record *from = args.frame.records + record;
                s.geometry[threadIdx.x] = *(const float4 *)from;
                s.shape[threadIdx.x] =
                    make_float2(from->r11, gsc__draws(from->rgb[2]) ? from->log2_opacity : -1e30f);
                s.record[threadIdx.x] = record;
            }
            __syncthreads();
            walk(args, s, min(length - first, (uint32_t)BLOCK), first, p, channel,
                 wants && channel == 0, &out);
        }
        if (p.inside) write_pixel(args, p, channel, out);
        __syncthreads();
    }
}
