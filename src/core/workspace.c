#include "workspace.h"

#include "context.h"

static void *keep(gsc__workspace *workspace, void *data, size_t bytes) {
    if (!data) return NULL;
    workspace->blocks[workspace->count].data = data;
    workspace->blocks[workspace->count++].bytes = bytes;
    return data;
}

gsc_status gsc__workspace_take(gsc__workspace *workspace, const char *what, size_t bytes,
                               void **data) {
    if (bytes == 0) bytes = GSC__BUFFER_ALIGNMENT;
    GSC__TRY(gsc__context_alloc(&workspace->call, what, bytes, data));
    keep(workspace, *data, bytes);
    return GSC_OK;
}

void *gsc__workspace_try(gsc__workspace *workspace, size_t bytes) {
    const gsc__call *call = &workspace->call;
    return keep(workspace, gsc__context_try_alloc(call->context, bytes, call->stream), bytes);
}

static int32_t find(const gsc__workspace *workspace, const void *data) {
    int32_t i = 0;
    while (i < workspace->count && workspace->blocks[i].data != data) ++i;
    return i;
}

bool gsc__workspace_owns(const gsc__workspace *workspace, const void *data) {
    return find(workspace, data) < workspace->count;
}

gsc_status gsc__workspace_provide(gsc__workspace *workspace, const char *what, size_t needed,
                                  void **data, size_t *bytes) {
    if (*data && *bytes >= needed) return GSC_OK;
    if (*data && !gsc__workspace_owns(workspace, *data)) {
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL, "%s: %s has %zu bytes, expected at least %zu",
                         workspace->call.function, what, *bytes, needed);
    }
    gsc__workspace_drop(workspace, *data);
    *bytes = needed;
    return gsc__workspace_take(workspace, what, needed, data);
}

void gsc__workspace_drop(gsc__workspace *workspace, const void *data) {
    const gsc__call *call = &workspace->call;
    const int32_t i = find(workspace, data);
    if (i == workspace->count) return;
    gsc__context_release(call->context, workspace->blocks[i].data, workspace->blocks[i].bytes,
                         call->stream);
    workspace->blocks[i] = workspace->blocks[--workspace->count];
}

void gsc__workspace_release(gsc__workspace *workspace) {
    while (workspace->count > 0)
        gsc__workspace_drop(workspace, workspace->blocks[workspace->count - 1].data);
}
