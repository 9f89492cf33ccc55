/* What forward and backward blending share: the walk of one tile's list.
 *
 * A tile is cut into blocks of GSC__BLOCK_ROWS rows by GSC__LANES columns, whose
 * pixels stay in registers while the list is walked.  List entries are gathered in
 * chunks into contiguous memory, so that the walk reads them in order. */
#ifndef GSC_CPU_TILE_H
#define GSC_CPU_TILE_H

#include "bins.h"
#include "simd.h"

#if GSC__LANES == 16
#define GSC__BLOCK_ROWS 4
#else
#define GSC__BLOCK_ROWS 2
#endif
#define GSC__BLOCKS_X (GSC__TILE / GSC__LANES)
#define GSC__BLOCKS_Y (GSC__TILE / GSC__BLOCK_ROWS)
#define GSC__CHUNK_ENTRIES 512

/* A list entry relative to a tile: its mean from the tile's first pixel, and bits for
 * the rows and columns that its ellipse's box covers. */
typedef struct gsc__entry {
    gsc_real x, y, r00, r01, r11, log2_alpha, opacity;
    uint16_t rows, columns;
} gsc__entry;

/* Bits of the pixels within extent of mean, of one axis of a tile. */
static inline uint16_t gsc__cover(gsc_real mean, gsc_real extent) {
    gsc_real pad = GSC_REAL(0.01) + GSC_REAL(2e-6) * extent;
    int first = (int)gsc__ceil(gsc__clamp(mean - extent - pad, 0, GSC__TILE));
    int last = (int)gsc__floor(gsc__clamp(mean + extent + pad, -1, GSC__TILE - 1));
    return (uint16_t)(((1u << (last + 1)) - 1u) & ~((1u << first) - 1u));
}

static inline void gsc__entry_load(const gsc__record *record, gsc_real tile_x, gsc_real tile_y,
                                   gsc__entry *entry) {
    entry->x = record->mean[0] - tile_x;
    entry->y = record->mean[1] - tile_y;
    entry->r00 = record->r00;
    entry->r01 = record->r01;
    entry->r11 = record->r11;
    entry->log2_alpha = record->log2_alpha;
    entry->opacity = record->opacity;
    /* In whitened coordinates the box's half-sizes are root / r11 and, by the shear,
     * root sqrt(r11^2 + r01^2) / (r00 r11). */
    gsc_real inverse = 1 / record->r11;
    gsc_real y_extent = gsc__sqrt(record->log2_alpha) * inverse;
    gsc_real k = record->r01 * inverse;
    gsc_real x_extent = gsc__sqrt(record->log2_alpha * (1 + k * k)) / record->r00;
    entry->rows = gsc__cover(entry->y, y_extent);
    entry->columns = gsc__cover(entry->x, x_extent);
}

/* Pixels of a tile that lie inside the image. */
typedef struct gsc__tile_area {
    int32_t x, y;          /* first pixel */
    int32_t width, height; /* inside the image, at most GSC__TILE */
} gsc__tile_area;

static inline gsc__tile_area gsc__tile_area_of(const gsc__raster *raster, int32_t tiles_x,
                                               int64_t tile) {
    gsc__tile_area area;
    area.x = (int32_t)(tile % tiles_x) * GSC__TILE;
    area.y = (int32_t)(tile / tiles_x) * GSC__TILE;
    area.width = raster->width - area.x < GSC__TILE ? raster->width - area.x : GSC__TILE;
    area.height = raster->height - area.y < GSC__TILE ? raster->height - area.y : GSC__TILE;
    return area;
}

/* Exponent and alpha of an entry at a row of pixels, and which lanes it covers. */
typedef struct gsc__sample {
    gsc__vec u, alpha;
    gsc_real v;
    gsc__mask hit;
} gsc__sample;

/* dx: x - entry x of the lanes; y: row minus entry y.  Lanes that are not in alive never
 * hit.  Without a hit alpha is not computed: the threshold is decided on the exponent.
 * Returns whether any lane hits. */
GSC__INLINE bool gsc__sample_row(const gsc__entry *entry, gsc__vec dx, gsc_real y, gsc__mask alive,
                                 gsc__sample *sample) {
    sample->v = entry->r11 * y;
    sample->u = gsc__vfma(gsc__vset(entry->r00), dx, gsc__vset(entry->r01 * y));
    gsc__vec q = gsc__vfma(sample->u, sample->u, gsc__vset(sample->v * sample->v));
    sample->hit = gsc__mand(gsc__vge(gsc__vset(entry->log2_alpha), q), alive);
    if (!gsc__many(sample->hit)) return false;
    sample->alpha = gsc__vexp2(-q) * gsc__vset(entry->opacity);
    return true;
}

/* One thread's memory is cut into 64-byte aligned pieces; with base NULL only `at`, the
 * bytes so far, counts. */
static inline void *gsc__tile_take(unsigned char *base, size_t *at, size_t bytes) {
    void *here = base ? base + *at : NULL;
    *at += (bytes + 63) / 64 * 64;
    return here;
}

/* What is blended per pixel: the channels, then depth and inverse depth if wanted. */
typedef struct gsc__features {
    const gsc__raster *raster;
    const gsc__frame *frame;
    int32_t index; /* of the camera */
    bool depth, inv_depth;
} gsc__features;

static inline int32_t gsc__feature_count(const gsc__features *features) {
    return features->raster->channels + features->depth + features->inv_depth;
}

static inline void gsc__feature_load(const gsc__features *features, uint32_t gaussian,
                                     gsc_real *feature) {
    const gsc__raster *raster = features->raster;
    const gsc__record *record = &features->frame->records[gaussian];
    int32_t at = raster->channels;
    if (at == 3)
        memcpy(feature, record->rgb, sizeof record->rgb);
    else
        memcpy(feature,
               raster->colors + features->index * raster->colors_stride + (int64_t)gaussian * at,
               (size_t)at * sizeof *feature);
    if (features->depth) feature[at++] = record->depth;
    if (features->inv_depth) feature[at] = 1 / record->depth;
}

#endif
