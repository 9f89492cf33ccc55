#include "stream.h"

#include "failure.h"
#include "host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 1 << 18, MAX_CAPACITY = 1 << 26 };

bool stream_open(stream *input, const char *path) {
    memset(input, 0, sizeof *input);
    input->path = path;
    input->file = host_open_file(path, &input->left);
    if (!input->file) return false;
    input->capacity = FIRST_CAPACITY;
    input->buffer = malloc(input->capacity + 1); /* + 1: the NUL of a last line */
    if (input->buffer) return true;
    stream_close(input);
    return fail("%s: out of memory", path);
}

void stream_close(stream *input) {
    if (input->file) fclose(input->file);
    free(input->buffer);
    input->file = NULL;
    input->buffer = NULL;
}

/* Reads until the buffer is full or the file ends. */
static bool fill(stream *input) {
    if (input->begin > 0) {
        memmove(input->buffer, input->buffer + input->begin, input->end - input->begin);
        input->end -= input->begin;
        input->begin = 0;
    }
    if (input->end == input->capacity) {
        if (input->capacity == MAX_CAPACITY)
            return fail("%s: line %lld is longer than %d bytes", input->path,
                        (long long)input->line + 1, MAX_CAPACITY);
        unsigned char *larger = realloc(input->buffer, 2 * input->capacity + 1);
        if (!larger) return fail("%s: out of memory", input->path);
        input->buffer = larger;
        input->capacity *= 2;
    }
    input->end += fread(input->buffer + input->end, 1, input->capacity - input->end, input->file);
    if (ferror(input->file)) return fail("%s: cannot read: %s", input->path, strerror(errno));
    return true;
}

const unsigned char *stream_take(stream *input, size_t bytes) {
    while (input->end - input->begin < bytes) {
        size_t before = input->end - input->begin;
        if (!fill(input)) return NULL;
        if (input->end - input->begin == before) {
            fail("%s: cut short: the file ends in the middle of its data", input->path);
            return NULL;
        }
    }
    const unsigned char *data = input->buffer + input->begin;
    input->begin += bytes;
    input->left -= (int64_t)bytes;
    return data;
}

bool stream_skip(stream *input, int64_t bytes) {
    if (bytes > input->left)
        return fail("%s: cut short: the file ends in the middle of its data", input->path);
    while (bytes > 0) {
        size_t chunk = bytes < FIRST_CAPACITY ? (size_t)bytes : (size_t)FIRST_CAPACITY;
        if (!stream_take(input, chunk)) return false;
        bytes -= (int64_t)chunk;
    }
    return true;
}

char *stream_line(stream *input) {
    size_t searched = 0;
    unsigned char *end = NULL;
    for (;;) {
        size_t available = input->end - input->begin;
        if (available > searched)
            end = memchr(input->buffer + input->begin + searched, '\n', available - searched);
        if (end) break;
        searched = available;
        if (!fill(input)) return NULL;
        if (input->end - input->begin == available) break;
    }
    char *line = (char *)input->buffer + input->begin;
    size_t length = end ? (size_t)(end - (unsigned char *)line) : searched;
    if (!end && length == 0) {
        fail("%s: cut short: the file ends after line %lld", input->path, (long long)input->line);
        return NULL;
    }
    size_t taken = length + (end ? 1 : 0);
    input->begin += taken;
    input->left -= (int64_t)taken;
    input->line++;
    line[length] = '\0';
    if (length > 0 && line[length - 1] == '\r') line[length - 1] = '\0';
    return line;
}
