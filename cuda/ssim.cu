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
 * the same two filters to become the gradient.
 *
 * The usual window has kernels of its own, unrolled, with 32-bit offsets within a plane.
 * All else takes one kernel, in loops. */
#include "ssim.cuh"

/* ---------------------------------------------------------------------- SSIM */

/* The map at a pixel from its filtered fields, and its partial derivatives, which take the
 * fields' place:
 *
 *   A = 1 / (mu_x^2 + mu_y^2 + c1),  B = 1 / (sigma_x^2 + sigma_y^2 + c2),
 *   C = (2 mu_x mu_y + c1) A,         D = (2 sigma_xy + c2) B,         S = C D,
 *   dS/d(x^2 + y^2) = -S B,  dS/d(x y) = 2 C B,
 *   dS/dmu_x = 2 A (mu_y D - mu_x S) + 2 a S B - b 2 C B
 *
 * with a, b the filtered shifted images, mu = level + a, level + b.  A window of one
 * pixel has no variance at all, which rounding would not find. */
static __device__ __forceinline__ float ssim_at(const gsc_k_ssim &args, const tile &t, bool single,
                                                float (&fields)[FIELDS]) {
    const float a = fields[0], b = fields[1];
    const float mu_x = a + t.level_x, mu_y = b + t.level_y;
    float variances = fields[2] - a * a - b * b;
    float covariance = fields[3] - a * b;
    if (single) variances = covariance = 0.0f;
    if (variances < 0.0f) variances = 0.0f;
    const float A = gsc__rcp_fast(mu_x * mu_x + mu_y * mu_y + args.c1);
    const float B = gsc__rcp_fast(variances + args.c2);
    const float C = (2.0f * (mu_x * mu_y) + args.c1) * A, D = (2.0f * covariance + args.c2) * B;
    const float S = C * D;
    float by_squares = -S * B, by_product = 2.0f * C * B;
    if (single) by_squares = by_product = 0.0f;
    fields[0] = 2.0f * (A * (mu_y * D - mu_x * S) - a * by_squares) - b * by_product;
    fields[1] = by_squares;
    fields[2] = by_product;
    return S;
}

/* Row y of the map from column x on: the fields become partial derivatives, times the
 * windows' weights, zero where there is no window. */
template <int radius, bool gradient, class index>
static __device__ __forceinline__ void map_eight(const gsc_k_ssim &args, tile &t, int y, int x,
                                                 float (*fields)[FIELDS]) {
    const int first = args.border, last = args.width - args.border;
    const bool row_exists = y >= args.border && y < args.height - args.border;
    const bool single = (radius < 0 ? args.radius : radius) == 0;
    const uint32_t windows = row_exists ? columns_within(x, first, last) : 0;
    const bool own_row = row_exists && y >= t.y0 && y < t.y1;
    const uint32_t own = own_row ? columns_within(x, t.x0, t.x1) & windows : 0;
    float map[COLUMNS];
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o) map[o] = ssim_at(args, t, single, fields[o]);
    if (args.map && own) {
        const int64_t plane = (int64_t)t.b * args.channels + t.c;
        const int64_t row = plane * (args.height - 2 * first) + y - first;
        float *to = args.map + row * (last - first) + x - first;
#pragma unroll
        for (int o = 0; o < COLUMNS; ++o)
            if (own >> o & 1) to[o] = map[o];
    }
    if (args.weight.data) {
        float weights[COLUMNS];
        load_weights<index>(args, t, y, x, windows, weights);
#pragma unroll
        for (int o = 0; o < COLUMNS; ++o) {
            map[o] *= weights[o];
#pragma unroll
            for (int f = 0; f < (gradient ? PARTIALS : 0); ++f) fields[o][f] *= weights[o];
        }
    }
    if (gradient && windows != ALL_COLUMNS) {
#pragma unroll
        for (int o = 0; o < COLUMNS; ++o)
#pragma unroll
            for (int f = 0; f < PARTIALS; ++f)
                if (!(windows >> o & 1)) fields[o][f] = 0.0f;
    }
    if (!own) return;
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o)
        if (own >> o & 1) t.sums[2] += map[o];
}

/* Everything that is per pixel at row y from column x on.  filtered: partial derivatives
 * behind both filters. */
template <bool gradient, class index>
static __device__ __forceinline__ void finish_eight(const gsc_k_ssim &args, tile &t,
                                                    bool differentiate, int y, int x,
                                                    float (*filtered)[FIELDS]) {
    float first[COLUMNS], second[COLUMNS], by_x[COLUMNS];
    if (!args.pointwise && !args.grad_image.data) return;
    load_eight<index>(args.image, t, y, x, args.width, first);
    load_eight<index>(args.target, t, y, x, args.width, second);
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o) {
        by_x[o] = 0.0f;
        if (!gradient || !differentiate || t.upstream[2] == 0.0f) continue;
        by_x[o] = t.upstream[2] * (filtered[o][0] + 2.0f * (first[o] - t.level_x) * filtered[o][1] +
                                   (second[o] - t.level_y) * filtered[o][2]);
    }
    if (args.pointwise) { /* at x = y the derivative of |x - y| is 0 */
        const uint32_t own = columns_within(x, t.x0, t.x1);
        const float by_l1 = t.upstream[0], by_l2 = 2.0f * t.upstream[1];
        float weights[COLUMNS];
#pragma unroll
        for (int o = 0; o < COLUMNS; ++o) weights[o] = own >> o & 1 ? 1.0f : 0.0f;
        if (args.weight.data) load_weights<index>(args, t, y, x, own, weights);
#pragma unroll
        for (int o = 0; o < COLUMNS; ++o) {
            const float d = own >> o & 1 ? first[o] - second[o] : 0.0f;
            const float sign = (float)((d > 0.0f) - (d < 0.0f));
            t.sums[0] += weights[o] * fabsf(d);
            t.sums[1] += weights[o] * (d * d);
            by_x[o] += weights[o] * (by_l1 * sign + by_l2 * d);
        }
    }
    if (args.grad_image.data) store_eight<index>(args.grad_image, t, y, x, t.x1, by_x);
}

/* ---------------------------------------------------------------------- tile */

template <int radius, class index>
static __device__ __forceinline__ void push_pixels(const gsc_k_ssim &args, const tile &t, int y,
                                                   int x, column_filter<radius> *filters,
                                                   float4 *to) {
    constexpr int unroll = radius < 0 ? 1 : ROWS;
    float first[ROWS], second[ROWS];
    load_column<index>(args, args.image, t, y, 1, x, first);
    load_column<index>(args, args.target, t, y, 1, x, second);
#pragma unroll unroll
    for (int k = 0; k < ROWS; ++k) {
        const float a = first[k] - t.level_x, b = second[k] - t.level_y;
        float4 fields;
        fields.x = push<radius>(args, filters[0], a);
        fields.y = push<radius>(args, filters[1], b);
        fields.z = push<radius>(args, filters[2], a * a + b * b);
        fields.w = push<radius>(args, filters[3], a * b);
        to[k * PLACES] = fields;
    }
}

template <int radius>
static __device__ __forceinline__ void push_partials(const gsc_k_ssim &args, const float4 *from,
                                                     column_filter<radius> *filters, float4 *to) {
    constexpr int unroll = radius < 0 ? 1 : ROWS;
#pragma unroll unroll
    for (int k = 0; k < ROWS; ++k) {
        float4 partials = from[k * PLACES];
        partials.x = push<radius>(args, filters[0], partials.x);
        partials.y = push<radius>(args, filters[1], partials.y);
        partials.z = push<radius>(args, filters[2], partials.z);
        to[k * PLACES] = partials;
    }
}

template <int radius, int count>
static __device__ __forceinline__ void clear(column_filter<radius> *filters) {
    constexpr int size = sizeof filters->waiting / sizeof(float), unroll = radius < 0 ? 1 : size;
#pragma unroll
    for (int f = 0; f < count; ++f)
#pragma unroll unroll
        for (int k = 0; k < size; ++k) filters[f].waiting[k] = 0.0f;
}

/* The sums of all threads, in one order. */
static __device__ __forceinline__ void write_sums(const gsc_k_ssim &args, const tile &t) {
    __shared__ double sums[BLOCK / 32][GSC__IMAGE_SUMS];
    if (!args.sums) return;
#pragma unroll
    for (int k = 0; k < GSC__IMAGE_SUMS; ++k) {
        const double sum = gsc__warp_sum(t.sums[k]);
        if (gsc__lane() == 0) sums[threadIdx.x >> 5][k] = sum;
    }
    __syncthreads();
    if (threadIdx.x >= GSC__IMAGE_SUMS) return;
    double total = 0;
#pragma unroll
    for (int warp = 0; warp < BLOCK / 32; ++warp) total += sums[warp][threadIdx.x];
    args.sums[(int64_t)blockIdx.x * GSC__IMAGE_SUMS + threadIdx.x] = total;
}

/* Rows are numbered from that of the first pixel that enters.  Pixels enter in columns
 * that begin two radii (with a gradient; else one) before the tile, results of a filter
 * leave with a delay of two radii.  may_differentiate: args.differentiate, or with a radius
 * that is not known at compile time whether it may be true. */
template <int radius, bool may_differentiate, class index>
static __device__ __forceinline__ void run_tile(const gsc_k_ssim &args) {
    constexpr bool gradient = may_differentiate;
    __shared__ float4 columns[ROWS_PLACES], partials[gradient ? ROWS_PLACES : 1];
    const bool differentiate = radius < 0 ? args.differentiate != 0 : gradient;
    const int r = radius < 0 ? args.radius : radius;
    const int margin = differentiate ? r : 0, reach = margin + r;
    const int column = (int)threadIdx.x, at = place_of(column);
    const int row = column / GROUPS, group = column % GROUPS;
    tile t = place_tile(args);
    start_tile<index>(args, t);
    const int rows = t.y1 - t.y0 + 2 * reach;
    const int map_columns = t.x1 - t.x0 + 2 * margin;
    column_filter<radius> pixel_filters[FIELDS], partial_filters[gradient ? PARTIALS : 1];
    clear<radius, FIELDS>(pixel_filters);
    clear<radius, gradient ? PARTIALS : 1>(partial_filters);

    for (int first = 0; first < rows; first += ROWS) {
        push_pixels<radius, index>(args, t, t.y0 - reach + first, t.x0 - reach + column,
                                   pixel_filters, columns + at);
        if (first + ROWS <= 2 * r) continue; /* no result is complete */
        __syncthreads();
        const int map_y = t.y0 - margin + first + row - 2 * r;
        const int map_x = t.x0 - margin + group * COLUMNS;
        float fields[COLUMNS][FIELDS];
        if (group * COLUMNS < map_columns) {
            filter_row<radius, FIELDS>(args, columns + row * PLACES, group, fields);
            map_eight<radius, gradient, index>(args, t, map_y, map_x, fields);
#pragma unroll
            for (int o = 0; o < (gradient ? COLUMNS : 0); ++o)
                partials[row * PLACES + place_of(group * COLUMNS) + o] =
                    make_float4(fields[o][0], fields[o][1], fields[o][2], 0.0f);
        }
        int y = map_y, x = map_x;
        if (differentiate) {
            __syncthreads();
            push_partials<radius>(args, partials + at, partial_filters, columns + at);
            __syncthreads();
            y -= r;
            x += r;
        }
        if (y >= t.y0 && y < t.y1 && x < t.x1) {
            if (differentiate)
                filter_row<radius, PARTIALS>(args, columns + row * PLACES, group, fields);
            finish_eight<gradient, index>(args, t, differentiate, y, x, fields);
        }
        __syncthreads();
    }
    write_sums(args, t);
}

extern "C" __global__ void __launch_bounds__(BLOCK, GSC__SSIM_RESIDENT)
    gsc_ssim(const __grid_constant__ gsc_k_ssim args) {
    gsc__begin_kernel();
    run_tile<GSC__SSIM_RADIUS, false, int32_t>(args);
}

extern "C" __global__ void __launch_bounds__(BLOCK, GSC__SSIM_GRAD_RESIDENT)
    gsc_ssim_grad(const __grid_constant__ gsc_k_ssim args) {
    gsc__begin_kernel();
    run_tile<GSC__SSIM_RADIUS, true, int32_t>(args);
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    gsc_ssim_any(const __grid_constant__ gsc_k_ssim args) {
    gsc__begin_kernel();
    run_tile<-1, true, int64_t>(args);
}
