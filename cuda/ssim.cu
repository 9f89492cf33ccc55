/* SSIM (Wang, Bovik, Sheikh and Simoncelli 2004) and its gradient in one pass, with what
 * losses add per pixel; nothing of the size of the image is stored on the way.
 *
 * Only mu_x, mu_y, sigma_x^2 + sigma_y^2 and sigma_xy enter SSIM, so four fields are
 * filtered (x, y, x^2 + y^2, x y) where the textbook has five.  Variances do not change
 * when a constant is subtracted from an image: x and y are pixels less a level of the tile,
 * which keeps E[x^2] - E[x]^2 from cancelling on bright flat images.
 *
 * A block marches down a tile.  A thread filters one column in registers: an arriving
 * pixel is added to the windows of all results that still wait for it (the transposed form
 * of an FIR filter), so that the filter along columns needs no shared memory.  Every eight
 * rows change hands in shared memory and a thread filters eight neighbours of one row,
 * which share the values that they read.  The partial derivatives by the fields go through
 * the same two filters to become the gradient. */
#include "ssim.cuh"

/* ---------------------------------------------------------------------- SSIM */

/* The map at COLUMNS neighbours from the filtered fields, and upstream times its partial
 * derivatives, which take the fields' place:
 *
 *   S = C D / (A B),  A = mu_x^2 + mu_y^2 + c1,   B = sigma_x^2 + sigma_y^2 + c2,
 *                     C = 2 mu_x mu_y + c1,       D = 2 sigma_xy + c2,
 *   dS/d(x^2 + y^2) = -S / B,   dS/d(x y) = 2 C / (A B),
 *   dS/dmu_x = 2 mu_y D / (A B) - 2 mu_x S / A + 2 a S / B - b 2 C / (A B)
 *
 * with a, b the filtered shifted images, mu = level + a, level + b.  A window of one
 * pixel has no variance at all, which rounding would not find. */
template <bool gradient>
static __device__ __forceinline__ void ssim_eight(const gsc_k_ssim &args, const tile &t,
                                                  bool single, const float *weights,
                                                  float (*fields)[COLUMNS], float *map) {
    const float upstream = t.upstream[2];
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o) {
        const float a = fields[X][o], b = fields[Y][o];
        const float mu_x = a + t.level_x, mu_y = b + t.level_y;
        float variances = fields[SQUARES][o] - a * a - b * b;
        float covariance = fields[PRODUCT][o] - a * b;
        if (single) variances = covariance = 0.0f;
        if (variances < 0.0f) variances = 0.0f;
        const float A = mu_x * mu_x + mu_y * mu_y + args.c1, B = variances + args.c2;
        const float C = 2.0f * (mu_x * mu_y) + args.c1, D = 2.0f * covariance + args.c2;
        const float inverse = gsc__rcp(A * B);
        const float S = C * D * inverse;
        map[o] = S;
        if (!gradient) continue;
        const float q = weights[o] * upstream;
        float by_squares = -q * S * (A * inverse), by_product = 2.0f * q * (C * inverse);
        if (single) by_squares = by_product = 0.0f;
        const float by_A = 2.0f * q * S * (B * inverse), by_C = 2.0f * q * (D * inverse);
        fields[BY_X][o] = mu_y * by_C - mu_x * by_A - 2.0f * a * by_squares - b * by_product;
        fields[BY_SQUARES][o] = by_squares;
        fields[BY_PRODUCT][o] = by_product;
    }
}

/* Row y of the map from column x on: the fields become partial derivatives, zero where
 * there is no window. */
template <int radius, bool gradient>
static __device__ __forceinline__ void map_eight(const gsc_k_ssim &args, tile &t, int y, int x,
                                                 float (*fields)[COLUMNS]) {
    const int first = args.border, last = args.width - args.border;
    const bool row_exists = y >= args.border && y < args.height - args.border;
    float weights[COLUMNS], map[COLUMNS];
    if (row_exists) {
        const bool single = (radius < 0 ? args.radius : radius) == 0;
        load_weights(args, t, y, x, first, last, weights);
        ssim_eight<gradient>(args, t, single, weights, fields, map);
    }
    const bool own_row = row_exists && y >= t.y0 && y < t.y1;
    float *map_row = 0;
    if (own_row && args.map) {
        const int64_t plane = (int64_t)t.b * args.channels + t.c;
        map_row = args.map + (plane * (args.height - 2 * first) + y - first) * (last - first);
    }
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o) {
        const bool exists = row_exists && x + o >= first && x + o < last;
        if (gradient && (!exists || t.upstream[2] == 0.0f))
#pragma unroll
            for (int f = 0; f < PARTIALS; ++f) fields[f][o] = 0.0f;
        if (!own_row || !exists || x + o < t.x0 || x + o >= t.x1) continue;
        if (map_row) map_row[x + o - first] = map[o];
        t.sums[2] += args.weight.data ? map[o] * weights[o] : map[o];
    }
}

/* Everything that is per pixel at row y from column x on.  filtered: partial derivatives
 * behind both filters. */
template <bool gradient>
static __device__ __forceinline__ void finish_eight(const gsc_k_ssim &args, tile &t, int y, int x,
                                                    float (*filtered)[COLUMNS]) {
    float first[COLUMNS], second[COLUMNS], by_x[COLUMNS];
    if (!args.pointwise && !args.grad_image.data) return;
    load_eight(args.image, t, y, x, args.width, first);
    load_eight(args.target, t, y, x, args.width, second);
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o) by_x[o] = 0.0f;
    if (args.pointwise) { /* at x = y the derivative of |x - y| is 0 */
        float weights[COLUMNS];
        load_weights(args, t, y, x, 0, args.width, weights);
        const float by_l1 = t.upstream[0], by_l2 = t.upstream[1];
#pragma unroll
        for (int o = 0; o < COLUMNS; ++o) {
            if (x + o >= t.x1) continue;
            const float d = first[o] - second[o];
            const float sign = (float)((d > 0.0f) - (d < 0.0f));
            t.sums[0] += weights[o] * fabsf(d);
            t.sums[1] += weights[o] * (d * d);
            by_x[o] = weights[o] * (by_l1 * sign + 2.0f * by_l2 * d);
        }
    }
    if (!args.grad_image.data) return;
    if (gradient)
#pragma unroll
        for (int o = 0; o < COLUMNS; ++o)
            by_x[o] += filtered[BY_X][o] + 2.0f * (first[o] - t.level_x) * filtered[BY_SQUARES][o] +
                       (second[o] - t.level_y) * filtered[BY_PRODUCT][o];
    store_eight(args.grad_image, t, y, x, t.x1, by_x);
}

/* ---------------------------------------------------------------------- tile */

/* ROWS rows of a column from row y on, less the level; zero outside the image. */
static __device__ __forceinline__ void load_column(const gsc_k_ssim &args,
                                                   const gsc__gpu_pixels &image, const tile &t,
                                                   int y, int x, float level, float *out) {
    const bool column_exists = x >= 0 && x < args.width;
    const int64_t at = gsc__offset(image, t.b, t.c, y, x);
    if (image.bytes) {
        const uint8_t *from = (const uint8_t *)image.data + at;
#pragma unroll
        for (int k = 0; k < ROWS; ++k, from += image.strides[2]) {
            const bool exists = column_exists && y + k >= 0 && y + k < args.height;
            out[k] = (exists ? gsc__from_byte(*from) : 0.0f) - level;
        }
        return;
    }
    const float *from = (const float *)image.data + at;
#pragma unroll
    for (int k = 0; k < ROWS; ++k, from += image.strides[2]) {
        const bool exists = column_exists && y + k >= 0 && y + k < args.height;
        out[k] = exists ? *from : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < ROWS; ++k) out[k] -= level;
}

template <int radius>
static __device__ __forceinline__ void push_pixels(const gsc_k_ssim &args, const tile &t, int y,
                                                   int x, column_filter<radius> *filters,
                                                   float *to) {
    constexpr int unroll = radius < 0 ? 1 : ROWS;
    float first[ROWS], second[ROWS];
    load_column(args, args.image, t, y, x, t.level_x, first);
    load_column(args, args.target, t, y, x, t.level_y, second);
#pragma unroll unroll
    for (int k = 0; k < ROWS; ++k) {
        const float a = first[k], b = second[k];
        to[(k * FIELDS + X) * STRIDE] = push<radius>(args, filters[X], a);
        to[(k * FIELDS + Y) * STRIDE] = push<radius>(args, filters[Y], b);
        to[(k * FIELDS + SQUARES) * STRIDE] = push<radius>(args, filters[SQUARES], a * a + b * b);
        to[(k * FIELDS + PRODUCT) * STRIDE] = push<radius>(args, filters[PRODUCT], a * b);
    }
}

template <int radius>
static __device__ __forceinline__ void push_partials(const gsc_k_ssim &args, const float *from,
                                                     column_filter<radius> *filters, float *to) {
    constexpr int unroll = radius < 0 ? 1 : ROWS;
#pragma unroll unroll
    for (int k = 0; k < ROWS; ++k)
#pragma unroll
        for (int f = 0; f < PARTIALS; ++f)
            to[(k * FIELDS + f) * STRIDE] =
                push<radius>(args, filters[f], from[(k * PARTIALS + f) * STRIDE]);
}

template <int radius, int count>
static __device__ __forceinline__ void clear(column_filter<radius> *filters) {
#pragma unroll
    for (int f = 0; f < count; ++f)
#pragma unroll
        for (uint32_t k = 0; k < sizeof filters->waiting / sizeof(float); ++k)
            filters[f].waiting[k] = 0.0f;
}

/* Rows are numbered from that of the first pixel that enters.  Pixels enter in columns
 * that begin two radii (with a gradient; else one) before the tile, results of a filter
 * leave with a delay of two radii. */
template <int radius, bool gradient>
static __device__ __forceinline__ void run_tile(const gsc_k_ssim &args) {
    __shared__ __align__(16) float columns[ROWS * FIELDS * STRIDE + 4];
    __shared__ __align__(16) float partials[gradient ? ROWS * PARTIALS * STRIDE : 4];
    __shared__ double warps[32];
    const int r = radius < 0 ? args.radius : radius;
    const int margin = gradient ? r : 0, reach = margin + r;
    const int column = (int)threadIdx.x, at = place_of(column);
    const int row = column / GROUPS, group = column % GROUPS;
    tile t = place_tile(args);
    start_tile(args, t, warps);
    const int rows = t.y1 - t.y0 + 2 * reach;
    const int map_columns = t.x1 - t.x0 + 2 * margin;
    column_filter<radius> pixel_filters[FIELDS], partial_filters[gradient ? PARTIALS : 1];
    clear<radius, FIELDS>(pixel_filters);
    clear<radius, gradient ? PARTIALS : 1>(partial_filters);

    for (int first = 0; first < rows; first += ROWS) {
        push_pixels<radius>(args, t, t.y0 - reach + first, t.x0 - reach + column, pixel_filters,
                            columns + at);
        if (first + ROWS <= 2 * r) continue; /* no result is complete */
        __syncthreads();
        const int map_y = t.y0 - margin + first + row - 2 * r;
        const int map_x = t.x0 - margin + group * COLUMNS;
        if (group * COLUMNS < map_columns) {
            float fields[FIELDS][COLUMNS];
#pragma unroll
            for (int f = 0; f < FIELDS; ++f)
                filter_row<radius>(args, columns + (row * FIELDS + f) * STRIDE, group, fields[f]);
            map_eight<radius, gradient>(args, t, map_y, map_x, fields);
#pragma unroll
            for (int f = 0; f < (gradient ? PARTIALS : 0); ++f) {
                float *line = partials + (row * PARTIALS + f) * STRIDE;
#pragma unroll
                for (int q = 0; q < COLUMNS / 4; ++q)
                    *(float4 *)(line + quad_of(group, q)) =
                        make_float4(fields[f][4 * q], fields[f][4 * q + 1], fields[f][4 * q + 2],
                                    fields[f][4 * q + 3]);
            }
            if (!gradient && map_y >= t.y0 && map_y < t.y1 && map_x < t.x1)
                finish_eight<false>(args, t, map_y, map_x, 0);
        }
        __syncthreads();
        if (gradient) {
            push_partials<radius>(args, partials + at, partial_filters, columns + at);
            __syncthreads();
            const int y = t.y0 + first + row - 4 * r, x = t.x0 + group * COLUMNS;
            if (y >= t.y0 && y < t.y1 && x < t.x1) {
                float filtered[PARTIALS][COLUMNS];
#pragma unroll
                for (int f = 0; f < PARTIALS; ++f)
                    filter_row<radius>(args, columns + (row * FIELDS + f) * STRIDE, group,
                                       filtered[f]);
                finish_eight<true>(args, t, y, x, filtered);
            }
            __syncthreads();
        }
    }
    if (!args.sums) return;
#pragma unroll
    for (int k = 0; k < GSC__IMAGE_SUMS; ++k) {
        const double sum = gsc__block_sum(t.sums[k], warps);
        if (threadIdx.x == 0) args.sums[(int64_t)blockIdx.x * GSC__IMAGE_SUMS + k] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK, 4)
    gsc_ssim(const __grid_constant__ gsc_k_ssim args) {
    run_tile<GSC__SSIM_RADIUS, false>(args);
}

extern "C" __global__ void __launch_bounds__(BLOCK, 4)
    gsc_ssim_grad(const __grid_constant__ gsc_k_ssim args) {
    run_tile<GSC__SSIM_RADIUS, true>(args);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    gsc_ssim_any(const __grid_constant__ gsc_k_ssim args) {
    run_tile<-1, false>(args);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    gsc_ssim_any_grad(const __grid_constant__ gsc_k_ssim args) {
    run_tile<-1, true>(args);
}
