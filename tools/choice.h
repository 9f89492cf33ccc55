/* What `render` and `bench` share: which cameras and which settings fit the scene. */
#ifndef GSPLAT_C_TOOLS_CHOICE_H
#define GSPLAT_C_TOOLS_CHOICE_H

#include "renderer.h"

typedef struct camera_choice {
    const char *path;  /* of cameras.json; NULL: frame the scene */
    const char *which; /* name, number or "all"; NULL: the first */
    int32_t size[2];   /* 0, 0: not given */
} camera_choice;

/* All three return EXIT_OK, or another code after fail(). */

/* Before any file is read. */
int choice_check(const camera_choice *choice, const render_settings *settings);
/* Reads or makes the chosen cameras, of the chosen size. */
int choice_cameras(const camera_choice *choice, const gaussians *scene, camera_list *cameras);
/* Checks the settings against the scene and makes the scene ready for them. */
int choice_scene(const render_settings *settings, gaussians *scene, const char *path);

#endif
