/* dlpack.h - the DLPack declarations that gsplat_c.h needs.
 *
 * Binary compatible with every DLPack 1.x.  The include guard is the one of the
 * reference header: whichever of the two a program includes first is used, and
 * the other becomes empty.
 *
 * Source: the DLPack specification, https://dmlc.github.io/dlpack/latest/
 */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#include <stddef.h>
#include <stdint.h>

/* The version that these declarations are taken from. */
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 3

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of devices. */
#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
    kDLCPU = 1,         /* host memory */
    kDLCUDA = 2,        /* of a CUDA device */
    kDLCUDAHost = 3,    /* pinned host memory */
    kDLROCM = 10,       /* of a ROCm device */
    kDLCUDAManaged = 13 /* of host and CUDA devices */
} DLDeviceType;

/* Where memory is. */
typedef struct {
    DLDeviceType device_type; /* kDLCPU, .. */
    int32_t device_id;        /* 0 for CPU, pinned and managed memory */
} DLDevice;

/* Kinds of elements. */
typedef enum {
    kDLInt = 0,          /* signed integers */
    kDLUInt = 1,         /* unsigned integers */
    kDLFloat = 2,        /* IEEE 754 */
    kDLOpaqueHandle = 3, /* of a framework's own */
    kDLBfloat = 4,       /* the upper half of a float32 */
    kDLComplex = 5,      /* two floats */
    kDLBool = 6          /* one byte an element */
} DLDataTypeCode;

/* The type of an element. */
typedef struct {
    uint8_t code;   /* DLDataTypeCode */
    uint8_t bits;   /* of one element */
    uint16_t lanes; /* 1 */
} DLDataType;

/* A view of memory that somebody else owns. */
typedef struct {
    void *data;           /* NULL if there are no elements */
    DLDevice device;      /* of data */
    int32_t ndim;         /* 0 is a scalar */
    DLDataType dtype;     /* of the elements */
    int64_t *shape;       /* [ndim] */
    int64_t *strides;     /* [ndim] in elements; NULL: dense, row-major */
    uint64_t byte_offset; /* added to data */
} DLTensor;

/* Of the struct that follows. */
typedef struct {
    uint32_t major; /* of another one only the deleter may be used */
    uint32_t minor; /* adds values only */
} DLPackVersion;

/* A view with its memory, which whoever has it owns. */
typedef struct DLManagedTensorVersioned {
    DLPackVersion version;                                    /* of this struct */
    void *manager_ctx;                                        /* the maker's own */
    void (*deleter)(struct DLManagedTensorVersioned *tensor); /* frees it all; may be NULL */
    uint64_t flags;                                           /* bit 0: read-only */
    DLTensor dl_tensor;                                       /* the view */
} DLManagedTensorVersioned;

#ifdef __cplusplus
}
#endif
#endif /* DLPACK_DLPACK_H_ */
