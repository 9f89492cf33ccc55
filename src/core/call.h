/* What every layer of one call knows about it. */
#ifndef GSC_CALL_H
#define GSC_CALL_H

#include "gsplat_c.h"

#include <stdbool.h>

typedef struct gsc__call {
    const char *function; /* the public one, without gsc_: messages begin with it */
    gsc_context *context;
    void *stream;     /* as the caller gave it */
    bool shapes_only; /* the call does not read the tensors' data, which may be NULL */
} gsc__call;

/* What every entry point with a context begins with. */
gsc_status gsc__call_begin(gsc__call *call, const char *function, gsc_context *context,
                           void *stream);

#endif
