/* Argument structs of Adam's kernels, see kernels.h. */
#ifndef GSC_ADAM_KERNELS_H
#define GSC_ADAM_KERNELS_H

#include "../src/math/adam_math.h"

#define GSC__ADAM_BLOCK 256
#define GSC__ADAM_CHUNK 1024    /* elements of a block, four to a thread */
#define GSC__ADAM_GROUPS 16     /* of one launch */
#define GSC__ADAM_ROWS 128      /* of a block at most, where only visible rows are stepped */
#define GSC__ADAM_CAPACITY 8192 /* elements of these rows at most */

typedef struct gsc__gpu_adam_group {
    float *parameter, *moment1, *moment2; /* [count] */
    const float *gradient;                /* [count] */
    int64_t count;
    uint32_t block_end; /* blocks of this group and of those before it */
    int32_t vectors;    /* all four aligned to 16 bytes */
    gsc__adam_constants constants;
} gsc__gpu_adam_group;

/* A thread per four elements. */
typedef struct gsc_k_adam {
    gsc__gpu_adam_group groups[GSC__ADAM_GROUPS];
    int32_t count; /* of groups */
} gsc_k_adam;

/* Neighbouring columns of a group: all, or GSC__ADAM_CAPACITY at a time if there are more. */
typedef struct gsc__gpu_adam_columns {
    float *parameter, *moment1, *moment2; /* [rows, row_size], from the first column on */
    const float *gradient;
    int64_t row_size;
    uint32_t width;      /* columns */
    uint32_t reciprocal; /* 2^31 / width, rounded up */
    gsc__adam_constants constants;
} gsc__gpu_adam_columns;

/* `slices` blocks share the visible rows among `block_rows` rows, with all their columns. */
typedef struct gsc_k_adam_rows {
    gsc__gpu_adam_columns columns[GSC__ADAM_GROUPS];
    const void *visible; /* [rows] */
    int64_t rows;
    int32_t visible_bytes; /* of an element */
    uint32_t count;        /* of columns */
    uint32_t block_rows; /* at most GSC__ADAM_ROWS; 1 if a group is wider than GSC__ADAM_CAPACITY */
    uint32_t slices;
} gsc_k_adam_rows;

#endif
