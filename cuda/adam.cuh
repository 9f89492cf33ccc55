/* Adam's step of one element, the same to the last bit in every kernel. */
#ifndef GSC_ADAM_CUH
#define GSC_ADAM_CUH

#include "adam_kernels.h"

/* Rounded as written: which operations a compiler fuses depends on the code around them. */
static __device__ __forceinline__ void gsc__adam_element(const gsc__adam_constants &c,
                                                         float gradient, float &parameter,
                                                         float &moment1, float &moment2) {
    const float g = c.decay != 0.0f ? __fmaf_rn(c.decay, parameter, gradient) : gradient;
    moment1 = __fmaf_rn(c.beta1, moment1, __fmul_rn(c.complement1, g));
    moment2 = __fmaf_rn(c.beta2, moment2, __fmul_rn(c.complement2, __fmul_rn(g, g)));
    const float root = __fmaf_rn(__fsqrt_rn(moment2), c.root_scale, c.epsilon);
    const float step = __fdiv_rn(__fmul_rn(c.step_size, moment1), root);
    parameter = __fmaf_rn(c.keep, parameter, -step);
}

#endif
