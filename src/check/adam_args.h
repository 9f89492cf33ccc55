/* From the public descriptor of an Adam step to what a backend takes. */
#ifndef GSC_ADAM_ARGS_H
#define GSC_ADAM_ARGS_H

#include "core/backend.h"
#include "tensor.h"

/* On success the caller frees out with gsc__adam_release. */
gsc_status gsc__adam_args(const gsc__call *call, const gsc_adam_args *theirs, gsc__adam *out);
void gsc__adam_release(gsc__adam *adam);

/* The settings of groups[index], from lr on. */
gsc_status gsc__adam_scalars(const gsc__call *call, uint32_t index, const gsc_adam_group *group,
                             gsc__adam_group *out);

#endif
