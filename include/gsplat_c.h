/** @file
 * 3D Gaussian splatting: a differentiable rasterizer, nearest neighbours, SSIM and image losses,
 * Adam, and whole training steps, on CPU and CUDA tensors.
 *
 * Rules for every function in this file:
 *
 * - Tensors are borrowed DLTensor views. The library reads the view, its shape and its strides
 *   during the call and keeps no pointer to them. CPU work is done when the call returns; on CUDA
 *   the data must stay alive until the stream has passed the call. A NULL tensor field means "not
 *   given" or "not wanted". Data is float32, dense and row-major unless a field says otherwise.
 *   Strides of dimensions of size 1 are ignored, and NULL strides mean dense. Outputs are written in
 *   full and must not overlap inputs or each other.
 * - Descriptors start with struct_size. Zero them and set struct_size; GSC_INIT does both. Zero in
 *   any other field means its default. Later versions add fields at the end only. A set field that
 *   the library does not know is an error, never ignored. Output structs are written up to
 *   struct_size.
 * - Streams are CUDA stream handles passed as void *. NULL is the legacy default stream. CPU contexts
 *   take NULL.
 * - Blocking: no function waits for the device unless its comment says so.
 * - Threads: every function may be called from any thread. Calls that share a context are safe
 *   together if they write different tensors.
 * - Processes: a child of fork may use the CPU contexts that it inherits; they start their own
 *   threads there. An inherited CUDA context can only be freed, and the child cannot create one if
 *   the parent had asked for CUDA before: the driver does not survive a fork.
 * - Unloading: dlclose or FreeLibrary is allowed once every saved state and context is freed and no
 *   call is in progress. No thread and no memory stays; only the CUDA driver is never closed. Texts
 *   that functions returned go away with the library. Two copies of the library in one process are
 *   independent; a context belongs to the copy that created it.
 * - Errors: 0 is success. gsc_last_error() is the message of the last failure in this thread; a
 *   successful call does not change it. Wrong input never aborts, prints or reads out of bounds.
 *
 * A whole program, which draws one Gaussian:
 * @code
 * #include <gsplat_c.h>
 * #include <stdio.h>
 *
 * #define FLOATS(data_, ...)                                                          \
 *     &(DLTensor){.data = data_, .device = {kDLCPU, 0}, .dtype = {kDLFloat, 32, 1},   \
 *                 .ndim = sizeof((int64_t[]){__VA_ARGS__}) / 8, .shape = (int64_t[]){__VA_ARGS__}}
 *
 * static int fail(void) {
 *     fprintf(stderr, "%s\n", gsc_last_error());
 *     return 1;
 * }
 *
 * int main(void) {
 *     float view[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}, camera[4] = {64, 64, 32, 32};
 *     float mean[3] = {0, 0, 4}, scale[3] = {1, 1, 1}, rotation[4] = {1}, opacity[1] = {0.9f};
 *     float rgb[3] = {1, 0.5f, 0}, image[3][64][64];
 *     gsc_context_desc desc;
 *     gsc_context *context;
 *     gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
 *     if (gsc_context_create(&desc, &context)) return fail();
 *     GSC_INIT(gsc_raster_args, args);
 *     args.width = args.height = 64;
 *     args.view = FLOATS(view, 4, 4);
 *     args.intrinsics = FLOATS(camera, 4);
 *     args.means = FLOATS(mean, 1, 3);
 *     args.scales = FLOATS(scale, 1, 3);
 *     args.rotations = FLOATS(rotation, 1, 4);
 *     args.opacities = FLOATS(opacity, 1);
 *     args.colors = FLOATS(rgb, 1, 3);
 *     GSC_INIT(gsc_raster_outputs, outputs);
 *     outputs.color = FLOATS(image, 3, 64, 64);
 *     if (gsc_rasterize(context, &args, &outputs, NULL, NULL)) return fail();
 *     printf("red in the middle: %.2f\n", image[0][32][32]);
 *     gsc_context_free(context);
 * }
 * @endcode
 */
#ifndef GSPLAT_C_H
#define GSPLAT_C_H

#include "gsplat_c/dlpack.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if !defined(_WIN32) && defined(__GNUC__)
#define GSC_API __attribute__((visibility("default"))) /**< Marks what the library exports. */
#elif !defined(_WIN32) || defined(GSC_STATIC) && !defined(GSC_BUILDING_LIBRARY)
#define GSC_API
#elif defined(GSC_BUILDING_LIBRARY)
#define GSC_API __declspec(dllexport)
#else
#define GSC_API __declspec(dllimport)
#endif
#if defined(__GNUC__)
#define GSC_CHECK __attribute__((warn_unused_result)) /**< The result must not be ignored. */
#else
#define GSC_CHECK
#endif

#define GSC_ABI_MAJOR 1 /**< Versions with the same major are compatible. */
#define GSC_ABI_MINOR 0 /**< A higher minor adds to the interface. */
/** The ABI of this header. */
#define GSC_ABI_VERSION ((uint32_t)GSC_ABI_MAJOR << 16 | (uint32_t)GSC_ABI_MINOR)

/** Declares a descriptor with every field at its default. */
#define GSC_INIT(type, name)       \
    type name;                     \
    memset(&name, 0, sizeof name); \
    name.struct_size = sizeof name

#ifdef __cplusplus
extern "C" {
#endif

/** @defgroup status Status
 * @{ */

/** GSC_OK or an error code. An int, so that unknown codes remain valid values. */
typedef int32_t gsc_status;
/** Values of gsc_status. */
enum {
    GSC_OK = 0,                     /**< success */
    GSC_ERROR_INVALID_ARGUMENT = 1, /**< required field missing, value out of range */
    GSC_ERROR_SHAPE = 2,            /**< tensor of the wrong shape */
    GSC_ERROR_DTYPE = 3,            /**< tensor of the wrong dtype */
    GSC_ERROR_LAYOUT = 4,           /**< tensor not dense row-major, or misaligned */
    GSC_ERROR_DEVICE = 5,           /**< tensor not on the context's device */
    GSC_ERROR_ABI = 6,              /**< struct_size or abi_version not understood */
    GSC_ERROR_UNSUPPORTED = 7,      /**< valid, but not in this build or on this device */
    GSC_ERROR_OUT_OF_MEMORY = 8,    /**< no memory on the host or the device */
    GSC_ERROR_BUFFER_TOO_SMALL = 9, /**< a buffer of the caller is too small */
    GSC_ERROR_NO_DRIVER = 10,       /**< CUDA driver missing or too old */
    GSC_ERROR_NO_DEVICE = 11,       /**< no device with that number */
    GSC_ERROR_NO_KERNEL_IMAGE = 12, /**< no code for this GPU and no JIT possible */
    GSC_ERROR_CUDA = 13,            /**< see gsc_last_error_cuda() */
    GSC_ERROR_OVERFLOW = 14,        /**< a size beyond gsc_context_limits() */
    GSC_ERROR_STATE = 15,           /**< saved state from another call or build, or damaged */
    GSC_ERROR_INTERNAL = 16         /**< a fault in the library itself */
};
/** The name of a code, such as "GSC_ERROR_SHAPE". Static text, also for unknown codes. */
GSC_API const char *gsc_status_name(gsc_status status);
/** Names the function, the argument, what came and what was expected. Valid until this thread's
 * next failure; "" before the first. */
GSC_API const char *gsc_last_error(void);
/** The CUresult behind that failure, or 0. */
GSC_API int32_t gsc_last_error_cuda(void);

/** @}
 * @defgroup library Library
 * @{ */

/** GSC_ABI_VERSION of the loaded library. This symbol never changes: look it up first after
 * dlopen. */
GSC_API uint32_t gsplat_c_abi_version(void);
/** The release, such as "0.9.0". Static text. */
GSC_API const char *gsc_version(void);
/** Compiler, targets and options. Static text. */
GSC_API const char *gsc_build_info_json(void);

/** Counts the usable devices of a DLDeviceType. A machine without a driver has 0 CUDA devices; that
 * is not an error. */
GSC_API gsc_status gsc_device_count(int32_t device_type, int32_t *count);
/** Describes a device as JSON. Writes at most *size bytes, the final NUL included, and sets *size to
 * what the whole text needs (GSC_ERROR_BUFFER_TOO_SMALL if it was less). With buffer NULL it only
 * sets *size. */
GSC_API gsc_status gsc_device_report_json(DLDevice device, char *buffer, size_t *size);

/** @}
 * @defgroup context Context
 * @{ */

/** A device, its compiled kernels or its threads, an allocator and a log. Keeps no tensor. */
typedef struct gsc_context gsc_context;

/** Levels of a log, each with all before it. */
enum {
    GSC_LOG_ERROR = 1,   /**< a call failed */
    GSC_LOG_WARNING = 2, /**< something works, but not as well as it could */
    GSC_LOG_INFO = 3,    /**< what a context was made of */
    GSC_LOG_DEBUG = 4    /**< details */
};
/** Receives the messages of a context. Called without any lock held; must not call the library. */
typedef void gsc_log_fn(void *user, int32_t level, const char *message);

/** Where the library gets memory that the caller did not provide. Set both functions or neither;
 * they are called on the thread that called the library.
 *
 * Without an allocator a CUDA context has its own stream-ordered pool. The pool keeps freed memory
 * for later calls, up to a sixteenth of the device's memory. The rest goes back to the device when a
 * stream, an event or the context is waited for, and everything when the context is freed. The CPU
 * uses malloc and keeps nothing. */
typedef struct gsc_allocator {
    size_t struct_size; /**< sizeof the struct */
    void *user;         /**< passed to both functions */
    /** Returns at least `bytes` bytes on the device, for work queued on the stream, or NULL. */
    void *(*alloc)(void *user, size_t bytes, size_t alignment, DLDevice device, void *stream);
    /** Takes back what alloc returned, with the same bytes and device; work on it may still be queued
     * on the stream. */
    void (*free)(void *user, void *data, size_t bytes, DLDevice device, void *stream);
} gsc_allocator;

/** Flags of a context. */
enum {
    GSC_CONTEXT_SYNC_CHECK = 1u << 0 /**< wait and check after every kernel; for debugging */
};

/** What a context is made of. */
typedef struct gsc_context_desc {
    size_t struct_size;             /**< sizeof the struct */
    uint32_t abi_version;           /**< GSC_ABI_VERSION; another major is refused */
    uint32_t flags;                 /**< GSC_CONTEXT_* */
    DLDevice device;                /**< kDLCPU with id 0, or kDLCUDA */
    const gsc_allocator *allocator; /**< copied; NULL: the default of the device */
    gsc_log_fn *log;                /**< NULL: silent */
    void *log_user;                 /**< passed to log */
    int32_t log_level;              /**< most verbose level wanted; 0: GSC_LOG_WARNING */
    int32_t cpu_threads;            /**< of a CPU context; 0: as many as the process may use */
} gsc_context_desc;

/** Sets every field to its default for this device. */
static inline void gsc_context_desc_init(gsc_context_desc *desc, DLDevice device) {
    memset(desc, 0, sizeof *desc);
    desc->struct_size = sizeof *desc;
    desc->abi_version = GSC_ABI_VERSION;
    desc->device = device;
}
/** Creates a context, which the caller frees. Sets *context to NULL on failure. */
GSC_API GSC_CHECK gsc_status gsc_context_create(const gsc_context_desc *desc,
                                                gsc_context **context);
/** Frees a context, or nothing if it is NULL. No call on it may be in progress. */
GSC_API void gsc_context_free(gsc_context *context);

/** The largest sizes that calls accept. */
typedef struct gsc_limits {
    size_t struct_size;        /**< sizeof the struct */
    int64_t max_gaussians;     /**< in one call */
    int64_t max_intersections; /**< in one call */
    int64_t max_pixels;        /**< in one image */
    int64_t max_cameras;       /**< in one call */
    int32_t max_channels;      /**< of colours */
    int32_t max_sh_degree;     /**< of spherical harmonics */
    int32_t max_knn_k;         /**< neighbours of a point */
    int32_t max_side;          /**< of an image to rasterize, pixels */
} gsc_limits;
/** Reports the limits. The caller sets limits->struct_size. */
GSC_API gsc_status gsc_context_limits(const gsc_context *context, gsc_limits *limits);

/** @}
 * @defgroup rasterizer Rasterizer
 *
 * EWA splatting (Zwicker et al. 2001) of 3D Gaussians (Kerbl et al. 2023), blended front to back:
 * color = sum c_i alpha_i T_i + T background, alpha_i = min(0.99, opacity_i exp(-q_i / 2)). Samples
 * below 1/255 are skipped, and a pixel stops before its transmittance T falls below 1e-4. Equal
 * depths blend in index order.
 *
 * Cameras look along +z, x to the right, y down. There are N Gaussians and C cameras; every [C, ..]
 * may drop C when it is 1.
 *
 * There are two numeric conventions. Exact (the default): a splat reaches as far as its alpha is at
 * least 1/255; rotations are normalised inside; every gradient is the derivative of the image (zero
 * through a clamped alpha); pixel (j, i) has its centre at (j + 0.5, i + 0.5).
 * GSC_RASTER_COMPAT_3DGS: what the original 3DGS rasterizer computes: a radius of 3 standard
 * deviations rounded up to whole 16x16 tiles, raw quaternions, the centred 1.3 tan(fov) Jacobian
 * clamp, and its gradient conventions, listed in docs/numerics.md.
 *
 * A Gaussian with a non-finite parameter or with opacity below 1/255, both after activation, is
 * culled.
 * @{ */

/** Flags of the rasterizer. */
enum {
    GSC_RASTER_ANTIALIAS = 1u << 0,      /**< scale opacity by the screen-space filter's loss */
    GSC_RASTER_PREFILTERED = 1u << 1,    /**< the caller has culled already; a point culled by the
                                              near or far plane is an error */
    GSC_RASTER_VIEW_ROW_MAJOR = 1u << 2, /**< view, projection and the view gradient row by row */
    GSC_RASTER_PIXEL_LAST = 1u << 3,     /**< colour and its gradient as [C, H, W, channels] */
    GSC_RASTER_GRAD_ADD = 1u << 4,       /**< backward adds to the gradients it is given */
    GSC_RASTER_GRAD2D_NDC = 1u << 5,     /**< means2d gradients in units of half the image */
    GSC_RASTER_COMPAT_3DGS = 1u << 6,    /**< the original's conventions, see above */
    GSC_RASTER_DETERMINISTIC = 1u << 7,  /**< bitwise reproducible backward, as forward and all CPU
                                              work always are; on CUDA devices the sums over pixels
                                              then take two passes, and more scratch */
    /** Scales are exp of what is given, as in training and PLY files; gradients are with respect to
     * what is given. */
    GSC_RASTER_LOG_SCALES = 1u << 8,
    /** Opacities are 1 / (1 + exp(-x)) of what is given; gradients are with respect to that. */
    GSC_RASTER_LOGIT_OPACITIES = 1u << 9,
    GSC_RASTER_FORWARD_ONLY = 1u << 10, /**< no backward follows; takes less memory */
    GSC_RASTER_COMPAT_MIP = 1u << 11    /**< with COMPAT_3DGS and ANTIALIAS: the opacity factor of
                                             the Mip-Splatting rasterizer and its derivative */
};

/** The scene and the cameras. Pass the same values to forward and backward. Camera tensors (view to
 * background) may be on the CPU, read during the call, or on the context's device. Each matrix of
 * view and projection may also be stored transposed, with strides 1 and 4, and position may have any
 * strides. */
typedef struct gsc_raster_args {
    size_t struct_size;   /**< sizeof the struct */
    uint32_t flags;       /**< GSC_RASTER_* */
    int32_t width;        /**< of the image, pixels */
    int32_t height;       /**< of the image, pixels */
    int32_t sh_degree;    /**< 0 to 4, with sh: the degree in use, sh may store more */
    float scale_modifier; /**< multiplies scales; 0: 1 */
    float tan_fovx;       /**< tan(fov / 2); required with projection */
    float tan_fovy;       /**< as tan_fovx */
    float near_plane;     /**< culled at z <= this; 0: 0.2 */
    float far_plane;      /**< culled at z > this; 0: none */
    float radius_clip;    /**< culled if the radius is at most this, pixels; 0: none */
    float blur;           /**< added to the 2D covariance's diagonal; 0: 0.3, negative: none */
    float median_default; /**< median_depth where the transmittance stays above 0.5 */
    const DLTensor *view; /**< [C, 4, 4] world to camera, column-major; in host memory a last row
                               other than 0 0 0 1 is an error: the other order is easily passed */
    const DLTensor *projection;    /**< [C, 4, 4] world to clip, column-major: a pinhole projection
                                        times view, clip w = z; or NULL and */
    const DLTensor *intrinsics;    /**< [C, 4] fx fy cx cy in pixels */
    const DLTensor *position;      /**< [C, 3] camera centre, for SH; NULL: from view */
    const DLTensor *background;    /**< [channels] or [C, channels]; NULL: zero */
    const DLTensor *pixel_weights; /**< [C, H, W] for the weight_* statistics */
    const DLTensor *means;         /**< [N, 3] */
    const DLTensor *opacities;     /**< [N] or [N, 1], 0 to 1; or logits, by a flag */
    const DLTensor *scales;      /**< [N, 3] standard deviations; or logarithms, by a flag; with */
    const DLTensor *rotations;   /**< [N, 4] quaternions w x y z; or */
    const DLTensor *covariances; /**< [N, 6] xx xy xz yy yz zz */
    const DLTensor *colors;      /**< [N, channels] or [C, N, channels], 1 to 512; or */
    const DLTensor *sh;          /**< [N, K, 3], K >= (sh_degree + 1)^2: max(0, 0.5 + sum); or */
    const DLTensor *sh_dc;       /**< [N, 1, 3] with sh [N, K - 1, 3] (or NULL) for the rest */
} gsc_raster_args;

/** Where results go. Only what is given is computed. */
typedef struct gsc_raster_outputs {
    size_t struct_size; /**< sizeof the struct */
    /* per pixel */
    const DLTensor *color;        /**< [C, channels, H, W]; required */
    const DLTensor *alpha;        /**< [C, H, W] sum alpha T = 1 - final T */
    const DLTensor *depth;        /**< [C, H, W] sum z alpha T; divide by alpha for the mean */
    const DLTensor *inv_depth;    /**< [C, H, W] sum alpha T / z */
    const DLTensor *median_depth; /**< [C, H, W] z of the splat that takes T across 0.5 */
    /* per Gaussian; zero where culled */
    const DLTensor *radii;     /**< int32 [C, N] pixels, the larger half-extent rounded up; or
                                    [C, N, 2], in x and y */
    const DLTensor *means2d;   /**< [C, N, 2] pixels */
    const DLTensor *depths;    /**< [C, N] camera-space z */
    const DLTensor *conics;    /**< [C, N, 3] inverse 2D covariance xx xy yy */
    const DLTensor *opacities; /**< [C, N] after antialiasing */
    /* statistics for densification and pruning, per Gaussian */
    const DLTensor *touched;         /**< int32 [C, N] pixels where T > 0.5 after blending it */
    const DLTensor *weight_sum;      /**< [C, N] sum of pixel_weights over its blended pixels */
    const DLTensor *weight_count;    /**< int32 [C, N] number of those pixels */
    const DLTensor *weight_blend;    /**< [C, N] sum of alpha T over them */
    const DLTensor *weight_distance; /**< [C, N] sum of distances to its centre, pixels */
} gsc_raster_outputs;

/** Gradients of a loss. Only what is given is computed. */
typedef struct gsc_raster_grads {
    size_t struct_size; /**< sizeof the struct */
    /* in: derivatives with respect to the outputs, with their shapes; NULL: zero */
    const DLTensor *color;     /**< in: with respect to color */
    const DLTensor *alpha;     /**< in: with respect to alpha */
    const DLTensor *depth;     /**< in: with respect to depth */
    const DLTensor *inv_depth; /**< in: with respect to inv_depth */
    /* out: with the shapes of the inputs; summed over the cameras */
    const DLTensor *means;       /**< out: with respect to means */
    const DLTensor *opacities;   /**< out: with respect to opacities */
    const DLTensor *scales;      /**< out: with respect to scales */
    const DLTensor *rotations;   /**< out: with respect to rotations */
    const DLTensor *covariances; /**< out: with respect to covariances */
    const DLTensor *colors;      /**< out: with respect to colors */
    const DLTensor *sh;          /**< out: with respect to sh */
    const DLTensor *sh_dc;       /**< out: with respect to sh_dc */
    const DLTensor *means2d;     /**< out: [C, N, 2] or [C, N, 3] (third is 0), with respect to the
                                      pixel position */
    const DLTensor *means2d_abs; /**< out: as means2d, sum over pixels of absolute values */
    const DLTensor *view;        /**< out: [C, 4, 4], stored as view is; last row zero */
    const DLTensor *position;    /**< out: [C, 3]; if position is not given its part is in view */
    const DLTensor *background;  /**< out: shaped as the input, summed over cameras if [channels] */
} gsc_raster_grads;

/** What gsc_rasterize() keeps for gsc_rasterize_backward(). */
typedef struct gsc_raster_saved gsc_raster_saved;
/** Draws the Gaussians with memory from the context's allocator. Waits for the stream once, to learn
 * how much memory the frame needs. *saved is for gsc_rasterize_backward() and must be freed before
 * the context; with saved NULL nothing is kept. */
GSC_API GSC_CHECK gsc_status gsc_rasterize(gsc_context *context, const gsc_raster_args *args,
                                           const gsc_raster_outputs *outputs,
                                           gsc_raster_saved **saved, void *stream);
/** Computes gradients. A saved state serves any number of calls. */
GSC_API gsc_status gsc_rasterize_backward(gsc_context *context, const gsc_raster_args *args,
                                          const gsc_raster_saved *saved,
                                          const gsc_raster_grads *grads, void *stream);
/** Frees a saved state, or nothing if it is NULL. */
GSC_API void gsc_raster_saved_free(gsc_raster_saved *saved, void *stream);

/** @}
 * @defgroup nearest_neighbours Nearest neighbours
 *
 * Exact Euclidean neighbours, nearest first, equal distances in index order. With fewer than k
 * others, the missing indices are -1, their distances +inf, and the mean is over those that exist (0
 * if there are none). A point or query with a non-finite coordinate has no neighbours and is not a
 * neighbour of any point: its row is -1, +inf and its mean NaN.
 * @{ */

/** Points and where their neighbours go. */
typedef struct gsc_knn_args {
    size_t struct_size;         /**< sizeof the struct */
    uint32_t flags;             /**< 0 */
    int32_t k;                  /**< 1 to 256; 0: 3 */
    const DLTensor *points;     /**< [N, 3] */
    const DLTensor *queries;    /**< [M, 3]; NULL: the points, each without itself (by index) */
    const DLTensor *indices;    /**< out [M, k] int32 or int64 */
    const DLTensor *distances2; /**< out [M, k] squared distances */
    const DLTensor *mean2;      /**< out [M] mean of the squared distances */
    const DLTensor *scratch; /**< uint8, 256-byte aligned, gsc_knn_scratch_bytes(); NULL: from the
                                  context's allocator */
} gsc_knn_args;
/** Finds neighbours and writes the outputs that are given. */
GSC_API gsc_status gsc_knn(gsc_context *context, const gsc_knn_args *args, void *stream);

/** @}
 * @defgroup ssim_and_image_loss SSIM and image loss
 *
 * Structural similarity (Wang et al. 2004) with a normalised Gaussian window. Images are
 * [B, C, H, W], where B may be dropped when it is 1, and may have any strides. Outside the image is
 * zero.
 * @{ */

/** Flags of SSIM and the image loss. */
enum {
    GSC_SSIM_VALID = 1u << 0 /**< mean over the windows inside the image only; an image smaller than
                                  the window is an error */
};

/** Both directions take the same struct; each reads and writes its own fields. */
typedef struct gsc_ssim_args {
    size_t struct_size;          /**< sizeof the struct */
    uint32_t flags;              /**< GSC_SSIM_* */
    int32_t window;              /**< odd, 1 to 33; 0: 11 */
    float sigma;                 /**< of the window, pixels; 0: 1.5 */
    float c1;                    /**< stabiliser, (0.01 L)^2 for data range L; 0: for L = 1 */
    float c2;                    /**< stabiliser, (0.03 L)^2 for data range L; 0: for L = 1 */
    uint32_t reserved;           /**< 0 */
    const DLTensor *image;       /**< [B, C, H, W] */
    const DLTensor *target;      /**< same shape */
    const DLTensor *map;         /**< forward out: same shape; with GSC_SSIM_VALID
                                      [B, C, H - window + 1, W - window + 1] */
    const DLTensor *mean;        /**< forward out: [] or [1], mean of the map */
    const DLTensor *grad_map;    /**< backward in: with respect to map, any strides; or */
    const DLTensor *grad_mean;   /**< backward in: with respect to mean, [] or [1] */
    const DLTensor *grad_image;  /**< backward out: same shape as image; overwritten */
    const DLTensor *grad_target; /**< backward out: same shape as target; overwritten */
} gsc_ssim_args;
/** Computes map and mean. */
GSC_API gsc_status gsc_ssim_forward(gsc_context *context, const gsc_ssim_args *args, void *stream);
/** Computes the gradients with respect to image and target. */
GSC_API gsc_status gsc_ssim_backward(gsc_context *context, const gsc_ssim_args *args, void *stream);

/** l1 mean|x - y| + l2 mean(x - y)^2 + ssim (1 - mean SSIM). With a mask every mean is weighted by it
 * (sum of m v over sum of m; 0 if the mask is empty); windows still see the whole image. */
typedef struct gsc_image_loss_args {
    size_t struct_size;         /**< sizeof the struct */
    uint32_t flags;             /**< GSC_SSIM_VALID */
    int32_t window;             /**< as in gsc_ssim_args */
    float sigma;                /**< as in gsc_ssim_args */
    float c1;                   /**< as in gsc_ssim_args */
    float c2;                   /**< as in gsc_ssim_args */
    float l1_weight;            /**< of mean|x - y|; in the loss of 3DGS: 0.8 */
    float l2_weight;            /**< of mean(x - y)^2; in the loss of 3DGS: 0 */
    float ssim_weight;          /**< of 1 - mean SSIM; in the loss of 3DGS: 0.2 */
    float grad_scale;           /**< derivative with respect to the loss; 0: 1 */
    uint32_t reserved;          /**< 0 */
    const DLTensor *image;      /**< [B, C, H, W] */
    const DLTensor *target;     /**< same shape; float32, or uint8 read as value / 255 */
    const DLTensor *mask;       /**< [B, H, W] or [H, W] float32, bool or uint8; NULL: all ones */
    const DLTensor *loss;       /**< out [] or [1] */
    const DLTensor *parts;      /**< out [3]: mean|x - y|, mean(x - y)^2, mean SSIM */
    const DLTensor *grad_image; /**< out, shape of image; overwritten */
} gsc_image_loss_args;
/** Computes the loss, its parts and its gradient in one pass. */
GSC_API gsc_status gsc_image_loss(gsc_context *context, const gsc_image_loss_args *args,
                                  void *stream);

/** @}
 * @defgroup adam Adam
 *
 * Kingma & Ba 2015, in place, every group in one call: m = beta1 m + (1 - beta1) g,
 * v = beta2 v + (1 - beta2) g^2, p -= lr (m / b1) / (sqrt(v / b2) + epsilon), with
 * b = 1 - beta^step, or 1 if step is 0. Rows that visible excludes keep parameter and moments. The
 * selective Adam of 3DGS training is step = 0 with visible = radii > 0.
 * @{ */

/** Flags of Adam. */
enum {
    GSC_ADAM_DECOUPLED = 1u << 0 /**< weight decay as in AdamW: p -= lr weight_decay p; without
                                      it g += weight_decay p */
};

/** One parameter. It and its moments, all of one shape, are updated in place. */
typedef struct gsc_adam_group {
    const DLTensor *parameter; /**< [N, ..] */
    const DLTensor *gradient;  /**< [N, ..] */
    const DLTensor *moment1;   /**< [N, ..]; zero before the first step */
    const DLTensor *moment2;   /**< [N, ..]; zero before the first step */
    float lr;                  /**< learning rate */
    float beta1;               /**< 0: 0.9; negative: none */
    float beta2;               /**< 0: 0.999; negative: none */
    float epsilon;             /**< 0: 1e-8; negative: none */
    float weight_decay;        /**< see GSC_ADAM_DECOUPLED */
    int32_t step;              /**< 1, 2, ..; 0: no bias correction */
} gsc_adam_group;

/** The groups of one step; all have the rows of visible, if it is given. */
typedef struct gsc_adam_args {
    size_t struct_size;           /**< sizeof the struct */
    uint32_t flags;               /**< GSC_ADAM_* */
    uint32_t group_count;         /**< elements of groups */
    const gsc_adam_group *groups; /**< [group_count] */
    size_t group_stride;          /**< sizeof(gsc_adam_group) of the caller */
    const DLTensor *visible;      /**< [N] bool, uint8 or int32; rows with 0 stay; NULL: all rows */
} gsc_adam_args;
/** Takes one step of every group. */
GSC_API gsc_status gsc_adam_step(gsc_context *context, const gsc_adam_args *args, void *stream);

/** @}
 * @defgroup training_step Training step
 *
 * gsc_rasterize(), gsc_image_loss(), gsc_rasterize_backward() and gsc_adam_step() as one call, with
 * the same result. The gradients of the scene are never in memory: the last pass of backward updates
 * the rows that it would have written. Adam's visible is radii > 0: a row that the camera sees is
 * updated in full, with gradient 0 where it has none, such as SH coefficients beyond sh_degree.
 * @{ */

/** Flags of a training step. */
enum {
    GSC_TRAIN_DECOUPLED = 1u << 0, /**< as GSC_ADAM_DECOUPLED */
    GSC_TRAIN_ALL_ROWS = 1u << 1   /**< Adam without visible: every row is updated */
};

/** The tensor of gsc_raster_args that a group trains. */
enum {
    GSC_PARAMETER_MEANS = 1,       /**< [N, 3] */
    GSC_PARAMETER_OPACITIES = 2,   /**< [N] or [N, 1] */
    GSC_PARAMETER_SCALES = 3,      /**< [N, 3] */
    GSC_PARAMETER_ROTATIONS = 4,   /**< [N, 4] */
    GSC_PARAMETER_COVARIANCES = 5, /**< [N, 6] */
    GSC_PARAMETER_COLORS = 6,      /**< [N, 3]; other channels are GSC_ERROR_UNSUPPORTED */
    GSC_PARAMETER_SH = 7,          /**< [N, K, 3] */
    GSC_PARAMETER_SH_DC = 8        /**< [N, 1, 3] */
};

/** How one parameter is trained. */
typedef struct gsc_train_group {
    const DLTensor *moment1; /**< shaped as the parameter; zero before the first step */
    const DLTensor *moment2; /**< shaped as the parameter; zero before the first step */
    int32_t parameter;       /**< GSC_PARAMETER_* */
    float lr;                /**< learning rate */
    float beta1;             /**< 0: 0.9; negative: none */
    float beta2;             /**< 0: 0.999; negative: none */
    float epsilon;           /**< 0: 1e-8; negative: none */
    float weight_decay;      /**< see GSC_TRAIN_DECOUPLED */
    int32_t step;            /**< 1, 2, ..; 0: no bias correction */
    uint32_t reserved;       /**< 0 */
} gsc_train_group;

/** One training step. */
typedef struct gsc_train_args {
    size_t struct_size;            /**< sizeof the struct */
    uint32_t flags;                /**< GSC_TRAIN_* */
    uint32_t group_count;          /**< elements of groups */
    const gsc_train_group *groups; /**< at most one for each parameter; others stay as they are */
    size_t group_stride;           /**< sizeof(gsc_train_group) of the caller */
    const gsc_raster_args *raster; /**< one camera; the groups' parameters are written */
    /** image NULL: the colour. target and grad_image have the shape of outputs->color, target any
     * strides; grad_image NULL: from the context's allocator. */
    const gsc_image_loss_args *loss;
    /** Of the scene before the step; NULL, or color NULL: not wanted. */
    const gsc_raster_outputs *outputs;
    /** NULL, or out, also before the step: means2d and means2d_abs for densification and the
     * gradients of what has no group; in: alpha, depth and inv_depth, added to the loss; color
     * NULL. */
    const gsc_raster_grads *grads;
    const struct gsc_raster_buffers *buffers; /**< NULL, or each of them: from the context's
                                                   allocator */
    struct gsc_raster_info *info;             /**< out, or NULL: as after gsc_raster_project() */
} gsc_train_args;

/** Trains for one step. Waits as gsc_rasterize() does, and no more. Several cameras are
 * GSC_ERROR_UNSUPPORTED. Buffers are those of a forward and a backward call: with an intersection
 * buffer that holds no more than the fullest tile it works in bands, and scratch must have the
 * larger of info's two sizes. A buffer that is too small is GSC_ERROR_BUFFER_TOO_SMALL: info then
 * says what is needed, as far as that is known by then, and no parameter has changed. */
GSC_API gsc_status gsc_train_step(gsc_context *context, const gsc_train_args *args, void *stream);

/** @}
 * @defgroup steps Steps and memory of your own
 *
 * gsc_rasterize() in steps, for callers that provide the memory: gsc_raster_project() and
 * gsc_raster_blend(), or both at once by gsc_raster_project_blend(), then gsc_raster_backward().
 * @{ */

/** Byte buffers on the context's device: 1-D uint8, 256-byte aligned. state and intersections carry
 * forward's results to backward. They hold no pointers and may be moved or copied between the
 * calls. */
typedef struct gsc_raster_buffers {
    size_t struct_size;            /**< sizeof the struct */
    const DLTensor *state;         /**< info.state_bytes */
    const DLTensor *intersections; /**< info.intersections_bytes, or less: see gsc_raster_blend() */
    /** info's bytes for the step; unused after each call. NULL: from the context's allocator or,
     * for forward on a CUDA device without bands and statistics, from the memory of outputs->color
     * if that is large enough. */
    const DLTensor *scratch;
} gsc_raster_buffers;

/** What backward needs from forward besides the buffers. Plain data. */
typedef struct gsc_raster_info {
    size_t struct_size;             /**< sizeof the struct */
    uint64_t layout;                /**< opaque; backward refuses a state of another layout */
    int64_t intersections;          /**< pairs of a tile and a Gaussian that reaches it: of all
                                         cameras once counted; before, the most of one */
    size_t state_bytes;             /**< for all cameras */
    size_t intersections_bytes;     /**< for every frame at once: see gsc_raster_blend() */
    size_t intersections_min_bytes; /**< for the fullest tile; with less blend fails */
    size_t forward_scratch_bytes;   /**< for the next step */
    size_t backward_scratch_bytes;  /**< for gsc_raster_backward() */
    int64_t visible;                /**< the most Gaussians that one camera sees, at least 1; 0:
                                         unknown, every size is for all of them */
} gsc_raster_info;

/** Sets layout, state_bytes and project's forward_scratch_bytes, which depend on args alone; with
 * info->intersections > 0 or info->visible > 0 also intersections_bytes and the scratch sizes of
 * blend and backward. Host arithmetic, reads no data. */
GSC_API gsc_status gsc_raster_sizes(gsc_context *context, const gsc_raster_args *args,
                                    gsc_raster_info *info);

/** Step 1: projects and counts. Writes state and the per-Gaussian outputs down to opacities. With
 * info, waits for the stream to learn the counts and completes info. With info NULL it only queues
 * work, for callers that know the size of the intersection buffer. */
GSC_API gsc_status gsc_raster_project(gsc_context *context, const gsc_raster_args *args,
                                      const gsc_raster_buffers *buffers,
                                      const gsc_raster_outputs *outputs, gsc_raster_info *info,
                                      void *stream);

/** Step 2: sorts by depth, makes the tiles' lists and blends. Writes the other outputs. Never waits.
 * Pass step 1's outputs again: a colour that is not finite culls its Gaussian, and CUDA devices read
 * colours here.
 *
 * With an intersection buffer that cannot hold the frame it works in bands of tiles, with the same
 * result. One that cannot hold the fullest tile is GSC_ERROR_BUFFER_TOO_SMALL; where only the device
 * knows that, *overflow (int64 scalar on the device; NULL: not reported) becomes the number of bytes
 * needed, else 0.
 *
 * Several cameras can share a buffer for the largest frame, one after the other. On a CUDA device
 * info.intersections_bytes has capacity for the lists of each, so that backward finds them instead
 * of making them again; not with GSC_RASTER_FORWARD_ONLY. */
GSC_API gsc_status gsc_raster_blend(gsc_context *context, const gsc_raster_args *args,
                                    const gsc_raster_buffers *buffers,
                                    const gsc_raster_outputs *outputs, const gsc_raster_info *info,
                                    const DLTensor *overflow, void *stream);

/** Sets info as gsc_raster_sizes() does, with visible and intersections predicted from frames of
 * this size that the context drew before. Both are 0 where nothing is known, and on the CPU, where
 * nothing waits: start with gsc_raster_project() then. */
GSC_API gsc_status gsc_raster_forecast(gsc_context *context, const gsc_raster_args *args,
                                       gsc_raster_info *info);
/** Both steps without a wait between them, in buffers of the sizes in info from
 * gsc_raster_forecast(). Queues everything, then waits until the frame is counted. A frame that needs
 * more than predicted is GSC_ERROR_BUFFER_TOO_SMALL and not drawn: info then is as after
 * gsc_raster_project(), and gsc_raster_blend() with larger buffers continues from there, with every
 * camera. */
GSC_API gsc_status gsc_raster_project_blend(gsc_context *context, const gsc_raster_args *args,
                                            const gsc_raster_buffers *buffers,
                                            const gsc_raster_outputs *outputs,
                                            gsc_raster_info *info, void *stream);

/** Computes gradients from state and intersections as forward left them, moved or copied as you
 * like. */
GSC_API gsc_status gsc_raster_backward(gsc_context *context, const gsc_raster_args *args,
                                       const gsc_raster_buffers *buffers,
                                       const gsc_raster_info *info, const gsc_raster_grads *grads,
                                       void *stream);

/** Finds the means between the near and the far plane. visible: [C, N] bool or uint8, 1 where the
 * mean is visible. Reads only view, means and the planes of args. */
GSC_API gsc_status gsc_mark_visible(gsc_context *context, const gsc_raster_args *args,
                                    const DLTensor *visible, void *stream);

/** Bytes of scratch for these args, whose tensors need no data. */
GSC_API gsc_status gsc_knn_scratch_bytes(gsc_context *context, const gsc_knn_args *args,
                                         size_t *bytes);

/** @} */

#ifdef __cplusplus
}
#endif
#endif /* GSPLAT_C_H */
