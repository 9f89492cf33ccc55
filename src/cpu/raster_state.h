/* The state of the rasterizer, and one camera's part of it.
 *
 * Per camera state holds: a header, a record for each Gaussian (written where it is visible),
 * the visible Gaussians in depth order, the offsets of the tile lists, and for each pixel the
 * final transmittance and how far into its tile's list blending went.  The lists themselves,
 * Gaussian indices tile after tile, are in the intersections buffer. */
#ifndef GSC_CPU_RASTER_STATE_H
#define GSC_CPU_RASTER_STATE_H

#include "cpu.h"
#include "math/splat_math.h"

#define GSC__TILE 16 /* pixels along each side */
#define GSC__TILE_PIXELS (GSC__TILE * GSC__TILE)

/* A visible Gaussian; one cache line in float32. */
typedef struct gsc__record {
    gsc_real mean[2];
    gsc_real r00, r01, r11; /* whitening factor, see gsc__whiten */
    gsc_real log2_alpha;    /* log2(255 opacity): the exponent that makes alpha 1/255 */
    gsc_real opacity;       /* after antialiasing */
    gsc_real depth;
    gsc_real rgb[3];         /* with 3 channels only */
    uint16_t x0, x1, y0, y1; /* tiles it may reach: [x0, x1) x [y0, y1) */
    uint32_t tiles;          /* number of tiles it reaches */
    uint32_t unclamped;      /* bit c: SH channel c is above its clamp at zero */
    uint32_t gaussian;       /* its own index: a damaged state has another one here */
} gsc__record;

typedef struct gsc__state_header {
    uint64_t magic;
    uint64_t layout;
    int64_t visible;
    int64_t intersections;
    int64_t largest_tile; /* length of the longest list */
    uint64_t blended;     /* 1 when final_t and walked are written */
    uint64_t reserved[2];
} gsc__state_header;

typedef struct gsc__state_layout {
    int32_t tiles_x, tiles_y;
    int64_t tiles, pixels;
    size_t camera_bytes, bytes; /* of a camera's part, and of all */
    uint64_t hash;
} gsc__state_layout;

/* One camera of a call, and its part of the state. */
typedef struct gsc__frame {
    const gsc__raster *raster;
    const gsc__state_layout *layout;
    int32_t camera;
    gsc__state_header *header;
    gsc__record *records; /* [N] */
    uint32_t *order;      /* [visible] Gaussian indices, nearest first */
    uint64_t *offsets;    /* [tiles + 1] */
    gsc_real *final_t;    /* [H, W] */
    uint32_t *walked;     /* [H, W] list entries up to the last one blended */
} gsc__frame;

void gsc__state_plan(const gsc__raster *raster, gsc__state_layout *layout);
gsc__frame gsc__frame_open(const gsc__raster *raster, const gsc__state_layout *layout, void *state,
                           int32_t camera);
/* Starts an empty frame; project completes the header. */
void gsc__frame_begin(gsc__frame *frame);
/* GSC_ERROR_STATE unless project (and, if blended, blend) wrote this frame for this layout.
 * Checks header, offsets and walked.  Records are checked where they are used, by
 * gsc__record_valid. */
gsc_status gsc__frame_check(const gsc__frame *frame, bool blended, const char *function);
gsc_status gsc__frame_damaged(const char *function);

/* One camera's numbers for projection. */
void gsc__camera_load(const gsc__raster *raster, int32_t index, gsc__camera *camera);
/* Only what points need: the view and the planes. */
void gsc__camera_load_view(const gsc__raster *raster, int32_t index, gsc__camera *camera);

/* Is there a record of this Gaussian, with tiles inside the image? */
static inline bool gsc__record_valid(const gsc__frame *frame, uint32_t gaussian) {
    if (gaussian >= frame->raster->gaussians) return false;
    const gsc__record *record = &frame->records[gaussian];
    return record->gaussian == gaussian && record->x0 < record->x1 && record->y0 < record->y1 &&
           record->x1 <= frame->layout->tiles_x && record->y1 <= frame->layout->tiles_y;
}

#endif
