#include "blend_forward.h"

#include "core/limits.h"
#include "tile_output.h"

#include <stdatomic.h>
#include <string.h>

/* One thread's memory for one tile.  Pixel arrays are [16 rows][16 columns]. */
typedef struct workspace {
    gsc__entry *entries;     /* [GSC__CHUNK_ENTRIES] */
    gsc_real *features;      /* [GSC__CHUNK_ENTRIES, feature_count] colour, then depths */
    gsc_real *sums;          /* [feature_count, 256] */
    gsc_real *transmittance; /* [256] */
    gsc_real *median;        /* [256] */
    gsc_real_int *walked;    /* [256] */
    gsc_real *weights;       /* [256] pixel_weights of the tile */
    gsc__entry_statistics **statistics; /* [GSC__CHUNK_ENTRIES] */
} workspace;

typedef struct blend_task {
    const gsc__raster *raster;
    const gsc__raster_outputs *outputs;
    const gsc__frame *frame;
    const gsc__band *band;
    gsc__entry_statistics *statistics;
    unsigned char *scratch;
    size_t scratch_bytes; /* a thread's */
    int32_t index;        /* of the camera */
    gsc__features features;
    int32_t feature_count;
    bool inspect; /* median depth or statistics: the thorough loop */
    atomic_bool damaged;
} blend_task;

/* Lays the workspace out at base; with base NULL only its size counts. */
static size_t workspace_layout(int32_t features, unsigned char *base, workspace *w) {
    const size_t pixels = GSC__TILE_PIXELS, entries = GSC__CHUNK_ENTRIES;
    size_t at = 0;
    w->entries = gsc__tile_take(base, &at, entries * sizeof *w->entries);
    w->features = gsc__tile_take(base, &at, entries * (size_t)features * sizeof(gsc_real));
    w->sums = gsc__tile_take(base, &at, pixels * (size_t)features * sizeof(gsc_real));
    w->transmittance = gsc__tile_take(base, &at, pixels * sizeof(gsc_real));
    w->median = gsc__tile_take(base, &at, pixels * sizeof(gsc_real));
    w->walked = gsc__tile_take(base, &at, pixels * sizeof(gsc_real_int));
    w->weights = gsc__tile_take(base, &at, pixels * sizeof(gsc_real));
    w->statistics = gsc__tile_take(base, &at, entries * sizeof *w->statistics);
    return at;
}

size_t gsc__blend_scratch_bytes(const gsc__raster *raster) {
    workspace w;
    return gsc__aligned_bytes(workspace_layout(raster->channels + 2, NULL, &w));
}

/* Lanes of a block's row that lie inside the image and still let light through.  A
 * pixel that stopped has its transmittance stored negative. */
GSC__INLINE gsc__mask alive_lanes(gsc__vec transmittance) {
    return gsc__vgt(transmittance, gsc__vset(0));
}

/* Walks a chunk over one block with its sums in registers; features is a constant
 * wherever this is inlined.  Returns false when every pixel has stopped. */
GSC__INLINE bool walk_block(const workspace *w, int32_t count, int32_t first, int block_x,
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
        const gsc__entry *entry = &w->entries[n];
        unsigned rows =
            (unsigned)entry->rows >> (block_y * GSC__BLOCK_ROWS) & ((1u << GSC__BLOCK_ROWS) - 1);
        if (!rows) continue;
        if (GSC__BLOCKS_X > 1 &&
            !((unsigned)entry->columns >> (block_x * GSC__LANES) & ((1u << GSC__LANES) - 1)))
            continue;
        const gsc__vec dx = columns - gsc__vset(entry->x);
        const gsc_real *feature = w->features + n * features;
        bool stopped = false;
        for (int r = 0; r < GSC__BLOCK_ROWS; ++r) {
            gsc__sample sample;
            if (!(rows >> r & 1)) continue;
            gsc_real y = (gsc_real)(block_y * GSC__BLOCK_ROWS + r) - entry->y;
            if (!gsc__sample_row(entry, dx, y, alive[r], &sample)) continue;
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

/* Statistics of one entry at one row of a block. */
GSC__INLINE void inspect_row(const workspace *w, gsc__entry_statistics *statistics,
                             const gsc__entry *entry, int pixel, gsc__mask blends, gsc__vec weight,
                             gsc__vec next, gsc__vec columns, gsc_real y) {
    gsc__vec dx = columns - gsc__vset(entry->x);
    gsc__vec distance = gsc__vsqrt(dx * dx + gsc__vset(y * y));
    gsc__mask bright = gsc__mand(gsc__vgt(next, gsc__vset(GSC_REAL(0.5))), blends);
    statistics->touched += gsc__mcount(bright);
    statistics->weight_count += gsc__mcount(blends);
    statistics->weight_sum += gsc__vsum(gsc__vkeep(blends, gsc__vload(w->weights + pixel)));
    statistics->weight_blend += gsc__vsum(weight);
    statistics->weight_distance += gsc__vsum(gsc__vkeep(blends, distance));
}

/* The same walk for any number of features, whose sums stay in memory, with median
 * depth and statistics where they are wanted.  depths: of the chunk's entries. */
static bool walk_block_thorough(const blend_task *task, const workspace *w, int32_t count,
                                int32_t first, const uint32_t *list, int block_x, int block_y) {
    const int corner = block_y * GSC__BLOCK_ROWS * GSC__TILE + block_x * GSC__LANES;
    const gsc__vec columns = gsc__vramp((gsc_real)(block_x * GSC__LANES));
    const gsc__vec half = gsc__vset(GSC_REAL(0.5));
    const int32_t features = task->feature_count;
    bool any = false;
    for (int r = 0; r < GSC__BLOCK_ROWS; ++r) {
        const int pixel = corner + r * GSC__TILE;
        gsc__vec t = gsc__vload(w->transmittance + pixel);
        gsc__veci walked;
        memcpy(&walked, w->walked + pixel, sizeof walked);
        gsc__mask alive = alive_lanes(t);
        const unsigned bit = 1u << (block_y * GSC__BLOCK_ROWS + r);
        for (int32_t n = 0; n < count && gsc__many(alive); ++n) {
            const gsc__entry *entry = &w->entries[n];
            gsc__sample sample;
            if (!(entry->rows & bit)) continue;
            gsc__vec dx = columns - gsc__vset(entry->x);
            gsc_real y = (gsc_real)(block_y * GSC__BLOCK_ROWS + r) - entry->y;
            if (!gsc__sample_row(entry, dx, y, alive, &sample)) continue;
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
                inspect_row(w, w->statistics[n], entry, pixel, blends, weight, next, columns, y);
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

static bool walk_chunk(const blend_task *task, const workspace *w, int32_t count, int32_t first,
                       const uint32_t *list) {
    bool any = false;
    for (int y = 0; y < GSC__BLOCKS_Y; ++y)
        for (int x = 0; x < GSC__BLOCKS_X; ++x) {
            int features = task->inspect ? 0 : task->feature_count;
            if (features == 3)
                any |= walk_block(w, count, first, x, y, 3);
            else if (features == 4)
                any |= walk_block(w, count, first, x, y, 4);
            else if (features == 5)
                any |= walk_block(w, count, first, x, y, 5);
            else
                any |= walk_block_thorough(task, w, count, first, list, x, y);
        }
    return any;
}

static bool gather_chunk(const blend_task *task, const workspace *w, const gsc__tile_area *area,
                         const uint32_t *list, int32_t count) {
    const gsc__frame *frame = task->frame;
    for (int32_t n = 0; n < count; ++n) {
        if (n + 12 < count) __builtin_prefetch(frame->records + list[n + 12]);
        if (!gsc__record_valid(frame, task->raster->gaussians, list[n])) return false;
        const gsc__record *record = &frame->records[list[n]];
        gsc__entry_load(record, (gsc_real)area->x, (gsc_real)area->y, &w->entries[n]);
        gsc__feature_load(&task->features, list[n], w->features + n * task->feature_count);
        if (task->statistics)
            w->statistics[n] = task->statistics + task->band->slots[list - task->band->lists + n];
    }
    return true;
}

static void begin_tile(const blend_task *task, const workspace *w, const gsc__tile_area *area) {
    for (int y = 0; y < GSC__TILE; ++y)
        for (int x = 0; x < GSC__TILE; ++x) {
            bool inside = y < area->height && x < area->width;
            w->transmittance[y * GSC__TILE + x] = inside ? 1 : -1;
        }
    memset(w->walked, 0, GSC__TILE_PIXELS * sizeof *w->walked);
    memset(w->sums, 0, GSC__TILE_PIXELS * (size_t)task->feature_count * sizeof *w->sums);
    for (int i = 0; i < GSC__TILE_PIXELS; ++i) w->median[i] = task->raster->median_default;
    if (task->statistics && task->raster->pixel_weights)
        gsc__plane_to_tile(task->raster->pixel_weights + task->index * task->frame->layout->pixels,
                           area, task->raster->width, 0, w->weights);
    else if (task->statistics)
        memset(w->weights, 0, GSC__TILE_PIXELS * sizeof *w->weights);
}

/* Plane of the camera in an output [C, H, W], or NULL. */
static gsc_real *plane_of(const blend_task *task, gsc_real *output) {
    return output ? output + task->index * task->frame->layout->pixels : NULL;
}

static void finish_tile(const blend_task *task, const workspace *w, const gsc__tile_area *area) {
    const gsc__raster *raster = task->raster;
    const gsc__raster_outputs *out = task->outputs;
    const int32_t width = raster->width;
    gsc_real *t = w->transmittance, *sums = w->sums;
    for (int i = 0; i < GSC__TILE_PIXELS; ++i) t[i] = gsc__fabs(t[i]);
    gsc__tile_to_plane(t, area, width, task->frame->final_t);
    for (int32_t y = 0; y < area->height; ++y)
        for (int32_t x = 0; x < area->width; ++x)
            task->frame->walked[(int64_t)(area->y + y) * width + area->x + x] =
                (uint32_t)w->walked[y * GSC__TILE + x];
    if (raster->background)
        for (int32_t c = 0; c < raster->channels; ++c) {
            gsc_real b = raster->background[task->index * raster->background_stride + c];
            for (int i = 0; i < GSC__TILE_PIXELS; ++i) sums[c * GSC__TILE_PIXELS + i] += t[i] * b;
        }
    gsc__tile_to_color(sums, area, raster,
                       out->color + task->index * raster->channels * task->frame->layout->pixels);
    sums += (int64_t)raster->channels * GSC__TILE_PIXELS;
    if (out->depth) {
        gsc__tile_to_plane(sums, area, width, plane_of(task, out->depth));
        sums += GSC__TILE_PIXELS;
    }
    if (out->inv_depth) gsc__tile_to_plane(sums, area, width, plane_of(task, out->inv_depth));
    if (out->median_depth)
        gsc__tile_to_plane(w->median, area, width, plane_of(task, out->median_depth));
    if (!out->alpha) return;
    for (int i = 0; i < GSC__TILE_PIXELS; ++i) t[i] = 1 - t[i];
    gsc__tile_to_plane(t, area, width, plane_of(task, out->alpha));
}

static void blend_tiles(void *arg, int64_t begin, int64_t end, int thread) {
    blend_task *task = arg;
    const uint64_t *offsets = task->frame->offsets;
    workspace w;
    (void)workspace_layout(task->feature_count,
                           task->scratch + (size_t)thread * task->scratch_bytes, &w);
    for (int64_t tile = task->band->begin + begin; tile < task->band->begin + end; ++tile) {
        gsc__tile_area area = gsc__tile_area_of(task->raster, task->frame->layout->tiles_x, tile);
        const uint32_t *list = task->band->lists;
        int32_t length = (int32_t)(offsets[tile + 1] - offsets[tile]);
        if (length > 0) list += offsets[tile] - offsets[task->band->begin];
        bool any = true;
        begin_tile(task, &w, &area);
        for (int32_t first = 0; any && first < length; first += GSC__CHUNK_ENTRIES) {
            int32_t count = length - first;
            if (count > GSC__CHUNK_ENTRIES) count = GSC__CHUNK_ENTRIES;
            if (!gather_chunk(task, &w, &area, list + first, count)) {
                atomic_store_explicit(&task->damaged, true, memory_order_relaxed);
                break;
            }
            any = walk_chunk(task, &w, count, first, list + first);
        }
        finish_tile(task, &w, &area);
    }
}

bool gsc__blend_band(gsc__pool *pool, const gsc__raster *raster, int32_t index,
                     const gsc__raster_outputs *outputs, const gsc__frame *frame,
                     const gsc__band *band, gsc__entry_statistics *statistics, void *scratch) {
    blend_task task = {
        .raster = raster,
        .outputs = outputs,
        .frame = frame,
        .band = band,
        .statistics = statistics,
        .scratch = scratch,
        .scratch_bytes = gsc__blend_scratch_bytes(raster),
        .index = index,
        .features = {raster, frame, index, outputs->depth != NULL, outputs->inv_depth != NULL},
        .inspect = outputs->median_depth || statistics};
    task.feature_count = gsc__feature_count(&task.features);
    gsc__parallel_for(pool, band->end - band->begin, gsc__band_grain(frame, band), blend_tiles,
                      &task);
    return !atomic_load(&task.damaged);
}
