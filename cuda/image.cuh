/* Pixels of strided images, and sums that do not depend on the order of threads. */
#ifndef GSC_IMAGE_CUH
#define GSC_IMAGE_CUH

#include "device.cuh"
#include "image_kernels.h"

/* In elements. */
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

/* 1 / x to one unit in the last place. */
static __device__ __forceinline__ float gsc__rcp(float x) {
    float y;
    asm("rcp.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
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

/* Derivatives by the sums. */
static __device__ __forceinline__ void gsc__upstream(const double *coefficients,
                                                     const gsc__gpu_image_totals &totals,
                                                     double factor, float *upstream) {
    const double per_pixel = totals.pixels != 0 ? factor / totals.pixels : 0;
    const double per_window = totals.windows != 0 ? factor / totals.windows : 0;
    upstream[0] = (float)(coefficients[0] * per_pixel);
    upstream[1] = (float)(coefficients[1] * per_pixel);
    upstream[2] = (float)(coefficients[2] * per_window);
}

/* Sum over a block of a multiple of 32 threads, for thread 0.  warps: 32 doubles of shared
 * memory, free again after the call. */
static __device__ double gsc__block_sum(double x, double *warps) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_down_sync(GSC__ALL_LANES, x, step);
    if (gsc__lane() == 0) warps[threadIdx.x >> 5] = x;
    __syncthreads();
    double sum = 0;
    if (threadIdx.x < 32) {
        sum = gsc__lane() < blockDim.x >> 5 ? warps[gsc__lane()] : 0;
        for (int step = 16; step > 0; step /= 2) sum += __shfl_down_sync(GSC__ALL_LANES, sum, step);
    }
    __syncthreads();
    return sum;
}

#endif
