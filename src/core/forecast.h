/* Predicts the size of a frame from earlier frames, so that its buffers can be allocated before it
 * is counted. */
#ifndef GSC_FORECAST_H
#define GSC_FORECAST_H

#include "backend.h"
#include "os/system.h"

/* Frames of one image size, with any number of cameras; gaussians 0: none yet. */
typedef struct gsc__forecast {
    int32_t width, height;
    int64_t gaussians, visible, intersections;
} gsc__forecast;

enum { GSC__FORECASTS = 8 };
typedef struct gsc__forecasts {
    gsc__mutex mutex;
    uint32_t next; /* to be overwritten */
    gsc__forecast entries[GSC__FORECASTS];
} gsc__forecasts;

void gsc__forecasts_open(gsc__forecasts *forecasts);
void gsc__forecasts_close(gsc__forecasts *forecasts);
/* Sets info's visible and intersections, for each of several cameras; 0 if nothing is known. */
void gsc__forecast_read(gsc__forecasts *forecasts, const gsc__raster *raster,
                        gsc_raster_info *info);
/* Records what project found, in the frame with the most of each. */
void gsc__forecast_note(gsc__forecasts *forecasts, const gsc__raster *raster, int64_t visible,
                        int64_t intersections);

#endif
