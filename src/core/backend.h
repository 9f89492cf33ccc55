/* What the API layer hands to a backend, and the table that a backend is.
 *
 * Everything here is checked: pointers are dense and of the right size and device,
 * defaults are filled in.  A backend never looks at a public descriptor's tensors. */
#ifndef GSC_BACKEND_H
#define GSC_BACKEND_H

#include "call.h"
#include "limits.h"
#include "math/adam_math.h"
#include "math/camera_math.h"

#include <stdbool.h>

/* Cameras and Gaussians.  Pointers that were not given are NULL. */
typedef struct gsc__raster {
    uint32_t flags; /* GSC_RASTER_* */
    int32_t width, height, channels, sh_degree;
    int32_t cameras;           /* C */
    int64_t gaussians;         /* N */
    gsc__camera_source camera; /* the first one's tensors, [C, ..], and what all have in common */
    gsc_real scale_modifier;
    gsc_real radius_clip; /* negative for none */
    gsc_real median_default;
    int64_t background_stride;  /* elements from camera to camera: 0 or channels */
    int64_t colors_stride;      /* 0 or N * channels */
    int64_t position_stride;    /* elements from camera to camera */
    int64_t sh_coefficients;    /* rows of sh per Gaussian: K, or K - 1 with sh_dc */
    const gsc_real *background; /* [1 or C, channels] */
    /* Whether they are in host memory, which a CUDA context then reads during the call. */
    bool host_view, host_projection, host_intrinsics, host_position, host_background;
    const gsc_real *pixel_weights; /* [C, H, W] */
    const gsc_real *means;         /* [N, 3] */
    const gsc_real *opacities;     /* [N] */
    const gsc_real *scales;        /* [N, 3] */
    const gsc_real *rotations;     /* [N, 4] */
    const gsc_real *covariances;   /* [N, 6] */
    const gsc_real *colors;        /* [1 or C, N, channels] */
    const gsc_real *sh;            /* [N, sh_coefficients, 3] */
    const gsc_real *sh_dc;         /* [N, 3] */
} gsc__raster;

typedef struct gsc__raster_outputs {
    gsc_real *color;           /* [C, channels, H, W] or [C, H, W, channels] */
    gsc_real *alpha;           /* [C, H, W] */
    gsc_real *depth;           /* [C, H, W] */
    gsc_real *inv_depth;       /* [C, H, W] */
    gsc_real *median_depth;    /* [C, H, W] */
    int32_t *radii;            /* [C, N, radii_axes] */
    int32_t radii_axes;        /* 1 or 2 */
    gsc_real *means2d;         /* [C, N, 2] */
    gsc_real *depths;          /* [C, N] */
    gsc_real *conics;          /* [C, N, 3] */
    gsc_real *opacities;       /* [C, N] */
    int32_t *touched;          /* [C, N] */
    gsc_real *weight_sum;      /* [C, N] */
    int32_t *weight_count;     /* [C, N] */
    gsc_real *weight_blend;    /* [C, N] */
    gsc_real *weight_distance; /* [C, N] */
} gsc__raster_outputs;

/* The per-Gaussian sums over pixels, which blending makes. */
static inline bool gsc__wants_statistics(const gsc__raster_outputs *out) {
    return out->touched || out->weight_sum || out->weight_count || out->weight_blend ||
           out->weight_distance;
}

/* data NULL and bytes 0 where a buffer was not given (scratch never is NULL). */
typedef struct gsc__raster_buffers {
    void *state, *intersections, *scratch;
    size_t state_bytes, intersections_bytes, scratch_bytes;
} gsc__raster_buffers;

/* One call of the rasterizer. */
typedef struct gsc__raster_call {
    gsc__call call;
    gsc__raster raster;
    gsc__raster_buffers buffers;
    gsc__raster_outputs outputs;
    gsc_raster_info sizes; /* for these arguments and what is known of the intersections */
} gsc__raster_call;

typedef struct gsc__adam_group {
    gsc_real *parameter, *moment1, *moment2; /* [rows, row_size] */
    const gsc_real *gradient;
    int64_t rows, row_size;
    double lr, beta1, beta2, epsilon, weight_decay;
    int32_t step; /* 0: no bias correction */
    bool decoupled;
} gsc__adam_group;

/* Computed in double precision and rounded once. */
gsc__adam_constants gsc__adam_constants_of(const gsc__adam_group *group);

/* Steps of Adam that backward makes instead of writing gradients. */
enum { GSC__PARAMETERS = GSC_PARAMETER_SH_DC };
typedef struct gsc__raster_steps {
    gsc__adam_group groups[GSC__PARAMETERS]; /* by GSC_PARAMETER_* - 1, without gradients;
                                                parameter NULL: none, or nothing in it */
    const int32_t *radii; /* [N, radii_axes] a row is stepped where one is not 0; NULL: all are */
    int32_t radii_axes;
} gsc__raster_steps;

typedef struct gsc__raster_grads {
    /* in */
    const gsc_real *color, *alpha, *depth, *inv_depth;
    /* out */
    gsc_real *means, *opacities, *scales, *rotations, *covariances, *colors, *sh, *sh_dc;
    gsc_real *means2d;                      /* [C, N, means2d_axes] */
    gsc_real *means2d_abs;                  /* [C, N, means2d_abs_axes] */
    int32_t means2d_axes, means2d_abs_axes; /* 2 or 3 */
    gsc_real *view;                         /* [C, 16] */
    gsc_real *position;                     /* [C, 3] */
    gsc_real *background;                   /* [1 or C, channels] */
    const gsc__raster_steps *steps;         /* with one camera; NULL: none */
} gsc__raster_grads;

typedef struct gsc__knn {
    int32_t k;
    int64_t points_count;    /* N */
    int64_t queries_count;   /* M; N without queries */
    const gsc_real *points;  /* [N, 3] */
    const gsc_real *queries; /* [M, 3] or NULL */
    void *indices;           /* [M, k] int32, or int64 if indices64 */
    bool indices64;
    gsc_real *distances2; /* [M, k] */
    gsc_real *mean2;      /* [M] */
    void *scratch;        /* at least what knn_scratch_bytes said */
    size_t scratch_bytes;
} gsc__knn;

/* An image with strides in elements, [B, C, H, W]. */
typedef struct gsc__image {
    void *data; /* gsc_real, or uint8_t if bytes */
    int64_t strides[4];
    bool bytes;
} gsc__image;

typedef struct gsc__window {
    int32_t size;                      /* odd */
    gsc_real weights[GSC__MAX_WINDOW]; /* normalised Gaussian */
} gsc__window;

/* What SSIM and the image loss compare, all [B, C, H, W]. */
typedef struct gsc__image_pair {
    int32_t batch, channels, height, width;
    gsc__window window;
    int32_t border; /* rows and columns at each edge that have no window */
    gsc_real c1, c2;
    gsc__image image, target;
    gsc__image grad_image; /* data NULL if not wanted */
} gsc__image_pair;

typedef struct gsc__ssim {
    gsc__image_pair pair;
    gsc_real *map; /* dense [B, C, H', W'] */
    gsc_real *mean;
    gsc__image grad_map; /* data NULL if not given; shape of map */
    const gsc_real *grad_mean;
    gsc__image grad_target; /* data NULL if not wanted */
} gsc__ssim;

typedef struct gsc__image_loss {
    gsc__image_pair pair;
    gsc_real l1_weight, l2_weight, ssim_weight, grad_scale;
    gsc__image mask;        /* strides of b, 0, y, x (b: 0 if shared); data NULL if none */
    gsc_real *loss, *parts; /* [], [3] */
} gsc__image_loss;

typedef struct gsc__visible_rows {
    const void *data; /* NULL: every row */
    int32_t bytes;    /* 1 or 4 an element */
} gsc__visible_rows;

typedef struct gsc__adam {
    gsc__adam_group *groups; /* [count]; NULL if there are none */
    int32_t count;
    gsc__visible_rows visible;
} gsc__adam;

/* One table per backend. */
typedef struct gsc__backend {
    const char *name;
    int32_t max_side;                         /* pixels of a side of an image to rasterize */
    gsc_status (*open)(gsc_context *context); /* sets context->device_data */
    void (*close)(gsc_context *context);
    /* Memory of the device for contexts without an allocator; NULL: host memory. */
    void *(*alloc)(gsc_context *context, size_t bytes, void *stream);
    void (*free)(gsc_context *context, void *data, void *stream);

    /* Fills the sizes of info that are known (see gsc_raster_sizes). */
    gsc_status (*raster_sizes)(const gsc__raster_call *call, gsc_raster_info *info);
    /* Intersections that each of info's frames has capacity for; with raster_project_blend only. */
    int64_t (*raster_largest_frame)(const gsc__raster *raster, const gsc_raster_info *info);
    /* Memory of the outputs that is forward's scratch until the frame of info is written there;
     * NULL if there is too little.  The function may be NULL. */
    void *(*raster_lend_scratch)(const gsc__raster_call *call, const gsc_raster_info *info,
                                 size_t *bytes);
    /* info NULL: do not wait. */
    gsc_status (*raster_project)(const gsc__raster_call *call, gsc_raster_info *info);
    gsc_status (*raster_blend)(const gsc__raster_call *call, const gsc_raster_info *info,
                               int64_t *overflow);
    /* Both, without a wait between them; NULL: nothing waits anyway.  found: what project
     * leaves.  If that is more than expected, some cameras were not blended. */
    gsc_status (*raster_project_blend)(const gsc__raster_call *call,
                                       const gsc_raster_info *expected, gsc_raster_info *found);
    gsc_status (*raster_backward)(const gsc__raster_call *call, const gsc_raster_info *info,
                                  const gsc__raster_grads *grads);
    gsc_status (*mark_visible)(const gsc__raster_call *call, uint8_t *visible);
    size_t (*knn_scratch_bytes)(const gsc__call *call, const gsc__knn *knn);
    gsc_status (*knn)(const gsc__call *call, const gsc__knn *knn);
    gsc_status (*ssim_forward)(const gsc__call *call, const gsc__ssim *ssim);
    gsc_status (*ssim_backward)(const gsc__call *call, const gsc__ssim *ssim);
    gsc_status (*image_loss)(const gsc__call *call, const gsc__image_loss *loss);
    gsc_status (*adam_step)(const gsc__call *call, const gsc__adam *adam);
} gsc__backend;

/* The layout of gsc_raster_info, which two calls have in common if one can use the state of the other:
 * a hash of those arguments that state depends on, and of the backend's own four values, the
 * magic number first.  It detects mistakes, not attacks: the value decides only which calls are
 * refused, and every index that is read from a state is checked. */
uint64_t gsc__layout_hash(const gsc__raster *raster, const uint64_t own[4]);

/* ------------------------------------------------------------------- devices */

enum { GSC__DEVICE_NAME_SIZE = 32 };
/* "cpu", "cuda:0", "device type 7:0"; returns name. */
const char *gsc__device_name(DLDevice device, char name[GSC__DEVICE_NAME_SIZE]);

/* The backend for a device that exists and that this build has code for. */
gsc_status gsc__device_backend(const char *function, DLDevice device, const gsc__backend **backend);

/* Whether memory of device `memory` can be used by a context on `device`. */
bool gsc__device_can_use(DLDevice device, DLDevice memory);
/* Whether it is the processor's memory, pinned or not; managed memory is not, as a kernel
 * may be writing it. */
bool gsc__device_is_host(DLDevice memory);

#endif
