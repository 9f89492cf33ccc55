/* Where `gsplat-c render` puts its pictures. */
#ifndef GSPLAT_C_TOOLS_OUTPUT_PATH_H
#define GSPLAT_C_TOOLS_OUTPUT_PATH_H

#include "cameras.h"

/* The names of the pictures of some cameras. */
typedef struct output_paths {
    char *base;      /* before the camera's name, or the whole path of one picture */
    bool whole;      /* one picture, base is its path */
    bool with_index; /* two cameras have names that give the same file */
} output_paths;

/* output NULL: named after the scene, in the current directory.  Makes the directory
 * that output names.  False after fail(). */
bool output_paths_open(output_paths *paths, const char *output, const char *scene_path,
                       const camera_list *cameras);
/* The path of one camera's picture, to be freed; NULL after fail(). */
char *output_path(const output_paths *paths, const struct camera *camera, size_t index);
/* The path with "-depth" before its .png; to be freed, NULL after fail(). */
char *depth_path(const char *path);
void output_paths_close(output_paths *paths);

#endif
