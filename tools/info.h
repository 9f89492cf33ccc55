/* Facts about the library, as JSON trees to be deleted.  NULL or false after fail(). */
#ifndef GSPLAT_C_TOOLS_INFO_H
#define GSPLAT_C_TOOLS_INFO_H

#include "gsplat_c.h"

#include <cjson/cJSON.h>
#include <stdbool.h>

/* Version, build, CUDA Runtime of the command, and devices. */
cJSON *describe_library(void);
/* The library's report of one device. */
cJSON *describe_device(DLDevice device);

bool print_json(const cJSON *tree);

#endif
