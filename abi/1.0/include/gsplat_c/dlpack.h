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

#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 3

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
    kDLCPU = 1,
    kDLCUDA = 2,
    kDLCUDAHost = 3, /* pinned host memory */
    kDLROCM = 10,
    kDLCUDAManaged = 13
} DLDeviceType;

typedef struct {
    DLDeviceType device_type;
    int32_t device_id; /* 0 for CPU, pinned and managed memory */
} DLDevice;

typedef enum {
    kDLInt = 0,
    kDLUInt = 1,
    kDLFloat = 2,
    kDLOpaqueHandle = 3,
    kDLBfloat = 4,
    kDLComplex = 5,
    kDLBool = 6 /* one byte an element */
} DLDataTypeCode;

typedef struct {
    uint8_t code;   /* DLDataTypeCode */
    uint8_t bits;   /* of one element */
    uint16_t lanes; /* 1 */
} DLDataType;

/* A view of memory that somebody else owns. */
typedef struct {
    void *data; /* NULL if there are no elements */
    DLDevice device;
    int32_t ndim; /* 0 is a scalar */
    DLDataType dtype;
    int64_t *shape;       /* [ndim] */
    int64_t *strides;     /* [ndim] in elements; NULL: dense, row-major */
    uint64_t byte_offset; /* added to data */
} DLTensor;

#ifdef __cplusplus
}
#endif
#endif /* DLPACK_DLPACK_H_ */
