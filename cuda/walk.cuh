/* How a warp walks its list, shared by forward and backward blending.
 *
 * A cell is 16x8 pixels, four blocks of 8x4.  A wide warp owns a cell: 8 lanes per block, a column
 * of 4 pixels per lane.  Each block's lanes walk the hits of their block, so that a splat costs
 * only the blocks that it reaches.  A fine warp owns one block, a pixel per lane: half the work
 * per intersection, for tiles whose lists would keep a wide warp busy longer than the rest of the
 * device.
 *
 * The list is staged 32 records at a time, and each lane tests one of them against the blocks.  A
 * staged record is rewritten to an affine form on the cell's pixels: at pixel (x, y), counted from
 * the cell's corner, u = a x + b y + c and v = d y + e.  Both kinds of warp evaluate it by the
 * same operations, so a pixel has the same bits in either. */
#ifndef GSC_WALK_CUH
#define GSC_WALK_CUH

#include "device.cuh"

#define WARPS (GSC__BLEND_BLOCK / 32)
#define BLOCKS 4 /* of a cell */
#define ROWS 4   /* of a block */
#define COLUMNS 8

/* log2 of the smallest alpha: samples with a lower exponent are skipped. */
#define EXPONENT_MIN (-GSC__LOG2_255)

/* A staged record has twelve floats: c e a b | d log2_opacity red green | blue x y z, where x, y
 * and z are for the pass.  More than three channels stand in a row behind the records; red is
 * then for the pass as well.  Before the 32 records and rows stands one that reaches nothing: a
 * block without a hit left finds it in slot -1, and needs no test. */
#define RECORD_BYTES ((uint32_t)sizeof(gsc__gpu_record))
template <int channels> struct gsc__batch {
    float4 none[3], records[32 * 3];
    float4 no_color[channels / 4], colors[32 * (channels / 4)];
};
template <> struct gsc__batch<3> { float4 none[3], records[32 * 3]; };
template <int channels> struct gsc__stage { gsc__batch<channels> batches[2]; };

static __device__ __forceinline__ float gsc__load_shared1(uint32_t from) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from));
    return x;
}
static __device__ __forceinline__ void gsc__store_shared2(uint32_t to, float x, float y) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(x), "f"(y) : "memory");
}

/* Starts copying a record. */
static __device__ __forceinline__ void gsc__stage_record(uint32_t to, const gsc__gpu_record *from) {
#pragma unroll
    for (int k = 0; k < 3; ++k) gsc__copy16(to + 16 * k, (const float4 *)from + k);
}

/* Where the rows of colours begin, counted from a batch's records. */
#define COLORS_AT(channels) (RECORD_BYTES * 32 + 4 * (channels))

/* Writes the warp's records that reach nothing, and clears its rows of colours, whose ends past the
 * last channel stay so; returns where its first batch begins. */
template <int channels>
static __device__ __forceinline__ uint32_t gsc__stage_open(gsc__stage<channels> *stages,
                                                           uint32_t warp) {
    const uint32_t stage = gsc__shared_address(stages + warp);
    if (channels > 3)
        for (uint32_t at = 16 * gsc__lane(); at < sizeof(gsc__stage<channels>); at += 16 * 32)
            gsc__store_shared(stage + at, make_float4(0, 0, 0, 0));
    __syncwarp();
    if (gsc__lane() < 6) {
        const uint32_t part = gsc__lane() % 3, batch = gsc__lane() / 3;
        /* Ones, where a pass divides. */
        gsc__store_shared(
            stage + batch * (uint32_t)sizeof(gsc__batch<channels>) + 16 * part,
            make_float4(part == 1 ? 1 : 0, part == 1 ? -1e30f : 0, 0, part == 2 ? 1 : 0));
    }
    return stage + 3 * 16;
}

/* A record as it is staged, and its colour. */
template <int channels> struct gsc__staged {
    float4 a, b, c;
    float color[channels];
};

template <int channels>
static __device__ __forceinline__ gsc__staged<channels> gsc__load_staged(uint32_t records,
                                                                         int32_t slot) {
    gsc__staged<channels> r;
    const uint32_t from = records + slot * RECORD_BYTES;
    r.a = gsc__load_shared(from);
    r.b = gsc__load_shared(from + 16);
    r.c = gsc__load_shared(from + 32);
    if constexpr (channels == 3) {
        r.color[0] = r.b.z;
        r.color[1] = r.b.w;
        r.color[2] = r.c.x;
    } else {
#pragma unroll
        for (int k = 0; k < channels; k += 4) {
            const float4 four =
                gsc__load_shared(records + COLORS_AT(channels) + 4 * (slot * channels + k));
            r.color[k] = four.x;
            r.color[k + 1] = four.y;
            r.color[k + 2] = four.z;
            r.color[k + 3] = four.w;
        }
    }
    return r;
}

/* Colours of more than three channels, and the first one of the group that is blended. */
typedef struct gsc__colors {
    const float *values; /* [N, channels] */
    int32_t channels, first;
} gsc__colors;

/* The Gaussian whose row of colours is staged with a record. */
template <int channels>
static __device__ __forceinline__ uint32_t gsc__gaussian_at(const gsc__gpu_frame &frame,
                                                            uint32_t record, bool valid) {
    return channels > 3 && valid ? gsc__gaussian_of(frame, record) : 0;
}

/* Starts copying the colours of 32 Gaussians, one of each lane.  Neighbouring lanes copy a row
 * together, whatever its alignment. */
template <int channels>
static __device__ __forceinline__ void
gsc__stage_colors(uint32_t records, const gsc__colors &colors, uint32_t gaussian, bool valid) {
    if (channels <= 3) return;
    constexpr uint32_t at_once = channels < 32 ? 32 / channels : 1; /* rows */
    const uint32_t valid_lanes = __ballot_sync(GSC__ALL_LANES, valid);
    const uint32_t column = gsc__lane() % channels;
    const bool exists = colors.first + (int32_t)column < colors.channels;
#pragma unroll
    for (uint32_t k = 0; k < 32; k += at_once) {
        const uint32_t row = k + gsc__lane() / channels;
        const int64_t from = __shfl_sync(GSC__ALL_LANES, gaussian, (int)row);
        if (exists && valid_lanes >> row & 1)
            gsc__copy4(records + COLORS_AT(channels) + 4 * (row * channels + column),
                       colors.values + from * colors.channels + colors.first + column);
    }
}

/* Where a warp's pixels are. */
typedef struct gsc__place {
    uint32_t tile;
    bool fine;
    int32_t x, y;           /* the cell's corner */
    int32_t lane_x, lane_y; /* the lane's pixel in its block's first row, counted from the corner */
    int32_t row;            /* of a fine warp's lane, counted in its block */
    uint32_t block;         /* of the lane */
} gsc__place;

/* The shuffle tells the compiler that all lanes have the same number. */
static __device__ __forceinline__ uint32_t gsc__warp() {
    return __shfl_sync(GSC__ALL_LANES, threadIdx.x >> 5, 0);
}

/* False for a warp without pixels.  Tiles with long lists come first, with a fine warp for every
 * block. */
static __device__ __forceinline__ bool gsc__place_of(const gsc__gpu_frame &frame,
                                                     const gsc__gpu_grid &grid,
                                                     const gsc__gpu_band &band, gsc__place *place) {
    const uint32_t cells = 1u << (grid.shift_x + grid.shift_y - 7); /* of a tile */
    const uint32_t across = 1u << (grid.shift_x - 4);
    const uint32_t long_cells = frame.tile_order[grid.tiles] * cells;
    const uint32_t number = blockIdx.x * WARPS + gsc__warp();
    place->fine = number < long_cells * BLOCKS;
    const uint32_t cell = place->fine ? number / BLOCKS : number - long_cells * (BLOCKS - 1);
    const uint32_t tile = cell / cells, part = cell & (cells - 1);
    if (tile >= band.end - band.begin) return false;
    place->tile = gsc__tile_of(frame, grid, tile);
    place->x = (int32_t)((place->tile % grid.tiles_x) << grid.shift_x) +
               (int32_t)(part % across) * 2 * COLUMNS;
    place->y = (int32_t)((place->tile / grid.tiles_x) << grid.shift_y) +
               (int32_t)(part / across) * 2 * ROWS;
    place->block = place->fine ? number % BLOCKS : gsc__lane() / COLUMNS;
    place->lane_x = (int32_t)((place->block & 1) * COLUMNS + gsc__lane() % COLUMNS);
    place->lane_y = (int32_t)(place->block >> 1) * ROWS;
    place->row = (int32_t)(gsc__lane() / COLUMNS);
    return __any_sync(GSC__ALL_LANES, place->x + place->lane_x < grid.width &&
                                          place->y + place->lane_y < grid.height);
}

/* Pixel s of a lane that has `rows`: ROWS in wide warps, 1 in fine ones. */
template <int rows>
static __device__ __forceinline__ int32_t gsc__y(const gsc__place &place, int s) {
    return place.y + place.lane_y + (rows == 1 ? place.row : s);
}
template <int rows>
static __device__ __forceinline__ bool gsc__inside(const gsc__gpu_grid &grid,
                                                   const gsc__place &place, int s) {
    return place.x + place.lane_x < grid.width && gsc__y<rows>(place, s) < grid.height;
}
template <int rows>
static __device__ __forceinline__ int64_t gsc__pixel(const gsc__gpu_grid &grid,
                                                     const gsc__place &place, int s) {
    return (int64_t)gsc__y<rows>(place, s) * grid.width + place.x + place.lane_x;
}

/* The lanes of this lane's block, in a wide warp. */
static __device__ __forceinline__ uint32_t gsc__block_lanes() {
    return 0xffu << (gsc__lane() & 24);
}

/* Takes the highest of the hits: its slot, or -1 without one. */
static __device__ __forceinline__ int32_t gsc__take_hit(uint32_t *hits) {
    const int32_t slot = 31 - __clz((int)*hits);
    *hits &= __funnelshift_l(~1u, ~1u, slot);
    return slot;
}

typedef struct gsc__list {
    const uint32_t *intersections; /* [length] records */
    uint32_t length;
} gsc__list;

static __device__ __forceinline__ void gsc__list_of(const gsc__gpu_frame &frame,
                                                    const gsc__gpu_band &band,
                                                    const uint32_t *lists, const gsc__place &place,
                                                    gsc__list *list) {
    uint64_t begin;
    gsc__list_range(frame, band, place.tile, &begin, &list->length);
    list->intersections = lists + begin;
    asm("" : "+l"(list->intersections)); /* so that it is not computed again for every batch */
}

/* A staged record's u and v at the lane's pixels. */
template <int rows>
static __device__ __forceinline__ void gsc__affine(const float4 &a, const float4 &b,
                                                   const gsc__place &place, float *u, float *v) {
    const float x = (float)place.lane_x, y = (float)place.lane_y;
    const float u0 = fmaf(a.z, x, fmaf(a.w, y, a.x)), v0 = fmaf(b.x, y, a.y);
#pragma unroll
    for (int s = 0; s < rows; ++s) {
        const float row = rows == 1 ? (float)place.row : (float)s;
        u[s] = rows > 1 && s == 0 ? u0 : fmaf(a.w, row, u0);
        v[s] = rows > 1 && s == 0 ? v0 : fmaf(b.x, row, v0);
    }
}

/* What cutting a record's ellipse into rows needs, counted from the cell's corner: gsc__ellipse's
 * terms and margins, see ../src/math/ellipse_math.h. */
typedef struct gsc__oval {
    float min_x, max_x, k, t, root, extreme, inverse_r00, r11, low, high;
} gsc__oval;

static __device__ __forceinline__ gsc__oval gsc__oval_of(float mean_x, float mean_y, float r00,
                                                         float r01, float r11, float log2_opacity) {
    gsc__oval o;
    o.t = fmaf(log2_opacity + GSC__LOG2_255, 1.00001f, 1e-5f);
    o.root = gsc__sqrt_fast(o.t);
    o.k = r01 * gsc__rcp_fast(r11);
    const float square = fmaf(o.k, o.k, 1.0f), inverse_lean = gsc__rsqrt_fast(square);
    o.extreme = o.k * o.root * inverse_lean;
    o.inverse_r00 = gsc__rcp_fast(r00);
    const float pad = fmaf(2e-6f * o.root, square * inverse_lean * o.inverse_r00, 0.01f);
    o.min_x = mean_x - pad;
    o.max_x = mean_x + pad;
    o.r11 = r11;
    o.low = -r11 * (mean_y + pad);
    o.high = -r11 * (mean_y - pad);
    return o;
}

/* Rewrites a staged record that begins with a and b to its affine form. */
static __device__ __forceinline__ gsc__oval gsc__make_affine(uint32_t record, const float4 &a,
                                                             const float4 &b,
                                                             const gsc__place &place) {
    const float mean_x = a.x - (float)place.x, mean_y = a.y - (float)place.y;
    gsc__store_shared2(record, -fmaf(a.z, mean_x, a.w * mean_y), -b.x * mean_y);
    return gsc__oval_of(mean_x, mean_y, a.z, a.w, b.x, b.y);
}

/* Stores what stands in place of red, or x, y and z of a staged record. */
static __device__ __forceinline__ void gsc__store_red(uint32_t record, float x) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(record + 24), "f"(x) : "memory");
}
static __device__ __forceinline__ void gsc__store_third(uint32_t record, float x, float y,
                                                        float z) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(record + 36), "f"(x) : "memory");
    gsc__store_shared2(record + 40, y, z);
}

/* Whether the ellipse reaches the ROWS rows from `top` on, and which columns there.  Comparisons
 * are written so that NaN reaches everything. */
static __device__ __forceinline__ bool gsc__oval_rows(const gsc__oval &o, float top, float *left,
                                                      float *right) {
    const float v0 = fmaf(o.r11, top, o.low), v1 = fmaf(o.r11, top + (ROWS - 1), o.high);
    const float left_v = fminf(fmaxf(o.extreme, v0), v1);
    const float right_v = fminf(fmaxf(-o.extreme, v0), v1);
    const float left_u = gsc__sqrt_fast(fmaxf(fmaf(-left_v, left_v, o.t), 0));
    const float right_u = gsc__sqrt_fast(fmaxf(fmaf(-right_v, right_v, o.t), 0));
    *left = fmaf(-fmaf(o.k, left_v, left_u), o.inverse_r00, o.min_x);
    *right = fmaf(fmaf(-o.k, right_v, right_u), o.inverse_r00, o.max_x);
    return !(v0 > o.root) & !(v1 < -o.root);
}

static __device__ __forceinline__ bool gsc__reaches(float left, float right, float column) {
    return !(left > column + (COLUMNS - 1)) & !(right < column);
}

/* The hits of the lane's block among the 32 staged records, a bit each; each lane tests one record.
 * valid: the record exists and is drawn. */
template <bool fine>
static __device__ __forceinline__ uint32_t gsc__own_hits(const gsc__oval &o,
                                                         const gsc__place &place, bool valid) {
    float left, right;
    if (fine) {
        const bool rows = gsc__oval_rows(o, (float)place.lane_y, &left, &right);
        const float column = place.block & 1 ? (float)COLUMNS : 0;
        return __ballot_sync(GSC__ALL_LANES, valid & rows & gsc__reaches(left, right, column));
    }
    uint32_t own = 0;
#pragma unroll
    for (uint32_t half = 0; half < 2; ++half) {
        const bool rows = gsc__oval_rows(o, (float)(half * ROWS), &left, &right) & valid;
#pragma unroll
        for (uint32_t side = 0; side < 2; ++side) {
            const bool hit = rows & gsc__reaches(left, right, (float)(side * COLUMNS));
            const uint32_t hits = __ballot_sync(GSC__ALL_LANES, hit);
            if (place.block == 2 * half + side) own = hits;
        }
    }
    return own;
}

#endif
