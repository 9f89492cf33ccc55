/* Argument struct of Adam's kernel, see kernels.h. */
#ifndef GSC_ADAM_KERNELS_H
#define GSC_ADAM_KERNELS_H

#include "../src/real.h"

#define GSC__ADAM_BLOCK 256
#define GSC__ADAM_PIECE 1024 /* elements of a block, four to a thread */
#define GSC__ADAM_GROUPS 16  /* that one launch takes */

/* What is the same for all elements of a group. */
typedef struct gsc__gpu_adam_constants {
    float decay;                                  /* added to the gradient, by the parameter */
    float keep;                                   /* of the parameter, before the step */
    float beta1, beta2, complement1, complement2; /* complement: 1 - beta */
    float step_size;                              /* lr / (1 - beta1^step) */
    float root_scale;                             /* 1 / sqrt(1 - beta2^step) */
    float epsilon;
} gsc__gpu_adam_constants;

typedef struct gsc__gpu_adam_group {
    float *parameter, *moment1, *moment2; /* [count] */
    const float *gradient;                /* [count] */
    int64_t count, row_size;
    uint32_t block_end; /* blocks of this group and of those before it */
    int32_t vectors;    /* all four aligned to 16 bytes */
    gsc__gpu_adam_constants constants;
} gsc__gpu_adam_group;

/* A thread per four elements. */
typedef struct gsc_k_adam {
    gsc__gpu_adam_group groups[GSC__ADAM_GROUPS];
    const void *visible;          /* [rows] or NULL: every row */
    int32_t visible_bytes, count; /* of an element; of groups */
} gsc_k_adam;

#endif
