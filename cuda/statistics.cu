/* Statistics per Gaussian, which blend.cu sums up in fixed point. */
#include "device.cuh"

/* One block finds the power of two that makes the largest pixel weight a number of 31 bits. */
extern "C" __global__ void __launch_bounds__(GSC__SCALE_BLOCK)
    gsc_weight_scale(const __grid_constant__ gsc_k_weight_scale args) {
    gsc__begin_kernel();
    __shared__ uint32_t largest;
    if (threadIdx.x == 0) largest = 0;
    __syncthreads();
    uint32_t own = 0;
    for (int64_t i = threadIdx.x; i < args.pixels; i += GSC__SCALE_BLOCK) {
        float w = fabsf(args.pixel_weights[i]);
        if (gsc__finite(w)) own = max(own, __float_as_uint(w));
    }
    atomicMax(&largest, own);
    __syncthreads();
    if (threadIdx.x) return;
    int exponent = (int)(largest >> 23) - 127;
    *args.scale = exp2f((float)(30 - exponent));
}

extern "C" __global__ void __launch_bounds__(GSC__STATISTICS_BLOCK)
    gsc_finish_statistics(const __grid_constant__ gsc_k_finish_statistics args) {
    gsc__begin_kernel();
    const int64_t i = (int64_t)blockIdx.x * GSC__STATISTICS_BLOCK + threadIdx.x;
    if (i >= args.gaussians) return;
    if (args.weight_sum)
        args.weight_sum[i] = (float)((double)(int64_t)args.fixed_sum[i] / *args.weight_scale);
    if (args.weight_blend)
        args.weight_blend[i] = (float)((double)(int64_t)args.fixed_blend[i] / GSC__BLEND_SCALE);
    if (args.weight_distance)
        args.weight_distance[i] =
            (float)((double)(int64_t)args.fixed_distance[i] / GSC__DISTANCE_SCALE);
}
