/* gsplat_c.h - 3D Gaussian splatting: a differentiable rasterizer, nearest
 * neighbours, SSIM and image losses, and Adam, on CPU and CUDA tensors.
 *
 * Rules that hold for every function in this file
 *
 *  Tensors      are borrowed DLTensor views.  The library reads the view, its
 *               shape and its strides during the call and keeps no pointer to
 *               them.  CPU work is done when the call returns; on CUDA the data
 *               must stay alive until the stream has passed the call.
 *               A NULL tensor field means "not given" or "not wanted".
 *               Data is float32, dense and row-major unless a field says
 *               otherwise; strides of size-1 dimensions do not matter, and NULL
 *               strides mean dense.  Outputs are written in full.
 *  Descriptors  start with struct_size.  Zero them and set struct_size (GSC_INIT
 *               does both).  Zero in any other field means its default.  Fields
 *               are only ever added at the end; a set field that this library
 *               does not know is an error, never ignored.  Of a struct that is
 *               filled in, as much is written as struct_size has room for.
 *  Streams      are CUDA stream handles passed as void *.  NULL or 0 is the
 *               legacy default stream.  CPU contexts take NULL.
 *  Blocking     no function waits for the device unless its comment says so.
 *  Threads      every function may be called from any thread.  Calls that share
 *               a context are safe together if they write different tensors.
 *  Errors       0 is success.  gsc_last_error() is the message of the last
 *               failure in this thread; a successful call leaves it alone.
 *               Wrong input never aborts, prints or reads out of bounds.
 *
 * A whole program:
 *
 *     GSC_INIT(gsc_context_desc, desc);
 *     desc.abi_version = GSC_ABI_VERSION;
 *     desc.device.device_type = kDLCPU;
 *     gsc_context *context;
 *     if (gsc_context_create(&desc, &context)) puts(gsc_last_error());
 *     GSC_INIT(gsc_raster_args, args);        // cameras and Gaussians
 *     GSC_INIT(gsc_raster_outputs, outputs);  // where the image goes
 *     ...
 *     if (gsc_rasterize(context, &args, &outputs, NULL, NULL)) puts(gsc_last_error());
 *     gsc_context_free(context);
 */
#ifndef GSPLAT_C_H
#define GSPLAT_C_H

#include "gsplat_c/dlpack.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(_WIN32)
#if defined(GSC_BUILDING_LIBRARY)
#define GSC_API __declspec(dllexport)
#elif defined(GSC_STATIC)
#define GSC_API
#else
#define GSC_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define GSC_API __attribute__((visibility("default")))
#else
#define GSC_API
#endif
#if defined(__GNUC__)
#define GSC_CHECK __attribute__((warn_unused_result))
#else
#define GSC_CHECK
#endif

/* The ABI of this header.  Same major: compatible.  Higher minor: more of it. */
#define GSC_ABI_MAJOR 1
#define GSC_ABI_MINOR 0
#define GSC_ABI_VERSION ((uint32_t)GSC_ABI_MAJOR << 16 | (uint32_t)GSC_ABI_MINOR)

/* Declares a descriptor with every field at its default. */
#define GSC_INIT(type, name)       \
    type name;                     \
    memset(&name, 0, sizeof name); \
    name.struct_size = sizeof name

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ status */

typedef int32_t gsc_status; /* an int, so that unknown codes stay valid values */
enum {
    GSC_OK = 0,
    GSC_ERROR_INVALID_ARGUMENT = 1, /* required field missing, value out of range */
    GSC_ERROR_SHAPE = 2,
    GSC_ERROR_DTYPE = 3,
    GSC_ERROR_LAYOUT = 4,      /* not dense row-major, or misaligned */
    GSC_ERROR_DEVICE = 5,      /* tensor not on the context's device */
    GSC_ERROR_ABI = 6,         /* struct_size or abi_version not understood */
    GSC_ERROR_UNSUPPORTED = 7, /* valid, but not in this build or on this device */
    GSC_ERROR_OUT_OF_MEMORY = 8,
    GSC_ERROR_BUFFER_TOO_SMALL = 9,
    GSC_ERROR_NO_DRIVER = 10, /* CUDA driver missing or too old */
    GSC_ERROR_NO_DEVICE = 11,
    GSC_ERROR_NO_KERNEL_IMAGE = 12, /* no code for this GPU and no JIT possible */
    GSC_ERROR_CUDA = 13,            /* see gsc_last_error_cuda() */
    GSC_ERROR_OVERFLOW = 14,        /* a size beyond gsc_context_limits */
    GSC_ERROR_STATE = 15,           /* saved state is of another call or build, or damaged */
    GSC_ERROR_INTERNAL = 16
};
/* "GSC_ERROR_SHAPE"; static text, also for codes that this library does not know. */
GSC_API const char *gsc_status_name(gsc_status status);
/* Names function, tensor, what came and what was expected.  Valid until this
 * thread's next failure; "" before the first. */
GSC_API const char *gsc_last_error(void);
/* The CUresult behind that failure, or 0. */
GSC_API int32_t gsc_last_error_cuda(void);

/* ----------------------------------------------------------------- library */

/* GSC_ABI_VERSION of the library that is loaded.  The one symbol that never
 * changes: look it up first after dlopen. */
GSC_API uint32_t gsplat_c_abi_version(void);
GSC_API const char *gsc_version(void);         /* "1.0.0"; static */
GSC_API const char *gsc_build_info_json(void); /* compiler, targets, options; static */

/* Number of usable devices of a DLDeviceType.  A machine without a driver has 0
 * CUDA devices; that is not an error. */
GSC_API gsc_status gsc_device_count(int32_t device_type, int32_t *count);
/* Writes at most *size bytes of JSON, the final NUL included, and sets *size to
 * what the whole text needs (GSC_ERROR_BUFFER_TOO_SMALL if it was less).  Pass
 * buffer NULL to ask only. */
GSC_API gsc_status gsc_device_report_json(DLDevice device, char *buffer, size_t *size);

/* ----------------------------------------------------------------- context */

/* A device, its compiled kernels or its threads, an allocator and a log.  It
 * keeps no tensor. */
typedef struct gsc_context gsc_context;

enum { GSC_LOG_ERROR = 1, GSC_LOG_WARNING = 2, GSC_LOG_INFO = 3, GSC_LOG_DEBUG = 4 };
/* Called without any lock held; must not call back into the library. */
typedef void gsc_log_fn(void *user, int32_t level, const char *message);

/* Where the library gets memory that it was not handed.  Both functions or
 * neither; called on the thread that called the library.  alloc returns NULL
 * when it cannot.
 *
 * Without an allocator a CUDA context has a stream-ordered pool of its own.  The
 * pool keeps freed memory for later calls, up to a sixteenth of the device's; what
 * is more goes back to the device when a stream, an event or the context is waited
 * for, and everything when the context is freed.  The CPU uses malloc and keeps
 * nothing. */
typedef struct gsc_allocator {
    size_t struct_size;
    void *user;
    void *(*alloc)(void *user, size_t bytes, size_t alignment, DLDevice device, void *stream);
    void (*free)(void *user, void *data, size_t bytes, DLDevice device, void *stream);
} gsc_allocator;

enum { GSC_CONTEXT_SYNC_CHECK = 1u << 0 /* wait and check after every kernel; for debugging */ };

typedef struct gsc_context_desc {
    size_t struct_size;
    uint32_t abi_version; /* GSC_ABI_VERSION; another major is refused */
    uint32_t flags;       /* GSC_CONTEXT_* */
    DLDevice device;
    const gsc_allocator *allocator; /* copied; NULL: see above */
    gsc_log_fn *log;                /* NULL: silent */
    void *log_user;
    int32_t log_level;   /* most verbose level wanted; 0: GSC_LOG_WARNING */
    int32_t cpu_threads; /* CPU device: 0: as many as the process may use */
} gsc_context_desc;

static inline void gsc_context_desc_init(gsc_context_desc *desc, DLDevice device) {
    memset(desc, 0, sizeof *desc);
    desc->struct_size = sizeof *desc;
    desc->abi_version = GSC_ABI_VERSION;
    desc->device = device;
}
GSC_API GSC_CHECK gsc_status gsc_context_create(const gsc_context_desc *desc,
                                                gsc_context **context);
/* NULL is fine.  No call on the context may be in progress. */
GSC_API void gsc_context_free(gsc_context *context);

typedef struct gsc_limits {
    size_t struct_size;
    int64_t max_gaussians, max_intersections, max_pixels, max_cameras;
    int32_t max_channels, max_sh_degree, max_knn_k, reserved;
} gsc_limits;
/* The caller sets limits->struct_size. */
GSC_API gsc_status gsc_context_limits(const gsc_context *context, gsc_limits *limits);

/* -------------------------------------------------------------- rasterizer
 *
 * EWA splatting (Zwicker et al. 2001) of 3D Gaussians (Kerbl et al. 2023),
 * blended front to back:  color = sum c_i alpha_i T_i + T background,
 * alpha_i = min(0.99, opacity_i exp(-q_i / 2)), samples below 1/255 skipped,
 * a pixel stops before its transmittance T falls below 1e-4.  Equal depths blend
 * in index order.
 *
 * Cameras look along +z, x to the right, y down.  N Gaussians, C cameras; every
 * [C, ..] may drop C when it is 1.
 *
 * Two numeric conventions.  Exact (the default): a splat reaches as far as its
 * alpha is at least 1/255; rotations are normalised inside; every gradient is
 * the derivative of the image (zero through a clamped alpha); pixel (j, i) has
 * its centre at (j + 0.5, i + 0.5).  GSC_RASTER_COMPAT_3DGS: what the original
 * 3DGS rasterizer computes: radius of 3 standard deviations rounded up to whole
 * 16x16 tiles, raw quaternions, centred 1.3 tan(fov) Jacobian clamp, and its
 * gradient conventions, listed in docs/numerics.md.
 *
 * A Gaussian with a non-finite parameter or with opacity below 1/255 is culled.
 */

enum {
    GSC_RASTER_ANTIALIAS = 1u << 0,      /* scale opacity by the screen-space filter's loss */
    GSC_RASTER_PREFILTERED = 1u << 1,    /* caller culled already; a point that the near or
                                            far plane culls is an error */
    GSC_RASTER_VIEW_ROW_MAJOR = 1u << 2, /* view, projection and the view gradient row by row */
    GSC_RASTER_PIXEL_LAST = 1u << 3,     /* colour and its gradient as [C, H, W, channels] */
    GSC_RASTER_GRAD_ADD = 1u << 4,       /* backward adds to the gradients it is given */
    GSC_RASTER_GRAD2D_NDC = 1u << 5,     /* means2d gradients in units of half the image */
    GSC_RASTER_COMPAT_3DGS = 1u << 6,    /* the original's conventions, see above */
    GSC_RASTER_DETERMINISTIC = 1u << 7   /* bitwise reproducible backward, as forward and all
                                            CPU work always are; on CUDA devices the sums over
                                            pixels then take two passes, and more scratch */
};

/* The scene and the cameras.  The same values go to forward and backward.
 * Camera tensors (view to background) may be on the CPU, read during the call,
 * or on the context's device. */
typedef struct gsc_raster_args {
    size_t struct_size;
    uint32_t flags; /* GSC_RASTER_* */
    int32_t width, height;
    int32_t sh_degree;          /* 0 to 4, with sh: the degree in use, sh may store more */
    float scale_modifier;       /* multiplies scales; 0: 1 */
    float tan_fovx, tan_fovy;   /* tan(fov / 2); required with projection */
    float near_plane;           /* culled at z <= this; 0: 0.2 */
    float far_plane;            /* culled at z > this; 0: none */
    float radius_clip;          /* culled if the radius is at most this, pixels; 0: none */
    float blur;                 /* added to the 2D covariance's diagonal; 0: 0.3, negative: none */
    float median_default;       /* median_depth where the transmittance stays above 0.5 */
    const DLTensor *view;       /* [C, 4, 4] world to camera, column-major */
    const DLTensor *projection; /* [C, 4, 4] world to clip, column-major: a pinhole projection
                                   times view, clip w = z; or NULL and */
    const DLTensor *intrinsics; /* [C, 4] fx fy cx cy in pixels */
    const DLTensor *position;   /* [C, 3] camera centre, for SH; NULL: from view */
    const DLTensor *background; /* [channels] or [C, channels]; NULL: zero */
    const DLTensor *pixel_weights; /* [C, H, W] for the weight_* statistics */
    const DLTensor *means;         /* [N, 3] */
    const DLTensor *opacities;     /* [N] or [N, 1], after activation */
    const DLTensor *scales;        /* [N, 3] standard deviations, with */
    const DLTensor *rotations;     /* [N, 4] quaternions w x y z; or */
    const DLTensor *covariances;   /* [N, 6] xx xy xz yy yz zz */
    const DLTensor
        *colors;        /* [N, channels] or [C, N, channels], 1 to 512 channels, used as is; or */
    const DLTensor *sh; /* [N, K, 3], K >= (sh_degree + 1)^2: max(0, 0.5 + sum); or */
    const DLTensor *sh_dc; /* [N, 1, 3] with sh [N, K - 1, 3] (or NULL) for the rest */
} gsc_raster_args;

typedef struct gsc_raster_outputs {
    size_t struct_size;
    /* per pixel */
    const DLTensor *color;        /* [C, channels, H, W]; required */
    const DLTensor *alpha;        /* [C, H, W] sum alpha T = 1 - final T */
    const DLTensor *depth;        /* [C, H, W] sum z alpha T; divide by alpha for the mean */
    const DLTensor *inv_depth;    /* [C, H, W] sum alpha T / z */
    const DLTensor *median_depth; /* [C, H, W] z of the splat that takes T across 0.5 */
    /* per Gaussian; zero where culled */
    const DLTensor *radii;     /* int32 [C, N] pixels, the larger half-extent rounded up; or
                                  [C, N, 2], by x and y */
    const DLTensor *means2d;   /* [C, N, 2] pixels */
    const DLTensor *depths;    /* [C, N] camera-space z */
    const DLTensor *conics;    /* [C, N, 3] inverse 2D covariance xx xy yy */
    const DLTensor *opacities; /* [C, N] after antialiasing */
    /* statistics for densification and pruning, per Gaussian */
    const DLTensor *touched;         /* int32 [C, N] pixels where T > 0.5 after blending it */
    const DLTensor *weight_sum;      /* [C, N] sum of pixel_weights over its blended pixels */
    const DLTensor *weight_count;    /* int32 [C, N] number of those pixels */
    const DLTensor *weight_blend;    /* [C, N] sum of alpha T over them */
    const DLTensor *weight_distance; /* [C, N] sum of distances to its centre, pixels */
} gsc_raster_outputs;

/* Byte buffers on the context's device: 1-D uint8, 256-byte aligned.
 * state and intersections carry forward's results to backward, intersections what
 * is known of each visible Gaussian besides the lists; they hold no pointers and
 * may be moved or copied between the calls.  scratch is dead after
 * each call; NULL: taken from the context's allocator. */
typedef struct gsc_raster_buffers {
    size_t struct_size;
    const DLTensor *state;
    const DLTensor *intersections;
    const DLTensor *scratch;
} gsc_raster_buffers;

/* What forward has to tell backward besides the buffers.  Plain data. */
typedef struct gsc_raster_info {
    size_t struct_size;
    uint64_t layout;       /* opaque; backward refuses a state of another layout */
    int64_t intersections; /* pairs of a tile and a Gaussian that reaches it */
    size_t state_bytes;
    size_t intersections_bytes;     /* for the whole frame at once */
    size_t intersections_min_bytes; /* for its fullest tile; below this render fails */
    size_t forward_scratch_bytes;   /* of the step that comes next */
    size_t backward_scratch_bytes;
    int64_t visible; /* the most Gaussians that one camera sees, at least 1; 0: not known,
                        every size is for all of them */
} gsc_raster_info;

/* Fills in layout, state_bytes and project's forward_scratch_bytes, which follow from
 * args alone; with info->intersections > 0 or info->visible > 0 also
 * intersections_bytes and the scratch sizes of render and backward.  Host arithmetic,
 * reads no data. */
GSC_API gsc_status gsc_raster_sizes(gsc_context *context, const gsc_raster_args *args,
                                    gsc_raster_info *info);

/* Step 1: projects and counts; writes state and the per-Gaussian outputs down to
 * opacities.  With info, waits for the stream to learn the counts and completes
 * info.  With info NULL it queues work only, for callers that size the
 * intersection buffer by themselves. */
GSC_API gsc_status gsc_raster_project(gsc_context *context, const gsc_raster_args *args,
                                      const gsc_raster_buffers *buffers,
                                      const gsc_raster_outputs *outputs, gsc_raster_info *info,
                                      void *stream);

/* Step 2: sorts by depth, makes the tile lists and blends; writes the other outputs.
 * Give it step 1's outputs again: a colour that is not finite culls its Gaussian, and
 * CUDA devices look at colours here.  Never waits.
 * An intersection buffer that cannot hold the frame makes it work in bands of
 * tiles, with the same result.  One that cannot hold the fullest tile is
 * GSC_ERROR_BUFFER_TOO_SMALL; where that is only known on the device, *overflow
 * (int64 scalar on the device; NULL: not reported) gets the number of bytes
 * needed, else 0. */
GSC_API gsc_status gsc_raster_blend(gsc_context *context, const gsc_raster_args *args,
                                     const gsc_raster_buffers *buffers,
                                     const gsc_raster_outputs *outputs, const gsc_raster_info *info,
                                     const DLTensor *overflow, void *stream);

/* Gradients of a loss.  Only what is asked for is computed. */
typedef struct gsc_raster_grads {
    size_t struct_size;
    /* in: derivatives by the outputs, shaped as they are; NULL: zero */
    const DLTensor *color, *alpha, *depth, *inv_depth;
    /* out: shaped as the inputs; summed over the cameras */
    const DLTensor *means, *opacities, *scales, *rotations, *covariances, *colors, *sh, *sh_dc;
    const DLTensor *means2d;     /* [C, N, 2] or [C, N, 3] (third is 0), by the pixel position */
    const DLTensor *means2d_abs; /* same, sum over pixels of absolute values */
    const DLTensor *view;        /* [C, 4, 4], stored as view is; last row zero */
    const DLTensor *position;    /* [C, 3]; if position is not given its part is in view */
    const DLTensor *background;  /* shaped as the input, summed over cameras if [channels] */
} gsc_raster_grads;

/* buffers: state and intersections as render left them, moved or copied as you like. */
GSC_API gsc_status gsc_raster_backward(gsc_context *context, const gsc_raster_args *args,
                                       const gsc_raster_buffers *buffers,
                                       const gsc_raster_info *info, const gsc_raster_grads *grads,
                                       void *stream);

/* Both steps with memory from the context's allocator.  Waits as step 1 does.
 * *saved (saved NULL: none wanted) is for backward_saved and must be freed. */
typedef struct gsc_raster_saved gsc_raster_saved;
GSC_API GSC_CHECK gsc_status gsc_rasterize(gsc_context *context, const gsc_raster_args *args,
                                                const gsc_raster_outputs *outputs,
                                                gsc_raster_saved **saved, void *stream);
GSC_API gsc_status gsc_rasterize_backward(gsc_context *context, const gsc_raster_args *args,
                                             const gsc_raster_saved *saved,
                                             const gsc_raster_grads *grads, void *stream);
/* NULL is fine.  Before its context is freed. */
GSC_API void gsc_raster_saved_free(gsc_raster_saved *saved, void *stream);

/* visible: [C, N] bool or uint8, 1 where the mean lies between the near and the
 * far plane.  Of args only view, means and the planes are read. */
GSC_API gsc_status gsc_mark_visible(gsc_context *context, const gsc_raster_args *args,
                                    const DLTensor *visible, void *stream);

/* -------------------------------------------------------- nearest neighbours
 *
 * Exact Euclidean neighbours, nearest first, equal distances in index order.
 * Fewer than k others: the missing indices are -1, their distances +inf, and the
 * mean is over those that exist (0 if there is none).  A point or query with a
 * non-finite coordinate has no neighbours and is nobody's: its row is -1, +inf
 * and its mean NaN. */

typedef struct gsc_knn_args {
    size_t struct_size;
    uint32_t flags;             /* none yet */
    int32_t k;                  /* 1 to 256; 0: 3 */
    const DLTensor *points;     /* [N, 3] */
    const DLTensor *queries;    /* [M, 3]; NULL: the points, each without itself (by index) */
    const DLTensor *indices;    /* out [M, k] int32 or int64 */
    const DLTensor *distances2; /* out [M, k] squared distances */
    const DLTensor *mean2;      /* out [M] mean of the squared distances */
    const DLTensor *scratch;    /* uint8, 256-byte aligned; NULL: from the context's allocator */
} gsc_knn_args;
GSC_API gsc_status gsc_knn_scratch_bytes(gsc_context *context, const gsc_knn_args *args,
                                         size_t *bytes);
GSC_API gsc_status gsc_knn(gsc_context *context, const gsc_knn_args *args, void *stream);

/* -------------------------------------------------------- SSIM and image loss
 *
 * Structural similarity (Wang et al. 2004) with a normalised Gaussian window.
 * Images are [B, C, H, W] and may have any strides.  Outside the image is zero. */

enum {
    GSC_SSIM_VALID = 1u << 0 /* mean over the windows that lie inside the image only;
                                an image smaller than the window is an error */
};

typedef struct gsc_ssim_args {
    size_t struct_size;
    uint32_t flags; /* GSC_SSIM_* */
    int32_t window; /* odd, 1 to 33; 0: 11 */
    float sigma;    /* of the window, pixels; 0: 1.5 */
    float c1, c2;   /* stabilisers, (0.01 L)^2 and (0.03 L)^2 for data range L; 0: for L = 1 */
    uint32_t reserved;
    const DLTensor *image;       /* [B, C, H, W] */
    const DLTensor *target;      /* same shape */
    const DLTensor *map;         /* forward out: same shape; with GSC_SSIM_VALID
                                    [B, C, H - window + 1, W - window + 1] */
    const DLTensor *mean;        /* forward out: [] or [1], mean of the map */
    const DLTensor *grad_map;    /* backward in: by map, any strides; or */
    const DLTensor *grad_mean;   /* backward in: by mean, [] or [1] */
    const DLTensor *grad_image;  /* backward out: same shape as image; overwritten */
    const DLTensor *grad_target; /* backward out */
} gsc_ssim_args;
GSC_API gsc_status gsc_ssim_forward(gsc_context *context, const gsc_ssim_args *args, void *stream);
GSC_API gsc_status gsc_ssim_backward(gsc_context *context, const gsc_ssim_args *args, void *stream);

/* l1 mean|x - y| + l2 mean(x - y)^2 + ssim (1 - mean SSIM), its parts and its
 * gradient in one pass.  With a mask every mean is weighted by it (sum of m v
 * over sum of m; 0 if the mask is empty); windows still see the whole image. */
typedef struct gsc_image_loss_args {
    size_t struct_size;
    uint32_t flags; /* GSC_SSIM_VALID */
    int32_t window;
    float sigma, c1, c2;                     /* as in gsc_ssim_args */
    float l1_weight, l2_weight, ssim_weight; /* the L1 + SSIM loss of 3DGS: 0.8, 0, 0.2 */
    float grad_scale;                        /* derivative by the loss; 0: 1 */
    uint32_t reserved;
    const DLTensor *image;      /* [B, C, H, W] */
    const DLTensor *target;     /* same shape; float32, or uint8 read as value / 255 */
    const DLTensor *mask;       /* [B, H, W] or [H, W] float32, bool or uint8; NULL: all ones */
    const DLTensor *loss;       /* out [] or [1] */
    const DLTensor *parts;      /* out [3]: mean|x - y|, mean(x - y)^2, mean SSIM */
    const DLTensor *grad_image; /* out, shape of image; overwritten */
} gsc_image_loss_args;
GSC_API gsc_status gsc_image_loss(gsc_context *context, const gsc_image_loss_args *args,
                                  void *stream);

/* -------------------------------------------------------------------- Adam
 *
 * Kingma & Ba 2015, in place, every group in one call:
 *   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2,
 *   p -= lr (m / b1) / (sqrt(v / b2) + epsilon),  b = 1 - beta^step, or 1 if step is 0.
 * Rows that visible excludes keep parameter and moments.  The selective Adam of
 * 3DGS training is step = 0 with visible = radii > 0. */

enum {
    GSC_ADAM_DECOUPLED = 1u << 0 /* weight decay as AdamW: p -= lr weight_decay p; without
                                    it g += weight_decay p */
};

typedef struct gsc_adam_group {
    const DLTensor *parameter, *gradient, *moment1, *moment2; /* [N, ..], all one shape */
    float lr;
    float beta1, beta2; /* 0: 0.9 and 0.999; negative: none */
    float epsilon;      /* 0: 1e-8; negative: none */
    float weight_decay;
    int32_t step; /* 1, 2, ..; 0: no bias correction */
} gsc_adam_group;

typedef struct gsc_adam_args {
    size_t struct_size;
    uint32_t flags; /* GSC_ADAM_* */
    uint32_t group_count;
    const gsc_adam_group *groups;
    size_t group_stride;     /* sizeof(gsc_adam_group) of the caller */
    const DLTensor *visible; /* [N] bool, uint8 or int32; rows with 0 stay; NULL: all rows */
} gsc_adam_args;
GSC_API gsc_status gsc_adam_step(gsc_context *context, const gsc_adam_args *args, void *stream);

#ifdef __cplusplus
}
#endif
#endif /* GSPLAT_C_H */
