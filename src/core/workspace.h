/* The memory of one call: blocks from the context's allocator, with one owner.
 *
 *     gsc__workspace workspace = {.call = *call};
 *     gsc_status status = use_memory(&workspace);
 *     gsc__workspace_release(&workspace);
 *
 * However use_memory ends, nothing is left behind. */
#ifndef GSC_WORKSPACE_H
#define GSC_WORKSPACE_H

#include "call.h"
#include "limits.h"

enum { GSC__WORKSPACE_BLOCKS = 8 }; /* more than any call takes */
typedef struct gsc__workspace {
    gsc__call call;
    int32_t count;
    struct {
        void *data;
        size_t bytes;
    } blocks[GSC__WORKSPACE_BLOCKS];
} gsc__workspace;

/* Takes a block, which `what` names in the message if there is no memory.  *data is not NULL on
 * success, even for 0 bytes. */
gsc_status gsc__workspace_take(gsc__workspace *workspace, const char *what, size_t bytes,
                               void **data);
/* The same without a message: NULL if there is no memory. */
void *gsc__workspace_try(gsc__workspace *workspace, size_t bytes);

/* Sees to it that *data has at least `needed` bytes.  Memory of the caller's must be large enough,
 * or it is GSC_ERROR_BUFFER_TOO_SMALL; a block is taken if *data is NULL, and replaced if it is
 * this workspace's and too small. */
gsc_status gsc__workspace_provide(gsc__workspace *workspace, const char *what, size_t needed,
                                  void **data, size_t *bytes);

bool gsc__workspace_owns(const gsc__workspace *workspace, const void *data);
/* Releases one block; does nothing if data is not one of this workspace. */
void gsc__workspace_drop(gsc__workspace *workspace, const void *data);
/* Releases all. */
void gsc__workspace_release(gsc__workspace *workspace);

/* ------------------------------------------------------------------- carving */

/* Carves one block of memory into buffers.
 *
 * One function lays the buffers out and counts their bytes, so that the two cannot differ.
 * Without a block (base NULL) every pointer is NULL, and `at` is the size the block must have:
 *
 *     static size_t carve_scratch(void *base, int64_t n, struct scratch *scratch) {
 *         gsc__carver carver = {.base = base};
 *         scratch->keys = gsc__carve(&carver, n, sizeof *scratch->keys);
 *         scratch->order = gsc__carve(&carver, n, sizeof *scratch->order);
 *         return carver.at;
 *     }
 *
 * Call it with NULL for the size, provide that many bytes, call it again with the block.
 *
 * Buffers lie one behind the other, each at a multiple of the alignment from base.  The size is
 * such a multiple too, so blocks can follow each other: the part of each camera, the scratch of
 * each thread.
 *
 * Nothing is cleared.  Two buffers may share memory if the larger is carved and the other one
 * points into it. */
typedef struct gsc__carver {
    void *base;       /* aligned; NULL: only count */
    size_t at;        /* bytes carved so far */
    size_t alignment; /* a power of two; 0: GSC__BUFFER_ALIGNMENT */
} gsc__carver;

/* The next buffer, of `count` elements of `size` bytes. */
static inline void *gsc__carve(gsc__carver *carver, size_t count, size_t size) {
    const size_t alignment = carver->alignment ? carver->alignment : GSC__BUFFER_ALIGNMENT;
    const size_t here = carver->at;
    carver->at += (count * size + alignment - 1) / alignment * alignment;
    return carver->base ? (unsigned char *)carver->base + here : NULL;
}

#endif
