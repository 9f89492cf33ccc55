/* The floating-point type of the library: float32.  With GSC_DOUBLE the same source is the tests'
 * oracle, whose tensors are float64. */
#ifndef GSC_REAL_H
#define GSC_REAL_H

#ifdef __CUDACC_RTC__ /* has no headers of the host */
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <stdint.h>
#endif

#ifdef GSC_DOUBLE
typedef double gsc_real;
typedef uint64_t gsc_real_bits; /* an unsigned integer of the same size */
typedef int64_t gsc_real_int;
#define GSC_REAL_BITS 64
#define GSC_REAL(x) x
#else
typedef float gsc_real;
typedef uint32_t gsc_real_bits;
typedef int32_t gsc_real_int;
#define GSC_REAL_BITS 32
#define GSC_REAL(x) x##f
#endif

#endif
