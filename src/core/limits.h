/* Every size limit of the library, in one place.
 *
 * gsc_context_limits reports them; a size beyond one is GSC_ERROR_OVERFLOW. */
#ifndef GSC_LIMITS_H
#define GSC_LIMITS_H

#include <stddef.h>
#include <stdint.h>

/* An index and a few block sizes past it fit in an int32. */
#define GSC__MAX_GAUSSIANS (INT64_C(2147483648) - 65536)
/* Of one frame, all cameras: 8 bytes a pair stay far below the address space. */
#define GSC__MAX_INTERSECTIONS (INT64_C(1) << 40)
/* Of one image; a pixel index fits in an int32. */
#define GSC__MAX_PIXELS INT64_C(2147483647)
/* 65535 tiles of 16 pixels. */
#define GSC__MAX_SIDE 1048560
/* Of an image that CUDA rasterizes: pixel numbers take 16 bits of a record. */
#define GSC__MAX_CUDA_SIDE 65536
/* A grid dimension of CUDA. */
#define GSC__MAX_CAMERAS 65535
#define GSC__MAX_CHANNELS 512
/* Of a batch of images; with that many, elements times 8 bytes fit in an int64. */
#define GSC__MAX_PLANES (1 << 28)
#define GSC__MAX_SH_DEGREE 4
#define GSC__MAX_KNN_K 256
#define GSC__MAX_WINDOW 33
#define GSC__MAX_ADAM_GROUPS 65536
#define GSC__MAX_CPU_THREADS 1024

/* Descriptors larger than this are not descriptors. */
#define GSC__MAX_STRUCT_SIZE 65536
/* What state, intersections, scratch and the library's own blocks are aligned to. */
#define GSC__BUFFER_ALIGNMENT 256

#endif
