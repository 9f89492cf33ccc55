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

/* Who is asking, for the checks and for messages. */
typedef struct gsc__checker {
    const char *function; /* without gsc_ */
    DLDevice device;      /* of the context */
    bool shapes_only;     /* no data is going to be touched; it may be NULL */
} gsc__checker;

/* GSC_ERROR_INVALID_ARGUMENT if tensor is NULL. */
gsc_status gsc__require(const gsc__checker *checker, const char *name, const DLTensor *tensor);

/* Checks dtype, device and shape, and gives the index of the first of `count` shapes that
 * fits (which NULL: not wanted).  Does not look at strides or data. */
gsc_status gsc__tensor_shape(const gsc__checker *checker, const char *name, const DLTensor *tensor,
                             uint32_t dtypes, const gsc__shape *shapes, int32_t count,
                             int32_t *which);

/* The same, and that the tensor is dense, aligned and has data.  *data is NULL only if
 * tensor is; a tensor without elements gets a pointer that may not be followed. */
gsc_status gsc__tensor_dense(const gsc__checker *checker, const char *name, const DLTensor *tensor,
                             uint32_t dtypes, const gsc__shape *shapes, int32_t count,
                             int32_t *which, void **data);

/* gsc__tensor_dense of one shape and one type. */
gsc_status gsc__real_in(const gsc__checker *checker, const char *name, const DLTensor *tensor,
                        gsc__shape shape, const gsc_real **data);
gsc_status gsc__real_out(const gsc__checker *checker, const char *name, const DLTensor *tensor,
                         gsc__shape shape, gsc_real **data);
gsc_status gsc__int32_out(const gsc__checker *checker, const char *name, const DLTensor *tensor,
                          gsc__shape shape, int32_t **data);
/* A scalar: [] or [1]. */
gsc_status gsc__scalar(const gsc__checker *checker, const char *name, const DLTensor *tensor,
                       gsc_real **data);
/* The checker for a tensor that may also be in host memory. */
gsc__checker gsc__host_too(const gsc__checker *checker, const DLTensor *tensor);
/* gsc__real_in with it. */
gsc_status gsc__camera_in(const gsc__checker *checker, const char *name, const DLTensor *tensor,
                          gsc__shape shape, const gsc_real **data);
/* The same for matrices [C, 4, 4] or [4, 4], which may also be stored transposed. */
gsc_status gsc__camera_matrices_in(const gsc__checker *checker, const char *name,
                                   const DLTensor *tensor, gsc__shape shape, const gsc_real **data,
                                   bool *transposed);

/* gsc__tensor_dense, but with any strides, which it gives in elements (0 for dimensions of
 * size 1).  As an output no two elements may share memory through a stride of 0. */
gsc_status gsc__tensor_strided(const gsc__checker *checker, const char *name,
                               const DLTensor *tensor, uint32_t dtypes, const gsc__shape *shapes,
                               int32_t count, int32_t *which, bool output, void **data,
                               int64_t strides[GSC__MAX_DIMS]);

/* A byte buffer: dense uint8 [bytes], 256-byte aligned, of at least `needed` bytes.
 * tensor NULL gives NULL and 0. */
gsc_status gsc__tensor_bytes(const gsc__checker *checker, const char *name, const DLTensor *tensor,
                             size_t needed, void **data, size_t *bytes);

#endif
