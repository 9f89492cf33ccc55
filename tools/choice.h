/* What `render` and `bench` share: the options that choose a view of the scene. */
#ifndef GSPLAT_C_TOOLS_CHOICE_H
#define GSPLAT_C_TOOLS_CHOICE_H

#include "cameras.h"
#include "options.h"

/* Both return EXIT_OK, or another code after fail(). */

/* Checks the options before any file is read. */
int choice_check(const command_options *options);
/* Checks the options against the scene, prepares the scene for them, and reads or makes the
 * cameras, in the size asked for.  cameras_free is fine after a failure too. */
int choice_cameras(const command_options *options, gaussians *scene, camera_list *cameras);

#endif
