/* Byte layout of the CPU rasterizer's buffers, and its view of one camera's part.
 *
 * state holds, per camera: a header, a record per Gaussian (written where visible),
 * the visible Gaussians in depth order, the offsets of the tile lists, and for each
 * pixel the final transmittance and the number of list entries it walked.
 * intersections holds the tile lists: Gaussian indices, tile after tile. */
#ifndef GSC_CPU_RASTER_STATE_H
#define GSC_CPU_RASTER_STATE_H

#include "cpu.h"
#include "math/splat_math.h"

#define GSC__TILE 16
#define GSC__TILE_PIXELS (GSC__TILE * GSC__TILE)

#define gsc__state_plan GSC__ISA_NAME(gsc__state_plan)
#define gsc__frame_open GSC__ISA_NAME(gsc__frame_open)
#define gsc__frame_begin GSC__ISA_NAME(gsc__frame_begin)
#define gsc__frame_check GSC__ISA_NAME(gsc__frame_check)
#define gsc__camera_load_view GSC__ISA_NAME(gsc__camera_load_view)
#define gsc__camera_load GSC__ISA_NAME(gsc__camera_load)

/* A visible Gaussian, one cache line in float32. */
typedef struct gsc__record {
    gsc_real mean[2];
    gsc_real r00, r01, r11; /* whitening factor, see gsc__whiten */
    gsc_real log2_alpha;    /* log2(255 opacity): the exponent that makes alpha 1/255 */
    gsc_real opacity;       /* after antialiasing */
    gsc_real depth;
    gsc_real rgb[3];         /* if channels is 3 */
    uint16_t x0, x1, y0, y1; /* tiles it may reach: [x0, x1) x [y0, y1) */
    uint32_t tiles;          /* tiles it reaches */
    uint32_t gates;          /* bit c: SH channel c is above its clamp at zero */
    uint32_t gaussian;       /* its own index, which a damaged state betrays */
} gsc__record;

typedef struct gsc__state_header {
    uint64_t magic;
    uint64_t layout;
    int64_t visible;
    int64_t intersections;
    int64_t largest_tile;
    uint64_t rendered; /* 1 when final_t and walked are written */
    uint64_t reserved[2];
} gsc__state_header;

typedef struct gsc__state_layout {
    int32_t tiles_x, tiles_y;
    int64_t tiles, pixels;
    size_t records, order, offsets, final_t, walked; /* byte offsets in a camera's part */
    size_t camera_bytes, bytes;
    uint64_t hash;
} gsc__state_layout;

typedef struct gsc__frame {
    const gsc__state_layout *layout;
    gsc__state_header *header;
    gsc__record *records; /* [N] */
    uint32_t *order;      /* [visible] Gaussian indices, nearest first */
    uint64_t *offsets;    /* [tiles + 1] */
    gsc_real *final_t;    /* [H, W] */
    uint32_t *walked;     /* [H, W] list entries up to the last blended one */
} gsc__frame;

void gsc__state_plan(const gsc__raster *raster, gsc__state_layout *layout);
void gsc__frame_open(const gsc__state_layout *layout, void *state, int32_t camera,
                     gsc__frame *frame);
/* Starts an empty frame; project completes the header. */
void gsc__frame_begin(gsc__frame *frame);
/* GSC_ERROR_STATE unless project (and, if rendered, render) wrote this frame for this
 * layout.  Checks header, offsets and walked; whoever follows an index from order
 * checks the record that it finds with gsc__record_valid. */
gsc_status gsc__frame_check(const gsc__frame *frame, const gsc__raster *raster, bool rendered,
                            const char *function);

static inline bool gsc__record_valid(const gsc__frame *frame, int64_t gaussians,
                                     uint32_t gaussian) {
    if (gaussian >= gaussians) return false;
    const gsc__record *record = &frame->records[gaussian];
    return record->gaussian == gaussian && record->x0 < record->x1 && record->y0 < record->y1 &&
           record->x1 <= frame->layout->tiles_x && record->y1 <= frame->layout->tiles_y;
}

/* Only what points need: the view and the planes. */
void gsc__camera_load_view(const gsc__raster *raster, int32_t index, gsc__camera *camera);
void gsc__camera_load(const gsc__raster *raster, int32_t index, gsc__camera *camera);

#endif
