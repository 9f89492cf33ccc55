/* Reads a file once, from front to back, by bytes or by lines. */
#ifndef GSPLAT_C_TOOLS_STREAM_H
#define GSPLAT_C_TOOLS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct stream {
    FILE *file;
    const char *path; /* belongs to the caller */
    unsigned char *buffer;
    size_t capacity, begin, end; /* bytes [begin, end) of buffer are not taken yet */
    int64_t left;                /* bytes of the file that are not taken yet */
    int64_t line;                /* number of the last line, from 1 */
} stream;

bool stream_open(stream *input, const char *path);
void stream_close(stream *input);

/* The next `bytes` bytes, valid until the next call; NULL after fail(). */
const unsigned char *stream_take(stream *input, size_t bytes);
bool stream_skip(stream *input, int64_t bytes);
/* The next line without its end (LF or CR LF), NUL-terminated, valid until the next
 * call; NULL after fail(), also at the end of the file. */
char *stream_line(stream *input);

#endif
