/* The sums of backward blending: clearing them before it, finishing reproducible ones after it. */
#include "sums.cuh"

extern "C" __global__ void __launch_bounds__(GSC__CLEAR_BLOCK)
    gsc_clear_sums(const __grid_constant__ gsc_k_clear_sums args) {
    gsc__begin_kernel();
    const uint64_t total = (uint64_t)gsc__record_count(args.frame) * args.quads;
    const uint64_t stride = (uint64_t)gridDim.x * GSC__CLEAR_BLOCK;
    for (uint64_t i = (uint64_t)blockIdx.x * GSC__CLEAR_BLOCK + threadIdx.x; i < total; i += stride)
        ((float4 *)args.to)[i] = make_float4(0, 0, 0, 0);
}

extern "C" __global__ void __launch_bounds__(GSC__FINISH_BLOCK)
    gsc_finish_sums(const __grid_constant__ gsc_k_finish_sums args) {
    gsc__begin_kernel();
    const uint64_t total = (uint64_t)gsc__record_count(args.frame) * args.width;
    const uint64_t stride = (uint64_t)gridDim.x * GSC__FINISH_BLOCK;
    for (uint64_t i = (uint64_t)blockIdx.x * GSC__FINISH_BLOCK + threadIdx.x; i < total;
         i += stride)
        args.sums[i] = gsc__from_fixed((int64_t)args.fixed[i], __float_as_uint(args.sums[i]));
}

extern "C" __global__ void __launch_bounds__(GSC__FINISH_BLOCK)
    gsc_finish_colors(const __grid_constant__ gsc_k_finish_sums args) {
    gsc__begin_kernel();
    const uint64_t total = (uint64_t)gsc__record_count(args.frame) * args.width;
    const uint64_t stride = (uint64_t)gridDim.x * GSC__FINISH_BLOCK;
    for (uint64_t i = (uint64_t)blockIdx.x * GSC__FINISH_BLOCK + threadIdx.x; i < total;
         i += stride) {
        const uint64_t record = i / args.width, c = i - record * args.width;
        const int64_t gaussian = gsc__gaussian_of(args.frame, (uint32_t)record);
        if (c < args.channels)
            args.grad_colors[gaussian * args.channels + (int64_t)c] +=
                gsc__from_fixed((int64_t)args.fixed[i], __float_as_uint(args.sums[i]));
    }
}
