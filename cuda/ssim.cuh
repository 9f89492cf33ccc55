/* The parts of SSIM's pass down a tile: the two filters, the tile, and eight neighbours of a row at
 * a time. */
#ifndef GSC_SSIM_CUH
#define GSC_SSIM_CUH

#include "image.cuh"

#define ROWS GSC__SSIM_ROWS
#define COLUMNS GSC__SSIM_COLUMNS
#define ALL_COLUMNS 0xffu

/* What is filtered at a pixel: x, y, x^2 + y^2, x y; or the derivatives with respect to x, to
 * x^2 + y^2 and to x y. */
#define FIELDS 4
#define PARTIALS 3

/* A row of shared memory has a float4 of fields for each of a block's columns, and a gap after
 * every eight, so that threads that read neighbouring eights use different banks.  Results beyond
 * the last one read the places behind the row. */
#define PLACES(block) ((block) + (block) / COLUMNS)
#define ROWS_PLACES(block) (ROWS * PLACES(block) + COLUMNS)
/* Where a thread that filters rows begins: block / ROWS threads cover a row's PLACES. */
#define LINE(thread) ((COLUMNS + 1) * (thread))

static __device__ __forceinline__ uint32_t place_of(uint32_t column) {
    return column + column / COLUMNS;
}

/* radius < 0: only known at run time. */
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

/* The filter along a row for COLUMNS neighbours, whose windows begin at places from line on. */
template <int radius, int count>
static __device__ __forceinline__ void filter_row(const gsc_k_ssim &args, const float4 *line,
                                                  float (*out)[FIELDS]) {
    constexpr int unroll = radius < 0 ? 1 : COLUMNS + 2 * radius;
    const int last = 2 * (radius < 0 ? args.radius : radius);
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o)
#pragma unroll
        for (int f = 0; f < count; ++f) out[o][f] = 0.0f;
#pragma unroll unroll
    for (int k = 0; k < COLUMNS + last; ++k) {
        const float4 place = line[place_of(k)];
        const float values[FIELDS] = {place.x, place.y, place.z, place.w};
#pragma unroll
        for (int o = 0; o < COLUMNS; ++o) {
            const int tap = k - o;
            if (tap < 0 || tap > last) continue;
            const float weight = args.weights[tap];
#pragma unroll
            for (int f = 0; f < count; ++f) out[o][f] += weight * values[f];
        }
    }
}

/* ---------------------------------------------------------------------- tile */

/* A block's tile: rows [y0, y1) and columns [x0, x1) of plane (b, c). */
struct tile {
    int b, c, y0, y1, x0, x1;
    float level_x, level_y;
    float upstream[GSC__IMAGE_SUMS];
    float sums[GSC__IMAGE_SUMS]; /* of this thread: a thousand terms at most */
};

/* Channels vary fastest: images whose channels lie together then find their pixels in the cache. */
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

/* Pixel (y, x) of the tile's plane; within the plane, offsets are of type `index`. */
template <class type, class index>
static __device__ __forceinline__ type *pixel_at(const gsc__gpu_pixels &image, const tile &t, int y,
                                                 int x) {
    type *plane = (type *)image.data + (t.b * image.strides[0] + t.c * image.strides[1]);
    return plane + ((index)y * (index)image.strides[2] + (index)x * (index)image.strides[3]);
}

/* Hides a value from the compiler, so that going to the next row is one instruction.  It would
 * compute all multiples of a known distance. */
static __device__ __forceinline__ int32_t opaque(int32_t value) {
    asm("" : "+r"(value));
    return value;
}
static __device__ __forceinline__ int64_t opaque(int64_t value) {
    return value;
}

/* Rows y, y + step, .. of column x as they lie in memory, bits of floats or bytes; zero
 * outside the image.  from: where row y would be; moves on to the row behind the last.
 * inside: the columns of all threads of the warp are in the image. */
template <class index>
static __device__ __forceinline__ void
fetch_column(const gsc_k_ssim &args, const gsc__gpu_pixels &image, int y, int step, int x,
             bool inside, const void *&from, uint32_t *out) {
    const index next = (index)step * (index)image.strides[2];
    const bool column_exists = (uint32_t)x < (uint32_t)args.width;
    if (image.bytes) {
        const uint8_t *at = (const uint8_t *)from;
#pragma unroll
        for (int k = 0; k < ROWS; ++k, at += opaque(next)) {
            const bool row_exists = (uint32_t)(y + k * step) < (uint32_t)args.height;
            out[k] = column_exists && row_exists ? *at : 0;
        }
        from = (const uint8_t *)from + opaque(ROWS * next);
        return;
    }
    const uint32_t *at = (const uint32_t *)from;
    if (inside && y >= 0 && y + (ROWS - 1) * step < args.height) {
#pragma unroll
        for (int k = 0; k < ROWS; ++k, at += opaque(next)) out[k] = *at;
    } else {
#pragma unroll
        for (int k = 0; k < ROWS; ++k, at += opaque(next)) {
            const bool row_exists = (uint32_t)(y + k * step) < (uint32_t)args.height;
            out[k] = column_exists && row_exists ? *at : 0;
        }
    }
    from = (const uint32_t *)from + opaque(ROWS * next);
}

/* Address of column x at row y. */
template <class index>
static __device__ __forceinline__ const void *column_at(const gsc__gpu_pixels &image, const tile &t,
                                                        int y, int x) {
    if (image.bytes) return pixel_at<const uint8_t, index>(image, t, y, x);
    return pixel_at<const float, index>(image, t, y, x);
}

/* Converts fetched pixels to floats. */
static __device__ __forceinline__ void decode_column(const gsc__gpu_pixels &image, uint32_t *bits) {
    if (!image.bytes) return;
#pragma unroll
    for (int k = 0; k < ROWS; ++k) bits[k] = __float_as_uint(gsc__from_byte((uint8_t)bits[k]));
}

/* The levels of both images, x first: the mean of some of the tile's pixels, or 0 if that is not
 * finite, so that a NaN affects only the windows that see it. */
template <int block, class index>
static __device__ __forceinline__ void find_levels(const gsc_k_ssim &args, const tile &t,
                                                   float *levels) {
    __shared__ float sums[2][block / 32];
    const int step = max((t.y1 - t.y0) / ROWS, 1), x = t.x0 + (int)threadIdx.x;
    const int rows = min((args.height - t.y0 + step - 1) / step, ROWS);
#pragma unroll 1
    for (int i = 0; i < 2; ++i) {
        const gsc__gpu_pixels &image = i ? args.target : args.image;
        const void *from = column_at<index>(image, t, t.y0, x);
        uint32_t bits[ROWS];
        float sum = 0.0f;
        fetch_column<index>(args, image, t.y0, step, x, false, from, bits);
        decode_column(image, bits);
#pragma unroll
        for (int k = 0; k < ROWS; ++k) sum += __uint_as_float(bits[k]);
        sum = gsc__warp_sum(x < t.x1 ? sum : 0.0f);
        if (gsc__lane() == 0) sums[i][threadIdx.x >> 5] = sum;
    }
    __syncthreads();
    if (threadIdx.x >= 2) return;
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < block / 32; ++k) sum += sums[threadIdx.x][k];
    sum /= (float)(rows * (t.x1 - t.x0));
    levels[threadIdx.x] = isfinite(sum) ? sum : 0.0f;
}

static __device__ __forceinline__ void find_upstream(const gsc_k_ssim &args, float *upstream) {
    gsc__upstream(args.coefficients, args.device_shares ? *args.device_shares : args.shares,
                  args.grad_mean ? *args.grad_mean : 1.0, upstream);
}

template <int block, bool gradient, class index>
static __device__ __forceinline__ void start_tile(const gsc_k_ssim &args, tile &t) {
    __shared__ float upstream[GSC__IMAGE_SUMS], levels[2];
    if (gradient && threadIdx.x == 0) find_upstream(args, upstream);
    __syncwarp();
    find_levels<block, index>(args, t, levels);
    __syncthreads();
    t.level_x = levels[0];
    t.level_y = levels[1];
#pragma unroll
    for (int k = 0; k < (gradient ? GSC__IMAGE_SUMS : 0); ++k) t.upstream[k] = upstream[k];
}

/* ------------------------------------------------------------------ rows of 8 */

/* Bit k: column x + k is one of [first, last). */
static __device__ __forceinline__ uint32_t columns_within(int x, int first, int last) {
    const int begin = min(max(first - x, 0), COLUMNS), end = min(max(last - x, 0), COLUMNS);
    return ((1u << end) - 1u) & ~((1u << begin) - 1u);
}

/* Columns [x, x + 8) of row y, zero where the image ends. */
template <class index>
static __device__ __forceinline__ void load_eight(const gsc__gpu_pixels &image, const tile &t,
                                                  int y, int x, int width, float *out) {
    const int64_t next = image.strides[3];
    const bool vectors = image.vectors && x + COLUMNS <= width;
    if (!image.bytes) {
        const float *from = pixel_at<const float, index>(image, t, y, x);
        if (vectors) {
#pragma unroll
            for (int q = 0; q < COLUMNS / 4; ++q) {
                const float4 v = ((const float4 *)from)[q];
                out[4 * q] = v.x;
                out[4 * q + 1] = v.y;
                out[4 * q + 2] = v.z;
                out[4 * q + 3] = v.w;
            }
            return;
        }
#pragma unroll
        for (int k = 0; k < COLUMNS; ++k, from += next) out[k] = x + k < width ? *from : 0.0f;
        return;
    }
    const uint8_t *from = pixel_at<const uint8_t, index>(image, t, y, x);
    uint32_t quads[COLUMNS / 4];
    if (vectors) {
#pragma unroll
        for (int q = 0; q < COLUMNS / 4; ++q) quads[q] = ((const uint32_t *)from)[q];
    } else {
#pragma unroll
        for (int k = 0; k < COLUMNS; ++k, from += next) {
            const uint32_t byte = x + k < width ? *from : 0;
            quads[k / 4] = (k % 4 ? quads[k / 4] : 0) | byte << 8 * (k % 4);
        }
    }
#pragma unroll
    for (int k = 0; k < COLUMNS; ++k)
        out[k] = gsc__from_byte((uint8_t)(quads[k / 4] >> 8 * (k % 4)));
}

template <class index>
static __device__ __forceinline__ void store_eight(const gsc__gpu_pixels &image, const tile &t,
                                                   int y, int x, int x1, const float *values) {
    float *to = pixel_at<float, index>(image, t, y, x);
    if (image.vectors && x + COLUMNS <= x1) {
#pragma unroll
        for (int q = 0; q < COLUMNS / 4; ++q)
            ((float4 *)to)[q] =
                make_float4(values[4 * q], values[4 * q + 1], values[4 * q + 2], values[4 * q + 3]);
        return;
    }
#pragma unroll
    for (int k = 0; k < COLUMNS; ++k, to += image.strides[3])
        if (x + k < x1) *to = values[k];
}

/* Weights of the columns from x on of row y, 0 for those that are not in `columns`. */
template <class index>
static __device__ __forceinline__ void load_weights(const gsc_k_ssim &args, const tile &t, int y,
                                                    int x, uint32_t columns, float *out) {
    const gsc__gpu_pixels &image = args.weight;
    y -= args.weight_origin;
    x -= args.weight_origin;
    if (image.bytes) {
        const uint8_t *from = pixel_at<const uint8_t, index>(image, t, y, x);
#pragma unroll
        for (int k = 0; k < COLUMNS; ++k, from += image.strides[3])
            out[k] = columns >> k & 1 ? (float)*from : 0.0f;
        return;
    }
    const float *from = pixel_at<const float, index>(image, t, y, x);
#pragma unroll
    for (int k = 0; k < COLUMNS; ++k, from += image.strides[3])
        out[k] = columns >> k & 1 ? *from : 0.0f;
}

#endif
