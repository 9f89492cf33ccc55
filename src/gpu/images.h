/* The compiled kernels inside the library, and which of them a device can run. */
#ifndef GSC_GPU_IMAGES_H
#define GSC_GPU_IMAGES_H

#include "core/call.h"

enum gsc__kernel_image_kind { GSC__IMAGE_CUBIN, GSC__IMAGE_PTX };

/* One source file compiled for one target. */
typedef struct gsc__kernel_image {
    const char *source; /* file of cuda/ without .cu */
    enum gsc__kernel_image_kind kind;
    int major, minor; /* compute capability that it was compiled for */
    const char *begin, *end;
} gsc__kernel_image;

/* The images of this build, in no particular order; the build writes them. */
extern const gsc__kernel_image gsc__kernel_images[];
extern const size_t gsc__kernel_image_count;

/* The best image of a source file for a device: machine code of the same major number with the
 * highest minor number up to the device's, where a Jetson's only counts on that Jetson.  Else PTX
 * of the highest capability up to the device's, which the driver compiles.  Else NULL. */
const gsc__kernel_image *gsc__kernel_image_choose(const gsc__kernel_image *images, size_t count,
                                                  const char *source, int major, int minor);

enum { GSC__GPU_TARGET_SIZE = 24, GSC__GPU_TARGETS_SIZE = 256 };
/* "sm_90" or "compute_90"; returns name. */
const char *gsc__kernel_image_target(const gsc__kernel_image *image,
                                     char name[GSC__GPU_TARGET_SIZE]);
/* "sm_75 sm_90 compute_90": the targets of a source file; returns text. */
const char *gsc__kernel_image_targets(const gsc__kernel_image *images, size_t count,
                                      const char *source, char text[GSC__GPU_TARGETS_SIZE]);

/* gsc__kernel_image_choose, with GSC_ERROR_NO_KERNEL_IMAGE naming the device's capability and
 * the images that are there. */
gsc_status gsc__kernel_image_find(const char *function, const gsc__kernel_image *images,
                                  size_t count, const char *source, int major, int minor,
                                  const gsc__kernel_image **image);

#endif
