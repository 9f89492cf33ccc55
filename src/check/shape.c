#include "tensor.h"

#include <stdio.h>

gsc__shape gsc__shape1(int64_t a) {
    return (gsc__shape){.ndim = 1, .dims = {a}};
}

gsc__shape gsc__shape2(int64_t a, int64_t b) {
    return (gsc__shape){.ndim = 2, .dims = {a, b}};
}

gsc__shape gsc__shape3(int64_t a, int64_t b, int64_t c) {
    return (gsc__shape){.ndim = 3, .dims = {a, b, c}};
}

gsc__shape gsc__shape4(int64_t a, int64_t b, int64_t c, int64_t d) {
    return (gsc__shape){.ndim = 4, .dims = {a, b, c, d}};
}

gsc__shape gsc__per_camera(gsc__shape shape) {
    shape.droppable = true;
    return shape;
}

bool gsc__shape_fits(const DLTensor *tensor, const gsc__shape *shape) {
    int32_t drop = 0;
    if (shape->droppable && tensor->ndim == shape->ndim - 1 &&
        (shape->dims[0] == 1 || shape->dims[0] < 0)) {
        drop = 1;
    }
    if (tensor->ndim != shape->ndim - drop) return false;
    for (int32_t i = 0; i < tensor->ndim; ++i) {
        int64_t expected = shape->dims[i + drop];
        if (expected >= 0 && tensor->shape[i] != expected) return false;
    }
    return true;
}

const char *gsc__shape_text(const int64_t *dims, int32_t ndim, char text[GSC__SHAPE_TEXT_SIZE]) {
    size_t used = 1;
    strcpy(text, "[");
    for (int32_t i = 0; i < ndim; ++i) {
        char dim[32];
        if (dims[i] < 0 && dims[i] >= -'z' && dims[i] <= -'A') {
            snprintf(dim, sizeof dim, "%s%c", i ? ", " : "", (char)-dims[i]);
        } else {
            snprintf(dim, sizeof dim, "%s%lld", i ? ", " : "", (long long)dims[i]);
        }
        size_t length = strlen(dim);
        if (used + length + sizeof ", ..]" > GSC__SHAPE_TEXT_SIZE) {
            strcpy(text + used, ", ..");
            used += 4;
            break;
        }
        memcpy(text + used, dim, length + 1);
        used += length;
    }
    strcpy(text + used, "]");
    return text;
}

const char *gsc__shapes_text(const gsc__shape *shapes, int32_t count,
                             char text[2 * GSC__SHAPE_TEXT_SIZE]) {
    const size_t size = 2 * GSC__SHAPE_TEXT_SIZE;
    size_t used = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < count; ++i) {
        const gsc__shape *shape = &shapes[i];
        int drops = shape->droppable && (shape->dims[0] == 1 || shape->dims[0] < 0);
        for (int drop = 0; drop <= drops; ++drop) {
            char one[GSC__SHAPE_TEXT_SIZE];
            gsc__shape_text(shape->dims + drop, shape->ndim - drop, one);
            snprintf(text + used, size - used, "%s%s", used ? " or " : "", one);
            used += strlen(text + used);
        }
    }
    return text;
}
