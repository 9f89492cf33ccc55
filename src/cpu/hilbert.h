/* Points in the order of a Hilbert curve: neighbours in the order are neighbours in space. */
#ifndef GSC_CPU_HILBERT_H
#define GSC_CPU_HILBERT_H

#include "math/real.h"
#include "sort.h"

/* Points of one cell, if they are at most this many, may stay in index order. */
#define GSC__HILBERT_RUN 16

/* Writes the indices of points [count, 3] in curve order to order->values and returns how many
 * points are finite.  Those with a non-finite coordinate come last, in index order.  Points at the
 * same place stay in index order.  The arrays of order hold count elements; as in a sort, result
 * and work space may be exchanged.  scratch: gsc__sort_scratch_bytes. */
static int64_t gsc__hilbert_order(gsc__pool *pool, const gsc_real *points, int64_t count,
                                  gsc__pairs64 *order, void *scratch);

#endif
