/* From a camera's tensors to the numbers that projection uses.  Pure functions, shared by the CPU
 * backend and the CUDA kernels, like splat_math.h. */
#ifndef GSC_CAMERA_MATH_H
#define GSC_CAMERA_MATH_H

#include "splat_math.h"

/* One camera as the caller describes it; matrices are stored in columns or in rows. */
typedef struct gsc__camera_source {
    const gsc_real *view;       /* [4, 4] */
    const gsc_real *projection; /* [4, 4]; NULL with intrinsics */
    const gsc_real *intrinsics; /* [4] or NULL */
    const gsc_real *position;   /* [3] or NULL */
    int64_t position_step;      /* elements from coordinate to coordinate */
    gsc_real tan_fov[2];
    gsc_real near_plane, far_plane, blur;
    int32_t width, height;
    bool view_by_rows, projection_by_rows, compat, antialias, mip;
} gsc__camera_source;

GSC__PURE gsc_real gsc__matrix_element(const gsc_real *matrix, bool by_rows, int row, int column) {
    return matrix[by_rows ? 4 * row + column : 4 * column + row];
}

/* Only what points need: the view and the planes. */
GSC__PURE void gsc__camera_make_view(const gsc__camera_source *source, gsc__camera *camera) {
    camera->near_plane = source->near_plane;
    camera->far_plane = source->far_plane;
    for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 3; ++j)
            camera->rotation[i][j] = gsc__matrix_element(source->view, source->view_by_rows, i, j);
        camera->translation[i] = gsc__matrix_element(source->view, source->view_by_rows, i, 3);
    }
    for (int j = 0; j < 3; ++j) {
        camera->position[j] = 0;
        for (int i = 0; i < 3; ++i)
            camera->position[j] -= camera->rotation[i][j] * camera->translation[i];
        if (source->position) camera->position[j] = source->position[j * source->position_step];
    }
}

/* The pinhole inside a world-to-clip matrix: since clip = pinhole view, products with the
 * rotation's rows are the focal lengths and the principal point. */
GSC__PURE void gsc__pinhole_from_clip(gsc__camera *camera) {
    const gsc_real *x = camera->rotation[0], *y = camera->rotation[1], *z = camera->rotation[2];
    gsc_real w = gsc__dot3(camera->clip[2], z);
    camera->fx = gsc__dot3(camera->clip[0], x) / w * camera->width / 2;
    camera->fy = gsc__dot3(camera->clip[1], y) / w * camera->height / 2;
    camera->cx = (gsc__dot3(camera->clip[0], z) / w + 1) * camera->width / 2;
    camera->cy = (gsc__dot3(camera->clip[1], z) / w + 1) * camera->height / 2;
}

GSC__PURE void gsc__camera_make_pinhole(const gsc__camera_source *source, gsc__camera *camera) {
    camera->by_clip = false;
    if (source->intrinsics) {
        camera->fx = source->intrinsics[0];
        camera->fy = source->intrinsics[1];
        camera->cx = source->intrinsics[2];
        camera->cy = source->intrinsics[3];
        return;
    }
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 4; ++j)
            camera->clip[i][j] = gsc__matrix_element(source->projection, source->projection_by_rows,
                                                     i == 2 ? 3 : i, j);
    gsc__pinhole_from_clip(camera);
    if (!source->compat) return;
    camera->by_clip = true;
    camera->fx = camera->width / (2 * source->tan_fov[0]);
    camera->fy = camera->height / (2 * source->tan_fov[1]);
}

/* Beyond these ratios of x/z and y/z the Jacobian is that of the nearest ray inside: the image's
 * edges plus 0.3 of the half field of view, wherever the principal point is.  Compat with a
 * projection clamps to 1.3 times the centred field of view. */
GSC__PURE void gsc__camera_make_clamp(const gsc__camera_source *source, gsc__camera *camera) {
    for (int i = 0; i < 2; ++i) {
        gsc_real size = i == 0 ? camera->width : camera->height;
        gsc_real focal = i == 0 ? camera->fx : camera->fy;
        gsc_real centre = i == 0 ? camera->cx : camera->cy;
        gsc_real limit = GSC_REAL(1.3) * source->tan_fov[i], margin = GSC_REAL(0.15) * size / focal;
        camera->ratio_min[i] = camera->by_clip ? -limit : -centre / focal - margin;
        camera->ratio_max[i] = camera->by_clip ? limit : (size - centre) / focal + margin;
    }
}

/* A bound on a splat's extent.  With an opacity of at most 1, a longest axis of length s and depth
 * z it reaches at most reach_of_size s / z + reach_of_depth pixels from its mean along each axis of
 * the image: to 3.33 deviations, where alpha falls below 1/255, or in compat to 3 of the larger
 * eigenvalue and whole tiles.  The deviation along an axis is at most the focal length times s / z
 * times the norm of the Jacobian's row, plus the blur's.  The constants leave a margin for
 * rounding. */
GSC__PURE void gsc__camera_make_reach(gsc__camera *camera) {
    gsc_real stretch[2];
    for (int i = 0; i < 2; ++i) {
        const gsc_real *row = camera->rotation[i], *z = camera->rotation[2];
        gsc_real limit =
            gsc__fmax(gsc__fabs(camera->ratio_min[i]), gsc__fabs(camera->ratio_max[i]));
        gsc_real cross = 2 * gsc__fabs(gsc__dot3(row, z));
        stretch[i] = gsc__fabs(i == 0 ? camera->fx : camera->fy) *
                     gsc__sqrt(gsc__dot3(row, row) + limit * (cross + limit * gsc__dot3(z, z)));
    }
    gsc_real both = gsc__sqrt(stretch[0] * stretch[0] + stretch[1] * stretch[1]);
    gsc_real blur = gsc__fmax(camera->blur, 0);
    for (int i = 0; i < 2; ++i) {
        gsc_real centre = gsc__fabs(i == 0 ? camera->cx : camera->cy);
        camera->reach_of_size[i] = GSC_REAL(3.34) * stretch[i];
        camera->reach_of_depth[i] = GSC_REAL(3.34) * gsc__sqrt(blur) + 2;
        if (camera->compat) {
            camera->reach_of_size[i] = GSC_REAL(3.01) * both;
            camera->reach_of_depth[i] =
                GSC_REAL(3.01) * gsc__sqrt(2 * blur + GSC_REAL(0.32)) + 2 * GSC__COMPAT_TILE + 2;
        }
        camera->reach_of_depth[i] += GSC_REAL(1e-4) * centre;
    }
}

GSC__PURE void gsc__camera_make(const gsc__camera_source *source, gsc__camera *camera) {
    camera->width = (gsc_real)source->width;
    camera->height = (gsc_real)source->height;
    camera->blur = source->blur;
    camera->compat = source->compat;
    camera->antialias = source->antialias;
    camera->mip = source->mip;
    gsc__camera_make_view(source, camera);
    gsc__camera_make_pinhole(source, camera);
    gsc__camera_make_clamp(source, camera);
    camera->cx -= GSC_REAL(0.5); /* pixel centres are integers from here on */
    camera->cy -= GSC_REAL(0.5);
    gsc__camera_make_reach(camera);
}

#endif
