/* One tile as blending works on it, forward and backward: its pixels, [16 rows][16 columns], and
 * its intersections.
 *
 * The walk gathers a chunk of the list into contiguous memory, so that it reads it in order.
 * The tile is cut into blocks of GSC__BLOCK_ROWS rows by GSC__LANES columns, whose pixels stay
 * in registers while a chunk is walked. */
#ifndef GSC_CPU_TILE_H
#define GSC_CPU_TILE_H

#include "raster_state.h"
#include "simd.h"

#include <string.h>

/* ------------------------------------------------------------------- pixels */

/* The part of a tile that lies inside the image. */
typedef struct gsc__tile_area {
    int32_t x, y;          /* first pixel */
    int32_t width, height; /* at most GSC__TILE */
} gsc__tile_area;

static inline gsc__tile_area gsc__tile_area_of(const gsc__frame *frame, int64_t tile) {
    const gsc__raster *raster = frame->raster;
    gsc__tile_area area;
    area.x = (int32_t)(tile % frame->layout->tiles_x) * GSC__TILE;
    area.y = (int32_t)(tile / frame->layout->tiles_x) * GSC__TILE;
    area.width = raster->width - area.x < GSC__TILE ? raster->width - area.x : GSC__TILE;
    area.height = raster->height - area.y < GSC__TILE ? raster->height - area.y : GSC__TILE;
    return area;
}

/* Copies a tile into an image plane, whose pixels lie step reals apart. */
static inline void gsc__tile_to_plane(const gsc_real *tile, const gsc__tile_area *area,
                                      int64_t image_width, int64_t step, gsc_real *plane) {
    for (int32_t y = 0; y < area->height; ++y, tile += GSC__TILE) {
        gsc_real *row = plane + ((area->y + y) * image_width + area->x) * step;
        for (int32_t x = 0; x < area->width; ++x) row[x * step] = tile[x];
    }
}

/* The reverse; pixels outside the image get outside. */
static inline void gsc__plane_to_tile(const gsc_real *plane, const gsc__tile_area *area,
                                      int64_t image_width, int64_t step, gsc_real outside,
                                      gsc_real *tile) {
    for (int32_t y = 0; y < GSC__TILE; ++y, tile += GSC__TILE) {
        const int64_t first = ((area->y + y) * image_width + area->x) * step;
        for (int32_t x = 0; x < GSC__TILE; ++x)
            tile[x] = y < area->height && x < area->width ? plane[first + x * step] : outside;
    }
}

/* Colour is [channels, H, W] or [H, W, channels]: the distance between a channel's pixels, and
 * between the first pixels of channels. */
static inline int64_t gsc__pixel_step(const gsc__raster *raster) {
    return raster->flags & GSC_RASTER_PIXEL_LAST ? raster->channels : 1;
}
static inline int64_t gsc__channel_step(const gsc__raster *raster) {
    return raster->flags & GSC_RASTER_PIXEL_LAST ? 1 : (int64_t)raster->width * raster->height;
}

/* -------------------------------------------------------------------- splats */

#if GSC__LANES == 16
#define GSC__BLOCK_ROWS 4
#else
#define GSC__BLOCK_ROWS 2
#endif
#define GSC__BLOCKS_X (GSC__TILE / GSC__LANES)
#define GSC__BLOCKS_Y (GSC__TILE / GSC__BLOCK_ROWS)
#define GSC__CHUNK_SPLATS 512

/* A splat relative to a tile: its mean from the tile's first pixel, and bits for the rows and
 * columns of the ellipse's box. */
typedef struct gsc__tile_splat {
    gsc_real x, y, r00, r01, r11, log2_alpha, opacity;
    uint16_t rows, columns;
} gsc__tile_splat;

/* Along one axis of a tile: bits of the pixels within extent of mean. */
static inline uint16_t gsc__cover(gsc_real mean, gsc_real extent) {
    gsc_real pad = GSC_REAL(0.01) + GSC_REAL(2e-6) * extent;
    int first = (int)gsc__ceil(gsc__clamp(mean - extent - pad, 0, GSC__TILE));
    int last = (int)gsc__floor(gsc__clamp(mean + extent + pad, -1, GSC__TILE - 1));
    return (uint16_t)(((1u << (last + 1)) - 1u) & ~((1u << first) - 1u));
}

static inline void gsc__tile_splat_load(const gsc__record *record, gsc_real tile_x, gsc_real tile_y,
                                        gsc__tile_splat *splat) {
    splat->x = record->mean[0] - tile_x;
    splat->y = record->mean[1] - tile_y;
    splat->r00 = record->r00;
    splat->r01 = record->r01;
    splat->r11 = record->r11;
    splat->log2_alpha = record->log2_alpha;
    splat->opacity = record->opacity;
    /* In whitened coordinates the box's half-sizes are root / r11 and, because of the shear,
     * root sqrt(r11^2 + r01^2) / (r00 r11), with root^2 = log2_alpha. */
    gsc_real inverse = 1 / record->r11;
    gsc_real y_extent = gsc__sqrt(record->log2_alpha) * inverse;
    gsc_real k = record->r01 * inverse;
    gsc_real x_extent = gsc__sqrt(record->log2_alpha * (1 + k * k)) / record->r00;
    splat->rows = gsc__cover(splat->y, y_extent);
    splat->columns = gsc__cover(splat->x, x_extent);
}

/* The rows of a block that an splat covers, as bits; 0 if it covers none of its pixels. */
GSC__INLINE unsigned gsc__tile_splat_rows(const gsc__tile_splat *splat, int block_x, int block_y) {
    const unsigned rows =
        (unsigned)splat->rows >> (block_y * GSC__BLOCK_ROWS) & ((1u << GSC__BLOCK_ROWS) - 1);
    if (!rows) return 0;
    if (GSC__BLOCKS_X > 1 &&
        !((unsigned)splat->columns >> (block_x * GSC__LANES) & ((1u << GSC__LANES) - 1)))
        return 0;
    return rows;
}

/* A splat at a row of pixels. */
typedef struct gsc__sample {
    gsc__vec u, alpha; /* u, v: the offset from the mean, whitened */
    gsc_real v;
    gsc__mask hit; /* the lanes where alpha reaches 1/255 */
} gsc__sample;

/* dx: x - splat x of the lanes; y: row minus splat y.  Lanes outside alive never hit.  False if
 * no lane hits; alpha is then not computed, since the exponent alone decides. */
GSC__INLINE bool gsc__sample_row(const gsc__tile_splat *splat, gsc__vec dx, gsc_real y,
                                 gsc__mask alive, gsc__sample *sample) {
    sample->v = splat->r11 * y;
    sample->u = gsc__vfma(gsc__vset(splat->r00), dx, gsc__vset(splat->r01 * y));
    gsc__vec q = gsc__vfma(sample->u, sample->u, gsc__vset(sample->v * sample->v));
    sample->hit = gsc__mand(gsc__vge(gsc__vset(splat->log2_alpha), q), alive);
    if (!gsc__many(sample->hit)) return false;
    /* 0 in the other lanes: far from the mean exp2 may be a signalling NaN. */
    const gsc__vec exponent = gsc__vkeep(sample->hit, -q);
    sample->alpha = gsc__vexp2(exponent) * gsc__vset(splat->opacity);
    return true;
}

/* What is blended: the channels, then depth and inverse depth if they are wanted. */
typedef struct gsc__features {
    const gsc__frame *frame;
    bool depth, inv_depth;
    int32_t count;
} gsc__features;

static inline gsc__features gsc__features_of(const gsc__frame *frame, bool depth, bool inv_depth) {
    return (gsc__features){frame, depth, inv_depth, frame->raster->channels + depth + inv_depth};
}

static inline void gsc__feature_load(const gsc__features *features, uint32_t gaussian,
                                     gsc_real *feature) {
    const gsc__frame *frame = features->frame;
    const gsc__raster *raster = frame->raster;
    const gsc__record *record = &frame->records[gaussian];
    int32_t at = raster->channels;
    if (at == 3)
        memcpy(feature, record->rgb, sizeof record->rgb);
    else
        memcpy(feature,
               raster->colors + frame->camera * raster->colors_stride + (int64_t)gaussian * at,
               (size_t)at * sizeof *feature);
    if (features->depth) feature[at++] = record->depth;
    if (features->inv_depth) feature[at] = 1 / record->depth;
}

/* Gathers a chunk of a tile's list.  values: [count, features->count].  False if the list names
 * something other than a visible Gaussian. */
static inline bool gsc__gather(const gsc__features *features, const gsc__tile_area *area,
                               const uint32_t *list, int32_t count, gsc__tile_splat *splats,
                               gsc_real *values) {
    const gsc__frame *frame = features->frame;
    for (int32_t n = 0; n < count; ++n) {
        if (n + 12 < count) __builtin_prefetch(frame->records + list[n + 12]);
        if (!gsc__record_valid(frame, list[n])) return false;
        gsc__tile_splat_load(&frame->records[list[n]], (gsc_real)area->x, (gsc_real)area->y,
                             &splats[n]);
        gsc__feature_load(features, list[n], values + n * features->count);
    }
    return true;
}

#endif
