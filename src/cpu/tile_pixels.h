/* The pixels of one tile, [16 rows][16 columns], and the way from and to the image. */
#ifndef GSC_CPU_TILE_PIXELS_H
#define GSC_CPU_TILE_PIXELS_H

#include "raster_state.h"

#include <string.h>

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

/* Copies a tile into an image plane. */
static inline void gsc__tile_to_plane(const gsc_real *tile, const gsc__tile_area *area,
                                      int32_t image_width, gsc_real *plane) {
    for (int32_t y = 0; y < area->height; ++y)
        memcpy(plane + (int64_t)(area->y + y) * image_width + area->x, tile + y * GSC__TILE,
               (size_t)area->width * sizeof *plane);
}

/* The reverse; pixels outside the image get outside. */
static inline void gsc__plane_to_tile(const gsc_real *plane, const gsc__tile_area *area,
                                      int32_t image_width, gsc_real outside, gsc_real *tile) {
    for (int32_t y = 0; y < GSC__TILE; ++y)
        for (int32_t x = 0; x < GSC__TILE; ++x)
            tile[y * GSC__TILE + x] =
                y < area->height && x < area->width
                    ? plane[(int64_t)(area->y + y) * image_width + area->x + x]
                    : outside;
}

/* Colour channels [channels][16][16] to [channels, H, W] or [H, W, channels]. */
static inline void gsc__tile_to_color(const gsc_real *tile, const gsc__tile_area *area,
                                      const gsc__raster *raster, gsc_real *color) {
    const int64_t width = raster->width, pixels = width * raster->height;
    const int32_t channels = raster->channels;
    for (int32_t c = 0; c < channels; ++c, tile += GSC__TILE_PIXELS) {
        if (!(raster->flags & GSC_RASTER_PIXEL_LAST)) {
            gsc__tile_to_plane(tile, area, raster->width, color + c * pixels);
            continue;
        }
        for (int32_t y = 0; y < area->height; ++y) {
            gsc_real *row = color + ((area->y + y) * width + area->x) * channels + c;
            for (int32_t x = 0; x < area->width; ++x)
                row[(int64_t)x * channels] = tile[y * GSC__TILE + x];
        }
    }
}

/* The reverse; zero outside the image. */
static inline void gsc__color_to_tile(const gsc_real *color, const gsc__tile_area *area,
                                      const gsc__raster *raster, gsc_real *tile) {
    const int64_t width = raster->width, pixels = width * raster->height;
    const int32_t channels = raster->channels;
    for (int32_t c = 0; c < channels; ++c, tile += GSC__TILE_PIXELS) {
        if (!(raster->flags & GSC_RASTER_PIXEL_LAST)) {
            gsc__plane_to_tile(color + c * pixels, area, raster->width, 0, tile);
            continue;
        }
        memset(tile, 0, GSC__TILE_PIXELS * sizeof *tile);
        for (int32_t y = 0; y < area->height; ++y) {
            const gsc_real *row = color + ((area->y + y) * width + area->x) * channels + c;
            for (int32_t x = 0; x < area->width; ++x)
                tile[y * GSC__TILE + x] = row[(int64_t)x * channels];
        }
    }
}

#endif
