/* Facts about a scene or the library, as a JSON tree. */
#ifndef GSPLAT_C_TOOLS_DESCRIBE_H
#define GSPLAT_C_TOOLS_DESCRIBE_H

#include "gaussians.h"
#include "gsplat_c.h"

#include <cjson/cJSON.h>

/* Version, build, CUDA Runtime of the command and devices; NULL after fail().  To be
 * deleted. */
cJSON *describe_library(void);
/* The library's report of one device; NULL after fail().  To be deleted. */
cJSON *describe_device(DLDevice device);
/* Counts, bounds and typical sizes; NULL after fail().  To be deleted. */
cJSON *describe_scene(const gaussians *scene, const char *path);

/* Prints the tree as JSON, or as indented lines "name  value". */
bool print_json(const cJSON *tree);
void print_lines(const cJSON *tree, int indent);

#endif
