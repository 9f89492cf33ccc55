/* Writing small JSON texts into a buffer of fixed size. */
#ifndef GSC_JSON_H
#define GSC_JSON_H

#include <stddef.h>
#include <stdint.h>

/* Writes what fits and counts all: used may pass size.  Zero it, then set buffer and size. */
typedef struct gsc__json {
    char *buffer;
    size_t size;
    size_t used;   /* characters of the text so far, without the NUL */
    int continued; /* the next element follows another one */
} gsc__json;

/* key NULL: an element of an array, or the outermost object. */
void gsc__json_begin(gsc__json *json, const char *key, char bracket);
void gsc__json_end(gsc__json *json, char bracket);
void gsc__json_string(gsc__json *json, const char *key, const char *text);
void gsc__json_integer(gsc__json *json, const char *key, int64_t value);

/* Ends the buffer with a NUL, if its size is not 0; returns the bytes that the whole text
 * needs, NUL included. */
size_t gsc__json_finish(gsc__json *json);

#endif
