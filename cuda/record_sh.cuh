/* The colour of a record by spherical harmonics. */
#ifndef GSC_RECORD_SH_CUH
#define GSC_RECORD_SH_CUH

#include "../src/math/sh_math.h"
#include "sh_rows.cuh"

/* Degrees up to 3 are staged in shared memory: the copies travel while the rest of the record
 * is made, and hold no registers. */
static __device__ __forceinline__ bool stages_sh(const gsc_k_project &args) {
    return !args.colors && args.sh_degree < 4;
}

static __device__ __forceinline__ gsc__sh_rows sh_rows_of(const gsc_k_project &args) {
    const uint32_t count = (uint32_t)((args.sh_degree + 1) * (args.sh_degree + 1));
    const gsc__sh_rows rows = {args.sh, args.sh_dc, (uint32_t)args.sh_coefficients, 3 * count};
    return rows;
}

/* All lanes call it, each with its Gaussian; rows: of the warp.  Narrow rows each lane copies
 * for itself: to find out whose turn it is for every element costs more. */
static __device__ __forceinline__ void stage_sh(const gsc_k_project &args, int64_t i, bool mine,
                                                uint32_t rows) {
    const gsc__sh_rows source = sh_rows_of(args);
    if (gsc__sh_rows_are_wide(source)) {
        gsc__stage_wide_rows(source, (uint32_t)i, __ballot_sync(GSC__ALL_LANES, mine), rows);
        return;
    }
    const uint32_t row = rows + gsc__lane() * 16 * GSC__SH_ROW_PIECES;
    const uint32_t end = mine ? source.end : 0, skip = source.sh_dc ? 3 : 0;
    const float *rest = source.sh + 3 * (int64_t)source.coefficients * i - skip;
    for (uint32_t j = 0; j < min(skip, end); ++j) gsc__copy4(row + 4 * j, source.sh_dc + 3 * i + j);
    for (uint32_t j = skip; j < end; ++j) gsc__copy4(row + 4 * j, rest + j);
    gsc__copy_commit();
}

static __device__ __forceinline__ void add_staged(uint32_t row, int count, const float *basis,
                                                  float sum[3]) {
#pragma unroll
    for (int j = 0; j < 3 * GSC__SH_ROW_COEFFICIENTS / 4; ++j) {
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
    if (stages_sh(args))
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
