/* What every layer of a call shares: its function, context and stream, its failures, and the rules of
 * versioned descriptors. */
#ifndef GSC_CALL_H
#define GSC_CALL_H

#include "gsplat_c.h"

#include <stdbool.h>

typedef struct gsc__call {
    const char *function; /* the public one, without gsc_: messages begin with it */
    const char *path;     /* of the descriptor being checked, such as "raster."; NULL: the call's */
    gsc_context *context;
    void *stream;     /* as the caller gave it */
    bool shapes_only; /* the call does not read the tensors' data, which may be NULL */
} gsc__call;

/* What every entry point with a context begins with. */
gsc_status gsc__call_begin(gsc__call *call, const char *function, gsc_context *context,
                           void *stream);

/* The call in which `path` leads to the descriptor being checked. */
gsc__call gsc__call_of_part(const gsc__call *call, const char *path);

/* ------------------------------------------------------------------ failures */

#if defined(_WIN32) && !defined(__clang__)
#define GSC__PRINTF(text, first) __attribute__((format(gnu_printf, text, first)))
#else
#define GSC__PRINTF(text, first) __attribute__((format(printf, text, first)))
#endif

/* Stores the message and returns status, so that `return gsc__fail(..)` reads as
 * one thought.  Messages begin with the public function's name without gsc_. */
#define gsc__fail(status, ...) gsc__fail_cuda((status), 0, __VA_ARGS__)
/* The same for an argument.  Where format has an @, the message has the call's path. */
gsc_status gsc__refuse(const gsc__call *call, gsc_status status, const char *format, ...)
    GSC__PRINTF(3, 4);
/* As gsc__fail, for a failed driver call; status is GSC_ERROR_CUDA or what code means. */
gsc_status gsc__fail_cuda(gsc_status status, int32_t code, const char *format, ...)
    GSC__PRINTF(3, 4);

/* Returns from the calling function if expression is a failure. */
#define GSC__TRY(expression)                           \
    do {                                               \
        gsc_status try_status_ = (expression);         \
        if (try_status_ != GSC_OK) return try_status_; \
    } while (0)

/* --------------------------------------------------------------- descriptors */

/* Size of a descriptor that ends with `last`, its last field in ABI 1.0. */
#define GSC__SIZE_THROUGH(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

/* Copies the caller's descriptor, older or newer than ours, into ours; what an older
 * caller does not have is zero.  GSC_ERROR_ABI if it is smaller than `minimum` or has a
 * byte set that this library does not know.  `what` names it in messages,
 * unless the call has a path. */
gsc_status gsc__args_copy(const gsc__call *call, const char *what, void *ours, size_t ours_size,
                          const void *theirs, size_t minimum);

/* The same for descriptors whose last field in ABI 1.0 is `last`; ours: a pointer to one. */
#define GSC__ARGS_COPY(call, what, ours, theirs, last)               \
    gsc__args_copy((call), (what), (ours), sizeof *(ours), (theirs), \
                   (size_t)((const char *)(&(ours)->last + 1) - (const char *)(ours)))

/* The same for one element of an array, whose size is the array's stride. */
gsc_status gsc__args_copy_sized(const gsc__call *call, const char *what, void *ours,
                                size_t ours_size, const void *theirs, size_t theirs_size,
                                size_t minimum);

/* Copies a result into the caller's descriptor, keeping its struct_size; what a newer
 * caller has beyond ours becomes zero.  The caller's struct_size must have been checked. */
void gsc__args_return(void *theirs, const void *ours, size_t ours_size);

/* Checks the struct_size of a descriptor that is written only: its fields may hold
 * anything. */
gsc_status gsc__args_check_result(const gsc__call *call, const char *what, const void *theirs,
                                  size_t minimum);

/* GSC_ERROR_INVALID_ARGUMENT if flags has a bit outside `known`. */
gsc_status gsc__check_flags(const gsc__call *call, const char *what, uint32_t flags,
                            uint32_t known);

#endif
