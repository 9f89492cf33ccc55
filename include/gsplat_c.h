/* gsplat_c.h - 3D Gaussian splatting: a differentiable rasterizer, nearest
 * neighbours, SSIM and image losses, Adam, and whole training steps, on CPU and CUDA
 * tensors.
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
 *  Processes    a child of fork may use the CPU contexts that it inherits; they
 *               start threads of their own there.  A CUDA context can only be
 *               freed in the child, and none can be made there if the parent had
 *               asked for CUDA before: the driver does not survive a fork.
 *  Unloading    dlclose or FreeLibrary is allowed once every saved state and
 *               context is freed and no call is in progress.  No thread and no memory stays, only
 *               the CUDA driver, which is never closed.  Texts that functions
 *               returned go away with the library.  Two copies of the library in
 *               one process know nothing of each other; a context is for the copy
 *               that made it.
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

/* What the library exports. */
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
/* A result that must not be ignored. */
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
    GSC_OK = 0,                     /* success */
    GSC_ERROR_INVALID_ARGUMENT = 1, /* required field missing, value out of range */
    GSC_ERROR_SHAPE = 2,            /* of a tensor */
    GSC_ERROR_DTYPE = 3,            /* of a tensor */
    GSC_ERROR_LAYOUT = 4,           /* not dense row-major, or misaligned */
    GSC_ERROR_DEVICE = 5,           /* tensor not on the context's device */
    GSC_ERROR_ABI = 6,              /* struct_size or abi_version not understood */
    GSC_ERROR_UNSUPPORTED = 7,      /* valid, but not in this build or on this device */
    GSC_ERROR_OUT_OF_MEMORY = 8,    /* of the host or the device */
    GSC_ERROR_BUFFER_TOO_SMALL = 9, /* one of the caller's */
    GSC_ERROR_NO_DRIVER = 10,       /* CUDA driver missing or too old */
    GSC_ERROR_NO_DEVICE = 11,       /* no device of that number */
    GSC_ERROR_NO_KERNEL_IMAGE = 12, /* no code for this GPU and no JIT possible */
    GSC_ERROR_CUDA = 13,            /* see gsc_last_error_cuda() */
    GSC_ERROR_OVERFLOW = 14,        /* a size beyond gsc_context_limits */
    GSC_ERROR_STATE = 15,           /* saved state is of another call or build, or damaged */
    GSC_ERROR_INTERNAL = 16         /* a fault of the library's own */
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
GSC_API const char *gsc_version(void);         /* "0.9.0"; static */
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

/* Levels of a log, each with all before it. */
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
    void *user; /* handed to both, as it is */
    /* data of at least `bytes` bytes on the device, for work queued on the stream. */
    void *(*alloc)(void *user, size_t bytes, size_t alignment, DLDevice device, void *stream);
    /* What alloc gave, with the same bytes and device; work on it may still be queued on the
     * stream. */
    void (*free)(void *user, void *data, size_t bytes, DLDevice device, void *stream);
} gsc_allocator;

/* Told why a function of a framework failed: kind and message are its own words. */
typedef void gsc_set_error_fn(void *user, const char *kind, const char *message);
/* Makes *tensor in a framework's memory, of the dtype, the shape and the device of the
 * prototype, for work on the stream that is the framework's current one on this thread; 0, or
 * another number after a call of set_error.  DLPack 1.3 names this function
 * DLPackExchangeAPI.managed_tensor_allocator: frameworks lend it. */
typedef int gsc_allocate_fn(DLTensor *prototype, DLManagedTensorVersioned **tensor, void *user,
                            gsc_set_error_fn *set_error);

enum { GSC_CONTEXT_SYNC_CHECK = 1u << 0 /* wait and check after every kernel; for debugging */ };

/* What a context is made of. */
typedef struct gsc_context_desc {
    size_t struct_size;
    uint32_t abi_version;           /* GSC_ABI_VERSION; another major is refused */
    uint32_t flags;                 /* GSC_CONTEXT_* */
    DLDevice device;                /* kDLCPU with id 0, or kDLCUDA */
    const gsc_allocator *allocator; /* copied; NULL: see above */
    gsc_log_fn *log;                /* NULL: silent */
    void *log_user;                 /* handed to log, as it is */
    int32_t log_level;              /* most verbose level wanted; 0: GSC_LOG_WARNING */
    int32_t cpu_threads;            /* CPU device: 0: as many as the process may use */
    gsc_allocate_fn *allocate;      /* instead of an allocator: memory is a framework's and in its
                                       accounts.  It must be 256-byte aligned, and
                                       calls must be given the framework's current stream */
} gsc_context_desc;

/* Every field at its default, for this device. */
static inline void gsc_context_desc_init(gsc_context_desc *desc, DLDevice device) {
    memset(desc, 0, sizeof *desc);
    desc->struct_size = sizeof *desc;
    desc->abi_version = GSC_ABI_VERSION;
    desc->device = device;
}
/* The caller frees *context, which a failure sets to NULL. */
GSC_API GSC_CHECK gsc_status gsc_context_create(const gsc_context_desc *desc,
                                                gsc_context **context);
/* NULL is fine.  No call on the context may be in progress. */
GSC_API void gsc_context_free(gsc_context *context);

/* The largest sizes that calls take. */
typedef struct gsc_limits {
    size_t struct_size;
    /* Of one call; max_pixels of one image. */
    int64_t max_gaussians, max_intersections, max_pixels, max_cameras;
    int32_t max_channels, max_sh_degree, max_knn_k, reserved;
} gsc_limits;
/* The caller sets limits->struct_size. */
GSC_API gsc_status gsc_context_limits(const gsc_context *context, gsc_limits *limits);

/* ------------------------------------------------------------------ bindings */

/* Fills the view of an array that is an object of a language; 0, or another number
 * with the language's own error set.  DLPack 1.3 names this function
 * DLPackExchangeAPI.dltensor_from_py_object_no_sync: frameworks lend it, not the library. */
typedef int gsc_view_fn(void *object, DLTensor *view);

/* Views of all arrays of a call at once, where a call of the language for each would cost
 * more than the rest.  In place: objects [count], at most 64 of them, become the
 * addresses of their views [count], so that they may be the last fields of a descriptor, or
 * those of two with the struct_size of the second between: what is NULL or `none` becomes
 * NULL, and a number below 4096, which is no address, stays.  Bit i of *strided: view i is not
 * dense and row-major, or of a single element with strides other than 1; but with bit i of
 * `transposed` it may be of dense matrices that are each stored transposed.  Where `view` fails,
 * GSC_ERROR_INVALID_ARGUMENT: objects and views then hold nothing of use.  Views borrow
 * shapes and strides from the objects. */
GSC_API gsc_status gsc_view_objects(gsc_view_fn *view, const void *none, int32_t count,
                                    uint64_t transposed, void **objects, DLTensor *views,
                                    uint64_t *strided);

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
 * A Gaussian with a non-finite parameter or with opacity below 1/255, both after
 * activation, is culled.
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
    GSC_RASTER_DETERMINISTIC = 1u << 7,  /* bitwise reproducible backward, as forward and all
                                            CPU work always are; on CUDA devices the sums over
                                            pixels then take two passes, and more scratch */
    /* What training stores and PLY files hold, instead of activated values; gradients are
       then by what is stored. */
    GSC_RASTER_LOG_SCALES = 1u << 8,      /* scales are exp of what is given */
    GSC_RASTER_LOGIT_OPACITIES = 1u << 9, /* opacities are 1 / (1 + exp(-x)) of what is given */
    GSC_RASTER_FORWARD_ONLY = 1u << 10 /* no backward will follow, which then takes less memory */
};

/* The scene and the cameras.  The same values go to forward and backward.
 * Camera tensors (view to background) may be on the CPU, read during the call,
 * or on the context's device.  Each matrix of view and projection may also be
 * stored transposed, with strides 1 and 4, and position may have any strides. */
typedef struct gsc_raster_args {
    size_t struct_size;
    uint32_t flags;             /* GSC_RASTER_* */
    int32_t width, height;      /* of the image, pixels */
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
    const DLTensor *opacities;     /* [N] or [N, 1], 0 to 1; or logits, by a flag */
    const DLTensor *scales;        /* [N, 3] standard deviations; or logarithms, by a flag; with */
    const DLTensor *rotations;     /* [N, 4] quaternions w x y z; or */
    const DLTensor *covariances;   /* [N, 6] xx xy xz yy yz zz */
    const DLTensor
        *colors;        /* [N, channels] or [C, N, channels], 1 to 512 channels, used as is; or */
    const DLTensor *sh; /* [N, K, 3], K >= (sh_degree + 1)^2: max(0, 0.5 + sum); or */
    const DLTensor *sh_dc; /* [N, 1, 3] with sh [N, K - 1, 3] (or NULL) for the rest */
} gsc_raster_args;

/* Where results go.  Only what is wanted is computed. */
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
 * may be moved or copied between the calls.  scratch is dead after each call; NULL:
 * taken from the context's allocator, or for forward on a CUDA device, where no bands and
 * no statistics are made, from the memory of outputs->color if that is large enough. */
typedef struct gsc_raster_buffers {
    size_t struct_size;
    const DLTensor *state;         /* info.state_bytes */
    const DLTensor *intersections; /* info.intersections_bytes, or less: see gsc_raster_blend */
    const DLTensor *scratch;       /* info's bytes for the step, or NULL */
} gsc_raster_buffers;

/* What forward has to tell backward besides the buffers.  Plain data. */
typedef struct gsc_raster_info {
    size_t struct_size;
    uint64_t layout;                /* opaque; backward refuses a state of another layout */
    int64_t intersections;          /* pairs of a tile and a Gaussian that reaches it: of all
                                       cameras once counted; before, the most of one */
    size_t state_bytes;             /* of all cameras */
    size_t intersections_bytes;     /* for the whole of every frame: see gsc_raster_blend */
    size_t intersections_min_bytes; /* for the fullest tile; below this render fails */
    size_t forward_scratch_bytes;   /* of the step that comes next */
    size_t backward_scratch_bytes;  /* of gsc_raster_backward */
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
 * needed, else 0.
 * Several cameras can take turns in a buffer for the largest frame.  On a CUDA device
 * info.intersections_bytes has room for the lists of each, which backward then finds
 * instead of making them again; not with GSC_RASTER_FORWARD_ONLY. */
GSC_API gsc_status gsc_raster_blend(gsc_context *context, const gsc_raster_args *args,
                                    const gsc_raster_buffers *buffers,
                                    const gsc_raster_outputs *outputs, const gsc_raster_info *info,
                                    const DLTensor *overflow, void *stream);

/* Both steps without a wait between them, in buffers that are there before the
 * frame is counted.  gsc_raster_forecast fills in info as gsc_raster_sizes does, with what
 * frames of this size that this context drew before let expect of visible and
 * intersections, of each of several cameras; both are 0, and project is the call to begin
 * with, where nothing is known, and on the CPU, where nothing waits.
 * gsc_raster_project_blend takes that info and buffers of its sizes, queues everything, then waits
 * until the frame is counted.  A frame that takes more than expected is
 * GSC_ERROR_BUFFER_TOO_SMALL and not drawn: info then is as project leaves it, and
 * gsc_raster_blend with larger buffers goes on from there, with every camera. */
GSC_API gsc_status gsc_raster_forecast(gsc_context *context, const gsc_raster_args *args,
                                       gsc_raster_info *info);
GSC_API gsc_status gsc_raster_project_blend(gsc_context *context, const gsc_raster_args *args,
                                            const gsc_raster_buffers *buffers,
                                            const gsc_raster_outputs *outputs,
                                            gsc_raster_info *info, void *stream);

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
/* Hands over what a saved state consists of, and frees the rest of it: info, and as
 * tensors [2] of uint8 the buffers state and intersections, of the framework whose `allocate` the
 * context has.  The second is NULL where the first has both: intersections then begin at the
 * first multiple of 256 bytes behind info.state_bytes.  The caller owns the tensors.
 * GSC_ERROR_UNSUPPORTED in a context without `allocate`; *saved then is as it was. */
GSC_API gsc_status gsc_raster_saved_take(gsc_raster_saved *saved,
                                         DLManagedTensorVersioned **tensors, gsc_raster_info *info);

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

/* Outputs that are NULL are not wanted. */
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
/* Bytes of scratch for these args, whose tensors need no data. */
GSC_API gsc_status gsc_knn_scratch_bytes(gsc_context *context, const gsc_knn_args *args,
                                         size_t *bytes);
/* Writes the outputs that are given. */
GSC_API gsc_status gsc_knn(gsc_context *context, const gsc_knn_args *args, void *stream);

/* -------------------------------------------------------- SSIM and image loss
 *
 * Structural similarity (Wang et al. 2004) with a normalised Gaussian window.
 * Images are [B, C, H, W] and may have any strides.  Outside the image is zero. */

enum {
    GSC_SSIM_VALID = 1u << 0 /* mean over the windows that lie inside the image only;
                                an image smaller than the window is an error */
};

/* Both directions take the same struct; each reads and writes its own fields. */
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
/* Forward makes map and mean, backward the gradients by image and target. */
GSC_API gsc_status gsc_ssim_forward(gsc_context *context, const gsc_ssim_args *args, void *stream);
GSC_API gsc_status gsc_ssim_backward(gsc_context *context, const gsc_ssim_args *args, void *stream);

/* l1 mean|x - y| + l2 mean(x - y)^2 + ssim (1 - mean SSIM), its parts and its
 * gradient in one pass.  With a mask every mean is weighted by it (sum of m v
 * over sum of m; 0 if the mask is empty); windows still see the whole image. */
typedef struct gsc_image_loss_args {
    size_t struct_size;
    uint32_t flags;                          /* GSC_SSIM_VALID */
    int32_t window;                          /* as in gsc_ssim_args */
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

/* One parameter.  It and its moments are updated in place. */
typedef struct gsc_adam_group {
    const DLTensor *parameter, *gradient, *moment1, *moment2; /* [N, ..], all one shape */
    float lr;                                                 /* learning rate */
    float beta1, beta2;                                       /* 0: 0.9 and 0.999; negative: none */
    float epsilon;                                            /* 0: 1e-8; negative: none */
    float weight_decay;                                       /* see GSC_ADAM_DECOUPLED */
    int32_t step;                                             /* 1, 2, ..; 0: no bias correction */
} gsc_adam_group;

/* The groups of one step; all have the rows of visible, if it is given. */
typedef struct gsc_adam_args {
    size_t struct_size;
    uint32_t flags;               /* GSC_ADAM_* */
    uint32_t group_count;         /* elements of groups */
    const gsc_adam_group *groups; /* [group_count] */
    size_t group_stride;          /* sizeof(gsc_adam_group) of the caller */
    const DLTensor *visible;      /* [N] bool, uint8 or int32; rows with 0 stay; NULL: all rows */
} gsc_adam_args;
/* One step of every group. */
GSC_API gsc_status gsc_adam_step(gsc_context *context, const gsc_adam_args *args, void *stream);

/* ----------------------------------------------------------- training step
 *
 * gsc_rasterize, gsc_image_loss, gsc_raster_backward and gsc_adam_step as one call.
 * The gradients of the scene are never in memory: the last pass of backward
 * makes the step of the rows that it would have written.  What comes out is what the four
 * calls give, with radii > 0 as Adam's visible: a row that the camera sees is stepped in
 * full, with gradient 0 where it has none, as SH coefficients beyond sh_degree. */

enum {
    GSC_TRAIN_DECOUPLED = 1u << 0, /* as GSC_ADAM_DECOUPLED */
    GSC_TRAIN_ALL_ROWS = 1u << 1   /* Adam without visible: every row is stepped */
};

/* The tensor of gsc_raster_args that a group is about. */
enum {
    GSC_PARAMETER_MEANS = 1,       /* [N, 3] */
    GSC_PARAMETER_OPACITIES = 2,   /* [N] or [N, 1] */
    GSC_PARAMETER_SCALES = 3,      /* [N, 3] */
    GSC_PARAMETER_ROTATIONS = 4,   /* [N, 4] */
    GSC_PARAMETER_COVARIANCES = 5, /* [N, 6] */
    GSC_PARAMETER_COLORS = 6,      /* [N, 3]; other channels are GSC_ERROR_UNSUPPORTED */
    GSC_PARAMETER_SH = 7,          /* [N, K, 3] */
    GSC_PARAMETER_SH_DC = 8        /* [N, 1, 3] */
};

/* How one parameter is trained. */
typedef struct gsc_train_group {
    const DLTensor *moment1, *moment2; /* shaped as the parameter; zero before the first step */
    int32_t parameter;                 /* GSC_PARAMETER_* */
    float lr;                          /* learning rate */
    float beta1, beta2;                /* 0: 0.9 and 0.999; negative: none */
    float epsilon;                     /* 0: 1e-8; negative: none */
    float weight_decay;                /* see GSC_TRAIN_DECOUPLED */
    int32_t step;                      /* 1, 2, ..; 0: no bias correction */
    uint32_t reserved;                 /* 0 */
} gsc_train_group;

/* One step. */
typedef struct gsc_train_args {
    size_t struct_size;
    uint32_t flags;                    /* GSC_TRAIN_* */
    uint32_t group_count;              /* what has no group stays as it is */
    const gsc_train_group *groups;     /* one for each parameter at most */
    size_t group_stride;               /* sizeof(gsc_train_group) of the caller */
    const gsc_raster_args *raster;     /* one camera; the groups' parameters are written */
    const gsc_image_loss_args *loss;   /* image NULL: it is the colour.  target and grad_image
                                          have the shape of outputs->color, target any strides;
                                          grad_image NULL: from the context's allocator */
    const gsc_raster_outputs *outputs; /* of the scene before the step; NULL, or color NULL:
                                          not wanted */
    const gsc_raster_grads *grads;     /* NULL, or: out, also before the step, means2d and
                                          means2d_abs for densification and the gradients of what
                                          has no group; in, alpha, depth and inv_depth, beside
                                          the loss; color NULL */
    const gsc_raster_buffers *buffers; /* NULL, or each of them: from the context's allocator */
    gsc_raster_info *info;             /* out, or NULL: what project found */
} gsc_train_args;

/* Waits as gsc_raster_project does, and no more.  Several cameras are
 * GSC_ERROR_UNSUPPORTED.  Buffers are those of a forward and a backward call: an
 * intersection buffer that holds no more than the fullest tile makes it work in bands, and
 * scratch is for the larger of info's two sizes.  One that is too small is
 * GSC_ERROR_BUFFER_TOO_SMALL: info then says what is needed, as far as that is known by
 * then, and no parameter has changed. */
GSC_API gsc_status gsc_train_step(gsc_context *context, const gsc_train_args *args, void *stream);

#ifdef __cplusplus
}
#endif
#endif /* GSPLAT_C_H */
