/* What the command needs from the operating system besides os/system.h. */
#ifndef GSPLAT_C_TOOLS_HOST_H
#define GSPLAT_C_TOOLS_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Arguments, paths and terminals use UTF-8. */
void host_use_utf8(void);
bool host_is_terminal(FILE *file);
/* Line ends are written as they are. */
void host_write_binary(FILE *file);

bool host_is_directory(const char *path);
/* Whether both paths lead to one existing file. */
bool host_same_file(const char *a, const char *b);
bool host_is_separator(char c);
/* The part after the last separator. */
const char *host_file_name(const char *path);
/* Makes the directory and its parents, unless they exist. */
bool host_make_directory(const char *path);

/* Opens a regular file for reading and gets its length; NULL after fail(). */
FILE *host_open_file(const char *path, int64_t *bytes);
/* Reads a whole file and appends a NUL; to be freed.  NULL after fail(). */
char *host_read_text(const char *path, size_t *bytes);

/* Where writing to the path would write, with symbolic links resolved; on Windows a copy.  To be
 * freed; NULL without memory. */
char *host_real_path(const char *path);
int64_t host_process_id(void);
/* For writing; fails if it exists. */
FILE *host_create_file(const char *path);
bool host_replace_file(const char *from, const char *to);
/* A signal that ends the process removes this file first; NULL: none.  The path is the caller's,
 * until the next call.  Does nothing on Windows. */
void host_remove_when_killed(const char *path);

/* What host.c builds on.  True also if something with that name exists; errno says why it failed. */
bool host_make_one_directory(const char *path);

#endif
