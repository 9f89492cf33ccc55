/* What every layer of one call knows about it. */
#ifndef GSC_CALL_H
#define GSC_CALL_H

#include "gsplat_c.h"

typedef struct gsc__call {
    const char *function; /* the public one, without gsc_: messages begin with it */
    gsc_context *context;
    void *stream; /* as the caller gave it */
} gsc__call;

#endif
