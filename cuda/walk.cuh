/* How a warp walks its list, shared by forward and backward blending.
 *
 * A warp owns 16x8 pixels as four groups of 8 lanes; a group owns 8x4 pixels, a lane one
 * column of 4.  The list is staged 32 records at a time; each lane tests one record
 * against the four groups, and every group then walks the hits of its own.  Groups are
 * independent, so that a splat of one group's pixels costs the others nothing.
 *
 * A staged record is rewritten to an affine form on the warp's pixels: at pixel (x, y)
 * counted from its corner u = a x + b y + c, v = d y + e. */
#ifndef GSC_WALK_CUH
#define GSC_WALK_CUH

#include "../src/ellipse_math.h"
#include "device.cuh"

#define WARPS (GSC__BLEND_BLOCK / 32)
#define GROUP_LANES 8
#define ROWS 4 /* of a lane */
#define WARP_WIDTH 16
#define WARP_HEIGHT 8

/* log2 of the least alpha: the exponent below which a sample is skipped. */
#define LEAST (-GSC__LOG2_255)

/* Twelve floats a record.  Staged: a b c d | e log2_opacity red green | blue x y z, where
 * x, y and z are whatever the pass needs. */
typedef struct gsc__stage {
    float4 records[2][32 * 3];
} gsc__stage;

/* Where a warp's pixels are, or nowhere. */
typedef struct gsc__place {
    uint32_t bin;
    int32_t x, y;           /* of the warp's corner */
    int32_t lane_x, lane_y; /* of the lane's first pixel, from the corner */
    uint32_t group;
} gsc__place;

/* False for a warp without pixels. */
static __device__ __forceinline__ bool gsc__place_of(const gsc__gpu_grid &grid,
                                                     const gsc__gpu_band &band,
                                                     const uint32_t *bin_order, gsc__place *place) {
    const uint32_t across = (1u << grid.shift_x) / WARP_WIDTH;
    const uint32_t warps = across * ((1u << grid.shift_y) / WARP_HEIGHT);
    const uint32_t number = blockIdx.x * WARPS + (threadIdx.x >> 5);
    const uint32_t bin = number / warps, part = number - bin * warps;
    if (bin >= band.end - band.begin) return false;
    place->bin = bin_order[bin];
    place->x = (int32_t)((place->bin % grid.bins_x) << grid.shift_x) +
               (int32_t)(part % across) * WARP_WIDTH;
    place->y = (int32_t)((place->bin / grid.bins_x) << grid.shift_y) +
               (int32_t)(part / across) * WARP_HEIGHT;
    place->group = gsc__lane() / GROUP_LANES;
    place->lane_x = (int32_t)((place->group & 1) * 8 + (gsc__lane() & 7));
    place->lane_y = (int32_t)(place->group >> 1) * ROWS;
    return place->x < grid.width && place->y < grid.height;
}

/* Starts copying list entry i to slot; i is inside the list. */
static __device__ __forceinline__ void
gsc__stage_record(gsc__stage *stage, int buffer, uint32_t slot, const gsc__gpu_record *record) {
    const float4 *from = (const float4 *)record;
    float4 *to = stage->records[buffer] + slot * 3;
    for (int k = 0; k < 3; ++k) gsc__copy16(to + k, from + k);
}

/* Bit g: the record can reach pixels of group g.  By the box first, then by the ellipse's
 * slab of the group's rows. */
static __device__ __forceinline__ uint32_t gsc__groups_hit(float4 *record,
                                                           const gsc__place &place) {
    const float4 p = record[0], q = record[1], r = record[2];
    if (!gsc__draws(r.x)) { /* idle groups read it all the same */
        record[2].x = 0;
        return 0;
    }
    const uint32_t columns = __float_as_uint(r.y), rows = __float_as_uint(r.z);
    const int32_t x0 = (int32_t)(columns & 0xffff) - place.x;
    const int32_t x1 = (int32_t)(columns >> 16) - place.x;
    const int32_t y0 = (int32_t)(rows & 0xffff) - place.y;
    const int32_t y1 = (int32_t)(rows >> 16) - place.y;
    if (x1 < 0 || x0 >= WARP_WIDTH || y1 < 0 || y0 >= WARP_HEIGHT) return 0;
    const float mean[2] = {p.x - (float)place.x, p.y - (float)place.y};
    const gsc__ellipse e = gsc__ellipse_of(mean, p.z, p.w, q.x, q.y + GSC__LOG2_255);
    uint32_t groups = 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int32_t top = max(y0, half * ROWS), bottom = min(y1, half * ROWS + ROWS - 1);
        if (top > bottom) continue;
        int32_t first, last;
        gsc__ellipse_slab(&e, (float)top, (float)bottom, (float)max(x0, 0),
                          (float)min(x1, WARP_WIDTH - 1), &first, &last);
        if (last < first) continue;
        groups |= (first < 8 ? 1u : 0u) << (2 * half);
        groups |= (last >= 8 ? 2u : 0u) << (2 * half);
    }
    return groups;
}

/* Rewrites a staged record to its affine form; x, y, z take the blue's neighbours. */
static __device__ __forceinline__ void gsc__make_affine(float4 *record, const gsc__place &place,
                                                        float x, float y, float z) {
    const float4 p = record[0], q = record[1], r = record[2];
    const float mean_x = p.x - (float)place.x, mean_y = p.y - (float)place.y;
    record[0] = make_float4(p.z, p.w, -fmaf(p.z, mean_x, p.w * mean_y), q.x);
    record[1] = make_float4(-q.x * mean_y, q.y, q.z, q.w);
    record[2] = make_float4(r.x, x, y, z);
}

/* The hits of this lane's group among 32 staged records, one bit each. */
static __device__ __forceinline__ uint32_t gsc__own_hits(uint32_t groups, uint32_t group) {
    uint32_t own = 0;
#pragma unroll
    for (uint32_t g = 0; g < 4; ++g) {
        uint32_t hits = __ballot_sync(GSC__ALL_LANES, groups >> g & 1);
        if (g == group) own = hits;
    }
    return own;
}

#endif
