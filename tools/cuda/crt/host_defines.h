/* The CUDA Runtime's API header asks for this file, which a CUDA toolkit has and the
 * Runtime's package on PyPI lacks.  In C its macros say nothing but alignment. */
#ifndef GSPLAT_C_TOOLS_CUDA_HOST_DEFINES_H
#define GSPLAT_C_TOOLS_CUDA_HOST_DEFINES_H

#define CUDARTAPI
#define CUDART_CB
#define __host__
#define __device__
#define __cudart_builtin__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __builtin_align__(bytes) __attribute__((aligned(bytes)))

#endif
