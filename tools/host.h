/* What the command needs from the operating system. */
#ifndef GSPLAT_C_TOOLS_HOST_H
#define GSPLAT_C_TOOLS_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Arguments, paths and terminals use UTF-8. */
void host_use_utf8(void);
double host_clock_ms(void); /* monotonic */
bool host_is_terminal(FILE *file);
void *host_aligned_alloc(size_t bytes, size_t alignment);
void host_aligned_free(void *data);

bool host_is_directory(const char *path);
bool host_is_separator(char c);
/* The part after the last separator. */
const char *host_file_name(const char *path);
/* Makes the directory and its parents, unless they exist. */
bool host_make_directory(const char *path);

/* Opens a regular file for reading and gets its length; NULL after fail(). */
FILE *host_open_file(const char *path, int64_t *bytes);
/* Reads a whole file and appends a NUL; to be freed.  NULL after fail(). */
char *host_read_text(const char *path, size_t *bytes);

/* A file that appears under its name only when it is complete. */
typedef struct output_file {
    FILE *stream;
    char *path;      /* where it will be */
    char *temporary; /* where it is now; NULL: a device or pipe, written in place */
} output_file;
bool output_open(output_file *file, const char *path);
/* Puts the file in place if `complete`, else removes it.  False after fail(). */
bool output_close(output_file *file, bool complete);

/* What host.c builds on; errno says why one failed. */
long host_process_id(void);
/* True also if something with that name exists. */
bool host_make_one_directory(const char *path);
/* The path with symbolic links resolved; a copy if nothing is there, and on Windows.  To be
 * freed; NULL without memory. */
char *host_real_path(const char *path);
/* For writing; fails if it exists. */
FILE *host_create_file(const char *path);
bool host_replace_file(const char *from, const char *to);

#endif
