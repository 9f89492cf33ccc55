/* Tensors, descriptors and a context for fuzzing.
 *
 * Every block of memory is exactly as large as its view says, so that the address
 * sanitizer sees a read or write past it.  A view may be wrong in any way but one: it
 * never claims memory that does not exist (a view too large to back has data NULL). */
#ifndef FUZZ_TENSOR_H
#define FUZZ_TENSOR_H

#include "gsplat_c.h"
#include "input.h"

enum { FUZZ_BLOCKS = 512, FUZZ_DIMS = 6 };

/* Everything that one input made; freed together. */
typedef struct fuzz_memory {
    void *blocks[FUZZ_BLOCKS];
    int block_count;
    size_t last_bytes;                    /* of the latest block */
    const DLTensor *outputs[FUZZ_BLOCKS]; /* dense float32 views that hold the poison */
    int output_count;
    int damage; /* odds in 256 that a tensor is made wrong */
} fuzz_memory;

/* Zeroed, aligned to 256. */
void *fuzz_allocate(fuzz_memory *memory, size_t bytes);
void fuzz_free(fuzz_memory *memory);

enum { FUZZ_FLOAT32, FUZZ_INT32, FUZZ_INT64, FUZZ_UINT8, FUZZ_BOOL };
/* What the elements are. */
typedef enum fuzz_fill {
    FUZZ_UNIT,   /* 0 to 1, with some extremes if the input asks for them */
    FUZZ_SIGNED, /* -1 to 1, likewise */
    FUZZ_BYTES,  /* any bytes */
    FUZZ_OUTPUT  /* a poison that results must replace */
} fuzz_fill;

typedef struct fuzz_shape {
    int32_t ndim;
    int64_t dims[FUZZ_DIMS];
} fuzz_shape;
#define FUZZ_SHAPE(...) \
    ((fuzz_shape){sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), {__VA_ARGS__}})

/* A tensor of that type and shape, or a wrong one.  any_strides: not only dense ones. */
DLTensor *fuzz_tensor(fuzz_input *input, fuzz_memory *memory, int type, fuzz_shape shape,
                      fuzz_fill fill, bool any_strides);
/* Never wrong: for byte buffers, and cameras that should see something. */
DLTensor *fuzz_plain_tensor(fuzz_memory *memory, int type, fuzz_shape shape);

/* A copy of a descriptor whose struct_size is right, smaller, larger with a zero or nonzero tail,
 * or impossibly large. */
void *fuzz_struct(fuzz_input *input, fuzz_memory *memory, const void *descriptor, size_t bytes);

/* A CPU context of 1 or 3 threads whose allocator fails after some allocations if the
 * input says so. */
gsc_context *fuzz_context(fuzz_input *input);

/* Aborts if a failure has no message or is an internal error, or if an allocation was not freed. */
void fuzz_check_status(gsc_status status);
void fuzz_check_returned(void);
/* Aborts if a call that succeeded left an output unwritten. */
void fuzz_check_outputs(const fuzz_memory *memory);

#endif
