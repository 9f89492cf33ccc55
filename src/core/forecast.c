#include "context.h"

/* Views of one scene differ, so a forecast follows larger frames at once, with a reserve, and
 * smaller ones slowly: a frame that does not fit must be repeated, while a smaller one only uses
 * the memory that a larger one used before.  Another number of Gaussians means another state of
 * the scene: the forecast scales with it, then starts anew. */
#define RESERVE 16 /* one part in this many is added to a frame larger than the forecast */
#define DECAY 32   /* one part in this many of the difference to a smaller frame is dropped */
#define ALIKE 2    /* a change of the Gaussians by more than this factor predicts nothing */

void gsc__forecasts_open(gsc__forecasts *forecasts) {
    memset(forecasts, 0, sizeof *forecasts);
    gsc__mutex_init(&forecasts->mutex);
}

void gsc__forecasts_close(gsc__forecasts *forecasts) {
    gsc__mutex_destroy(&forecasts->mutex);
}

static gsc__forecast *find(gsc__forecasts *forecasts, const gsc__raster *raster) {
    for (int i = 0; i < GSC__FORECASTS; ++i) {
        gsc__forecast *entry = &forecasts->entries[i];
        if (entry->gaussians > 0 && entry->width == raster->width &&
            entry->height == raster->height)
            return entry;
    }
    return NULL;
}

/* Rounded up, in double: exact enough for memory. */
static int64_t in_proportion(int64_t value, int64_t gaussians, int64_t before) {
    if (gaussians == before) return value;
    return (int64_t)((double)value * (double)gaussians / (double)before) + 1;
}

void gsc__forecast_read(gsc__forecasts *forecasts, const gsc__raster *raster,
                        gsc_raster_info *info) {
    const int64_t n = raster->gaussians;
    info->visible = info->intersections = 0;
    gsc__mutex_lock(&forecasts->mutex);
    const gsc__forecast *entry = find(forecasts, raster);
    if (entry && n / ALIKE <= entry->gaussians && entry->gaussians / ALIKE <= n) {
        info->visible = in_proportion(entry->visible, n, entry->gaussians);
        info->intersections = in_proportion(entry->intersections, n, entry->gaussians);
        if (info->visible > n) info->visible = n;
    }
    gsc__mutex_unlock(&forecasts->mutex);
}

static int64_t follow(int64_t expected, int64_t found, bool same_scene) {
    if (!same_scene) return found;
    if (found > expected) return found + found / RESERVE;
    return expected - (expected - found) / DECAY;
}

void gsc__forecast_note(gsc__forecasts *forecasts, const gsc__raster *raster, int64_t visible,
                        int64_t intersections) {
    if (raster->gaussians == 0) return;
    gsc__mutex_lock(&forecasts->mutex);
    gsc__forecast *entry = find(forecasts, raster);
    if (!entry) {
        entry = &forecasts->entries[forecasts->next++ % GSC__FORECASTS];
        *entry = (gsc__forecast){.width = raster->width, .height = raster->height};
    }
    const bool same_scene = entry->gaussians == raster->gaussians;
    entry->visible = follow(entry->visible, visible, same_scene);
    entry->intersections = follow(entry->intersections, intersections, same_scene);
    entry->gaussians = raster->gaussians;
    gsc__mutex_unlock(&forecasts->mutex);
}
