/** @file
 * Plumbing for bindings of other languages. No promise of stability: a binding is built for the
 * version of the library that it comes with.
 */
#ifndef GSPLAT_C_BINDINGS_H
#define GSPLAT_C_BINDINGS_H

#include "gsplat_c.h"

#ifdef __cplusplus
extern "C" {
#endif

struct DLManagedTensorVersioned; /* unknown to DLPack before 1.0 */

/** Receives the reason why a framework's function failed: an exception's name and its text. */
typedef void gsc_set_error_fn(void *user, const char *kind, const char *message);
/** Makes *tensor in a framework's memory, with the dtype, the shape and the device of the prototype,
 * for work on the framework's current stream in this thread. Returns 0, or another number after a
 * call of set_error. This is DLPackExchangeAPI.managed_tensor_allocator of DLPack 1.3. */
typedef int gsc_allocate_fn(DLTensor *prototype, struct DLManagedTensorVersioned **tensor,
                            void *user, gsc_set_error_fn *set_error);
/** Creates a context whose memory a framework allocates, and counts in its statistics. desc->allocator
 * must be NULL. Memory must be 256-byte aligned, and calls must be given the framework's current
 * stream. With allocate NULL as gsc_context_create(). */
GSC_API GSC_CHECK gsc_status gsc_context_create_managed(const gsc_context_desc *desc,
                                                        gsc_allocate_fn *allocate,
                                                        gsc_context **context);
/** Hands over the contents of a saved state and frees the rest: info, and the buffers state and
 * intersections as tensors [2] of uint8, which the caller owns. The second is NULL where the first
 * holds both: intersections then start at the first multiple of 256 bytes after info.state_bytes.
 * Without a framework's memory GSC_ERROR_UNSUPPORTED, and *saved is unchanged. */
GSC_API gsc_status gsc_raster_saved_take(gsc_raster_saved *saved,
                                         struct DLManagedTensorVersioned **tensors,
                                         gsc_raster_info *info);

/** Fills in the view of an array that is an object of a language. Returns 0, or another number with
 * the language's own error set. This is DLPackExchangeAPI.dltensor_from_py_object_no_sync of DLPack
 * 1.3. */
typedef int gsc_view_fn(void *object, DLTensor *view);
/** Fills in the views of all arrays of a call at once. In place: objects [count], at most 64, become
 * the addresses of their views [count], so that they may be the last fields of a descriptor, or those
 * of two descriptors with the struct_size of the second between them. NULL and `none` become NULL,
 * and a number below 4096, which is no address, stays.
 *
 * Bit i of *strided is set if view i is not dense and row-major, or has a single element and strides
 * other than 1. With bit i of `transposed` set, dense matrices that are each stored transposed are
 * fine, too.
 *
 * If `view` fails, returns GSC_ERROR_INVALID_ARGUMENT, and objects and views are undefined. Views
 * borrow shapes and strides from the objects. */
GSC_API gsc_status gsc_view_objects(gsc_view_fn *view, const void *none, int32_t count,
                                    uint64_t transposed, void **objects, DLTensor *views,
                                    uint64_t *strided);

#ifdef __cplusplus
}
#endif
#endif /* GSPLAT_C_BINDINGS_H */
