/* Points in the order of a Hilbert curve, so that neighbours in the order are neighbours
 * in space. */
#ifndef GSC_CPU_HILBERT_H
#define GSC_CPU_HILBERT_H

#include "sort.h"

#define gsc__hilbert_order GSC__ISA_NAME(gsc__hilbert_order)

/* Runs of at most this many points may keep their index order instead. */
#define GSC__HILBERT_RUN 16

/* Writes the indices of points [count, 3] in curve order to order->values, those of points
 * with a non-finite coordinate last and in index order, and returns how many are finite.
 * Points at the same place stay in index order.  The arrays of order hold count elements;
 * as in a sort, result and work space may be exchanged.  scratch is that of a sort. */
int64_t gsc__hilbert_order(gsc__pool *pool, const gsc_real *points, int64_t count,
                           gsc__pairs64 *order, void *scratch);

#endif
