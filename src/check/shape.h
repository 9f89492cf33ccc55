/* Expected shapes: dimensions that are known, that may be anything, or may be left out. */
#ifndef GSC_SHAPE_H
#define GSC_SHAPE_H

#include "gsplat_c.h"

#include <stdbool.h>

/* A dimension of any size, shown in messages as `letter`. */
#define GSC__ANY(letter) (-(int64_t)(letter))

enum { GSC__MAX_DIMS = 8 };
/* An expected shape. */
typedef struct gsc__shape {
    int32_t ndim;
    bool droppable; /* the first dimension may be left out when it is 1 */
    int64_t dims[GSC__MAX_DIMS];
} gsc__shape;

gsc__shape gsc__shape1(int64_t a);
gsc__shape gsc__shape2(int64_t a, int64_t b);
gsc__shape gsc__shape3(int64_t a, int64_t b, int64_t c);
gsc__shape gsc__shape4(int64_t a, int64_t b, int64_t c, int64_t d);
/* The same shape for every camera: the first dimension may be dropped when it is 1. */
gsc__shape gsc__per_camera(gsc__shape shape);

/* Whether the tensor's ndim and shape are as expected. */
bool gsc__shape_fits(const DLTensor *tensor, const gsc__shape *shape);

enum { GSC__SHAPE_TEXT_SIZE = 128 };
/* "[2, 4, 4]", or "[N, 3]" with GSC__ANY dimensions, cut off with ".." if it is long;
 * returns text. */
const char *gsc__shape_text(const int64_t *dims, int32_t ndim, char text[GSC__SHAPE_TEXT_SIZE]);
/* "[1, 4, 4] or [4, 4]": all that the shapes allow; returns text. */
const char *gsc__shapes_text(const gsc__shape *shapes, int32_t count,
                             char text[2 * GSC__SHAPE_TEXT_SIZE]);

#endif
