/* Warp and block helpers. */
#ifndef GSC_DEVICE_CUH
#define GSC_DEVICE_CUH

#include "kernels.h"

#define GSC__ALL_LANES 0xffffffffu
#define GSC__KERNEL extern "C" __global__ void

static __device__ __forceinline__ uint32_t gsc__lane() {
    return threadIdx.x & 31;
}
static __device__ __forceinline__ uint32_t gsc__lanes_below() {
    return (1u << gsc__lane()) - 1u;
}

static __device__ __forceinline__ uint32_t gsc__warp_scan(uint32_t x) { /* inclusive */
    for (int step = 1; step < 32; step *= 2) {
        uint32_t below = __shfl_up_sync(GSC__ALL_LANES, x, step);
        if (gsc__lane() >= step) x += below;
    }
    return x;
}

/* Exclusive sum over a block of at most 1024 threads, a multiple of 32, and its total.
 * warps: 33 words of shared memory, free again after the call's last barrier. */
static __device__ uint32_t gsc__block_scan(uint32_t x, uint32_t *warps, uint32_t *total) {
    const uint32_t warp = threadIdx.x >> 5, count = blockDim.x >> 5;
    uint32_t inclusive = gsc__warp_scan(x);
    if (gsc__lane() == 31) warps[warp] = inclusive;
    __syncthreads();
    if (warp == 0) {
        uint32_t sum = gsc__lane() < count ? warps[gsc__lane()] : 0;
        uint32_t scanned = gsc__warp_scan(sum);
        warps[gsc__lane()] = scanned - sum;
        if (gsc__lane() == 31) warps[32] = scanned;
    }
    __syncthreads();
    *total = warps[32];
    uint32_t result = warps[warp] + inclusive - x;
    __syncthreads();
    return result;
}

static __device__ __forceinline__ uint32_t gsc__length_of(const gsc__gpu_length &length) {
    uint32_t count = *length.count;
    return count < length.limit ? count : length.limit;
}

/* 2^x and 1 / x by the special function unit, relative error about 2^-22. */
static __device__ __forceinline__ float gsc__exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
static __device__ __forceinline__ float gsc__rcp_fast(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 16 bytes from global to shared memory, asynchronously where the hardware can. */
static __device__ __forceinline__ void gsc__copy16(void *to, const void *from) {
#if __CUDA_ARCH__ >= 800
    uint32_t shared = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from));
#else
    *(float4 *)to = *(const float4 *)from;
#endif
}
static __device__ __forceinline__ void gsc__copy_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}
/* Until at most the newest `pending` groups are on their way. */
template <int pending> static __device__ __forceinline__ void gsc__copy_wait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
#endif
}

#endif
