/* Adam on some elements of a group. */
#ifndef GSC_CPU_ADAM_H
#define GSC_CPU_ADAM_H

#include "core/backend.h"

/* What is the same for all elements of a group. */
typedef struct gsc__adam_constants {
    gsc_real decay; /* times the parameter, added to the gradient */
    gsc_real keep;  /* times the parameter, before the step */
    gsc_real beta1, beta2;
    gsc_real complement1, complement2; /* 1 - beta */
    gsc_real step_size;                /* lr / (1 - beta1^step) */
    gsc_real root_scale;               /* 1 / sqrt(1 - beta2^step) */
    gsc_real epsilon;
} gsc__adam_constants;
static gsc__adam_constants gsc__adam_constants_of(const gsc__adam_group *group);

/* Steps the elements from `first` on; gradient: [count]. */
static void gsc__adam_elements(const gsc__adam_group *group, const gsc__adam_constants *constants,
                               const gsc_real *gradient, int64_t first, int64_t count);

#endif
