/* From a borrowed DLTensor to a pointer that was checked. */
#ifndef GSC_TENSOR_H
#define GSC_TENSOR_H

#include "core/backend.h"
#include "core/error.h"
#include "shape.h"

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
