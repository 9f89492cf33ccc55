/* What image losses need besides windows: sums of masks, terms without a window, and the totals of
 * all blocks.  Every sum has the same order in every run. */
#include "image.cuh"

/* The next `count` pixels of a row. */
template <int count>
static __device__ __forceinline__ void load_pixels(const gsc__gpu_pixels &image, int64_t offset,
                                                   float *out) {
    if (count == 1) {
        *out = gsc__pixel(image, offset);
    } else if (image.bytes) {
        const uchar4 v = *(const uchar4 *)((const uint8_t *)image.data + offset);
        out[0] = gsc__from_byte(v.x);
        out[1] = gsc__from_byte(v.y);
        out[2] = gsc__from_byte(v.z);
        out[3] = gsc__from_byte(v.w);
    } else {
        const float4 v = *(const float4 *)((const float *)image.data + offset);
        out[0] = v.x;
        out[1] = v.y;
        out[2] = v.z;
        out[3] = v.w;
    }
}

/* Adds `count` pixels of a row, from number `at` of plane (b, c) on. */
template <int count>
static __device__ __forceinline__ void add_points(const gsc_k_image_points &args,
                                                  const float *upstream, int b, int c, int at,
                                                  double *sums) {
    const int y = at / args.width, x = at - y * args.width;
    const int64_t mask = gsc__offset(args.weight, b, c, y, x);
    float first[count], second[count], grad_x[count], absolute = 0.0f, square = 0.0f;
    load_pixels<count>(args.image, gsc__offset(args.image, b, c, y, x), first);
    load_pixels<count>(args.target, gsc__offset(args.target, b, c, y, x), second);
#pragma unroll
    for (int k = 0; k < count; ++k) {
        const float d = first[k] - second[k];
        const float sign = (float)((d > 0.0f) - (d < 0.0f)); /* 0 at x = y */
        float weight = 1.0f;
        if (args.weight.data) weight = gsc__weight(args.weight, mask + k * args.weight.strides[3]);
        absolute += weight * fabsf(d);
        square += weight * (d * d);
        grad_x[k] = weight * (upstream[0] * sign + 2.0f * upstream[1] * d);
    }
    sums[0] += absolute;
    sums[1] += square;
    if (!args.grad_image.data) return;
    float *to = (float *)args.grad_image.data + gsc__offset(args.grad_image, b, c, y, x);
    if (count == 4)
        *(float4 *)to =
            make_float4(grad_x[0], grad_x[1 % count], grad_x[2 % count], grad_x[3 % count]);
    else
        *to = grad_x[0];
}

extern "C" __global__ void __launch_bounds__(GSC__POINTS_BLOCK)
    gsc_image_points(const __grid_constant__ gsc_k_image_points args) {
    gsc__begin_kernel();
    __shared__ double warps[32];
    float upstream[GSC__IMAGE_SUMS];
    gsc__upstream(args.coefficients, args.device_shares ? *args.device_shares : args.shares, 1.0,
                  upstream);
    const int plane = (int)(blockIdx.x / (uint32_t)args.chunks);
    const int64_t first = (int64_t)(blockIdx.x % (uint32_t)args.chunks) * GSC__POINTS_CHUNK;
    const int b = plane / args.channels, c = plane - b * args.channels;
    const int64_t pixels = (int64_t)args.height * args.width;
    const int count = (int)min(pixels - first, (int64_t)GSC__POINTS_CHUNK);
    double sums[2] = {0, 0};
    if (args.quads) {
#pragma unroll 1
        for (int k = 4 * threadIdx.x; k < count; k += 4 * GSC__POINTS_BLOCK)
            add_points<4>(args, upstream, b, c, (int)first + k, sums);
    } else {
#pragma unroll 2
        for (int k = threadIdx.x; k < count; k += GSC__POINTS_BLOCK)
            add_points<1>(args, upstream, b, c, (int)first + k, sums);
    }
    double *to = args.sums + (int64_t)blockIdx.x * GSC__IMAGE_SUMS;
    sums[0] = gsc__block_sum(sums[0], warps);
    sums[1] = gsc__block_sum(sums[1], warps);
    if (threadIdx.x) return;
    to[0] = sums[0];
    to[1] = sums[1];
    to[2] = 0;
}

extern "C" __global__ void __launch_bounds__(GSC__MASK_BLOCK)
    gsc_mask_sums(const __grid_constant__ gsc_k_mask_sums args) {
    gsc__begin_kernel();
    __shared__ double warps[32];
    const int b = (int)(blockIdx.x / (uint32_t)args.chunks);
    const int first = (int)(blockIdx.x % (uint32_t)args.chunks) * GSC__MASK_ROWS;
    const int border = args.border;
    double pixels = 0, windows = 0;
    for (int y = first; y < first + GSC__MASK_ROWS && y < args.height; ++y) {
        const bool row_inside = y >= border && y < args.height - border;
        const int64_t row = gsc__offset(args.mask, b, 0, y, 0);
#pragma unroll 2
        for (int x = threadIdx.x; x < args.width; x += GSC__MASK_BLOCK) {
            const float weight = gsc__weight(args.mask, row + x * args.mask.strides[3]);
            pixels += weight;
            if (row_inside && x >= border && x < args.width - border) windows += weight;
        }
    }
    pixels = gsc__block_sum(pixels, warps);
    windows = gsc__block_sum(windows, warps);
    if (threadIdx.x == 0) args.sums[blockIdx.x] = {pixels, windows};
}

extern "C" __global__ void __launch_bounds__(GSC__MASK_TOTAL_BLOCK)
    gsc_mask_total(const __grid_constant__ gsc_k_mask_total args) {
    gsc__begin_kernel();
    __shared__ double warps[32];
    double pixels = 0, windows = 0;
#pragma unroll 1
    for (int64_t i = threadIdx.x; i < args.count; i += GSC__MASK_TOTAL_BLOCK) {
        pixels += args.sums[i].pixels;
        windows += args.sums[i].windows;
    }
    pixels = gsc__block_sum(pixels, warps);
    windows = gsc__block_sum(windows, warps);
    if (threadIdx.x) return;
    args.shares->pixel = pixels != 0 ? 1 / (pixels * args.channels) : 0;
    args.shares->window = windows != 0 ? 1 / (windows * args.channels) : 0;
}

/* Threads add all sums at once, since they only wait for latency. */
extern "C" __global__ void __launch_bounds__(GSC__IMAGE_TOTAL_BLOCK)
    gsc_image_total(const __grid_constant__ gsc_k_image_total args) {
    gsc__begin_kernel();
    enum { BLOCK = GSC__IMAGE_TOTAL_BLOCK, WARPS = BLOCK / 32, BATCH = 4 };
    __shared__ double warps[GSC__IMAGE_SUMS][WARPS];
    const gsc__gpu_image_shares shares = args.device_shares ? *args.device_shares : args.shares;
    double sums[GSC__IMAGE_SUMS] = {0, 0, 0};
#pragma unroll 1
    for (int64_t first = threadIdx.x; first < args.blocks; first += BATCH * BLOCK) {
        double batch[BATCH][GSC__IMAGE_SUMS];
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            const int64_t block = first + i * BLOCK;
#pragma unroll
            for (int k = 0; k < GSC__IMAGE_SUMS; ++k)
                batch[i][k] = block < args.blocks ? args.sums[block * GSC__IMAGE_SUMS + k] : 0.0;
        }
#pragma unroll
        for (int i = 0; i < BATCH; ++i)
#pragma unroll
            for (int k = 0; k < GSC__IMAGE_SUMS; ++k) sums[k] += batch[i][k];
    }
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
#pragma unroll
        for (int k = 0; k < GSC__IMAGE_SUMS; ++k)
            sums[k] += __shfl_down_sync(GSC__ALL_LANES, sums[k], step);
    const uint32_t lane = gsc__lane();
#pragma unroll
    for (int k = 0; k < GSC__IMAGE_SUMS; ++k)
        if (lane == 0) warps[k][threadIdx.x >> 5] = sums[k];
    __syncthreads();
    if (threadIdx.x >= 32) return;
    /* WARPS lanes add up each sum. */
    double sum = lane < GSC__IMAGE_SUMS * WARPS ? warps[lane / WARPS][lane % WARPS] : 0.0;
#pragma unroll
    for (int step = WARPS / 2; step > 0; step /= 2)
        sum += __shfl_down_sync(GSC__ALL_LANES, sum, step);
#pragma unroll
    for (int k = 0; k < GSC__IMAGE_SUMS; ++k) sums[k] = __shfl_sync(GSC__ALL_LANES, sum, k * WARPS);
    if (lane > 0) return;
    const double l1 = sums[0] * shares.pixel, l2 = sums[1] * shares.pixel;
    const double ssim = sums[2] * shares.window;
    if (args.mean) *args.mean = (float)ssim;
    if (args.loss)
        *args.loss =
            (float)(args.l1_weight * l1 + args.l2_weight * l2 + args.ssim_weight * (1 - ssim));
    if (!args.parts) return;
    args.parts[0] = (float)l1;
    args.parts[1] = (float)l2;
    args.parts[2] = (float)ssim;
}
