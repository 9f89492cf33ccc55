/* The colour of a record by spherical harmonics. */
#ifndef GSC_RECORD_SH_CUH
#define GSC_RECORD_SH_CUH

#include "../src/sh_math.h"
#include "device.cuh"

/* Degrees up to 3 are staged in shared memory, a row a thread: the copies travel while the
 * rest of the record is made, and hold no registers.  Rows are of 16-byte pieces at a
 * distance by which neighbours do not meet in a bank. */
#define STAGED 16 /* coefficients */
#define ROW_BYTES (3 * STAGED * 4 + 16)

/* Starts copying a Gaussian's coefficients, in wide pieces where their addresses allow it. */
static __device__ __forceinline__ void stage_sh(const gsc_k_project &args, int64_t i, int count,
                                                uint32_t row) {
    const float *rest = args.sh + 3 * (int64_t)args.sh_coefficients * i;
    if (!args.sh_dc && args.sh_coefficients == STAGED && count == STAGED &&
        ((uint64_t)args.sh & 15) == 0) {
#pragma unroll
        for (int j = 0; j < 3 * STAGED / 4; ++j) gsc__copy16(row + 16 * j, rest + 4 * j);
    } else if (args.sh_dc) {
        for (int j = 0; j < 3; ++j) gsc__copy4(row + 4 * j, args.sh_dc + 3 * i + j);
        for (int j = 3; j < 3 * count; ++j) gsc__copy4(row + 4 * j, rest + j - 3);
    } else {
        for (int j = 0; j < 3 * count; ++j) gsc__copy4(row + 4 * j, rest + j);
    }
    gsc__copy_commit();
}

static __device__ __forceinline__ void add_staged(uint32_t row, int count, const float *basis,
                                                  float sum[3]) {
    gsc__copy_wait<0>();
#pragma unroll
    for (int j = 0; j < 3 * STAGED / 4; ++j) {
        const float4 four = gsc__load_shared(row + 16 * j);
        const float part[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int t = 0; t < 4; ++t) {
            const int k = (4 * j + t) / 3, c = (4 * j + t) % 3;
            if (k < count) sum[c] = fmaf(basis[k], part[t], sum[c]);
        }
    }
}

static __device__ __forceinline__ void add_stored(const gsc_k_project &args, int64_t i, int count,
                                                  const float *basis, float sum[3]) {
    const float *rest = args.sh + 3 * (int64_t)args.sh_coefficients * i;
    const float *dc = args.sh_dc ? args.sh_dc + 3 * i : rest;
    if (!args.sh_dc) rest += 3;
#pragma unroll
    for (int k = 0; k < GSC__SH_MAX_COEFFICIENTS; ++k) {
        if (k >= count) break;
        for (int c = 0; c < 3; ++c)
            sum[c] = fmaf(basis[k], k ? rest[3 * (k - 1) + c] : dc[c], sum[c]);
    }
}

static __device__ bool record_sh(const gsc_k_project &args, const gsc__camera &camera, int64_t i,
                                 uint32_t row, gsc__gpu_record *record, uint8_t *gates) {
    const int count = (args.sh_degree + 1) * (args.sh_degree + 1);
    float direction[3], basis[GSC__SH_MAX_COEFFICIENTS], sum[3] = {0.5f, 0.5f, 0.5f};
    gsc__sh_direction(args.means + 3 * i, camera.position, direction);
    gsc__sh_basis(args.sh_degree, direction, basis);
    if (count <= STAGED)
        add_staged(row, count, basis, sum);
    else
        add_stored(args, i, count, basis, sum);
    *gates = 0;
    for (int c = 0; c < 3; ++c) {
        if (!gsc__finite(sum[c])) return false;
        record->rgb[c] = gsc__fmax(sum[c], 0);
        *gates |= (uint8_t)((sum[c] > 0) << c);
    }
    return true;
}

#endif
