/* Views of arrays that are objects of a language, for bindings. */

#include "gsplat_c/bindings.h"

#include "core/call.h"

#include <stdbool.h>

enum {
    MAX_OBJECTS = 64, /* bits of *strided */
    MIN_ADDRESS = 4096
};

/* Strides of dimensions of size 1 are ignored, except in an array of a single element: there a stride
 * other than 1 shows that it is part of a larger array.  Unsigned, so that impossible sizes cannot
 * overflow.  columns: the last two dimensions change places. */
static bool is_dense(const DLTensor *view, bool columns) {
    uint64_t stride = 1;
    bool lone = true, unit = true;
    if (!view->strides) return true;
    for (int32_t i = 0; i < view->ndim; ++i) {
        if (view->shape[i] == 0) return true;
        lone = lone && view->shape[i] == 1;
        unit = unit && view->strides[i] == 1;
    }
    if (lone) return unit;
    const int32_t last = view->ndim - 1;
    for (int32_t i = last; i >= 0; --i) {
        const int32_t at = columns && i > last - 2 ? 2 * last - 1 - i : i;
        if (view->shape[at] != 1 && (uint64_t)view->strides[at] != stride) return false;
        stride *= (uint64_t)view->shape[at];
    }
    return true;
}

gsc_status gsc_view_objects(gsc_view_fn *view, const void *none, int32_t count, uint64_t transposed,
                            void **objects, DLTensor *views, uint64_t *strided) {
    static const char function[] = "view_objects";
    if (!view || !objects || !views || !strided)
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: %s is NULL", function,
                         !view      ? "view"
                         : !objects ? "objects"
                         : !views   ? "views"
                                    : "strided");
    if (count < 0 || count > MAX_OBJECTS)
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: count is %d, expected 0 to %d", function,
                         count, MAX_OBJECTS);
    *strided = 0;
    for (int32_t i = 0; i < count; ++i) {
        const uint64_t bit = UINT64_C(1) << i;
        void *object = objects[i];
        if (object == none) objects[i] = NULL;
        if (object == none || (uintptr_t)object < MIN_ADDRESS) continue;
        if (view(object, &views[i]) != 0)
            return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: objects[%d] has no view", function,
                             i);
        objects[i] = &views[i];
        if (is_dense(&views[i], false)) continue;
        if (!(transposed & bit) || views[i].ndim < 2 || !is_dense(&views[i], true)) *strided |= bit;
    }
    return GSC_OK;
}
