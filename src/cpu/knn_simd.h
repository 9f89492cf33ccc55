/* What the neighbour search needs beyond simd.h: masks as bits, and a squared length that
 * is rounded the same way wherever it is computed. */
#ifndef GSC_CPU_KNN_SIMD_H
#define GSC_CPU_KNN_SIMD_H

#include "simd.h"

/* Bit i is set if lane i of the mask is. */
GSC__INLINE uint32_t gsc__mbits(gsc__mask m) {
#if defined(__AVX512F__) && !defined(GSC_DOUBLE)
    return (uint32_t)m;
#elif defined(__AVX2__) && !defined(GSC_DOUBLE)
    return (uint32_t)_mm256_movemask_ps(m);
#elif defined(__aarch64__) && !defined(GSC_DOUBLE)
    const uint32_t bit[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(m, vld1q_u32(bit)));
#else
    uint32_t bits = 0;
    for (int i = 0; i < GSC__LANES; ++i) bits |= (uint32_t)(m[i] & 1) << i;
    return bits;
#endif
}

GSC__INLINE gsc__vec gsc__vmax(gsc__vec a, gsc__vec b) {
#if defined(__AVX512F__) && !defined(GSC_DOUBLE)
    return _mm512_max_ps(a, b);
#elif defined(__AVX2__) && !defined(GSC_DOUBLE)
    return _mm256_max_ps(a, b);
#elif defined(__aarch64__) && !defined(GSC_DOUBLE)
    return vmaxnmq_f32(a, b);
#else
    return gsc__vselect(a > b, a, b);
#endif
}

/* x^2 + y^2 + z^2 with one order of roundings, so that it never decreases when |x|, |y| or |z|
 * grows.  If the compiler chose which products to fuse, a box could come out farther than a point
 * inside it. */
GSC__INLINE gsc__vec gsc__vlength2(gsc__vec x, gsc__vec y, gsc__vec z) {
#if (defined(__AVX2__) || defined(__aarch64__)) && !defined(GSC_DOUBLE)
    return gsc__vfma(z, z, gsc__vfma(y, y, x * x));
#elif defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    gsc__vec sum = x * x;
    for (int i = 0; i < GSC__LANES; ++i) {
#ifdef GSC_DOUBLE
        sum[i] = __builtin_fma(z[i], z[i], __builtin_fma(y[i], y[i], sum[i]));
#else
        sum[i] = __builtin_fmaf(z[i], z[i], __builtin_fmaf(y[i], y[i], sum[i]));
#endif
    }
    return sum;
#else
    return x * x + y * y + z * z; /* nothing to fuse with */
#endif
}

#endif
