/* What SSIM's march down a tile is made of: the two filters, the tile, and eight neighbours
 * of a row at a time. */
#ifndef GSC_SSIM_CUH
#define GSC_SSIM_CUH

#include "image.cuh"

#define BLOCK GSC__SSIM_BLOCK
#define ROWS GSC__SSIM_ROWS
#define COLUMNS GSC__SSIM_COLUMNS
#define GROUPS (BLOCK / ROWS) /* of COLUMNS columns in a row */
#define FIELDS 4
#define PARTIALS 3
#define LEVEL_ROWS 8

enum { X, Y, SQUARES, PRODUCT };
enum { BY_X, BY_SQUARES, BY_PRODUCT };

/* A row in shared memory: quads of columns with even number, then those with an odd one.
 * Threads that read the quads of every other number then read neighbours; the gap shifts
 * the odd ones by half of the banks for threads that write one column each. */
#define ODD_QUADS 80
#define STRIDE 144 /* quad 33, which results beyond the last one read, is the next row's */

static __device__ __forceinline__ int place_of(int column) {
    return (column >> 2 & 1) * ODD_QUADS + (column >> 3) * 4 + (column & 3);
}

/* Quad 2 group + k of a row. */
static __device__ __forceinline__ int quad_of(int group, int k) {
    return (k & 1) * ODD_QUADS + (group + (k >> 1)) * 4;
}

/* radius < 0: known at run time only. */
template <int radius> struct column_filter {
    float waiting[radius < 0 ? 2 * GSC__SSIM_RADIUS_MAX : radius > 0 ? 2 * radius : 1];
};

/* Takes the next value of a column; returns the result that it completes. */
template <int radius>
static __device__ __forceinline__ float push(const gsc_k_ssim &args, column_filter<radius> &filter,
                                             float value) {
    constexpr int unroll = radius < 0 ? 1 : 2 * radius;
    const int last = 2 * (radius < 0 ? args.radius : radius);
    if (last == 0) return args.weights[0] * value;
    const float result = filter.waiting[0] + args.weights[last] * value;
#pragma unroll unroll
    for (int k = 1; k < last; ++k)
        filter.waiting[k - 1] = filter.waiting[k] + args.weights[last - k] * value;
    filter.waiting[last - 1] = args.weights[0] * value;
    return result;
}

/* The filter along a row for COLUMNS neighbours. */
template <int radius>
static __device__ __forceinline__ void filter_row(const gsc_k_ssim &args, const float *line,
                                                  int group, float *out) {
    constexpr int unroll = radius < 0 ? 1 : (COLUMNS + 2 * radius + 3) / 4;
    const int last = 2 * (radius < 0 ? args.radius : radius);
    const int quads = (COLUMNS + last + 3) / 4;
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o) out[o] = 0.0f;
#pragma unroll unroll
    for (int q = 0; q < quads; ++q) {
        const float4 quad = *(const float4 *)(line + quad_of(group, q));
        const float values[4] = {quad.x, quad.y, quad.z, quad.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
            for (int o = 0; o < COLUMNS; ++o) {
                const int tap = 4 * q + i - o;
                if (tap >= 0 && tap <= last) out[o] += args.weights[tap] * values[i];
            }
        }
    }
}

/* A block's tile: rows [y0, y1) and columns [x0, x1) of plane (b, c). */
struct tile {
    int b, c, y0, y1, x0, x1;
    float level_x, level_y;
    float upstream[GSC__IMAGE_SUMS];
    float sums[GSC__IMAGE_SUMS]; /* of this thread: a thousand terms at most */
};

/* Channels are the fastest: images whose channels lie together then find their pixels in
 * the cache. */
static __device__ __forceinline__ tile place_tile(const gsc_k_ssim &args) {
    tile t;
    uint32_t index = blockIdx.x;
    t.c = (int)(index % (uint32_t)args.channels);
    index /= (uint32_t)args.channels;
    t.x0 = (int)(index % (uint32_t)args.tile_columns) * args.tile_width;
    index /= (uint32_t)args.tile_columns;
    t.y0 = (int)(index % (uint32_t)args.tile_rows) * args.tile_height;
    t.b = (int)(index / (uint32_t)args.tile_rows);
    t.x1 = min(t.x0 + args.tile_width, args.width);
    t.y1 = min(t.y0 + args.tile_height, args.height);
#pragma unroll
    for (int k = 0; k < GSC__IMAGE_SUMS; ++k) t.sums[k] = 0.0f;
    return t;
}

/* The mean of some of the tile's pixels; 0 if that is no number, so that a NaN spoils only
 * the windows that see it. */
static __device__ __forceinline__ float level_of(const gsc__gpu_pixels &image, const tile &t,
                                                 double *warps) {
    __shared__ float level;
    const int columns = t.x1 - t.x0, rows = t.y1 - t.y0;
    float sum = 0.0f;
    for (int k = 0; k < LEVEL_ROWS && (int)threadIdx.x < columns; ++k) {
        const int y = t.y0 + k * rows / LEVEL_ROWS, x = t.x0 + (int)threadIdx.x;
        sum += gsc__pixel(image, gsc__offset(image, t.b, t.c, y, x));
    }
    double total = gsc__block_sum(sum, warps);
    if (threadIdx.x == 0) {
        float mean = (float)(total / (columns * LEVEL_ROWS));
        level = isfinite(mean) ? mean : 0.0f;
    }
    __syncthreads();
    float result = level;
    __syncthreads();
    return result;
}

static __device__ __forceinline__ void start_tile(const gsc_k_ssim &args, tile &t, double *warps) {
    __shared__ float upstream[GSC__IMAGE_SUMS];
    if (threadIdx.x == 0) {
        gsc__upstream(args.coefficients, args.device_totals ? *args.device_totals : args.totals,
                      args.grad_mean ? *args.grad_mean : 1.0, upstream);
    }
    t.level_x = level_of(args.image, t, warps); /* which has barriers */
    t.level_y = level_of(args.target, t, warps);
#pragma unroll
    for (int k = 0; k < GSC__IMAGE_SUMS; ++k) t.upstream[k] = upstream[k];
}

/* ------------------------------------------------------------------ rows of 8 */

/* Columns [x, x + 8) of row y, of which those in [0, width) exist. */
static __device__ __forceinline__ void load_eight(const gsc__gpu_pixels &image, const tile &t,
                                                  int y, int x, int width, float *out) {
    const int64_t at = gsc__offset(image, t.b, t.c, y, x);
    if (image.vectors && x + COLUMNS <= width) {
        if (image.bytes) {
            const uchar4 *from = (const uchar4 *)((const uint8_t *)image.data + at);
#pragma unroll
            for (int q = 0; q < COLUMNS / 4; ++q) {
                const uchar4 v = from[q];
                out[4 * q] = gsc__from_byte(v.x);
                out[4 * q + 1] = gsc__from_byte(v.y);
                out[4 * q + 2] = gsc__from_byte(v.z);
                out[4 * q + 3] = gsc__from_byte(v.w);
            }
        } else {
            const float4 *from = (const float4 *)((const float *)image.data + at);
#pragma unroll
            for (int q = 0; q < COLUMNS / 4; ++q) {
                const float4 v = from[q];
                out[4 * q] = v.x;
                out[4 * q + 1] = v.y;
                out[4 * q + 2] = v.z;
                out[4 * q + 3] = v.w;
            }
        }
        return;
    }
#pragma unroll
    for (int k = 0; k < COLUMNS; ++k)
        out[k] = x + k < width ? gsc__pixel(image, at + k * image.strides[3]) : 0.0f;
}

static __device__ __forceinline__ void store_eight(const gsc__gpu_pixels &image, const tile &t,
                                                   int y, int x, int x1, const float *values) {
    float *to = (float *)image.data + gsc__offset(image, t.b, t.c, y, x);
    if (image.vectors && x + COLUMNS <= x1) {
#pragma unroll
        for (int q = 0; q < COLUMNS / 4; ++q)
            ((float4 *)to)[q] =
                make_float4(values[4 * q], values[4 * q + 1], values[4 * q + 2], values[4 * q + 3]);
        return;
    }
#pragma unroll
    for (int k = 0; k < COLUMNS; ++k)
        if (x + k < x1) to[k * image.strides[3]] = values[k];
}

/* Weights of columns [x, x + 8) of row y, of which those in [first, last) exist. */
static __device__ __forceinline__ void load_weights(const gsc_k_ssim &args, const tile &t, int y,
                                                    int x, int first, int last, float *out) {
#pragma unroll
    for (int k = 0; k < COLUMNS; ++k) out[k] = 1.0f;
    if (!args.weight.data) return;
    const int origin = args.weight_origin;
    const int64_t at = gsc__offset(args.weight, t.b, t.c, y - origin, x - origin);
#pragma unroll
    for (int k = 0; k < COLUMNS; ++k)
        if (x + k >= first && x + k < last)
            out[k] = gsc__weight(args.weight, at + k * args.weight.strides[3]);
}

#endif
