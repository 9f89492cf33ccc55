/* Views of a language's arrays, for bindings. */

#include "error.h"

#include <stdbool.h>

enum { MOST_OBJECTS = 64 }; /* that one word has bits for */

/* In dimensions of one element too: there strides say nothing of where elements are, but they
 * tell of an array that is part of another.  Unsigned, so that sizes that no array has cannot
 * overflow. */
static bool has_dense_strides(const DLTensor *view) {
    uint64_t stride = 1;
    if (!view->strides) return true;
    for (int32_t i = view->ndim - 1; i >= 0; --i) {
        if ((uint64_t)view->strides[i] != stride) return false;
        stride *= (uint64_t)view->shape[i];
    }
    return true;
}

gsc_status gsc_view_objects(gsc_view_fn *view, const void *none, int32_t count, void **objects,
                            DLTensor *views, uint64_t *strided) {
    static const char function[] = "view_objects";
    if (!view || !objects || !views || !strided)
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", function,
                         !view      ? "view"
                         : !objects ? "objects"
                         : !views   ? "views"
                                    : "strided");
    if (count < 0 || count > MOST_OBJECTS)
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: count is %d, expected 0 to %d", function,
                         count, MOST_OBJECTS);
    uint64_t bits = 0;
    for (int32_t i = 0; i < count; ++i) {
        void *object = objects[i];
        objects[i] = NULL;
        if (!object || object == none) continue;
        if (view(object, &views[i]) != 0)
            return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: objects[%d] has no view", function,
                             i);
        objects[i] = &views[i];
        if (!has_dense_strides(&views[i])) bits |= UINT64_C(1) << i;
    }
    *strided = bits;
    return GSC_OK;
}
