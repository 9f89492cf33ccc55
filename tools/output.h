/* Where `gsplat-c render` puts its pictures, and how a file appears there. */
#ifndef GSPLAT_C_TOOLS_OUTPUT_H
#define GSPLAT_C_TOOLS_OUTPUT_H

#include "cameras.h"
#include "options.h"

#include <stdio.h>

/* Both return EXIT_OK, or another code after fail(). */

/* Checks --output before any file is read. */
int output_check(const command_options *options);
/* Sets the paths of every camera's pictures, which are neither inputs nor the same twice, and
 * makes the directory that --output names.  The default is named after the scene, in the current
 * directory. */
int output_paths(camera_list *cameras, const command_options *options);

/* A file that appears under its name only when it is complete. */
typedef struct output_file {
    FILE *stream;
    char *path;      /* where it will be */
    char *temporary; /* where it is now; NULL: a device, a pipe or standard output */
} output_file;
/* "-": standard output. */
bool output_open(output_file *file, const char *path);
/* Puts the file in place if `complete`, else removes it.  False after fail(). */
bool output_close(output_file *file, bool complete);

#endif
