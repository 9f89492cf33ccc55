/* The memory of one call: blocks from the context's allocator, with one owner.
 *
 *     gsc__workspace workspace = {.call = *call};
 *     gsc_status status = use_memory(&workspace);
 *     gsc__workspace_release(&workspace);
 *
 * However use_memory ends, nothing is left behind. */
#ifndef GSC_WORKSPACE_H
#define GSC_WORKSPACE_H

#include "core/call.h"

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

#endif
