/* From the public descriptor of the nearest neighbours to what a backend takes. */
#ifndef GSC_KNN_ARGS_H
#define GSC_KNN_ARGS_H

#include "core/backend.h"
#include "tensor.h"

/* A scratch that was not given stays NULL; the size of one that was is not checked. */
gsc_status gsc__knn_args(const gsc__call *call, const gsc_knn_args *theirs, gsc__knn *out);

#endif
