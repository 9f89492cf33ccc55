/* Where `gsplat-c render` puts its pictures. */
#ifndef GSPLAT_C_TOOLS_OUTPUT_PATH_H
#define GSPLAT_C_TOOLS_OUTPUT_PATH_H

#include "cameras.h"

/* Sets the path of every camera's picture, and makes the directory that `output` names.
 * output NULL: named after the scene, in the current directory.  False after fail(). */
bool output_paths(camera_list *cameras, const char *output, const char *scene_path);
/* The path with "-depth" before its .png; to be freed, NULL after fail(). */
char *depth_path(const char *path);

#endif
