/* What losses of images need besides windows: sums of masks, terms without a window, and
 * the sums of all blocks.  Every sum is of the same order in every run. */
#include "image.cuh"

extern "C" __global__ void __launch_bounds__(GSC__POINTS_BLOCK)
    gsc_image_points(const __grid_constant__ gsc_k_image_points args) {
    __shared__ double warps[32];
    float upstream[GSC__IMAGE_SUMS];
    gsc__upstream(args.coefficients, args.device_shares ? *args.device_shares : args.shares, 1.0,
                  upstream);
    const int plane = (int)(blockIdx.x / (uint32_t)args.pieces);
    const int64_t first = (int64_t)(blockIdx.x % (uint32_t)args.pieces) * GSC__POINTS_PIECE;
    const int b = plane / args.channels, c = plane % args.channels;
    const int64_t pixels = (int64_t)args.height * args.width;
    double absolute = 0, square = 0;
    for (int k = threadIdx.x; k < GSC__POINTS_PIECE && first + k < pixels; k += GSC__POINTS_BLOCK) {
        const int at = (int)(first + k), y = at / args.width, x = at - y * args.width;
        const float value = gsc__pixel(args.image, gsc__offset(args.image, b, c, y, x));
        const float d = value - gsc__pixel(args.target, gsc__offset(args.target, b, c, y, x));
        float weight = 1.0f;
        if (args.weight.data)
            weight = gsc__weight(args.weight, gsc__offset(args.weight, b, c, y, x));
        absolute += weight * fabsf(d);
        square += weight * (d * d);
        if (!args.grad_image.data) continue;
        const float sign = (float)((d > 0.0f) - (d < 0.0f)); /* 0 at x = y */
        ((float *)args.grad_image.data)[gsc__offset(args.grad_image, b, c, y, x)] =
            weight * (upstream[0] * sign + 2.0f * upstream[1] * d);
    }
    double *sums = args.sums + (int64_t)blockIdx.x * GSC__IMAGE_SUMS;
    absolute = gsc__block_sum(absolute, warps);
    square = gsc__block_sum(square, warps);
    if (threadIdx.x) return;
    sums[0] = absolute;
    sums[1] = square;
    sums[2] = 0;
}

extern "C" __global__ void __launch_bounds__(GSC__MASK_BLOCK)
    gsc_mask_sums(const __grid_constant__ gsc_k_mask_sums args) {
    __shared__ double warps[32];
    const int b = (int)(blockIdx.x / (uint32_t)args.pieces);
    const int first = (int)(blockIdx.x % (uint32_t)args.pieces) * GSC__MASK_ROWS;
    const int border = args.border;
    double pixels = 0, windows = 0;
    for (int y = first; y < first + GSC__MASK_ROWS && y < args.height; ++y) {
        const bool row_inside = y >= border && y < args.height - border;
        const int64_t row = gsc__offset(args.mask, b, 0, y, 0);
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

extern "C" __global__ void __launch_bounds__(GSC__TOTAL_BLOCK)
    gsc_mask_total(const __grid_constant__ gsc_k_mask_total args) {
    __shared__ double warps[32];
    double pixels = 0, windows = 0;
    for (int64_t i = threadIdx.x; i < args.count; i += GSC__TOTAL_BLOCK) {
        pixels += args.sums[i].pixels;
        windows += args.sums[i].windows;
    }
    pixels = gsc__block_sum(pixels, warps);
    windows = gsc__block_sum(windows, warps);
    if (threadIdx.x) return;
    args.shares->pixel = pixels != 0 ? 1 / (pixels * args.channels) : 0;
    args.shares->window = windows != 0 ? 1 / (windows * args.channels) : 0;
}

extern "C" __global__ void __launch_bounds__(GSC__TOTAL_BLOCK)
    gsc_image_total(const __grid_constant__ gsc_k_image_total args) {
    __shared__ double warps[32];
    double sums[GSC__IMAGE_SUMS] = {0, 0, 0};
    for (int64_t i = threadIdx.x; i < args.blocks; i += GSC__TOTAL_BLOCK)
        for (int k = 0; k < GSC__IMAGE_SUMS; ++k) sums[k] += args.sums[i * GSC__IMAGE_SUMS + k];
    for (int k = 0; k < GSC__IMAGE_SUMS; ++k) sums[k] = gsc__block_sum(sums[k], warps);
    if (threadIdx.x) return;
    const gsc__gpu_image_shares shares = args.device_shares ? *args.device_shares : args.shares;
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
