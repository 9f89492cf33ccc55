/* SSIM (Wang, Bovik, Sheikh and Simoncelli 2004) and its gradient in one pass, with the terms that
 * losses add per pixel.  Nothing of the size of the image is stored on the way.
 *
 * SSIM depends only on mu_x, mu_y, sigma_x^2 + sigma_y^2 and sigma_xy, so four fields are filtered
 * (x, y, x^2 + y^2, x y) where the textbook has five.  Subtracting a constant from an image does
 * not change variances: x and y are pixels minus a level of the tile, which keeps
 * E[x^2] - E[x]^2 from cancelling on bright flat images.
 *
 * A block moves down a tile.  A thread filters one column in registers: it adds an arriving pixel
 * to all results that still wait for it (the transposed form of an FIR filter), so the filter
 * along columns needs no shared memory.  Every eight rows go through shared memory, and a thread
 * filters eight neighbours of one row, which share the values that they read.  The partial
 * derivatives with respect to the fields go through the same two filters to become the gradient.
 *
 * The usual window has unrolled kernels of its own, with 32-bit offsets within a plane.  All other
 * windows share one kernel, with loops. */
#include "ssim.cuh"

/* ---------------------------------------------------------------------- SSIM */

/* A NaN stays one. */
static __device__ __forceinline__ float not_negative(float x) {
#if __CUDA_ARCH__ >= 800
    asm("max.NaN.f32 %0, %0, 0f00000000;" : "+f"(x));
    return x;
#else
    return x < 0.0f ? 0.0f : x;
#endif
}

/* The map at a pixel from its filtered fields, and its partial derivatives, which take the
 * fields' place:
 *
 *   A = 1 / (mu_x^2 + mu_y^2 + c1),  B = 1 / (sigma_x^2 + sigma_y^2 + c2),
 *   C = (2 mu_x mu_y + c1) A,         D = (2 sigma_xy + c2) B,         S = C D,
 *   dS/d(x^2 + y^2) = -S B,  dS/d(x y) = 2 C B,
 *   dS/dmu_x = 2 A (mu_y D - mu_x S) + 2 a S B - b 2 C B
 *
 * with a, b the filtered shifted images, mu = level + a, level + b.  A window of one
 * pixel has no variance, which rounding would not give. */
static __device__ __forceinline__ float ssim_at(const gsc_k_ssim &args, const tile &t, bool single,
                                                float (&fields)[FIELDS]) {
    const float a = fields[0], b = fields[1];
    const float mu_x = a + t.level_x, mu_y = b + t.level_y;
    float variances = fields[2] - a * a - b * b;
    float covariance = fields[3] - a * b;
    if (single) variances = covariance = 0.0f;
    variances = not_negative(variances);
    const float A = gsc__rcp_fast(mu_x * mu_x + args.c1 + mu_y * mu_y);
    const float B = gsc__rcp_fast(variances + args.c2);
    const float C = (2.0f * (mu_x * mu_y) + args.c1) * A, D = (2.0f * covariance + args.c2) * B;
    const float S = C * D;
    float grad_squares = -S * B, grad_product = 2.0f * C * B;
    if (single) grad_squares = grad_product = 0.0f;
    fields[0] = 2.0f * (A * (mu_y * D - mu_x * S) - a * grad_squares) - b * grad_product;
    fields[1] = grad_squares;
    fields[2] = grad_product;
    return S;
}

/* Stores row y of the map from column x on, where columns are `own`. */
static __device__ __forceinline__ void store_map(const gsc_k_ssim &args, const tile &t, int y,
                                                 int x, uint32_t own, const float *map) {
    const int first = args.border, last = args.width - args.border;
    const int64_t plane = (int64_t)t.b * args.channels + t.c;
    const int64_t row = plane * (args.height - 2 * first) + y - first;
    float *to = args.map + row * (last - first) + x - first;
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o)
        if (own >> o & 1) to[o] = map[o];
}

/* Adds row y of the map from column x on to the sum, where columns are `own`. */
template <int radius, class index>
static __device__ __forceinline__ void value_eight(const gsc_k_ssim &args, tile &t, int y, int x,
                                                   uint32_t own, float (*fields)[FIELDS]) {
    float map[COLUMNS];
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o) map[o] = ssim_at(args, t, radius == 0, fields[o]);
    if (args.map) store_map(args, t, y, x, own, map);
    if (args.weight.data) {
        float weights[COLUMNS];
        load_weights<index>(args, t, y, x, own, weights);
#pragma unroll
        for (int o = 0; o < COLUMNS; ++o) map[o] *= weights[o];
    }
    if (own == ALL_COLUMNS) {
#pragma unroll
        for (int o = 0; o < COLUMNS; ++o) t.sums[2] += map[o];
        return;
    }
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o)
        if (own >> o & 1) t.sums[2] += map[o];
}

/* The same where gradients may be wanted: turns the fields into partial derivatives, times the
 * windows' weights, and zero where there is no window. */
template <int radius, class index>
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
    if (args.map && own) store_map(args, t, y, x, own, map);
    if (args.weight.data) {
        float weights[COLUMNS];
        load_weights<index>(args, t, y, x, windows, weights);
#pragma unroll
        for (int o = 0; o < COLUMNS; ++o) {
            map[o] *= weights[o];
#pragma unroll
            for (int f = 0; f < PARTIALS; ++f) fields[o][f] *= weights[o];
        }
    }
    if (windows != ALL_COLUMNS) {
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

/* The terms per pixel of row y from column x on.  filtered: partial derivatives, filtered twice. */
template <bool gradient, class index>
static __device__ __forceinline__ void finish_eight(const gsc_k_ssim &args, tile &t,
                                                    bool differentiate, int y, int x,
                                                    float (*filtered)[FIELDS]) {
    float first[COLUMNS], second[COLUMNS], grad_x[COLUMNS];
    if (!args.pointwise && !args.grad_image.data) return;
    load_eight<index>(args.image, t, y, x, args.width, first);
    load_eight<index>(args.target, t, y, x, args.width, second);
#pragma unroll
    for (int o = 0; o < COLUMNS; ++o) {
        grad_x[o] = 0.0f;
        if (!gradient || !differentiate || t.upstream[2] == 0.0f) continue;
        grad_x[o] =
            t.upstream[2] * (filtered[o][0] + 2.0f * (first[o] - t.level_x) * filtered[o][1] +
                             (second[o] - t.level_y) * filtered[o][2]);
    }
    if (args.pointwise) { /* at x = y the derivative of |x - y| is 0 */
        const uint32_t own = columns_within(x, t.x0, t.x1);
        const float grad_l1 = t.upstream[0], grad_l2 = 2.0f * t.upstream[1];
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
            grad_x[o] += weights[o] * (grad_l1 * sign + grad_l2 * d);
        }
    }
    if (args.grad_image.data) store_eight<index>(args.grad_image, t, y, x, t.x1, grad_x);
}

/* ---------------------------------------------------------------------- tile */

/* A column of both images, and the next ROWS pixels of it as they lie in memory. */
struct pixel_column {
    int x;
    bool inside; /* so are the columns of all threads of the warp */
    const void *first_at, *second_at;
    uint32_t first[ROWS], second[ROWS];
};

template <class index>
static __device__ __forceinline__ void start_column(const gsc_k_ssim &args, const tile &t, int y,
                                                    int x, pixel_column &column) {
    column.x = x;
    column.inside = __all_sync(GSC__ALL_LANES, (uint32_t)x < (uint32_t)args.width);
    column.first_at = column_at<index>(args.image, t, y, x);
    column.second_at = column_at<index>(args.target, t, y, x);
}

template <class index>
static __device__ __forceinline__ void fetch_pixels(const gsc_k_ssim &args, int y,
                                                    pixel_column &column) {
    fetch_column<index>(args, args.image, y, 1, column.x, column.inside, column.first_at,
                        column.first);
    fetch_column<index>(args, args.target, y, 1, column.x, column.inside, column.second_at,
                        column.second);
}

template <int block, int radius>
static __device__ __forceinline__ void push_pixels(const gsc_k_ssim &args, const tile &t,
                                                   pixel_column &column,
                                                   column_filter<radius> *filters, float4 *to) {
    constexpr int unroll = radius < 0 ? 1 : ROWS;
    decode_column(args.image, column.first);
    decode_column(args.target, column.second);
#pragma unroll unroll
    for (int k = 0; k < ROWS; ++k) {
        const float a = __uint_as_float(column.first[k]) - t.level_x;
        const float b = __uint_as_float(column.second[k]) - t.level_y;
        float4 fields;
        fields.x = push<radius>(args, filters[0], a);
        fields.y = push<radius>(args, filters[1], b);
        fields.z = push<radius>(args, filters[2], a * a + b * b);
        fields.w = push<radius>(args, filters[3], a * b);
        to[k * PLACES(block)] = fields;
    }
}

template <int block, int radius>
static __device__ __forceinline__ void push_partials(const gsc_k_ssim &args, const float4 *from,
                                                     column_filter<radius> *filters, float4 *to) {
    constexpr int unroll = radius < 0 ? 1 : ROWS;
#pragma unroll unroll
    for (int k = 0; k < ROWS; ++k) {
        float4 partials = from[k * PLACES(block)];
        partials.x = push<radius>(args, filters[0], partials.x);
        partials.y = push<radius>(args, filters[1], partials.y);
        partials.z = push<radius>(args, filters[2], partials.z);
        to[k * PLACES(block)] = partials;
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
template <int block>
static __device__ __forceinline__ void write_sums(const gsc_k_ssim &args, const tile &t) {
    __shared__ double sums[block / 32][GSC__IMAGE_SUMS];
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
    for (int warp = 0; warp < block / 32; ++warp) total += sums[warp][threadIdx.x];
    args.sums[(int64_t)blockIdx.x * GSC__IMAGE_SUMS + threadIdx.x] = total;
}

/* The terms per pixel of the tile's rows row, row + ROWS, .. from column x on. */
template <class index>
static __device__ __forceinline__ void finish_values(const gsc_k_ssim &args, tile &t, int row,
                                                     int x) {
    if (!args.pointwise && !args.grad_image.data) return;
    find_upstream(args, t.upstream);
    if (x >= t.x1) return;
#pragma unroll 1
    for (int y = t.y0 + row; y < t.y1; y += ROWS)
        finish_eight<false, index>(args, t, false, y, x, nullptr);
}

/* Without a gradient.  Pixels enter from a radius before the tile on, in rows and columns; results
 * leave the filters with a delay of two radii.  The pixels of the next step arrive while the rows
 * of this one are filtered. */
template <int block, int radius, class index>
static __device__ __forceinline__ void run_values(const gsc_k_ssim &args) {
    constexpr int groups = block / ROWS; /* of COLUMNS columns in a row */
    __shared__ float4 columns[ROWS_PLACES(block)];
    const uint32_t column = threadIdx.x;
    const int row = (int)(column / groups), group = (int)(column % groups);
    float4 *const to = columns + place_of(column);
    const float4 *const line = columns + LINE(column);
    tile t = place_tile(args);
    const int x = t.x0 + group * COLUMNS, last = t.y1 + radius;
    const bool used =
        (int)(column & ~31u) < t.x1 - t.x0 + 2 * radius; /* the same for a whole warp */
    pixel_column pixels;
    start_column<index>(args, t, t.y0 - radius, t.x0 - radius + (int)column, pixels);
    fetch_pixels<index>(args, t.y0 - radius, pixels);
    start_tile<block, false, index>(args, t);
    const uint32_t own =
        columns_within(x, max(t.x0, args.border), min(t.x1, args.width - args.border));
    const int first_row = max(t.y0, args.border);
    const int end_row = own ? min(t.y1, args.height - args.border) : first_row;
    column_filter<radius> filters[FIELDS];
    clear<radius, FIELDS>(filters);

    for (int y = t.y0 - radius; y < last; y += ROWS) {
        if (used) {
            push_pixels<block, radius>(args, t, pixels, filters, to);
            if (y + ROWS < last) fetch_pixels<index>(args, y + ROWS, pixels);
        }
        if (y + ROWS <= t.y0 + radius) continue; /* no result is complete */
        __syncthreads();
        const int map_y = y - radius + row;
        if (map_y >= first_row && map_y < end_row) {
            float fields[COLUMNS][FIELDS];
            filter_row<radius, FIELDS>(args, line, fields);
            value_eight<radius, index>(args, t, map_y, x, own, fields);
        }
        __syncthreads();
    }
    finish_values<index>(args, t, row, x);
    write_sums<block>(args, t);
}

/* Where gradients may be wanted: a radius known at compile time implies them, else they depend on
 * args.differentiate.  Rows are numbered from that of the first pixel that enters.  Pixels enter
 * in columns from two radii before the tile on, or one radius without a gradient; results leave a
 * filter with a delay of two radii. */
template <int block, int radius, class index>
static __device__ __forceinline__ void run_gradients(const gsc_k_ssim &args) {
    constexpr int groups = block / ROWS; /* of COLUMNS columns in a row */
    __shared__ float4 columns[ROWS_PLACES(block)], partials[ROWS_PLACES(block)];
    const bool differentiate = radius < 0 ? args.differentiate != 0 : true;
    const int r = radius < 0 ? args.radius : radius;
    const int margin = differentiate ? r : 0, reach = margin + r;
    const int column = (int)threadIdx.x, at = place_of(column);
    const int row = column / groups, group = column % groups;
    const int line = LINE(column);
    tile t = place_tile(args);
    start_tile<block, true, index>(args, t);
    const int rows = t.y1 - t.y0 + 2 * reach;
    const int map_columns = t.x1 - t.x0 + 2 * margin;
    column_filter<radius> pixel_filters[FIELDS], partial_filters[PARTIALS];
    clear<radius, FIELDS>(pixel_filters);
    clear<radius, PARTIALS>(partial_filters);

    for (int first = 0; first < rows; first += ROWS) {
        const int pixel_y = t.y0 - reach + first;
        pixel_column pixels;
        start_column<index>(args, t, pixel_y, t.x0 - reach + column, pixels);
        fetch_pixels<index>(args, pixel_y, pixels);
        push_pixels<block, radius>(args, t, pixels, pixel_filters, columns + at);
        if (first + ROWS <= 2 * r) continue; /* no result is complete */
        __syncthreads();
        const int map_y = t.y0 - margin + first + row - 2 * r;
        const int map_x = t.x0 - margin + group * COLUMNS;
        float fields[COLUMNS][FIELDS];
        if (group * COLUMNS < map_columns) {
            filter_row<radius, FIELDS>(args, columns + line, fields);
            map_eight<radius, index>(args, t, map_y, map_x, fields);
#pragma unroll
            for (int o = 0; o < COLUMNS; ++o)
                partials[line + o] = make_float4(fields[o][0], fields[o][1], fields[o][2], 0.0f);
        }
        int y = map_y, x = map_x;
        if (differentiate) {
            __syncthreads();
            push_partials<block, radius>(args, partials + at, partial_filters, columns + at);
            __syncthreads();
            y -= r;
            x += r;
        }
        if (y >= t.y0 && y < t.y1 && x < t.x1) {
            if (differentiate) filter_row<radius, PARTIALS>(args, columns + line, fields);
            finish_eight<true, index>(args, t, differentiate, y, x, fields);
        }
        __syncthreads();
    }
    write_sums<block>(args, t);
}

extern "C" __global__ void __launch_bounds__(GSC__SSIM_BLOCK, GSC__SSIM_RESIDENT)
    gsc_ssim(const __grid_constant__ gsc_k_ssim args) {
    gsc__begin_kernel();
    run_values<GSC__SSIM_BLOCK, GSC__SSIM_RADIUS, int32_t>(args);
}

extern "C" __global__ void __launch_bounds__(GSC__SSIM_GRAD_BLOCK, GSC__SSIM_GRAD_RESIDENT)
    gsc_ssim_grad(const __grid_constant__ gsc_k_ssim args) {
    gsc__begin_kernel();
    run_gradients<GSC__SSIM_GRAD_BLOCK, GSC__SSIM_RADIUS, int32_t>(args);
}

extern "C" __global__ void __launch_bounds__(GSC__SSIM_GRAD_BLOCK)
    gsc_ssim_any(const __grid_constant__ gsc_k_ssim args) {
    gsc__begin_kernel();
    run_gradients<GSC__SSIM_GRAD_BLOCK, -1, int64_t>(args);
}
