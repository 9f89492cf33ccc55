/* The last part of backward: from a record's sums to the gradients of its Gaussian and
 * to its share of the camera's.  Everything but the sums is computed again: cheaper than
 * having stored it. */
#include "../src/splat_grad.h"
#include "device.cuh"

/* Gradients of the first camera are stored, those of the others and with
 * GSC_RASTER_GRAD_ADD are added. */
static __device__ __forceinline__ void put(const gsc_k_unproject &args, float *to, float value) {
    *to = args.overwrite ? value : *to + value;
}

/* See docs/numerics.md; the sums are moments in whitened coordinates. */
static __device__ void splat_grad(const gsc__gpu_record &record, const float *m, float depth,
                                  gsc__splat_grad *out) {
    const float two_ln2 = 1 / GSC__HALF_LOG2_E, half2 = two_ln2 * two_ln2 / 2;
    const float r00 = record.r00, r01 = record.r01, r11 = record.r11;
    out->mean[0] = two_ln2 * r00 * m[1];
    out->mean[1] = two_ln2 * (r01 * m[1] + r11 * m[2]);
    out->cov[0] = half2 * r00 * r00 * m[3];
    out->cov[1] = 2 * half2 * r00 * (r01 * m[3] + r11 * m[4]);
    out->cov[2] = half2 * (r01 * r01 * m[3] + 2 * r01 * r11 * m[4] + r11 * r11 * m[5]);
    out->opacity = m[0] * exp2f(-record.log2_opacity);
    out->depth = depth;
}

static __device__ void write_means2d(const gsc_k_unproject &args, const gsc__camera &camera,
                                     int64_t i, const gsc__splat_grad &splat, const float *m) {
    for (int axis = 0; axis < 2; ++axis) {
        const float unit = !args.ndc ? 1 : axis == 0 ? camera.width / 2 : camera.height / 2;
        if (args.by_means2d)
            put(args, args.by_means2d + i * args.means2d_axes + axis, splat.mean[axis] * unit);
        if (args.by_means2d_abs)
            put(args, args.by_means2d_abs + i * args.means2d_abs_axes + axis,
                m[10 + axis] / GSC__HALF_LOG2_E * unit);
    }
}

/* A row of 16 coefficients, stored or added in 16-byte pieces: by single floats every
 * sector would be written eight times. */
static __device__ void put_row16(const gsc_k_unproject &args, float4 *row, const float *basis,
                                 const float g[3]) {
#pragma unroll
    for (int j = 0; j < 12; ++j) {
        float v[4];
#pragma unroll
        for (int t = 0; t < 4; ++t) v[t] = basis[(4 * j + t) / 3] * g[(4 * j + t) % 3];
        float4 old = args.overwrite ? make_float4(0, 0, 0, 0) : row[j];
        row[j] = make_float4(old.x + v[0], old.y + v[1], old.z + v[2], old.w + v[3]);
    }
}

static __device__ void put_sh(const gsc_k_unproject &args, int64_t i, const float *basis,
                              const float g[3]) {
    const int split = args.sh_dc != 0;
    float *row = args.by_sh ? args.by_sh + 3 * (int64_t)args.sh_coefficients * i : 0;
    float *dc = split ? (args.by_sh_dc ? args.by_sh_dc + 3 * i : 0) : row;
    if (row && !split && args.sh_coefficients == 16 && ((uint64_t)args.by_sh & 15) == 0) {
        put_row16(args, (float4 *)row, basis, g);
        return;
    }
    const int count = (args.sh_degree + 1) * (args.sh_degree + 1);
    for (int c = 0; c < 3 && dc; ++c) put(args, dc + c, basis[0] * g[c]);
#pragma unroll
    for (int k = 1; k < GSC__SH_MAX_COEFFICIENTS; ++k)
        for (int c = 0; c < 3 && row && k < count; ++c)
            put(args, row + 3 * (k - split) + c, basis[k] * g[c]);
}

static __device__ void sh_grad(const gsc_k_unproject &args, const gsc__camera &camera, int64_t i,
                               uint32_t gates, const float *by_rgb, float by_mean[3]) {
    const int count = (args.sh_degree + 1) * (args.sh_degree + 1);
    const int split = args.sh_dc != 0;
    const float *sh = args.sh + 3 * ((int64_t)args.sh_coefficients * i - split);
    float direction[3], basis[GSC__SH_MAX_COEFFICIENTS], weight[GSC__SH_MAX_COEFFICIENTS], g[3];
    for (int c = 0; c < 3; ++c) g[c] = gates >> c & 1 ? by_rgb[c] : 0;
    const float inverse = gsc__sh_direction(args.means + 3 * i, camera.position, direction);
    gsc__sh_basis(args.sh_degree, direction, basis);
#pragma unroll
    for (int k = 0; k < GSC__SH_MAX_COEFFICIENTS; ++k) {
        if (k >= count) basis[k] = 0;
        weight[k] = k > 0 && k < count ? gsc__dot3(g, sh + 3 * k) : 0;
    }
    put_sh(args, i, basis, g);
    gsc__sh_mean_grad(args.sh_degree, direction, inverse, weight, by_mean);
}

static __device__ void add_gaussian(const gsc_k_unproject &args, int64_t i,
                                    const gsc__gaussian_grad &g) {
    for (int k = 0; k < 3 && args.by_means; ++k) put(args, args.by_means + 3 * i + k, g.mean[k]);
    if (args.by_opacities) put(args, args.by_opacities + i, g.opacity);
    for (int k = 0; k < 3 && args.by_scales; ++k) put(args, args.by_scales + 3 * i + k, g.scale[k]);
    for (int k = 0; k < 4 && args.by_rotations; ++k)
        put(args, args.by_rotations + 4 * i + k, g.rotation[k]);
    for (int k = 0; k < 6 && args.by_covariances; ++k)
        put(args, args.by_covariances + 6 * i + k, g.covariance[k]);
}

static __device__ bool project_again(const gsc_k_unproject &args, const gsc__camera &camera,
                                     int64_t i, gsc__projection *p) {
    const float *mean = args.means + 3 * i;
    gsc__to_camera(&camera, mean, p->point);
    gsc__project_mean(&camera, mean, p);
    gsc__project_jacobian(&camera, p);
    if (args.covariances) {
        gsc__project_covariance(args.covariances + 6 * i, p);
    } else {
        float scale[3];
        for (int j = 0; j < 3; ++j) scale[j] = args.scale_modifier * args.scales[3 * i + j];
        gsc__project_axes(&camera, scale, args.rotations + 4 * i, p);
    }
    return gsc__blur(&camera, p);
}

/* Sums over the block in a fixed order: lanes, then warps. */
static __device__ void add_shares(const gsc_k_unproject &args, const gsc__gaussian_grad &g,
                                  const float by_position[3]) {
    __shared__ double warps[GSC__UNPROJECT_BLOCK / 32];
    for (int i = 0; i < GSC__CAMERA_SHARES; ++i) {
        double x = i < 12 ? (double)g.view[i / 4][i % 4] : (double)by_position[i - 12];
        for (int step = 16; step; step /= 2) x += __shfl_xor_sync(GSC__ALL_LANES, x, step);
        if (gsc__lane() == 0) warps[threadIdx.x >> 5] = x;
        __syncthreads();
        if (threadIdx.x == 0) {
            double sum = 0;
            for (int w = 0; w < GSC__UNPROJECT_BLOCK / 32; ++w) sum += warps[w];
            args.shares[(int64_t)blockIdx.x * GSC__CAMERA_SHARES + i] = sum;
        }
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(GSC__UNPROJECT_BLOCK)
    gsc_unproject(const __grid_constant__ gsc_k_unproject args) {
    const uint32_t at = blockIdx.x * GSC__UNPROJECT_BLOCK + threadIdx.x;
    const gsc__camera &camera = *args.frame.camera;
    gsc__gaussian_grad g;
    float by_position[3] = {0, 0, 0};
    memset(&g, 0, sizeof g);
    gsc__gpu_record record;
    const bool valid = at < min(args.frame.header->visible, args.frame.room);
    if (valid) record = args.frame.records[at];
    if (valid && gsc__draws(record.rgb[2])) {
        const int64_t i = min(record.gaussian, args.frame.gaussians - 1);
        const float *m = args.sums + (int64_t)at * GSC__SUMS;
        gsc__projection p;
        gsc__splat_grad splat;
        splat_grad(record, m, m[9], &splat);
        write_means2d(args, camera, i, splat, m);
        if (project_again(args, camera, i, &p)) {
            const bool axes = args.scales != 0;
            gsc__project_grad(&camera, args.means + 3 * i, axes ? args.scales + 3 * i : 0,
                              axes ? args.rotations + 4 * i : 0, args.scale_modifier,
                              args.opacities[i], &p, &splat, &g);
        }
        if (args.has_sh) {
            float by_mean[3];
            sh_grad(args, camera, i, args.frame.gates[at], m + 6, by_mean);
            for (int k = 0; k < 3; ++k) {
                g.mean[k] += by_mean[k];
                by_position[k] = -by_mean[k];
            }
        } else if (args.by_colors) {
            for (int c = 0; c < 3; ++c) put(args, args.by_colors + 3 * i + c, m[6 + c]);
        }
        add_gaussian(args, i, g);
    }
    if (args.shares) add_shares(args, g, by_position);
}

/* Without a position of its own the camera's centre is -R^T t, and its gradient goes on
 * into the view. */
extern "C" __global__ void __launch_bounds__(32)
    gsc_camera_grad(const __grid_constant__ gsc_k_camera_grad args) {
    __shared__ double sums[GSC__CAMERA_SHARES];
    if (threadIdx.x < GSC__CAMERA_SHARES) {
        double sum = 0;
        for (uint32_t b = 0; b < args.blocks; ++b)
            sum += args.shares[(int64_t)b * GSC__CAMERA_SHARES + threadIdx.x];
        sums[threadIdx.x] = sum;
    }
    __syncwarp();
    if (threadIdx.x) return;
    for (int k = 0; k < 3 && args.by_position; ++k) args.by_position[k] += (float)sums[12 + k];
    if (!args.by_view) return;
    for (int i = 0; i < 3; ++i)
        for (int k = 0; k < 4; ++k) {
            double g = sums[4 * i + k];
            if (!args.own_position && k < 3)
                g -= (double)args.camera->translation[i] * sums[12 + k];
            for (int j = 0; j < 3 && !args.own_position && k == 3; ++j)
                g -= (double)args.camera->rotation[i][j] * sums[12 + j];
            args.by_view[args.row_major ? 4 * i + k : 4 * k + i] += (float)g;
        }
}

/* Sum over the pixels of final T times the gradient by a channel: one block a channel. */
extern "C" __global__ void __launch_bounds__(1024)
    gsc_background_grad(const __grid_constant__ gsc_k_background_grad args) {
    __shared__ double warps[32];
    const int32_t c = (int32_t)blockIdx.x;
    const float *g = args.pixel_last ? args.by_color + c : args.by_color + c * args.pixels;
    const int64_t step = args.pixel_last ? args.channels : 1;
    double sum = 0;
    for (int64_t i = threadIdx.x; i < args.pixels; i += 1024)
        sum += (double)args.final_t[i] * (double)g[i * step];
    for (int s = 16; s; s /= 2) sum += __shfl_xor_sync(GSC__ALL_LANES, sum, s);
    if (gsc__lane() == 0) warps[threadIdx.x >> 5] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    for (int w = 1; w < 32; ++w) sum += warps[w];
    args.by_background[c] += (float)sum;
}
