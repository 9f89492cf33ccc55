/* Images as tensors in every layout that a caller may pass, and contexts for tests. */
#ifndef TESTS_IMAGE_TENSOR_H
#define TESTS_IMAGE_TENSOR_H

#include "gsplat_c.h"

#include <stdbool.h>

enum {
    LAYOUT_DENSE,
    LAYOUT_PIXEL_LAST,   /* [B, H, W, C] seen as [B, C, H, W] */
    LAYOUT_EVERY_SECOND, /* columns 0, 2, 4, .. of a wider image */
    LAYOUT_FLIPPED,      /* rows from the last to the first */
    LAYOUT_COUNT,
    LAYOUT_EXPANDED = LAYOUT_COUNT /* stride 0 in batch and channel; for inputs */
};

typedef struct image_tensor {
    DLTensor view; /* [B, C, H, W] */
    int64_t shape[4], strides[4];
    size_t size; /* elements of memory */
    void *memory;
    bool bytes;
} image_tensor;

size_t image_elements(const int shape[4]);

/* Elements outside the layout are NaN; so are all elements if values is NULL.  values: dense [B, C,
 * H, W]; an expanded image takes its first plane. */
void image_tensor_make(image_tensor *t, int layout, const int shape[4], const double *values);
/* A uint8 image. */
void image_tensor_make_bytes(image_tensor *t, int layout, const int shape[4],
                             const uint8_t *values);
/* Copies back to dense.  False, with a message on stderr, if an element of the image was not
 * written or one outside it was. */
bool image_tensor_read(const image_tensor *t, double *values);
void image_tensor_free(image_tensor *t);

/* True if the largest difference is at most tolerance times the largest wanted value; otherwise
 * false, with a message on stderr. */
bool values_close(const char *what, const double *got, const double *wanted, size_t count,
                  double tolerance);

/* In [0, 1), the same sequence in every run. */
double image_random(void);
/* Random values that the library's floating-point type holds exactly; to be freed. */
double *image_random_values(size_t count, double low, double high);
double *image_zeros(size_t count);

/* Bytes that calls on the context may still allocate before allocation fails. */
extern size_t image_memory_left;
/* A CPU context; if counted, its allocator uses up image_memory_left. */
gsc_context *image_context(int threads, bool counted);
/* Set-up and tear-down: *state is such a context, with two threads and not counted. */
int image_open_context(void **state);
int image_close_context(void **state);

#endif
