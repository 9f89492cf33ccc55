/* A frame's camera and header, and which Gaussians are between a camera's planes. */
#include "device.cuh"

static __device__ gsc__camera_source source_of(const gsc__gpu_camera_source &from) {
    gsc__camera_source source = from.source;
    if (from.host_view) source.view = from.view;
    if (from.host_projection) source.projection = from.projection;
    if (from.host_intrinsics) source.intrinsics = from.intrinsics;
    if (from.host_position) source.position = from.position;
    return source;
}

extern "C" __global__ void __launch_bounds__(GSC__BEGIN_BLOCK)
    gsc_begin(const __grid_constant__ gsc_k_begin args) {
    gsc__begin_kernel();
    if (blockIdx.x > 0) {
        const uint32_t first = (blockIdx.x - 1) * GSC__BEGIN_BLOCK + threadIdx.x;
        for (uint32_t i = first; i < args.clear_count; i += (gridDim.x - 1) * GSC__BEGIN_BLOCK)
            ((uint4 *)args.clear)[i] = make_uint4(0, 0, 0, 0);
        return;
    }
    for (uint32_t i = threadIdx.x; i < args.group_count; i += GSC__BEGIN_BLOCK) args.groups[i] = 0;
    if (threadIdx.x > 0) return;
    const gsc__camera_source source = source_of(args.source);
    gsc__camera camera;
    memset(&camera, 0, sizeof camera); /* kernels copy it whole */
    gsc__camera_make(&source, &camera);
    memcpy(args.camera, &camera, sizeof camera);
    const gsc__gpu_header header = {args.magic, args.layout, 0, 0, 0};
    *args.header = header;
}

extern "C" __global__ void __launch_bounds__(GSC__MARK_BLOCK)
    gsc_mark_visible(const __grid_constant__ gsc_k_mark_visible args) {
    gsc__begin_kernel();
    const int64_t i = (int64_t)blockIdx.x * GSC__MARK_BLOCK + threadIdx.x;
    if (i >= args.gaussians) return;
    const gsc__camera_source source = source_of(args.source);
    gsc__camera camera;
    float point[3];
    gsc__camera_make_view(&source, &camera);
    gsc__to_camera(&camera, args.means + 3 * i, point);
    args.visible[i] = gsc__in_depth_range(&camera, point);
}
