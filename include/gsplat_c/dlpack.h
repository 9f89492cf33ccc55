/** @file
 * DLPack 1.3: everything that the reference header declares, so that either can be included first.
 *
 * The include guard is the one of the reference header: the second of the two is skipped. Written
 * from the specification, https://dmlc.github.io/dlpack/latest/
 */
#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#include <stddef.h>
#include <stdint.h>

#define DLPACK_MAJOR_VERSION 1 /**< A new major changes the layout of versioned structs. */
#define DLPACK_MINOR_VERSION 3 /**< A new minor adds values. */
#ifdef __cplusplus
#define DLPACK_EXTERN_C extern "C"
#else
#define DLPACK_EXTERN_C /**< Linkage of functions that exchange tensors. */
#endif
#define DLPACK_DLL                                 /**< Nothing: no function is declared here. */
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL) /**< The memory must not be written. */
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL) /**< The producer made a copy. */
/** Elements of less than a byte occupy one byte each. */
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1UL << 2UL)

#ifdef __cplusplus
extern "C" {
#endif

/** Kinds of devices. */
#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
    kDLCPU = 1,          /**< host memory */
    kDLCUDA = 2,         /**< CUDA device memory */
    kDLCUDAHost = 3,     /**< pinned host memory of CUDA */
    kDLOpenCL = 4,       /**< OpenCL */
    kDLVulkan = 7,       /**< Vulkan */
    kDLMetal = 8,        /**< Metal */
    kDLVPI = 9,          /**< Verilog simulator */
    kDLROCM = 10,        /**< ROCm device memory */
    kDLROCMHost = 11,    /**< pinned host memory of ROCm */
    kDLExtDev = 12,      /**< reserved for extensions */
    kDLCUDAManaged = 13, /**< CUDA memory shared by host and devices */
    kDLOneAPI = 14,      /**< oneAPI unified shared memory */
    kDLWebGPU = 15,      /**< WebGPU */
    kDLHexagon = 16,     /**< Qualcomm Hexagon */
    kDLMAIA = 17,        /**< Microsoft MAIA */
    kDLTrn = 18          /**< AWS Trainium */
} DLDeviceType;

/** Where memory is. */
typedef struct {
    DLDeviceType device_type; /**< kDLCPU, .. */
    int32_t device_id;        /**< 0 for CPU, pinned and managed memory */
} DLDevice;

/** Kinds of elements. */
typedef enum {
    kDLInt = 0,                /**< signed integer */
    kDLUInt = 1,               /**< unsigned integer */
    kDLFloat = 2,              /**< IEEE 754 */
    kDLOpaqueHandle = 3,       /**< private to a framework */
    kDLBfloat = 4,             /**< the upper half of a float32 */
    kDLComplex = 5,            /**< real and imaginary part */
    kDLBool = 6,               /**< one byte per element */
    kDLFloat8_e3m4 = 7,        /**< 8 bits: 3 of exponent, 4 of mantissa */
    kDLFloat8_e4m3 = 8,        /**< 8 bits */
    kDLFloat8_e4m3b11fnuz = 9, /**< 8 bits */
    kDLFloat8_e4m3fn = 10,     /**< 8 bits */
    kDLFloat8_e4m3fnuz = 11,   /**< 8 bits */
    kDLFloat8_e5m2 = 12,       /**< 8 bits */
    kDLFloat8_e5m2fnuz = 13,   /**< 8 bits */
    kDLFloat8_e8m0fnu = 14,    /**< 8 bits */
    kDLFloat6_e2m3fn = 15,     /**< 6 bits */
    kDLFloat6_e3m2fn = 16,     /**< 6 bits */
    kDLFloat4_e2m1fn = 17      /**< 4 bits */
} DLDataTypeCode;

/** The type of an element. */
typedef struct {
    uint8_t code;   /**< DLDataTypeCode */
    uint8_t bits;   /**< of one element */
    uint16_t lanes; /**< 1 */
} DLDataType;

/** A view of memory that somebody else owns. */
typedef struct {
    void *data;           /**< NULL if there are no elements */
    DLDevice device;      /**< where data is */
    int32_t ndim;         /**< 0 is a scalar */
    DLDataType dtype;     /**< of the elements */
    int64_t *shape;       /**< [ndim] */
    int64_t *strides;     /**< [ndim] in elements; NULL: dense, row-major */
    uint64_t byte_offset; /**< added to data */
} DLTensor;

/** A view with its memory, without a version. */
typedef struct DLManagedTensor {
    DLTensor dl_tensor;                            /**< the view */
    void *manager_ctx;                             /**< private to the producer */
    void (*deleter)(struct DLManagedTensor *self); /**< frees it all; may be NULL */
} DLManagedTensor;

/** The version of a struct. */
typedef struct {
    uint32_t major; /**< with an unknown one only the deleter may be used */
    uint32_t minor; /**< adds values only */
} DLPackVersion;

/** A view with its memory, which its holder owns. */
typedef struct DLManagedTensorVersioned {
    DLPackVersion version;                                  /**< of this struct */
    void *manager_ctx;                                      /**< private to the producer */
    void (*deleter)(struct DLManagedTensorVersioned *self); /**< frees it all; may be NULL */
    uint64_t flags;                                         /**< DLPACK_FLAG_BITMASK_* */
    DLTensor dl_tensor;                                     /**< the view */
} DLManagedTensorVersioned;

/** Makes a tensor in a framework's memory, like the prototype. The functions of a framework return 0
 * on success. */
typedef int (*DLPackManagedTensorAllocator)(DLTensor *prototype, DLManagedTensorVersioned **out,
                                            void *error_ctx,
                                            void (*SetError)(void *error_ctx, const char *kind,
                                                             const char *message));
/** Makes a tensor from a Python object. */
typedef int (*DLPackManagedTensorFromPyObjectNoSync)(void *py_object,
                                                     DLManagedTensorVersioned **out);
/** Makes a Python object from a tensor. */
typedef int (*DLPackManagedTensorToPyObjectNoSync)(DLManagedTensorVersioned *tensor,
                                                   void **out_py_object);
/** Fills in a view that borrows from a Python object. */
typedef int (*DLPackDLTensorFromPyObjectNoSync)(void *py_object, DLTensor *out);
/** Gets a framework's current stream. */
typedef int (*DLPackCurrentWorkStream)(DLDeviceType device_type, int32_t device_id,
                                       void **out_current_stream);

/** How a DLPackExchangeAPI begins. */
typedef struct DLPackExchangeAPIHeader {
    DLPackVersion version;                    /**< of the table */
    struct DLPackExchangeAPIHeader *prev_api; /**< an older table, or NULL */
} DLPackExchangeAPIHeader;

/** The functions of a framework's tensor type. */
typedef struct DLPackExchangeAPI {
    DLPackExchangeAPIHeader header;                        /**< of this table */
    DLPackManagedTensorAllocator managed_tensor_allocator; /**< makes tensors */
    /** takes tensors out of objects */
    DLPackManagedTensorFromPyObjectNoSync managed_tensor_from_py_object_no_sync;
    /** puts tensors into objects */
    DLPackManagedTensorToPyObjectNoSync managed_tensor_to_py_object_no_sync;
    DLPackDLTensorFromPyObjectNoSync dltensor_from_py_object_no_sync; /**< may be NULL */
    DLPackCurrentWorkStream current_work_stream;                      /**< reports the stream */
} DLPackExchangeAPI;

#ifdef __cplusplus
}
#endif
#endif /* DLPACK_DLPACK_H_ */
