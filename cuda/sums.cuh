/* How backward blending adds to the sums of a record: in whatever order the warps arrive, or
 * reproducibly.
 *
 * Floats added in another order round differently; integers do not.  So a reproducible sum takes
 * two passes over the same values: the first finds the largest magnitude, the second adds the
 * values as 64-bit integers in a unit that depends on this magnitude.  The largest value is at
 * least 2^32 units, so rounding to the unit loses less than 2^-33 of it, which is less than a
 * float sum loses.  And 2^30 values fit: each is a sum over at least eight pixels, and over 16
 * channels if there are more than three; no image has 2^35 floats. */
#ifndef GSC_SUMS_CUH
#define GSC_SUMS_CUH

#include "device.cuh"

enum { GSC__SUM_FAST, GSC__SUM_LARGEST, GSC__SUM_FIXED };

#define GSC__INFINITY_BITS 0x7f800000u

/* The exponent's field of a float; subnormal numbers have the scale of the smallest normal one. */
static __device__ __forceinline__ int gsc__exponent_field(uint32_t bits) {
    const int field = (int)(bits >> 23 & 0xff);
    return field ? field : 1;
}

/* In units of 2^-33 of the first power of two above `largest`, rounded to nearest.  Neither is
 * infinite or NaN.  The two passes are compiled separately, and their values may differ in the
 * last place: hence the margin above the largest. */
static __device__ __forceinline__ int64_t gsc__to_fixed(float value, uint32_t largest) {
    const uint32_t bits = __float_as_uint(value);
    const int down = gsc__exponent_field(largest) - gsc__exponent_field(bits) + 4;
    const int64_t significand = (bits & 0x7fffff) | (bits & GSC__INFINITY_BITS ? 0x800000 : 0);
    const int64_t fixed = ((significand << 14 >> max(min(down, 63), 0)) + 1) >> 1;
    return bits >> 31 ? -fixed : fixed;
}

/* NaN if a value was infinite or NaN, as such a sum has no unit. */
static __device__ __forceinline__ float gsc__from_fixed(int64_t fixed, uint32_t largest) {
    if (largest >= GSC__INFINITY_BITS) return __uint_as_float(0x7fffffff);
    const int64_t unit = (int64_t)(1023 - 159 + gsc__exponent_field(largest)) << 52;
    return (float)((double)fixed * __longlong_as_double(unit));
}

/* Adds to sums[at].  In the reproducible modes sums[at] holds the bits of the largest magnitude, of
 * which NaN is the largest, and fixed[at] the sum. */
template <int mode>
static __device__ __forceinline__ void gsc__add_sum(float *sums, uint64_t *fixed, int64_t at,
                                                    float value) {
    if (mode == GSC__SUM_FAST) {
        atomicAdd(sums + at, value);
    } else if (mode == GSC__SUM_LARGEST) {
        atomicMax((uint32_t *)sums + at, __float_as_uint(fabsf(value)));
    } else {
        const uint32_t largest = __float_as_uint(__ldg(sums + at));
        if (largest < GSC__INFINITY_BITS)
            atomicAdd((unsigned long long *)fixed + at,
                      (unsigned long long)gsc__to_fixed(value, largest));
    }
}

#endif
