/* The projection of one Gaussian, and its record without the colour.  project.cu counts what
 * records.cu writes.
 *
 * Both files are compiled without contraction to fused multiply-adds, as tile_lists.cu is: what
 * they count and what that file emits must agree to the last bit. */
#ifndef GSC_PROJECT_CUH
#define GSC_PROJECT_CUH

#include "device.cuh"

/* Pixels [*first, *last] along one axis that the splat can reach: its ellipse's box and, in compat,
 * the 16-pixel tiles of the original's square.  False if that square touches no tile; an empty
 * range only means that the splat blends nowhere. */
static __device__ bool pixel_range(const gsc__camera &camera, float mean, float radius,
                                   float extent, float size, bool reaches, int32_t *first,
                                   int32_t *last) {
    float pad = 0.01f + 2e-6f * extent;
    *first = (int32_t)gsc__ceil(gsc__clamp(mean - extent - pad, 0, size));
    *last = (int32_t)gsc__floor(gsc__clamp(mean + extent + pad, -1, size - 1));
    if (!reaches) *last = *first - 1;
    if (!camera.compat) return true;
    const float tile = GSC__COMPAT_TILE;
    float limit = gsc__ceil(size / tile) * tile;
    int32_t begin = (int32_t)(gsc__clamp(mean - radius, 0, limit) / tile);
    int32_t end = (int32_t)(gsc__clamp(mean + radius + (tile - 1), 0, limit) / tile);
    if (begin >= end) return false;
    *first = max(*first, begin * GSC__COMPAT_TILE);
    *last = min(*last, end * GSC__COMPAT_TILE - 1);
    return true;
}

static __device__ bool record_ranges(const gsc__camera &camera, const gsc__projection &p,
                                     const float radii[2], float log2_alpha,
                                     gsc__gpu_record *record) {
    const bool reaches = log2_alpha >= 0;
    int32_t first[2], last[2];
    for (int axis = 0; axis < 2; ++axis) {
        float variance = axis == 0 ? p.cov[0] : p.cov[2];
        float extent = reaches ? gsc__sqrt(log2_alpha / GSC__HALF_LOG2_E * variance) : 0;
        if (!pixel_range(camera, p.mean[axis], radii[axis], extent,
                         axis == 0 ? camera.width : camera.height, reaches, &first[axis],
                         &last[axis]))
            return false;
    }
    bool empty = last[0] < first[0] || last[1] < first[1];
    record->columns = empty ? 1u : (uint32_t)first[0] | (uint32_t)last[0] << 16;
    record->rows = empty ? 1u : (uint32_t)first[1] | (uint32_t)last[1] << 16;
    return true;
}

/* As stored; shape: scale and rotation, or covariance. */
typedef struct gaussian {
    float mean[3], opacity, shape[7];
} gaussian;

/* All loads at once: one wait for memory instead of two. */
static __device__ __forceinline__ gaussian load_gaussian(const gsc_k_project &args, int64_t i) {
    gaussian in;
    for (int k = 0; k < 3; ++k) in.mean[k] = args.means[3 * i + k];
    in.opacity = args.opacities[i];
    if (args.covariances) {
        for (int k = 0; k < 6; ++k) in.shape[k] = args.covariances[6 * i + k];
        return in;
    }
    for (int k = 0; k < 3; ++k) in.shape[k] = args.scales[3 * i + k];
    for (int k = 0; k < 4; ++k) in.shape[3 + k] = args.rotations[4 * i + k];
    return in;
}

static __device__ bool project_gaussian(const gsc_k_project &args, const gsc__camera &camera,
                                        const gaussian &in, gsc__projection *p) {
    gsc__to_camera(&camera, in.mean, p->point);
    if (!gsc__in_depth_range(&camera, p->point)) {
        if (args.prefiltered) args.frame.header->outside = 1;
        return false;
    }
    gsc__project_mean(&camera, in.mean, p);
    gsc__project_jacobian(&camera, p);
    if (args.covariances) {
        gsc__project_covariance(in.shape, p);
    } else {
        float scale[3];
        for (int j = 0; j < 3; ++j)
            scale[j] =
                args.scale_modifier * (args.log_scales ? gsc__exp(in.shape[j]) : in.shape[j]);
        gsc__project_axes(&camera, scale, in.shape + 3, p);
    }
    return gsc__blur(&camera, p) && gsc__finite(p->mean[0]) && gsc__finite(p->mean[1]);
}

static __device__ void write_outputs(const gsc_k_project &args, const gsc__camera &camera,
                                     int64_t i, bool seen, const gsc__projection &p,
                                     const float radii[2], float opacity) {
    if (args.radii && args.radii_axes == 2) {
        args.radii[2 * i] = seen ? (int32_t)radii[0] : 0;
        args.radii[2 * i + 1] = seen ? (int32_t)radii[1] : 0;
    } else if (args.radii) {
        args.radii[i] = seen ? (int32_t)gsc__fmax(radii[0], radii[1]) : 0;
    }
    if (!args.more_outputs) return;
    const float centre = camera.compat ? 0 : 0.5f;
    if (args.means2d) {
        args.means2d[2 * i] = seen ? p.mean[0] + centre : 0;
        args.means2d[2 * i + 1] = seen ? p.mean[1] + centre : 0;
    }
    if (args.out_depths) args.out_depths[i] = seen ? p.point[2] : 0;
    if (args.out_opacities) args.out_opacities[i] = seen ? opacity : 0;
    if (args.conics) {
        args.conics[3 * i] = seen ? p.cov[2] / p.det : 0;
        args.conics[3 * i + 1] = seen ? -p.cov[1] / p.det : 0;
        args.conics[3 * i + 2] = seen ? p.cov[0] / p.det : 0;
    }
}

/* A record without its colour.  True if the Gaussian is visible; with an empty box it still reaches
 * no pixel centre. */
static __device__ bool make_record(const gsc_k_project &args, const gsc__camera &camera, int64_t i,
                                   const gaussian &in, gsc__gpu_record *record, gsc__projection *p,
                                   float radii[2], float *opacity) {
    *opacity = args.logit_opacities ? gsc__sigmoid(in.opacity) : in.opacity;
    if (!project_gaussian(args, camera, in, p)) return false;
    *opacity *= p->compensation;
    record->mean[0] = p->mean[0];
    record->mean[1] = p->mean[1];
    record->log2_opacity = *opacity > 0 ? gsc__log2(*opacity) : -1e30f;
    record->gaussian = (uint32_t)i;
    gsc__whiten(p, &record->r00, &record->r01, &record->r11);
    const float log2_alpha = record->log2_opacity + GSC__LOG2_255;
    return gsc__finite(*opacity) && gsc__finite(record->r01) &&
           gsc__splat_radii(&camera, p, args.radius_clip, log2_alpha, radii) &&
           record_ranges(camera, *p, radii, log2_alpha, record);
}

static __device__ __forceinline__ bool reaches_pixels(const gsc__gpu_record &record) {
    return (record.columns >> 16) >= (record.columns & 0xffff);
}

/* Copies it to shared memory, where it is after gsc__copy_wait and a barrier. */
static __device__ __forceinline__ void request_camera(const gsc__gpu_frame &frame,
                                                      gsc__camera *camera) {
    const uint32_t *from = (const uint32_t *)frame.camera + threadIdx.x;
    const uint32_t to = gsc__shared_address((uint32_t *)camera + threadIdx.x);
    if (threadIdx.x < sizeof *camera / 4) gsc__copy4(to, from);
    gsc__copy_commit();
}
static __device__ __forceinline__ void load_camera(const gsc__gpu_frame &frame,
                                                   gsc__camera *camera) {
    request_camera(frame, camera);
    gsc__copy_wait<0>();
    __syncthreads();
}

#endif
