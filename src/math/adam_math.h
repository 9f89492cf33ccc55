/* What is the same for all elements that a step of Adam changes. */
#ifndef GSC_ADAM_MATH_H
#define GSC_ADAM_MATH_H

#include "real.h"

typedef struct gsc__adam_constants {
    gsc_real decay; /* times the parameter, added to the gradient */
    gsc_real keep;  /* factor of the parameter, before the step */
    gsc_real beta1, beta2;
    gsc_real complement1, complement2; /* 1 - beta */
    gsc_real step_size;                /* lr / (1 - beta1^step) */
    gsc_real root_scale;               /* 1 / sqrt(1 - beta2^step) */
    gsc_real epsilon;
} gsc__adam_constants;

#endif
