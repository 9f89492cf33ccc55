/* Vectors of GSC__LANES reals, one register of the instruction set that the file is compiled for:
 * 16 floats with AVX-512, 8 with AVX2, 4 with NEON, otherwise 16 bytes.  They are vectors of GCC
 * and Clang, whose arithmetic uses C's operators; the functions here are what C has no operator
 * for.
 *
 * gsc__vfma is a b + c, rounded once if the hardware can.  It is written out wherever two copies of
 * a computation must agree to the last bit. */
#ifndef GSC_CPU_SIMD_H
#define GSC_CPU_SIMD_H

#include "math/splat_math.h"

#include <string.h>

#define GSC__INLINE static inline __attribute__((always_inline))

#if defined(__AVX512F__) && !defined(GSC_DOUBLE)
#include <immintrin.h>
#define GSC__LANES 16
#elif defined(__AVX2__) && !defined(GSC_DOUBLE)
#include <immintrin.h>
#define GSC__LANES 8
#else
#define GSC__LANES (128 / GSC_REAL_BITS)
#endif

typedef gsc_real gsc__vec __attribute__((vector_size(GSC__LANES * sizeof(gsc_real))));
typedef gsc_real_int gsc__veci __attribute__((vector_size(GSC__LANES * sizeof(gsc_real))));

GSC__INLINE gsc__vec gsc__vset(gsc_real x) {
    return x - (gsc__vec){0}; /* the compiler folds this; a sum would change -0 */
}
GSC__INLINE gsc__veci gsc__iset(int32_t x) {
    return (gsc__veci){0} + x;
}

/* --------------------------------------------------------------------- masks */

#if GSC__LANES == 16

typedef __mmask16 gsc__mask;
GSC__INLINE gsc__mask gsc__vge(gsc__vec a, gsc__vec b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ);
}
GSC__INLINE gsc__mask gsc__vgt(gsc__vec a, gsc__vec b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}
GSC__INLINE gsc__mask gsc__igt(gsc__veci a, gsc__veci b) {
    return _mm512_cmpgt_epi32_mask((__m512i)a, (__m512i)b);
}
GSC__INLINE gsc__vec gsc__vkeep(gsc__mask m, gsc__vec a) {
    return _mm512_maskz_mov_ps(m, a);
}

#else

typedef gsc__veci gsc__mask; /* -1 or 0 a lane */
GSC__INLINE gsc__mask gsc__vge(gsc__vec a, gsc__vec b) {
    return a >= b;
}
GSC__INLINE gsc__mask gsc__vgt(gsc__vec a, gsc__vec b) {
    return a > b;
}
GSC__INLINE gsc__mask gsc__igt(gsc__veci a, gsc__veci b) {
    return a > b;
}
GSC__INLINE gsc__vec gsc__vkeep(gsc__mask m, gsc__vec a) {
    return (gsc__vec)((gsc__veci)a & m);
}

#endif

GSC__INLINE gsc__mask gsc__mand(gsc__mask a, gsc__mask b) {
    return (gsc__mask)(a & b);
}
GSC__INLINE gsc__mask gsc__mandnot(gsc__mask a, gsc__mask b) {
    return (gsc__mask)(a & ~b);
}

/* ---------------------------------------- what each instruction set does its own way */

/* gsc__mbits: bit i is set if lane i of the mask is. */
#if GSC__LANES >= 8

#if GSC__LANES == 16
#define GSC__INTEL(name) _mm512_##name
GSC__INLINE uint32_t gsc__mbits(gsc__mask m) {
    return m;
}
GSC__INLINE gsc__vec gsc__vselect(gsc__mask m, gsc__vec a, gsc__vec b) {
    return _mm512_mask_mov_ps(b, m, a);
}
#else
#define GSC__INTEL(name) _mm256_##name
GSC__INLINE uint32_t gsc__mbits(gsc__mask m) {
    return (uint32_t)_mm256_movemask_ps((__m256)m);
}
GSC__INLINE gsc__vec gsc__vselect(gsc__mask m, gsc__vec a, gsc__vec b) {
    return _mm256_blendv_ps(b, a, (__m256)m);
}
#endif
GSC__INLINE bool gsc__many(gsc__mask m) {
    return gsc__mbits(m) != 0;
}
GSC__INLINE int gsc__mcount(gsc__mask m) {
    return __builtin_popcount(gsc__mbits(m));
}
GSC__INLINE gsc__vec gsc__vmin(gsc__vec a, gsc__vec b) {
    return GSC__INTEL(min_ps)(a, b);
}
GSC__INLINE gsc__vec gsc__vmax(gsc__vec a, gsc__vec b) {
    return GSC__INTEL(max_ps)(a, b);
}
GSC__INLINE gsc__vec gsc__vsqrt(gsc__vec a) {
    return GSC__INTEL(sqrt_ps)(a);
}
GSC__INLINE gsc__vec gsc__vfma(gsc__vec a, gsc__vec b, gsc__vec c) {
    return GSC__INTEL(fmadd_ps)(a, b, c);
}

#elif defined(__aarch64__) && !defined(GSC_DOUBLE)

#include <arm_neon.h>
GSC__INLINE uint32_t gsc__mbits(gsc__mask m) {
    const uint32_t bit[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32((uint32x4_t)m, vld1q_u32(bit)));
}
GSC__INLINE bool gsc__many(gsc__mask m) {
    return vmaxvq_u32((uint32x4_t)m) != 0;
}
GSC__INLINE int gsc__mcount(gsc__mask m) {
    return -vaddvq_s32((int32x4_t)m);
}
GSC__INLINE gsc__vec gsc__vselect(gsc__mask m, gsc__vec a, gsc__vec b) {
    return vbslq_f32((uint32x4_t)m, a, b);
}
GSC__INLINE gsc__vec gsc__vmin(gsc__vec a, gsc__vec b) {
    return vminnmq_f32(a, b);
}
GSC__INLINE gsc__vec gsc__vmax(gsc__vec a, gsc__vec b) {
    return vmaxnmq_f32(a, b);
}
GSC__INLINE gsc__vec gsc__vsqrt(gsc__vec a) {
    return vsqrtq_f32(a);
}
GSC__INLINE gsc__vec gsc__vfma(gsc__vec a, gsc__vec b, gsc__vec c) {
    return vfmaq_f32(c, a, b);
}

#else

GSC__INLINE uint32_t gsc__mbits(gsc__mask m) {
    uint32_t bits = 0;
    for (int i = 0; i < GSC__LANES; ++i) bits |= (uint32_t)(m[i] & 1) << i;
    return bits;
}
GSC__INLINE bool gsc__many(gsc__mask m) {
    gsc_real_int any = 0;
    for (int i = 0; i < GSC__LANES; ++i) any |= m[i];
    return any != 0;
}
GSC__INLINE int gsc__mcount(gsc__mask m) {
    gsc_real_int count = 0;
    for (int i = 0; i < GSC__LANES; ++i) count -= m[i];
    return (int)count;
}
GSC__INLINE gsc__vec gsc__vselect(gsc__mask m, gsc__vec a, gsc__vec b) {
    return (gsc__vec)(((gsc__veci)a & m) | ((gsc__veci)b & ~m));
}
GSC__INLINE gsc__vec gsc__vmin(gsc__vec a, gsc__vec b) {
    return gsc__vselect(a < b, a, b);
}
GSC__INLINE gsc__vec gsc__vmax(gsc__vec a, gsc__vec b) {
    return gsc__vselect(a > b, a, b);
}
GSC__INLINE gsc__vec gsc__vsqrt(gsc__vec a) {
    for (int i = 0; i < GSC__LANES; ++i) a[i] = gsc__sqrt(a[i]);
    return a;
}
GSC__INLINE gsc__vec gsc__vfma(gsc__vec a, gsc__vec b, gsc__vec c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
    for (int i = 0; i < GSC__LANES; ++i) c[i] = gsc__fma(a[i], b[i], c[i]);
    return c;
#else
    return a * b + c;
#endif
}

#endif

GSC__INLINE gsc__veci gsc__iselect(gsc__mask m, gsc__veci a, gsc__veci b) {
    return (gsc__veci)gsc__vselect(m, (gsc__vec)a, (gsc__vec)b);
}

/* ------------------------------------------------------------ memory and sums */

GSC__INLINE gsc__vec gsc__vload(const gsc_real *p) {
    gsc__vec v;
    memcpy(&v, p, sizeof v);
    return v;
}
GSC__INLINE void gsc__vstore(gsc_real *p, gsc__vec v) {
    memcpy(p, &v, sizeof v);
}

/* first, first + 1, .. */
GSC__INLINE gsc__vec gsc__vramp(gsc_real first) {
    gsc_real ramp[GSC__LANES];
    for (int i = 0; i < GSC__LANES; ++i) ramp[i] = first + (gsc_real)i;
    return gsc__vload(ramp);
}

/* Sum of all lanes, pairwise, always in the same order. */
GSC__INLINE gsc_real gsc__vsum(gsc__vec v) {
    gsc_real lane[GSC__LANES];
    gsc__vstore(lane, v);
    for (int half = GSC__LANES / 2; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) lane[i] += lane[i + half];
    return lane[0];
}

/* Sums of all lanes of eight vectors. */
#if GSC__LANES >= 8
GSC__INLINE void gsc__vsum8(const gsc__vec v[8], gsc_real sums[8]) {
#if GSC__LANES == 16
    __m256 h[8];
    for (int i = 0; i < 8; ++i)
        h[i] = _mm256_add_ps(_mm512_castps512_ps256(v[i]), _mm512_extractf32x8_ps(v[i], 1));
#else
    const gsc__vec *h = v;
#endif
    __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(h[0], h[1]), _mm256_hadd_ps(h[2], h[3]));
    __m256 b = _mm256_hadd_ps(_mm256_hadd_ps(h[4], h[5]), _mm256_hadd_ps(h[6], h[7]));
    __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
    _mm256_storeu_ps(sums, _mm256_add_ps(low, high));
}
#elif defined(__aarch64__) && !defined(GSC_DOUBLE)
GSC__INLINE void gsc__vsum8(const gsc__vec v[8], gsc_real sums[8]) {
    for (int i = 0; i < 8; i += 4)
        vst1q_f32(sums + i, vpaddq_f32(vpaddq_f32(v[i], v[i + 1]), vpaddq_f32(v[i + 2], v[i + 3])));
}
#else
GSC__INLINE void gsc__vsum8(const gsc__vec v[8], gsc_real sums[8]) {
    for (int i = 0; i < 8; ++i) sums[i] = gsc__vsum(v[i]);
}
#endif

GSC__INLINE gsc__vec gsc__vabs(gsc__vec v) {
    return gsc__vselect(gsc__vgt(v, -v), v, -v);
}

/* 2^x.  In float32 for x in [-126, 127], with a relative error of 2e-7 (polynomial of degree 5 on
 * [-1/2, 1/2]); outside that range the result is undefined. */
GSC__INLINE gsc__vec gsc__vexp2(gsc__vec x) {
#ifdef GSC_DOUBLE
    for (int i = 0; i < GSC__LANES; ++i) x[i] = exp2(x[i]);
    return x;
#else
    typedef uint32_t bits __attribute__((vector_size(sizeof(gsc__vec))));
    const gsc__vec magic = gsc__vset(12582912.0f); /* 1.5 2^23: adding it rounds to integers */
    gsc__vec shifted = x + magic;
    gsc__vec f = x - (shifted - magic);
    gsc__vec y = gsc__vset(0.001339086336f);
    y = y * f + gsc__vset(0.009676031918f);
    y = y * f + gsc__vset(0.05550357114f);
    y = y * f + gsc__vset(0.2402210749f);
    y = y * f + gsc__vset(0.693147188f);
    y = y * f + gsc__vset(1.000000075f);
    return (gsc__vec)((bits)y + ((bits)shifted << 23));
#endif
}

#endif
