/* The part of host.h that differs between systems; errno describes failures. */
#ifndef GSPLAT_C_TOOLS_HOST_SYSTEM_H
#define GSPLAT_C_TOOLS_HOST_SYSTEM_H

#include <stdbool.h>
#include <stdio.h>

long host_process_id(void);
/* True also if something of that name is there already. */
bool host_make_one_directory(const char *path);
/* Where a path of symbolic links leads; a copy of it if nothing is there, or where these are
 * rare.  To be freed, NULL without memory. */
char *host_real_path(const char *path);
/* For writing; fails if it exists. */
FILE *host_create_file(const char *path);
bool host_replace_file(const char *from, const char *to);

#endif
