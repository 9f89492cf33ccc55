/* Copying versioned descriptors in and out. */
#ifndef GSC_ARGS_H
#define GSC_ARGS_H

#include "core/error.h"

/* Size of a descriptor that ends with `last`, its last field in ABI 1.0. */
#define GSC__SIZE_THROUGH(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* Copies the caller's descriptor, older or newer than ours, into ours; what an older
 * caller does not have is zero.  GSC_ERROR_ABI if it is smaller than `minimum` or has a
 * byte set that this library does not know.  `what` names it in messages. */
gsc_status gsc__args_copy(const char *function, const char *what, void *ours, size_t ours_size,
                          const void *theirs, size_t minimum);

/* The same for one element of an array, whose size is the array's stride. */
gsc_status gsc__args_copy_sized(const char *function, const char *what, void *ours,
                                size_t ours_size, const void *theirs, size_t theirs_size,
                                size_t minimum);

/* Copies a result into the caller's descriptor, keeping its struct_size; what a newer
 * caller has beyond ours becomes zero.  The caller's struct_size must have been checked. */
void gsc__args_return(void *theirs, const void *ours, size_t ours_size);

/* Checks the struct_size of a descriptor that is written only: its fields may hold
 * anything. */
gsc_status gsc__args_check_result(const char *function, const char *what, const void *theirs,
                                  size_t minimum);

/* GSC_ERROR_INVALID_ARGUMENT if flags has a bit outside `known`. */
gsc_status gsc__check_flags(const char *function, const char *what, uint32_t flags, uint32_t known);

/* GSC_ERROR_INVALID_ARGUMENT if value is NaN or infinite. */
gsc_status gsc__check_finite(const char *function, const char *what, float value);
/* The same, also if it is negative. */
gsc_status gsc__check_not_negative(const char *function, const char *what, float value);

#endif
