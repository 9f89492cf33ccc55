/* The last part of backward: from a record's sums to the gradients of its Gaussian and its share of
 * the camera's.  Everything except the sums is computed again, which costs less than storing it. */
#include "../src/math/splat_grad.h"
#include "rows.cuh"
#include "sh_rows.cuh"

/* Rows of results, one per thread; before that, a row holds the Gaussian's SH coefficients.  An odd
 * number of 16-byte vectors, so that rows of neighbours are in different banks. */
#define ROW (GSC__RESULT_SIZE / 4)
static_assert(ROW == GSC__SH_ROW_VECTORS, "a row of coefficients is as long as one of results");
typedef struct block_memory {
    float4 rows[GSC__PROJECT_BACKWARD_BLOCK][ROW];
    gsc__camera camera;
    uint32_t indices[GSC__PROJECT_BACKWARD_BLOCK];
    uint32_t slots[RUN_MAX / 4 + 1]; /* bytes */
    double shares[GSC__PROJECT_BACKWARD_BLOCK / 32][GSC__CAMERA_SHARES];
} block_memory;

typedef struct gaussian {
    float mean[3], scale[3], rotation[4];
    float opacity; /* as stored */
} gaussian;

static __device__ __forceinline__ gsc__gpu_record load_record(const gsc__gpu_record *from) {
    gsc__gpu_record record;
    float4 *to = (float4 *)&record;
    for (int k = 0; k < 3; ++k) to[k] = __ldg((const float4 *)from + k);
    return record;
}

static __device__ void splat_grad(const gsc__gpu_record &record, const float *m, float depth,
                                  gsc__splat_grad *out) {
    out->r00 = record.r00;
    out->r01 = record.r01;
    out->r11 = record.r11;
    gsc__moments_grad(m, out);
    out->opacity = m[0] * exp2f(-record.log2_opacity);
    out->depth = depth;
}

/* Not through the read-only cache: the kernel may step them afterwards. */
static __device__ __forceinline__ void load(const float *from, int count, float *to) {
    for (int k = 0; k < count; ++k) to[k] = from[k];
}

static __device__ __forceinline__ void load_sums(const float *from, float m[GSC__SUMS]) {
    for (int k = 0; k < GSC__SUMS / 4; ++k) {
        const float4 q = __ldg((const float4 *)from + k);
        m[4 * k] = q.x;
        m[4 * k + 1] = q.y;
        m[4 * k + 2] = q.z;
        m[4 * k + 3] = q.w;
    }
}

static __device__ __forceinline__ float4 load4(const float *from) {
    if (((uint64_t)from & 15) == 0) return *(const float4 *)from;
    return make_float4(from[0], from[1], from[2], from[3]);
}

/* ------------------------------------------------------------------- geometry */

static __device__ __forceinline__ void geometry_grad(const gsc_k_project_backward &args,
                                                     const gsc__camera &camera, int64_t i,
                                                     const gaussian &in, gsc__splat_grad *splat,
                                                     gsc__gaussian_grad *g) {
    gsc__projection p;
    const float opacity = args.logit_opacities ? gsc__sigmoid(in.opacity) : in.opacity;
    gsc__to_camera(&camera, in.mean, p.point);
    gsc__project_mean(&camera, in.mean, &p);
    gsc__project_jacobian(&camera, &p);
    /* Separate calls: a pointer that may be NULL would put arrays into memory. */
    if (args.covariances) {
        float covariance[6];
        load(args.covariances + 6 * i, 6, covariance);
        gsc__project_covariance(covariance, &p);
        if (!gsc__blur(&camera, &p)) return;
        const gsc__gaussian seen = {in.mean, 0, args.scale_modifier, opacity};
        gsc__project_grad(&camera, &seen, &p, splat, g);
    } else {
        float scale[3];
        for (int j = 0; j < 3; ++j) scale[j] = args.scale_modifier * in.scale[j];
        gsc__project_axes(&camera, scale, in.rotation, &p);
        if (!gsc__blur(&camera, &p)) return;
        const gsc__gaussian seen = {in.mean, in.rotation, args.scale_modifier, opacity};
        gsc__project_grad(&camera, &seen, &p, splat, g);
        for (int j = 0; j < 3 && args.log_scales; ++j)
            g->scale[j] *= p.scale[j] / args.scale_modifier;
    }
    if (args.logit_opacities) g->opacity *= gsc__sigmoid_grad(in.opacity);
}

static __device__ __forceinline__ void load_gaussian(const gsc_k_project_backward &args, int64_t i,
                                                     gaussian *in) {
    load(args.means + 3 * i, 3, in->mean);
    in->opacity = args.opacities[i];
    if (args.covariances) return;
    load(args.scales + 3 * i, 3, in->scale);
    for (int j = 0; j < 3 && args.log_scales; ++j) in->scale[j] = gsc__exp(in->scale[j]);
    const float4 q = load4(args.rotations + 4 * i);
    in->rotation[0] = q.x;
    in->rotation[1] = q.y;
    in->rotation[2] = q.z;
    in->rotation[3] = q.w;
}

/* ------------------------------------------------------- spherical harmonics */

/* The coefficient of degree 0 is not needed. */
static __device__ __forceinline__ bool reads_sh(const gsc_k_project_backward &args) {
    return args.has_sh && args.sh_degree > 0;
}

static __device__ __forceinline__ gsc__sh_rows sh_rows_of(const gsc_k_project_backward &args) {
    const uint32_t count = (uint32_t)((args.sh_degree + 1) * (args.sh_degree + 1));
    const gsc__sh_rows rows = {args.sh, args.sh_dc, (uint32_t)args.sh_coefficients,
                               3 * min(count, GSC__SH_ROW_COEFFICIENTS)};
    return rows;
}

/* Starts to copy the warp's rows, perhaps without coefficient 0. */
static __device__ __forceinline__ void stage_sh(const gsc_k_project_backward &args, uint32_t index,
                                                uint32_t mine, uint32_t to) {
    const gsc__sh_rows rows = sh_rows_of(args);
    if (gsc__sh_rows_are_wide(rows)) {
        gsc__stage_wide_rows(rows, index, mine, to);
        return;
    }
    const uint32_t skip = rows.sh_dc ? 3 : 0;
    for (; mine; mine &= mine - 1) {
        const uint32_t row = (uint32_t)__ffs((int)mine) - 1;
        const int64_t from = __shfl_sync(GSC__ALL_LANES, index, row);
        const float *source = rows.sh + from * (3 * rows.coefficients);
        for (uint32_t e = gsc__lane() + 3; e < rows.end; e += 32)
            gsc__copy4(to + 16 * row * GSC__SH_ROW_VECTORS + 4 * e, source + (e - skip));
    }
    gsc__copy_commit();
}

/* weight[k]: coefficient k times the gradient of the colour; undefined beyond the degree. */
static __device__ __forceinline__ void sh_weights(const gsc_k_project_backward &args, int64_t i,
                                                  const float4 *row, const float g[3],
                                                  float *weight) {
#pragma unroll
    for (int k = 0; k < GSC__SH_MAX_COEFFICIENTS; ++k) weight[k] = 0;
#pragma unroll
    for (int j = 0; j < 12; ++j) {
        const float4 x = row[j];
        const float v[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
        for (int t = 0; t < 4; ++t)
            weight[(4 * j + t) / 3] = fmaf(g[(4 * j + t) % 3], v[t], weight[(4 * j + t) / 3]);
    }
    if (args.sh_degree < 4) return;
    const float *sh = args.sh + 3 * (args.sh_coefficients * i - (args.sh_dc ? 1 : 0));
#pragma unroll
    for (int k = 16; k < GSC__SH_MAX_COEFFICIENTS; ++k) {
        float x[3];
        load(sh + 3 * k, 3, x);
        weight[k] = gsc__dot3(g, x);
    }
}

/* Leaves the basis in the row. */
static __device__ __forceinline__ void sh_grad(const gsc_k_project_backward &args,
                                               const gsc__camera &camera, int64_t i,
                                               const float mean[3], const float g[3], float4 *row,
                                               float grad_mean[3]) {
    float direction[3], basis[GSC__SH_MAX_COEFFICIENTS + 3];
    const float inverse = gsc__sh_direction(mean, camera.position, direction);
    for (int k = 0; k < 3; ++k) grad_mean[k] = 0;
    if (reads_sh(args)) {
        float weight[GSC__SH_MAX_COEFFICIENTS];
        sh_weights(args, i, row, g, weight);
        gsc__sh_mean_grad(args.sh_degree, direction, inverse, weight, grad_mean);
    }
    /* Values that are never defined would occupy registers through the whole kernel. */
    for (int k = 0; k < GSC__SH_MAX_COEFFICIENTS + 3; ++k) basis[k] = 0;
    gsc__sh_basis(args.sh_degree, direction, basis);
#pragma unroll
    for (int j = 0; j < 7; ++j)
        if (j < 4 || args.sh_degree == 4)
            row[GSC__RESULT_BASIS / 4 + j] =
                make_float4(basis[4 * j], basis[4 * j + 1], basis[4 * j + 2], basis[4 * j + 3]);
}

/* --------------------------------------------------------------------- camera */

/* Adds sums over the warp, in a fixed order. */
static __device__ __forceinline__ void add_shares(const float *values, int count, bool mine,
                                                  int sign, double *shares) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
        double x = mine ? (double)values[i] : 0;
        for (int step = 16; step; step /= 2) x += __shfl_xor_sync(GSC__ALL_LANES, x, step);
        if (gsc__lane() == 0) shares[i] += sign * x;
    }
}

/* -------------------------------------------------------------------- records */

static __device__ __forceinline__ void write_geometry(const gsc_k_project_backward &args,
                                                      const gsc__gaussian_grad &g, float4 *row) {
    if (args.covariances) {
        row[GSC__RESULT_COVARIANCE / 4] =
            make_float4(g.covariance[0], g.covariance[1], g.covariance[2], g.covariance[3]);
        row[GSC__RESULT_SCALE / 4] = make_float4(g.covariance[4], g.covariance[5], 0, g.opacity);
    } else {
        row[GSC__RESULT_ROTATION / 4] =
            make_float4(g.rotation[0], g.rotation[1], g.rotation[2], g.rotation[3]);
        row[GSC__RESULT_SCALE / 4] = make_float4(g.scale[0], g.scale[1], g.scale[2], g.opacity);
    }
}

/* The row's results for means2d; splat: the gradient that goes further back. */
static __device__ __forceinline__ void image_grad(const gsc_k_project_backward &args,
                                                  const gsc__camera &camera,
                                                  const gsc__gpu_record &record,
                                                  const float m[GSC__SUMS], float4 *row,
                                                  gsc__splat_grad *splat) {
    splat_grad(record, m, m[9], splat);
    const float x = args.ndc ? camera.width / 2 : 1, y = args.ndc ? camera.height / 2 : 1;
    const float scale = 1 / GSC__HALF_LOG2_E;
    row[GSC__RESULT_MEAN2D / 4] = make_float4(splat->mean[0] * x, splat->mean[1] * y, 0, 0);
    row[GSC__RESULT_MEAN2D_ABS / 4] = make_float4(m[10] * scale * x, m[11] * scale * y, 0, 0);
}

/* Makes the gradients of a record's Gaussian, in the thread's row.  All lanes call it.  Lanes
 * without a record repeat that of the first lane that has one, and their results are not used:
 * values that only some lanes define would occupy registers everywhere else. */
static __device__ __forceinline__ void project_backward_record(const gsc_k_project_backward &args,
                                                               uint32_t at, bool mine,
                                                               block_memory *memory) {
    const gsc__camera &camera = memory->camera;
    const uint32_t warp = threadIdx.x >> 5, mine_lanes = __ballot_sync(GSC__ALL_LANES, mine);
    float4 *row = memory->rows[threadIdx.x];
    if (!mine_lanes) return;
    const uint32_t thread = mine ? threadIdx.x : 32 * warp + (uint32_t)__ffs((int)mine_lanes) - 1;
    const uint32_t index = memory->indices[thread];
    at += thread - threadIdx.x;
    if (reads_sh(args))
        stage_sh(args, index, mine_lanes, gsc__shared_address(memory->rows[32 * warp]));
    const gsc__gpu_record record = load_record(args.frame.records + at);
    const bool drawn = gsc__draws(record.rgb[2]);
    gaussian in = {};
    float m[GSC__SUMS], grad_mean[3] = {0, 0, 0};
    load_gaussian(args, index, &in);
    load_sums(args.sums + (int64_t)at * GSC__SUMS, m);
    const uint32_t unclamped = args.has_sh ? args.frame.unclamped[at] : 7;
    for (int c = 0; c < 3; ++c) m[6 + c] = unclamped >> c & 1 ? m[6 + c] : 0;
    gsc__copy_wait<0>();
    __syncwarp();
    if (args.has_sh) sh_grad(args, camera, index, in.mean, m + 6, row, grad_mean);
    row[GSC__RESULT_COLOR / 4] = make_float4(m[6], m[7], m[8], 0);
    gsc__splat_grad splat;
    gsc__gaussian_grad g;
    memset(&g, 0, sizeof g);
    image_grad(args, camera, record, m, row, &splat);
    geometry_grad(args, camera, index, in, &splat, &g);
    write_geometry(args, g, row);
    row[GSC__RESULT_MEAN / 4] = make_float4(g.mean[0] + grad_mean[0], g.mean[1] + grad_mean[1],
                                            g.mean[2] + grad_mean[2], 0);
    /* Values may be NaN, which times zero is not zero. */
    for (int k = 0; k < ROW && !drawn; ++k) row[k] = make_float4(0, 0, 0, 0);
    if (!args.shares) return;
    add_shares(&g.view[0][0], 12, mine && drawn, 1, memory->shares[warp]);
    if (args.has_sh) add_shares(grad_mean, 3, mine && drawn, -1, memory->shares[warp] + 12);
}

static __device__ __forceinline__ void put_results(const gsc_k_project_backward &args,
                                                   const gsc__rows &rows, const float *results) {
    for (uint32_t i = 0; i < args.sh_gradients; ++i) {
        const gsc__gpu_gradient &out = args.sh_gradient[i];
        const uint32_t used = out.used;
        const float *basis = results + out.result, *color = results + GSC__RESULT_COLOR;
        gsc__put_rows(rows, out, [=](uint32_t slot, uint32_t element) {
            return element < used ? gsc__harmonic(basis, color, slot * GSC__RESULT_SIZE, element)
                                  : 0.0f;
        });
    }
    for (uint32_t i = 0; i < args.gradients; ++i) {
        const float *first = results + args.gradient[i].result;
        gsc__put_rows(rows, args.gradient[i], [=](uint32_t slot, uint32_t element) {
            return first[slot * GSC__RESULT_SIZE + element];
        });
    }
}

/* Takes rows in runs with at most as many records as there are threads: all rows at once where few
 * are visible, else as many rows as threads.  put(rows) uses a run's results; all threads call
 * it. */
template <typename put_rows>
static __device__ __forceinline__ void project_backward_chunk(const gsc_k_project_backward &args,
                                                              block_memory &memory,
                                                              const put_rows &put) {
    const gsc__gpu_frame &frame = args.frame;
    uint32_t at = min(frame.firsts[blockIdx.x], frame.record_capacity);
    const uint32_t end = min(frame.firsts[blockIdx.x + 1], frame.record_capacity);
    const int64_t first = (int64_t)blockIdx.x * GSC__CHUNK;
    const uint32_t count = (uint32_t)min(args.gaussians - first, (int64_t)GSC__CHUNK);
    const uint32_t run =
        end - at <= GSC__PROJECT_BACKWARD_BLOCK ? RUN_MAX : GSC__PROJECT_BACKWARD_BLOCK;
    for (uint32_t i = threadIdx.x; i < sizeof memory.camera / 4; i += GSC__PROJECT_BACKWARD_BLOCK)
        ((uint32_t *)&memory.camera)[i] = ((const uint32_t *)frame.camera)[i];
    for (uint32_t i = threadIdx.x; i < sizeof memory.shares / 8; i += GSC__PROJECT_BACKWARD_BLOCK)
        (&memory.shares[0][0])[i] = 0;
    uint8_t *slots = (uint8_t *)memory.slots;
    gsc__rows rows = {first, 0, 0, slots, memory.indices};
    for (uint32_t begin = 0; begin < count; begin += run) {
        rows.first = first + begin;
        rows.count = min(run, count - begin);
        for (uint32_t i = threadIdx.x; i <= RUN_MAX / 4; i += GSC__PROJECT_BACKWARD_BLOCK)
            memory.slots[i] = 0xffffffff;
        const uint32_t record = at + threadIdx.x;
        const uint32_t index = record < end ? frame.records[record].gaussian : 0xffffffff;
        /* Tests both bounds: a damaged state may lead to records of other chunks. */
        const bool mine = index >= rows.first && index < rows.first + rows.count;
        memory.indices[threadIdx.x] = mine ? index : (uint32_t)rows.first;
        rows.visible = (uint32_t)__syncthreads_count(mine);
        if (mine) slots[index - rows.first] = (uint8_t)threadIdx.x;
        project_backward_record(args, record, mine, &memory);
        __syncthreads();
        put(rows);
        __syncthreads();
        at += rows.visible;
    }
    if (args.shares && threadIdx.x < GSC__CAMERA_SHARES) {
        double sum = 0;
        for (int w = 0; w < GSC__PROJECT_BACKWARD_BLOCK / 32; ++w)
            sum += memory.shares[w][threadIdx.x];
        args.shares[(int64_t)blockIdx.x * GSC__CAMERA_SHARES + threadIdx.x] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(GSC__PROJECT_BACKWARD_BLOCK, 4)
    gsc_project_backward(const __grid_constant__ gsc_k_project_backward args) {
    gsc__begin_kernel();
    __shared__ block_memory memory;
    project_backward_chunk(args, memory, [&](const gsc__rows &rows) {
        put_results(args, rows, (const float *)memory.rows);
    });
}

extern "C" __global__ void __launch_bounds__(GSC__PROJECT_BACKWARD_BLOCK, 4)
    gsc_project_backward_step(const __grid_constant__ gsc_k_project_backward_step args) {
    gsc__begin_kernel();
    __shared__ block_memory memory;
    __shared__ gsc__stepped stepped;
    project_backward_chunk(args.project_backward, memory, [&](const gsc__rows &rows) {
        const float *results = (const float *)memory.rows;
        put_results(args.project_backward, rows, results);
        gsc__list_stepped(args, rows, &stepped);
        for (uint32_t i = 0; i < args.steps; ++i)
            gsc__step_parameter(args.step[i], rows, stepped, results);
    });
}
