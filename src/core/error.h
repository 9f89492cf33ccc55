/* Status names and the message of the last failure in each thread. */
#ifndef GSC_ERROR_H
#define GSC_ERROR_H

#include "gsplat_c.h"

#if defined(_WIN32) && defined(__GNUC__) && !defined(__clang__)
#define GSC__PRINTF(text, first) __attribute__((format(gnu_printf, text, first)))
#elif defined(__GNUC__)
#define GSC__PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define GSC__PRINTF(text, first)
#endif

/* Stores the message and returns status, so that `return gsc__fail(..)` reads as
 * one thought.  Messages begin with the public function's name without gsc_. */
gsc_status gsc__fail(gsc_status status, const char *format, ...) GSC__PRINTF(2, 3);
/* The same for a failed driver call; status is GSC_ERROR_CUDA or what code means. */
gsc_status gsc__fail_cuda(gsc_status status, int32_t code, const char *format, ...)
    GSC__PRINTF(3, 4);

/* Returns from the calling function if expression is a failure. */
#define GSC__TRY(expression)                           \
    do {                                               \
        gsc_status try_status_ = (expression);         \
        if (try_status_ != GSC_OK) return try_status_; \
    } while (0)

#endif
