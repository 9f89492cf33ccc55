/* Step 2 of the rasterizer: blends the lists of a band into the image. */
#ifndef GSC_CPU_BLEND_FORWARD_H
#define GSC_CPU_BLEND_FORWARD_H

#include "tile.h"
#include "tile_lists.h"

/* Sums of one intersection over its tile's pixels. */
typedef struct gsc__blend_statistics {
    gsc_real weight_sum, weight_blend, weight_distance;
    int32_t weight_count, touched;
} gsc__blend_statistics;

/* One thread's memory for one tile. */
typedef struct blend_workspace {
    gsc__tile_splat *splats;            /* [GSC__CHUNK_SPLATS] */
    gsc_real *features;                 /* [GSC__CHUNK_SPLATS, feature count] */
    gsc_real *sums;                     /* [feature count, 256] */
    gsc_real *transmittance;            /* [256] */
    gsc_real *median;                   /* [256] */
    gsc_real_int *walked;               /* [256] */
    gsc_real *weights;                  /* [256] pixel_weights of the tile */
    gsc__blend_statistics **statistics; /* [GSC__CHUNK_SPLATS] */
} blend_workspace;

typedef struct blend_task {
    const gsc__raster_outputs *outputs;
    const gsc__frame *frame;
    const gsc__band *band;
    gsc__blend_statistics *statistics;
    unsigned char *scratch;
    size_t scratch_bytes; /* a thread's */
    gsc__features features;
    bool inspect; /* median depth or statistics: the thorough loop */
    atomic_bool damaged;
} blend_task;

static size_t carve_blend_workspace(int32_t features, void *base, blend_workspace *w) {
    const size_t pixels = GSC__TILE_PIXELS, splats = GSC__CHUNK_SPLATS;
    gsc__carver carver = {.base = base};
    w->splats = gsc__carve(&carver, splats, sizeof *w->splats);
    w->features = gsc__carve(&carver, splats * (size_t)features, sizeof *w->features);
    w->sums = gsc__carve(&carver, pixels * (size_t)features, sizeof *w->sums);
    w->transmittance = gsc__carve(&carver, pixels, sizeof *w->transmittance);
    w->median = gsc__carve(&carver, pixels, sizeof *w->median);
    w->walked = gsc__carve(&carver, pixels, sizeof *w->walked);
    w->weights = gsc__carve(&carver, pixels, sizeof *w->weights);
    w->statistics = gsc__carve(&carver, splats, sizeof *w->statistics);
    return carver.at;
}

/* Bytes that one thread needs to blend tiles, whatever outputs are wanted. */
static size_t gsc__blend_scratch_bytes(const gsc__raster *raster) {
    blend_workspace w;
    return carve_blend_workspace(raster->channels + 2, NULL, &w);
}

/* Lanes that lie inside the image and still let light through.  The transmittance of a pixel
 * that stopped is stored negative. */
GSC__INLINE gsc__mask alive_lanes(gsc__vec transmittance) {
    return gsc__vgt(transmittance, gsc__vset(0));
}

/* Blends a chunk, splats [0, count) with list positions from first on, into one block whose
 * sums stay in registers.  features is a constant wherever this is inlined.  False when every
 * pixel has stopped. */
GSC__INLINE bool blend_block(const blend_workspace *w, int32_t count, int32_t first, int block_x,
                             int block_y, int features) {
    const int pixel = block_y * GSC__BLOCK_ROWS * GSC__TILE + block_x * GSC__LANES;
    const gsc__vec columns = gsc__vramp((gsc_real)(block_x * GSC__LANES));
    const gsc__vec alpha_max = gsc__vset(GSC__ALPHA_MAX), one = gsc__vset(1);
    const gsc__vec stop = gsc__vset(GSC__TRANSMITTANCE_MIN);
    gsc__vec t[GSC__BLOCK_ROWS], sums[GSC__BLOCK_ROWS][5];
    gsc__veci walked[GSC__BLOCK_ROWS];
    gsc__mask alive[GSC__BLOCK_ROWS];
    bool any = false;
    for (int r = 0; r < GSC__BLOCK_ROWS; ++r) {
        t[r] = gsc__vload(w->transmittance + pixel + r * GSC__TILE);
        memcpy(&walked[r], w->walked + pixel + r * GSC__TILE, sizeof walked[r]);
        alive[r] = alive_lanes(t[r]);
        any |= gsc__many(alive[r]);
        for (int c = 0; c < features; ++c)
            sums[r][c] = gsc__vload(w->sums + c * GSC__TILE_PIXELS + pixel + r * GSC__TILE);
    }
    for (int32_t n = 0; any && n < count; ++n) {
        const gsc__tile_splat *splat = &w->splats[n];
        const unsigned rows = gsc__tile_splat_rows(splat, block_x, block_y);
        if (!rows) continue;
        const gsc__vec dx = columns - gsc__vset(splat->x);
        const gsc_real *feature = w->features + n * features;
        bool stopped = false;
        for (int r = 0; r < GSC__BLOCK_ROWS; ++r) {
            gsc__sample sample;
            if (!(rows >> r & 1)) continue;
            gsc_real y = (gsc_real)(block_y * GSC__BLOCK_ROWS + r) - splat->y;
            if (!gsc__sample_row(splat, dx, y, alive[r], &sample)) continue;
            gsc__vec alpha = gsc__vmin(sample.alpha, alpha_max);
            gsc__vec next = t[r] * (one - alpha);
            gsc__mask blends = gsc__mand(gsc__vge(next, stop), sample.hit);
            gsc__vec weight = gsc__vkeep(blends, alpha * t[r]);
            for (int c = 0; c < features; ++c)
                sums[r][c] = gsc__vfma(weight, gsc__vset(feature[c]), sums[r][c]);
            t[r] = gsc__vselect(blends, next, t[r]);
            walked[r] = gsc__iselect(blends, gsc__iset(first + n + 1), walked[r]);
            gsc__mask stops = gsc__mandnot(sample.hit, blends);
            if (gsc__many(stops)) {
                alive[r] = gsc__mandnot(alive[r], stops);
                t[r] = gsc__vselect(stops, -t[r], t[r]);
                stopped = true;
            }
        }
        if (!stopped) continue;
        any = false;
        for (int r = 0; r < GSC__BLOCK_ROWS; ++r) any |= gsc__many(alive[r]);
    }
    for (int r = 0; r < GSC__BLOCK_ROWS; ++r) {
        gsc__vstore(w->transmittance + pixel + r * GSC__TILE, t[r]);
        memcpy(w->walked + pixel + r * GSC__TILE, &walked[r], sizeof walked[r]);
        for (int c = 0; c < features; ++c)
            gsc__vstore(w->sums + c * GSC__TILE_PIXELS + pixel + r * GSC__TILE, sums[r][c]);
    }
    return any;
}

/* Statistics of one splat at one row of a block. */
GSC__INLINE void inspect_row(const blend_workspace *w, gsc__blend_statistics *statistics, int pixel,
                             gsc__vec dx, gsc_real y, gsc__mask blends, gsc__vec weight,
                             gsc__vec next) {
    gsc__vec distance = gsc__vsqrt(dx * dx + gsc__vset(y * y));
    gsc__mask bright = gsc__mand(gsc__vgt(next, gsc__vset(GSC_REAL(0.5))), blends);
    statistics->touched += gsc__mcount(bright);
    statistics->weight_count += gsc__mcount(blends);
    statistics->weight_sum += gsc__vsum(gsc__vkeep(blends, gsc__vload(w->weights + pixel)));
    statistics->weight_blend += gsc__vsum(weight);
    statistics->weight_distance += gsc__vsum(gsc__vkeep(blends, distance));
}

/* The same for any number of features, with the sums in memory, and with median depth and
 * statistics if they are wanted.  list: the chunk's Gaussians. */
static bool blend_block_thorough(const blend_task *task, const blend_workspace *w, int32_t count,
                                 int32_t first, const uint32_t *list, int block_x, int block_y) {
    const int corner = block_y * GSC__BLOCK_ROWS * GSC__TILE + block_x * GSC__LANES;
    const gsc__vec columns = gsc__vramp((gsc_real)(block_x * GSC__LANES));
    const gsc__vec half = gsc__vset(GSC_REAL(0.5));
    const int32_t features = task->features.count;
    bool any = false;
    for (int r = 0; r < GSC__BLOCK_ROWS; ++r) {
        const int pixel = corner + r * GSC__TILE;
        gsc__vec t = gsc__vload(w->transmittance + pixel);
        gsc__veci walked;
        memcpy(&walked, w->walked + pixel, sizeof walked);
        gsc__mask alive = alive_lanes(t);
        const unsigned bit = 1u << (block_y * GSC__BLOCK_ROWS + r);
        for (int32_t n = 0; n < count && gsc__many(alive); ++n) {
            const gsc__tile_splat *splat = &w->splats[n];
            gsc__sample sample;
            if (!(splat->rows & bit)) continue;
            gsc__vec dx = columns - gsc__vset(splat->x);
            gsc_real y = (gsc_real)(block_y * GSC__BLOCK_ROWS + r) - splat->y;
            if (!gsc__sample_row(splat, dx, y, alive, &sample)) continue;
            gsc__vec alpha = gsc__vmin(sample.alpha, gsc__vset(GSC__ALPHA_MAX));
            gsc__vec next = t * (gsc__vset(1) - alpha);
            gsc__mask blends =
                gsc__mand(gsc__vge(next, gsc__vset(GSC__TRANSMITTANCE_MIN)), sample.hit);
            gsc__vec weight = gsc__vkeep(blends, alpha * t);
            gsc_real *sums = w->sums + pixel;
            for (int32_t c = 0; c < features; ++c, sums += GSC__TILE_PIXELS)
                gsc__vstore(sums, gsc__vfma(weight, gsc__vset(w->features[n * features + c]),
                                            gsc__vload(sums)));
            if (task->outputs->median_depth) {
                gsc__mask crosses = gsc__mand(gsc__vgt(t, half), gsc__vgt(half, next));
                gsc_real depth = task->frame->records[list[n]].depth;
                gsc__vec median = gsc__vload(w->median + pixel);
                crosses = gsc__mand(crosses, blends);
                gsc__vstore(w->median + pixel, gsc__vselect(crosses, gsc__vset(depth), median));
            }
            if (task->statistics)
                inspect_row(w, w->statistics[n], pixel, dx, y, blends, weight, next);
            t = gsc__vselect(blends, next, t);
            walked = gsc__iselect(blends, gsc__iset(first + n + 1), walked);
            gsc__mask stops = gsc__mandnot(sample.hit, blends);
            alive = gsc__mandnot(alive, stops);
            t = gsc__vselect(stops, -t, t);
        }
        gsc__vstore(w->transmittance + pixel, t);
        memcpy(w->walked + pixel, &walked, sizeof walked);
        any |= gsc__many(alive);
    }
    return any;
}

static bool blend_chunk(const blend_task *task, const blend_workspace *w, int32_t count,
                        int32_t first, const uint32_t *list) {
    bool any = false;
    for (int y = 0; y < GSC__BLOCKS_Y; ++y)
        for (int x = 0; x < GSC__BLOCKS_X; ++x) {
            int features = task->inspect ? 0 : task->features.count;
            if (features == 3)
                any |= blend_block(w, count, first, x, y, 3);
            else if (features == 4)
                any |= blend_block(w, count, first, x, y, 4);
            else if (features == 5)
                any |= blend_block(w, count, first, x, y, 5);
            else
                any |= blend_block_thorough(task, w, count, first, list, x, y);
        }
    return any;
}

static void begin_blend_tile(const blend_task *task, const blend_workspace *w,
                             const gsc__tile_area *area) {
    const gsc__frame *frame = task->frame;
    const gsc__raster *raster = frame->raster;
    for (int y = 0; y < GSC__TILE; ++y)
        for (int x = 0; x < GSC__TILE; ++x) {
            bool inside = y < area->height && x < area->width;
            w->transmittance[y * GSC__TILE + x] = inside ? 1 : -1;
        }
    memset(w->walked, 0, GSC__TILE_PIXELS * sizeof *w->walked);
    memset(w->sums, 0, GSC__TILE_PIXELS * (size_t)task->features.count * sizeof *w->sums);
    for (int i = 0; i < GSC__TILE_PIXELS; ++i) w->median[i] = raster->median_default;
    if (task->statistics && raster->pixel_weights)
        gsc__plane_to_tile(raster->pixel_weights + frame->camera * frame->layout->pixels, area,
                           raster->width, 1, 0, w->weights);
    else if (task->statistics)
        memset(w->weights, 0, GSC__TILE_PIXELS * sizeof *w->weights);
}

/* The camera's plane in an output [C, H, W], or NULL. */
static gsc_real *plane_of(const gsc__frame *frame, gsc_real *output) {
    return output ? output + frame->camera * frame->layout->pixels : NULL;
}

static void finish_blend_tile(const blend_task *task, const blend_workspace *w,
                              const gsc__tile_area *area) {
    const gsc__frame *frame = task->frame;
    const gsc__raster *raster = frame->raster;
    const gsc__raster_outputs *out = task->outputs;
    const int32_t width = raster->width;
    gsc_real *t = w->transmittance, *sums = w->sums;
    for (int i = 0; i < GSC__TILE_PIXELS; ++i) t[i] = gsc__fabs(t[i]);
    gsc__tile_to_plane(t, area, width, 1, frame->final_t);
    for (int32_t y = 0; y < area->height; ++y)
        for (int32_t x = 0; x < area->width; ++x)
            frame->walked[(int64_t)(area->y + y) * width + area->x + x] =
                (uint32_t)w->walked[y * GSC__TILE + x];
    if (raster->background)
        for (int32_t c = 0; c < raster->channels; ++c) {
            gsc_real b = raster->background[frame->camera * raster->background_stride + c];
            for (int i = 0; i < GSC__TILE_PIXELS; ++i) sums[c * GSC__TILE_PIXELS + i] += t[i] * b;
        }
    gsc_real *color = out->color + frame->camera * raster->channels * frame->layout->pixels;
    for (int32_t c = 0; c < raster->channels; ++c, sums += GSC__TILE_PIXELS)
        gsc__tile_to_plane(sums, area, width, gsc__pixel_step(raster),
                           color + c * gsc__channel_step(raster));
    if (out->depth) {
        gsc__tile_to_plane(sums, area, width, 1, plane_of(frame, out->depth));
        sums += GSC__TILE_PIXELS;
    }
    if (out->inv_depth) gsc__tile_to_plane(sums, area, width, 1, plane_of(frame, out->inv_depth));
    if (out->median_depth)
        gsc__tile_to_plane(w->median, area, width, 1, plane_of(frame, out->median_depth));
    if (!out->alpha) return;
    for (int i = 0; i < GSC__TILE_PIXELS; ++i) t[i] = 1 - t[i];
    gsc__tile_to_plane(t, area, width, 1, plane_of(frame, out->alpha));
}

static void blend_tiles(void *arg, int64_t begin, int64_t end, int thread) {
    blend_task *task = arg;
    const gsc__band *band = task->band;
    const uint64_t *offsets = task->frame->offsets;
    blend_workspace w;
    (void)carve_blend_workspace(task->features.count,
                                task->scratch + (size_t)thread * task->scratch_bytes, &w);
    for (int64_t tile = band->begin + begin; tile < band->begin + end; ++tile) {
        const gsc__tile_area area = gsc__tile_area_of(task->frame, tile);
        const uint32_t *list = band->lists;
        const int32_t length = (int32_t)(offsets[tile + 1] - offsets[tile]);
        if (length > 0) list += offsets[tile] - offsets[band->begin];
        bool any = true;
        begin_blend_tile(task, &w, &area);
        for (int32_t first = 0; any && first < length; first += GSC__CHUNK_SPLATS) {
            int32_t count = length - first;
            if (count > GSC__CHUNK_SPLATS) count = GSC__CHUNK_SPLATS;
            if (!gsc__gather(&task->features, &area, list + first, count, w.splats, w.features)) {
                atomic_store_explicit(&task->damaged, true, memory_order_relaxed);
                break;
            }
            for (int32_t n = 0; n < count && task->statistics; ++n)
                w.statistics[n] = task->statistics + band->slots[list + first - band->lists + n];
            any = blend_chunk(task, &w, count, first, list + first);
        }
        finish_blend_tile(task, &w, &area);
    }
}

/* Writes the band's pixels of every output and of the frame's final_t and walked.
 * statistics: [intersections of the band] by slot, added to; NULL: not wanted.  scratch:
 * gsc__blend_scratch_bytes for each thread.  False if a list names something other than a
 * visible Gaussian. */
static bool gsc__blend_band(gsc__pool *pool, const gsc__raster_outputs *outputs,
                            const gsc__frame *frame, const gsc__band *band,
                            gsc__blend_statistics *statistics, void *scratch) {
    blend_task task = {
        .outputs = outputs,
        .frame = frame,
        .band = band,
        .statistics = statistics,
        .scratch = scratch,
        .scratch_bytes = gsc__blend_scratch_bytes(frame->raster),
        .features = gsc__features_of(frame, outputs->depth != NULL, outputs->inv_depth != NULL),
        .inspect = outputs->median_depth || statistics};
    gsc__parallel_for(pool, band->end - band->begin, gsc__band_grain(frame, band), blend_tiles,
                      &task);
    return !atomic_load(&task.damaged);
}

#endif
