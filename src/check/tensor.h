/* From a borrowed DLTensor to a pointer that was checked. */
#ifndef GSC_TENSOR_H
#define GSC_TENSOR_H

#include "core/backend.h"

/* -------------------------------------------------------------------- shapes */

/* A dimension of any size, shown in messages as `letter`. */
#define GSC__ANY(letter) (-(int64_t)(letter))

enum { GSC__MAX_DIMS = 8 };
/* An expected shape. */
typedef struct gsc__shape {
    int32_t ndim;
    bool droppable; /* the first dimension may be left out when it is 1 */
    int64_t dims[GSC__MAX_DIMS];
} gsc__shape;

gsc__shape gsc__shape1(int64_t a);
gsc__shape gsc__shape2(int64_t a, int64_t b);
gsc__shape gsc__shape3(int64_t a, int64_t b, int64_t c);
gsc__shape gsc__shape4(int64_t a, int64_t b, int64_t c, int64_t d);
/* The same shape for every camera: the first dimension may be dropped when it is 1. */
gsc__shape gsc__per_camera(gsc__shape shape);

/* Whether the tensor's ndim and shape are as expected. */
bool gsc__shape_fits(const DLTensor *tensor, const gsc__shape *shape);

enum { GSC__SHAPE_TEXT_SIZE = 128 };
/* "[2, 4, 4]", or "[N, 3]" with GSC__ANY dimensions, cut off with ".." if it is long;
 * returns text. */
const char *gsc__shape_text(const int64_t *dims, int32_t ndim, char text[GSC__SHAPE_TEXT_SIZE]);
/* "[1, 4, 4] or [4, 4]": all that the shapes allow; returns text. */
const char *gsc__shapes_text(const gsc__shape *shapes, int32_t count,
                             char text[2 * GSC__SHAPE_TEXT_SIZE]);

/* ------------------------------------------------------------------- tensors */

/* Element types, as bits so that a tensor may allow several. */
enum {
    GSC__REAL = 1u << 0, /* float32; float64 in the double build */
    GSC__INT32 = 1u << 1,
    GSC__INT64 = 1u << 2,
    GSC__UINT8 = 1u << 3,
    GSC__BOOL = 1u << 4
};

/* A tensor among the arguments: what it must be and, once checked, where its data is.  Fill in the
 * first part by designated initialisers, and leave out what does not apply. */
typedef struct gsc__tensor {
    const char *name;      /* for messages */
    const DLTensor *given; /* NULL: not given, which is fine unless required */
    void *result;          /* address of the pointer that receives data; NULL: none */
    uint32_t dtypes;       /* 0: GSC__REAL */
    gsc__shape shapes[2];  /* allowed ones */
    int32_t choices;       /* how many of them; 0: one */
    bool required;
    bool host_too;   /* may also be in host memory, whatever the context's device */
    bool strided;    /* any strides; otherwise dense and row-major */
    bool output;     /* strided, but no two elements may share memory through a stride of 0 */
    bool shape_only; /* strides and data do not matter */

    void *data;                     /* NULL only if not given; no elements: not to be followed */
    int32_t which;                  /* index of the first shape that fits */
    int64_t strides[GSC__MAX_DIMS]; /* in elements; 0 for dimensions of size 1 */
} gsc__tensor;

/* Checks dtype, shape, device, strides and data, in this order. */
gsc_status gsc__tensor_check(const gsc__call *call, gsc__tensor *tensor);
/* Checks each, up to the first that fails. */
gsc_status gsc__tensors_check(const gsc__call *call, gsc__tensor *tensors, size_t count);

/* The usual cases: dense, of one shape and one type, optional. */
gsc_status gsc__real_in(const gsc__call *call, const char *name, const DLTensor *given,
                        gsc__shape shape, const gsc_real **data);
gsc_status gsc__real_out(const gsc__call *call, const char *name, const DLTensor *given,
                         gsc__shape shape, gsc_real **data);
/* A scalar: [] or [1]. */
gsc_status gsc__scalar(const gsc__call *call, const char *name, const DLTensor *given,
                       gsc_real **data);

/* A byte buffer: dense uint8 [bytes], 256-byte aligned, of at least `needed` bytes; NULL and 0
 * if it is not given. */
gsc_status gsc__tensor_bytes(const gsc__call *call, const char *name, const DLTensor *given,
                             size_t needed, void **data, size_t *bytes);

/* GSC_ERROR_INVALID_ARGUMENT if tensor is NULL. */
gsc_status gsc__require(const gsc__call *call, const char *name, const DLTensor *tensor);

#endif
