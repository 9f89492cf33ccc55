#include "fields.h"

#include <stdio.h>

/* One of the shapes of a text. */
typedef struct shape {
    int32_t ndim;
    bool droppable;              /* the first dimension is 1, or any, and may be left out */
    int64_t dims[GSC__MAX_DIMS]; /* negative: a letter that is not known */
} shape;

void gsc__size_set(gsc__sizes *sizes, char letter, int64_t size) {
    sizes->known |= 1u << (letter - 'A');
    sizes->of[letter - 'A'] = size;
}

int64_t gsc__size(const gsc__sizes *sizes, char letter) {
    return sizes->of[letter - 'A'];
}

/* Returns the text behind the shape, NULL at the end. */
static const char *read_shape(const char *text, const gsc__sizes *sizes, shape *out) {
    bool droppable = false;
    out->ndim = 0;
    for (; *text && *text != '|'; ++text) {
        int64_t size = *text - '0';
        if (*text == '(') droppable = true;
        if (*text == '(' || *text == ')') continue;
        if (*text >= 'A')
            size = sizes->known >> (*text - 'A') & 1 ? gsc__size(sizes, *text) : -*text;
        if (size == GSC__NO_DIMENSION)
            droppable = false;
        else
            out->dims[out->ndim++] = size;
    }
    out->droppable = droppable && (out->dims[0] == 1 || out->dims[0] < 0);
    return *text ? text + 1 : NULL;
}

/* dropped: dimensions of the shape that the tensor does not have. */
static bool fits(const DLTensor *tensor, const shape *one, int32_t *dropped) {
    *dropped = one->ndim - tensor->ndim;
    if (*dropped != 0 && (*dropped != 1 || !one->droppable)) return false;
    for (int32_t i = 0; i < tensor->ndim; ++i) {
        const int64_t expected = one->dims[i + *dropped];
        if (expected >= 0 && tensor->shape[i] != expected) return false;
    }
    return true;
}

bool gsc__shape_fits(const DLTensor *tensor, const char *shapes, gsc__sizes *sizes) {
    while (shapes) {
        shape one;
        int32_t dropped;
        shapes = read_shape(shapes, sizes, &one);
        if (!fits(tensor, &one, &dropped)) continue;
        for (int32_t i = 0; i < one.ndim; ++i)
            if (one.dims[i] < 0)
                gsc__size_set(sizes, (char)-one.dims[i],
                              i < dropped ? 1 : tensor->shape[i - dropped]);
        return true;
    }
    return false;
}

const char *gsc__shape_text(const int64_t *dims, int32_t ndim, char text[GSC__SHAPE_TEXT_SIZE]) {
    size_t used = 1;
    strcpy(text, "[");
    for (int32_t i = 0; i < ndim; ++i) {
        char dim[32];
        if (dims[i] < 0 && dims[i] >= -'Z' && dims[i] <= -'A') {
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

const char *gsc__shapes_text(const char *shapes, const gsc__sizes *sizes,
                             char text[2 * GSC__SHAPE_TEXT_SIZE]) {
    const size_t size = 2 * GSC__SHAPE_TEXT_SIZE;
    size_t used = 0;
    while (shapes) {
        shape all;
        shapes = read_shape(shapes, sizes, &all);
        for (int32_t drop = 0; drop <= (all.droppable ? 1 : 0); ++drop) {
            char one[GSC__SHAPE_TEXT_SIZE];
            gsc__shape_text(all.dims + drop, all.ndim - drop, one);
            snprintf(text + used, size - used, "%s%s", used ? " or " : "", one);
            used += strlen(text + used);
        }
    }
    return text;
}
