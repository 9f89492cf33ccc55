/* The same lists, back to front.  With g the gradient by a pixel's features,
 *   dL/dalpha_i = T_i (f_i . g) - S_i / (1 - alpha_i),
 * where S_i is the part of the pixel behind entry i, dotted with g: a scalar, whatever
 * the number of features.  T_i comes from the final transmittance by division, so
 * nothing but that and the list position has to be kept from forward. */
#include "blend_backward.h"

#include "core/limits.h"
#include "tile_output.h"

#include <stdatomic.h>
#include <string.h>

#define REGISTER_FEATURES 5

/* One thread's memory for one tile.  Pixel arrays are [16 rows][16 columns]. */
typedef struct workspace {
    gsc__entry *entries;     /* [GSC__CHUNK_ENTRIES] */
    gsc_real *features;      /* [GSC__CHUNK_ENTRIES, feature_count] */
    gsc_real **slots;        /* [GSC__CHUNK_ENTRIES] */
    gsc_real *gradients;     /* [feature_count, 256] upstream */
    gsc_real *transmittance; /* [256] in front of the entries walked so far */
    gsc_real *behind;        /* [256] S of the entries walked so far */
    gsc_real_int *walked;    /* [256] */
    gsc__vec *sums;          /* [feature_count] of one entry, if they are many */
} workspace;

typedef struct unblend_task {
    const gsc__raster *raster;
    const gsc__raster_grads *grads;
    const gsc__frame *frame;
    const gsc__band *band;
    gsc_real *slots;
    unsigned char *scratch;
    size_t scratch_bytes; /* a thread's */
    int32_t index;        /* of the camera */
    gsc__features features;
    int32_t feature_count, slot_size;
    bool clamp_stops; /* exact: no gradient through a clamped alpha */
    bool absolute;    /* sums of absolute values are wanted */
    atomic_bool damaged;
} unblend_task;

int32_t gsc__unblend_slot_size(const gsc__raster *raster, const gsc__raster_grads *grads) {
    return GSC__SLOT_FEATURES + raster->channels + (grads->depth != NULL) +
           (grads->inv_depth != NULL);
}

static size_t workspace_layout(int32_t features, unsigned char *base, workspace *w) {
    const size_t pixels = GSC__TILE_PIXELS, entries = GSC__CHUNK_ENTRIES;
    size_t at = 0;
    w->entries = gsc__tile_take(base, &at, entries * sizeof *w->entries);
    w->features = gsc__tile_take(base, &at, entries * (size_t)features * sizeof(gsc_real));
    w->slots = gsc__tile_take(base, &at, entries * sizeof *w->slots);
    w->gradients = gsc__tile_take(base, &at, pixels * (size_t)features * sizeof(gsc_real));
    w->transmittance = gsc__tile_take(base, &at, pixels * sizeof(gsc_real));
    w->behind = gsc__tile_take(base, &at, pixels * sizeof(gsc_real));
    w->walked = gsc__tile_take(base, &at, pixels * sizeof(gsc_real_int));
    w->sums = gsc__tile_take(base, &at, (size_t)features * sizeof(gsc__vec));
    return at;
}

size_t gsc__unblend_scratch_bytes(const gsc__raster *raster) {
    workspace w;
    return gsc__aligned_bytes(workspace_layout(raster->channels + 2, NULL, &w));
}

/* Vector sums of one entry over a block. */
typedef struct entry_sums {
    gsc__vec moments[GSC__SLOT_FEATURES];
} entry_sums;

/* Pixels of one row of a block. */
typedef struct row_state {
    gsc__vec t, behind;
    gsc__veci walked;
} row_state;

/* One entry at one row: advances t and behind, adds to the sums. */
GSC__INLINE void unblend_row(const unblend_task *task, const workspace *w, const gsc__entry *entry,
                             const gsc_real *feature, gsc__vec dx, gsc_real y, gsc__mask reached,
                             int pixel, row_state *row, entry_sums *sums, gsc__vec *feature_sums,
                             int features) {
    gsc__sample sample;
    if (!gsc__sample_row(entry, dx, y, reached, &sample)) return;
    const gsc__vec one = gsc__vset(1), alpha_max = gsc__vset(GSC__ALPHA_MAX);
    gsc__vec alpha = gsc__vmin(sample.alpha, alpha_max);
    gsc__vec inverse = one / (one - alpha);
    gsc__vec t = row->t * inverse;
    gsc__vec dot = gsc__vset(0), weight = gsc__vkeep(sample.hit, alpha * t);
    for (int c = 0; c < features; ++c) {
        gsc__vec g = gsc__vload(w->gradients + c * GSC__TILE_PIXELS + pixel);
        dot = dot + gsc__vset(feature[c]) * g;
        feature_sums[c] = feature_sums[c] + weight * g;
    }
    gsc__vec by_alpha = t * dot - row->behind * inverse;
    gsc__mask moves = sample.hit;
    if (task->clamp_stops) moves = gsc__mandnot(moves, gsc__vgt(sample.alpha, alpha_max));
    gsc__vec moment = gsc__vkeep(moves, sample.alpha * by_alpha);
    gsc__vec moment_u = moment * sample.u, v = gsc__vset(sample.v);
    sums->moments[GSC__SLOT_W] = sums->moments[GSC__SLOT_W] + moment;
    sums->moments[GSC__SLOT_U] = sums->moments[GSC__SLOT_U] + moment_u;
    sums->moments[GSC__SLOT_V] = sums->moments[GSC__SLOT_V] + moment * v;
    sums->moments[GSC__SLOT_UU] = sums->moments[GSC__SLOT_UU] + moment_u * sample.u;
    sums->moments[GSC__SLOT_UV] = sums->moments[GSC__SLOT_UV] + moment_u * v;
    sums->moments[GSC__SLOT_VV] = sums->moments[GSC__SLOT_VV] + moment * (v * v);
    if (task->absolute) {
        gsc__vec by_x = moment_u * gsc__vset(entry->r00);
        gsc__vec by_y =
            moment_u * gsc__vset(entry->r01) + moment * gsc__vset(sample.v * entry->r11);
        sums->moments[GSC__SLOT_ABS_X] = sums->moments[GSC__SLOT_ABS_X] + gsc__vabs(by_x);
        sums->moments[GSC__SLOT_ABS_Y] = sums->moments[GSC__SLOT_ABS_Y] + gsc__vabs(by_y);
    }
    row->behind = row->behind + weight * dot;
    row->t = gsc__vselect(sample.hit, t, row->t);
}

/* Adds an entry's sums over a block to its slot. */
GSC__INLINE void store_sums(const entry_sums *sums, const gsc__vec *feature_sums, int features,
                            gsc_real *slot) {
    gsc_real total[GSC__SLOT_FEATURES];
    gsc__vsum8(sums->moments, total);
    for (int i = 0; i < GSC__SLOT_FEATURES; ++i) slot[i] += total[i];
    for (int c = 0; c < features; ++c) slot[GSC__SLOT_FEATURES + c] += gsc__vsum(feature_sums[c]);
}

/* Walks entries [0, count) of a chunk, whose first has list position first, backwards
 * over one block; features is a constant wherever this is inlined. */
GSC__INLINE void walk_block(const unblend_task *task, const workspace *w, int32_t count,
                            int32_t first, int block_x, int block_y, int features) {
    const int corner = block_y * GSC__BLOCK_ROWS * GSC__TILE + block_x * GSC__LANES;
    const gsc__vec columns = gsc__vramp((gsc_real)(block_x * GSC__LANES));
    gsc__vec local[REGISTER_FEATURES];
    gsc__vec *feature_sums = features <= REGISTER_FEATURES ? local : w->sums;
    row_state rows[GSC__BLOCK_ROWS];
    gsc_real_int deepest = 0;
    for (int r = 0; r < GSC__BLOCK_ROWS; ++r) {
        const int pixel = corner + r * GSC__TILE;
        rows[r].t = gsc__vload(w->transmittance + pixel);
        rows[r].behind = gsc__vload(w->behind + pixel);
        memcpy(&rows[r].walked, w->walked + pixel, sizeof rows[r].walked);
        for (int i = 0; i < GSC__LANES; ++i)
            if (w->walked[pixel + i] > deepest) deepest = w->walked[pixel + i];
    }
    if (deepest - first < count) count = (int32_t)deepest - first;
    for (int32_t n = count - 1; n >= 0; --n) {
        const gsc__entry *entry = &w->entries[n];
        unsigned bits =
            (unsigned)entry->rows >> (block_y * GSC__BLOCK_ROWS) & ((1u << GSC__BLOCK_ROWS) - 1);
        if (!bits) continue;
        if (GSC__BLOCKS_X > 1 &&
            !((unsigned)entry->columns >> (block_x * GSC__LANES) & ((1u << GSC__LANES) - 1)))
            continue;
        const gsc__vec dx = columns - gsc__vset(entry->x);
        entry_sums sums;
        for (int i = 0; i < GSC__SLOT_FEATURES; ++i) sums.moments[i] = gsc__vset(0);
        for (int c = 0; c < features; ++c) feature_sums[c] = gsc__vset(0);
        for (int r = 0; r < GSC__BLOCK_ROWS; ++r) {
            if (!(bits >> r & 1)) continue;
            gsc__mask reached = gsc__igt(rows[r].walked, gsc__iset(first + n));
            unblend_row(task, w, entry, w->features + n * features, dx,
                        (gsc_real)(block_y * GSC__BLOCK_ROWS + r) - entry->y, reached,
                        corner + r * GSC__TILE, &rows[r], &sums, feature_sums, features);
        }
        store_sums(&sums, feature_sums, features, w->slots[n]);
    }
    for (int r = 0; r < GSC__BLOCK_ROWS; ++r) {
        gsc__vstore(w->transmittance + corner + r * GSC__TILE, rows[r].t);
        gsc__vstore(w->behind + corner + r * GSC__TILE, rows[r].behind);
    }
}

static void walk_chunk(const unblend_task *task, const workspace *w, int32_t count, int32_t first) {
    for (int y = 0; y < GSC__BLOCKS_Y; ++y)
        for (int x = 0; x < GSC__BLOCKS_X; ++x)
            if (task->feature_count == 3)
                walk_block(task, w, count, first, x, y, 3);
            else if (task->feature_count == 4)
                walk_block(task, w, count, first, x, y, 4);
            else
                walk_block(task, w, count, first, x, y, task->feature_count);
}

static bool gather_chunk(const unblend_task *task, const workspace *w, const gsc__tile_area *area,
                         const uint32_t *list, int32_t count) {
    const gsc__frame *frame = task->frame;
    const uint32_t *slots = task->band->slots + (list - task->band->lists);
    for (int32_t n = 0; n < count; ++n) {
        if (n + 12 < count) __builtin_prefetch(frame->records + list[n + 12]);
        if (!gsc__record_valid(frame, task->raster->gaussians, list[n])) return false;
        const gsc__record *record = &frame->records[list[n]];
        gsc__entry_load(record, (gsc_real)area->x, (gsc_real)area->y, &w->entries[n]);
        gsc__feature_load(&task->features, list[n], w->features + n * task->feature_count);
        w->slots[n] = task->slots + (int64_t)slots[n] * task->slot_size;
        __builtin_prefetch(w->slots[n], 1);
    }
    return true;
}

static void load_plane(const unblend_task *task, const gsc__tile_area *area, const gsc_real *image,
                       gsc_real outside, gsc_real *tile) {
    gsc__plane_to_tile(image + task->index * task->frame->layout->pixels, area, task->raster->width,
                       outside, tile);
}

/* Upstream gradients by the features, zero outside the image. */
static void load_gradients(const unblend_task *task, const workspace *w,
                           const gsc__tile_area *area) {
    const gsc__raster *raster = task->raster;
    const gsc__raster_grads *grads = task->grads;
    gsc_real *tile = w->gradients;
    if (grads->color)
        gsc__color_to_tile(grads->color +
                               task->index * raster->channels * task->frame->layout->pixels,
                           area, raster, tile);
    else
        memset(tile, 0, (size_t)raster->channels * GSC__TILE_PIXELS * sizeof *tile);
    tile += (int64_t)raster->channels * GSC__TILE_PIXELS;
    if (grads->depth) {
        load_plane(task, area, grads->depth, 0, tile);
        tile += GSC__TILE_PIXELS;
    }
    if (grads->inv_depth) load_plane(task, area, grads->inv_depth, 0, tile);
}

/* S of the background: final T times (background . g - gradient by alpha), since the
 * alpha output is 1 - final T. */
static void begin_tile(const unblend_task *task, const workspace *w, const gsc__tile_area *area) {
    const gsc__raster *raster = task->raster;
    load_gradients(task, w, area);
    gsc__plane_to_tile(task->frame->final_t, area, raster->width, 1, w->transmittance);
    if (task->grads->alpha)
        load_plane(task, area, task->grads->alpha, 0, w->behind);
    else
        memset(w->behind, 0, GSC__TILE_PIXELS * sizeof *w->behind);
    for (int i = 0; i < GSC__TILE_PIXELS; ++i) w->behind[i] = -w->behind[i];
    if (raster->background)
        for (int32_t c = 0; c < raster->channels; ++c) {
            gsc_real b = raster->background[task->index * raster->background_stride + c];
            for (int i = 0; i < GSC__TILE_PIXELS; ++i)
                w->behind[i] += b * w->gradients[c * GSC__TILE_PIXELS + i];
        }
    for (int i = 0; i < GSC__TILE_PIXELS; ++i) w->behind[i] *= w->transmittance[i];
    for (int y = 0; y < GSC__TILE; ++y)
        for (int x = 0; x < GSC__TILE; ++x)
            w->walked[y * GSC__TILE + x] =
                y < area->height && x < area->width
                    ? (gsc_real_int)
                          task->frame->walked[(int64_t)(area->y + y) * raster->width + area->x + x]
                    : 0;
}

static int32_t deepest_entry(const workspace *w) {
    gsc_real_int deepest = 0;
    for (int i = 0; i < GSC__TILE_PIXELS; ++i)
        if (w->walked[i] > deepest) deepest = w->walked[i];
    return (int32_t)deepest;
}

static void unblend_tiles(void *arg, int64_t begin, int64_t end, int thread) {
    unblend_task *task = arg;
    const uint64_t *offsets = task->frame->offsets;
    workspace w;
    (void)workspace_layout(task->feature_count,
                           task->scratch + (size_t)thread * task->scratch_bytes, &w);
    for (int64_t tile = task->band->begin + begin; tile < task->band->begin + end; ++tile) {
        if (offsets[tile] == offsets[tile + 1]) continue;
        gsc__tile_area area = gsc__tile_area_of(task->raster, task->frame->layout->tiles_x, tile);
        const uint32_t *list = task->band->lists + (offsets[tile] - offsets[task->band->begin]);
        begin_tile(task, &w, &area);
        int32_t length = deepest_entry(&w);
        int32_t first = length > 0 ? (length - 1) / GSC__CHUNK_ENTRIES * GSC__CHUNK_ENTRIES : -1;
        for (; first >= 0; first -= GSC__CHUNK_ENTRIES) {
            int32_t count = length - first;
            if (count > GSC__CHUNK_ENTRIES) count = GSC__CHUNK_ENTRIES;
            if (!gather_chunk(task, &w, &area, list + first, count)) {
                atomic_store_explicit(&task->damaged, true, memory_order_relaxed);
                break;
            }
            walk_chunk(task, &w, count, first);
        }
    }
}

bool gsc__unblend_band(gsc__pool *pool, const gsc__raster *raster, int32_t index,
                       const gsc__raster_grads *grads, const gsc__frame *frame,
                       const gsc__band *band, gsc_real *slots, void *scratch) {
    unblend_task task = {
        .raster = raster,
        .grads = grads,
        .frame = frame,
        .band = band,
        .slots = slots,
        .scratch = scratch,
        .scratch_bytes = gsc__unblend_scratch_bytes(raster),
        .index = index,
        .features = {raster, frame, index, grads->depth != NULL, grads->inv_depth != NULL},
        .slot_size = gsc__unblend_slot_size(raster, grads),
        .clamp_stops = !(raster->flags & GSC_RASTER_COMPAT_3DGS),
        .absolute = grads->means2d_abs != NULL};
    task.feature_count = gsc__feature_count(&task.features);
    gsc__parallel_for(pool, band->end - band->begin, gsc__band_grain(frame, band), unblend_tiles,
                      &task);
    return !atomic_load(&task.damaged);
}
