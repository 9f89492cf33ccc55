/* Writes host values, which are kernel parameters, to device memory. */
#include "device.cuh"

extern "C" __global__ void __launch_bounds__(GSC__WRITE_BLOCK)
    gsc_write(const __grid_constant__ gsc_k_write args) {
    gsc__begin_kernel();
    for (uint32_t i = threadIdx.x; i < args.count; i += GSC__WRITE_BLOCK)
        args.to[i] = args.values[i];
}
