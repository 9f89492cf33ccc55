/* Pinhole cameras, from the cameras.json that 3DGS training writes or placed to show a scene. */
#ifndef GSPLAT_C_TOOLS_CAMERAS_H
#define GSPLAT_C_TOOLS_CAMERAS_H

#include "gaussians.h"

struct camera {
    char *name;
    char *picture;       /* path of its picture; NULL: not set */
    char *depth_picture; /* and that of its depth */
    int32_t width, height;
    float intrinsics[4];   /* fx fy cx cy, pixels */
    double rotation[3][3]; /* its columns are the camera's x, y, z axes in the world */
    double position[3];
    float near_plane; /* 0: the library's default */
};

typedef struct camera_list {
    struct camera *items;
    size_t count;
} camera_list;

/* At least one camera.  False after fail(), with nothing to free. */
bool cameras_read(camera_list *cameras, const char *path);
/* One camera that shows the whole scene from a little above; false after fail(). */
bool cameras_frame(camera_list *cameras, const gaussians *scene, int32_t width, int32_t height);
void cameras_free(camera_list *cameras);

/* By name, else by index; NULL if there is none. */
const struct camera *cameras_find(const camera_list *cameras, const char *text);
/* Drops all others. */
void cameras_keep(camera_list *cameras, size_t index);
/* Changes the size of the image; everything in the image stays in it. */
void camera_resize(struct camera *camera, int32_t width, int32_t height);
/* World to camera, [4, 4] column-major, for a world that is counted from the origin. */
void camera_view(const struct camera *camera, const double origin[3], float *view);

#endif
