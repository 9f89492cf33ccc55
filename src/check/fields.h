/* Tables of a descriptor's fields.  Tensors become checked pointers; numbers are checked and get their
 * defaults. */
#ifndef GSC_FIELDS_H
#define GSC_FIELDS_H

#include "core/backend.h"

/* -------------------------------------------------------------------- shapes */

enum { GSC__MAX_DIMS = 8, GSC__LETTERS = 26 };

/* What a letter may stand for; letter 0 ends a list. */
typedef struct gsc__limit {
    char letter;
    const char *what; /* for messages: "cameras" */
    int64_t least, most;
} gsc__limit;

/* What the capital letters of shapes stand for. */
typedef struct gsc__sizes {
    const gsc__limit *limits; /* NULL: none */
    uint32_t known; /* letters, as bits from A on; others fit any size and then stand for that */
    int64_t of[GSC__LETTERS]; /* GSC__NO_DIMENSION: shapes do not have it */
} gsc__sizes;
#define GSC__NO_DIMENSION INT64_C(-1)

void gsc__size_set(gsc__sizes *sizes, char letter, int64_t size);
int64_t gsc__size(const gsc__sizes *sizes, char letter);

/* Shapes are texts of a digit or letter for each dimension: "N3".  The first may be in parentheses,
 * "(C)N3": it may be left out when it is 1.  A bar stands between shapes that are both allowed:
 * "N|N1". */

/* How many elements the tensor has, INT64_MAX if more than that. */
int64_t gsc__elements(const DLTensor *tensor);
/* Whether the tensor has one of the shapes; then every letter of that one is known. */
bool gsc__shape_fits(const DLTensor *tensor, const char *shapes, gsc__sizes *sizes);

enum { GSC__SHAPE_TEXT_SIZE = 128 };
/* "[2, 4, 4]", cut off with ".." if it is long; a negative dimension is a letter.  Returns text. */
const char *gsc__shape_text(const int64_t *dims, int32_t ndim, char text[GSC__SHAPE_TEXT_SIZE]);
/* "[1, 4, 4] or [4, 4]": all that the shapes allow; returns text. */
const char *gsc__shapes_text(const char *shapes, const gsc__sizes *sizes,
                             char text[2 * GSC__SHAPE_TEXT_SIZE]);

/* ------------------------------------------------------------------- tensors */

/* The element types that a field allows, and what else it is. */
enum {
    GSC__REAL = 1u << 0, /* float32; float64 in the double build; the default */
    GSC__INT32 = 1u << 1,
    GSC__INT64 = 1u << 2,
    GSC__UINT8 = 1u << 3,
    GSC__BOOL = 1u << 4,
    GSC__TYPES = (1u << 5) - 1,
    GSC__REQUIRED = 1u << 5,
    GSC__HOST_TOO = 1u << 6,   /* may also be in host memory, whatever the context's device */
    GSC__STRIDED = 1u << 7,    /* any strides; otherwise dense and row-major */
    GSC__SEPARATE = 1u << 8,   /* but no two elements may share memory through a stride of 0 */
    GSC__SHAPE_ONLY = 1u << 9, /* strides and data do not matter */
    /* The result is a gsc__image, not a pointer: strides as of four dimensions, 0 for the first ones
     * that the tensor lacks. */
    GSC__IMAGE = GSC__STRIDED | 1u << 10
};

/* A tensor of a descriptor. */
typedef struct gsc__field {
    const char *name;
    size_t from; /* offset in the descriptor */
    size_t to;   /* and of the pointer in the result */
    const char *shapes;
    uint32_t kind;
    size_t needs; /* for results: offset in gsc__raster of the input without which there is none */
} gsc__field;
/* The initialiser of a field that has the same name in both structs. */
#define GSC__FIELD(descriptor, result, member, ...)                                            \
    {                                                                                          \
        .name = #member, .from = offsetof(descriptor, member), .to = offsetof(result, member), \
        .shapes = __VA_ARGS__                                                                  \
    }
#define GSC__COUNT(array) (sizeof(array) / sizeof(array)[0])

/* What a tensor was found to have. */
typedef struct gsc__found {
    void *data;                     /* NULL only if not given; no elements: not to be followed */
    int64_t strides[GSC__MAX_DIMS]; /* in elements; 0 for dimensions of size 1 */
} gsc__found;

/* The pointer at an offset of a struct. */
void *gsc__pointer_at(const void *base, size_t offset);
/* Checks dtype, shape, device, strides and data, in this order. */
gsc_status gsc__tensor_check(const gsc__call *call, gsc__sizes *sizes, const gsc__field *field,
                             const DLTensor *given, gsc__found *found);
/* Checks each, up to the first that fails, and fills in the result. */
gsc_status gsc__fields_check(const gsc__call *call, gsc__sizes *sizes, const gsc__field *fields,
                             size_t count, const void *descriptor, void *result);

/* A byte buffer: dense uint8 [bytes], 256-byte aligned, of at least `needed` bytes; NULL and 0
 * if it is not given. */
gsc_status gsc__tensor_bytes(const gsc__call *call, const char *name, const DLTensor *given,
                             size_t needed, void **data, size_t *bytes);

/* GSC_ERROR_INVALID_ARGUMENT if tensor is NULL. */
gsc_status gsc__require(const gsc__call *call, const char *name, const DLTensor *tensor);

/* ------------------------------------------------------------------- numbers */

/* What a number may be, beyond finite, and what its result is. */
enum {
    GSC__NOT_NEGATIVE = 1u << 0,
    GSC__BELOW_ONE = 1u << 1,
    GSC__NEGATIVE_IS_ZERO = 1u << 2,
    GSC__TO_DOUBLE = 1u << 3 /* the result is a double, not a gsc_real */
};

typedef struct gsc__number {
    const char *name;
    size_t from;     /* offset in the descriptor */
    size_t to;       /* and in the result */
    double standard; /* what 0 stands for */
    uint32_t kind;
} gsc__number;

/* The initialiser of a number that has the same name in both structs. */
#define GSC__NUMBER(descriptor, result, name, ...) \
    { #name, offsetof(descriptor, name), offsetof(result, name), __VA_ARGS__ }

/* Checks each, up to the first that fails, and fills in the result. */
gsc_status gsc__numbers_check(const gsc__call *call, const gsc__number *numbers, size_t count,
                              const void *descriptor, void *result);

/* "@NAME is 5, expected 0 to 4" unless it is in the range. */
gsc_status gsc__check_range(const gsc__call *call, const char *name, int32_t value, int32_t least,
                            int32_t most);

#endif
