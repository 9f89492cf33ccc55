/* Reads PLY files: a text header names elements and their properties; then follow the rows of
 * each element with scalars and lists, as text or as binary in either byte order. */
#ifndef GSPLAT_C_TOOLS_PLY_H
#define GSPLAT_C_TOOLS_PLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* X(PLY_..., type in C, name, old name) */
#define PLY_TYPE_LIST(X)                    \
    X(INT8, int8_t, "int8", "char")         \
    X(UINT8, uint8_t, "uint8", "uchar")     \
    X(INT16, int16_t, "int16", "short")     \
    X(UINT16, uint16_t, "uint16", "ushort") \
    X(INT32, int32_t, "int32", "int")       \
    X(UINT32, uint32_t, "uint32", "uint")   \
    X(FLOAT32, float, "float32", "float")   \
    X(FLOAT64, double, "float64", "double")
#define PLY_TYPE(id, type, name, old_name) PLY_##id,
typedef enum ply_type { PLY_TYPE_LIST(PLY_TYPE) PLY_TYPES } ply_type;
#undef PLY_TYPE

typedef enum ply_format { PLY_ASCII, PLY_LITTLE_ENDIAN, PLY_BIG_ENDIAN, PLY_FORMATS } ply_format;

typedef struct ply_property {
    char *name;
    ply_type type;       /* the type of the value, or of a list's items */
    ply_type count_type; /* the type of a list's length */
    bool is_list;
} ply_property;

typedef struct ply_element {
    char *name;
    int64_t count;
    ply_property *properties;
    size_t property_count;
} ply_element;

typedef struct ply {
    FILE *file;
    const char *path; /* belongs to the caller */
    int64_t left;     /* bytes of the file that are not read yet, at most */
    int64_t line;     /* number of the last line, from 1 */
    char *buffer;     /* of the last bytes or line */
    size_t capacity;
    ply_format format;
    ply_element *elements;
    size_t element_count;
    char *comments; /* each on a line of its own; NULL: none */
    size_t comment_bytes, comment_capacity;
    size_t next_element; /* the one whose rows come next */
    int64_t row;         /* of the current element */
} ply;

/* Opens the file and reads its header.  False after fail(), with nothing to close. */
bool ply_open(ply *file, const char *path);
void ply_close(ply *file);

/* Skips to the rows of the named element and checks that the file is long enough
 * to hold them; NULL after fail(). */
const ply_element *ply_find(ply *file, const char *name);
/* The next row of that element: one value per property, NAN for a list. */
bool ply_read_row(ply *file, double *values /* [property_count] */);

/* -1 if the element has no such property. */
int ply_property_index(const ply_element *element, const char *name);

extern const char *const ply_format_names[PLY_FORMATS];

#endif
