/* Pixels of strided images, and sums that do not depend on the order of threads. */
#ifndef GSC_IMAGE_CUH
#define GSC_IMAGE_CUH

#include "device.cuh"
#include "image_kernels.h"

/* Of a pixel, in elements. */
static __device__ __forceinline__ int64_t gsc__offset(const gsc__gpu_pixels &image, int64_t b,
                                                      int64_t c, int64_t y, int64_t x) {
    return b * image.strides[0] + c * image.strides[1] + y * image.strides[2] +
           x * image.strides[3];
}

/* value / 255, correctly rounded: the first quotient is corrected by its remainder. */
static __device__ __forceinline__ float gsc__from_byte(uint8_t byte) {
    const float value = (float)byte, inverse = 1.0f / 255.0f, quotient = value * inverse;
    return fmaf(fmaf(-quotient, 255.0f, value), inverse, quotient);
}

/* Pixels, of which bytes stand for value / 255. */
static __device__ __forceinline__ float gsc__pixel(const gsc__gpu_pixels &image, int64_t offset) {
    if (image.bytes) return gsc__from_byte(((const uint8_t *)image.data)[offset]);
    return ((const float *)image.data)[offset];
}

/* Weights, of which bytes stand for themselves; 1 without any. */
static __device__ __forceinline__ float gsc__weight(const gsc__gpu_pixels &image, int64_t offset) {
    if (image.bytes) return (float)((const uint8_t *)image.data)[offset];
    return ((const float *)image.data)[offset];
}

/* Derivatives with respect to the sums. */
static __device__ __forceinline__ void gsc__upstream(const double *coefficients,
                                                     const gsc__gpu_image_shares &shares,
                                                     double factor, float *upstream) {
    upstream[0] = (float)(coefficients[0] * factor * shares.pixel);
    upstream[1] = (float)(coefficients[1] * factor * shares.pixel);
    upstream[2] = (float)(coefficients[2] * factor * shares.window);
}

/* Sum over a warp, for its first lane. */
template <class number> static __device__ __forceinline__ number gsc__warp_sum(number x) {
#pragma unroll 1
    for (int step = 16; step > 0; step /= 2) x += __shfl_down_sync(GSC__ALL_LANES, x, step);
    return x;
}

/* Sum over a block of a multiple of 32 threads, for thread 0.  warps: 32 doubles of shared
 * memory, free again after the call. */
static __device__ double gsc__block_sum(double x, double *warps) {
    x = gsc__warp_sum(x);
    if (gsc__lane() == 0) warps[threadIdx.x >> 5] = x;
    __syncthreads();
    double sum = 0;
    if (threadIdx.x < 32)
        sum = gsc__warp_sum(gsc__lane() < blockDim.x >> 5 ? warps[gsc__lane()] : 0.0);
    __syncthreads();
    return sum;
}

#endif
