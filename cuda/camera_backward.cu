/* Gradients of what belongs to a camera: view, position, background. */
#include "device.cuh"

/* Without a position of its own, the camera's centre is -R^T t, and its gradient goes on to the
 * view. */
extern "C" __global__ void __launch_bounds__(GSC__CAMERA_GRAD_BLOCK)
    gsc_camera_grad(const __grid_constant__ gsc_k_camera_grad args) {
    gsc__begin_kernel();
    __shared__ double sums[GSC__CAMERA_GRAD_BLOCK];
    const int64_t total = (int64_t)args.blocks * GSC__CAMERA_SHARES;
    double sum = 0;
#pragma unroll 8
    for (int64_t i = threadIdx.x; i < total; i += GSC__CAMERA_GRAD_BLOCK) sum += args.shares[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x < GSC__CAMERA_SHARES)
        for (int i = GSC__CAMERA_SHARES; i < GSC__CAMERA_GRAD_BLOCK; i += GSC__CAMERA_SHARES)
            sums[threadIdx.x] += sums[threadIdx.x + i];
    __syncwarp();
    if (threadIdx.x) return;
    for (int k = 0; k < 3 && args.grad_position; ++k) args.grad_position[k] += (float)sums[12 + k];
    if (!args.grad_view) return;
    for (int i = 0; i < 3; ++i)
        for (int k = 0; k < 4; ++k) {
            double g = sums[4 * i + k];
            if (!args.own_position && k < 3)
                g -= (double)args.camera->translation[i] * sums[12 + k];
            for (int j = 0; j < 3 && !args.own_position && k == 3; ++j)
                g -= (double)args.camera->rotation[i][j] * sums[12 + j];
            args.grad_view[args.row_major ? 4 * i + k : 4 * k + i] += (float)g;
        }
}

/* Sums final T times a channel's gradient over all pixels; a block per channel. */
extern "C" __global__ void __launch_bounds__(GSC__BACKGROUND_GRAD_BLOCK)
    gsc_background_grad(const __grid_constant__ gsc_k_background_grad args) {
    gsc__begin_kernel();
    __shared__ double warps[GSC__BACKGROUND_GRAD_BLOCK / 32];
    const int32_t c = (int32_t)blockIdx.x;
    const float *g = args.pixel_last ? args.grad_color + c : args.grad_color + c * args.pixels;
    const int64_t step = args.pixel_last ? args.channels : 1;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < args.pixels; i += GSC__BACKGROUND_GRAD_BLOCK)
        sum += (double)args.final_t[i] * (double)g[i * step];
    for (int s = 16; s; s /= 2) sum += __shfl_xor_sync(GSC__ALL_LANES, sum, s);
    if (gsc__lane() == 0) warps[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    for (int w = 1; w < GSC__BACKGROUND_GRAD_BLOCK / 32; ++w) sum += warps[w];
    args.grad_background[c] += (float)sum;
}
