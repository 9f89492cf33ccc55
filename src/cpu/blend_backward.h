/* Backward blending: from the gradients of a band's pixels to sums for each intersection.
 *
 * The lists once more, back to front.  With g the gradient with respect to a pixel's features,
 *   dL/dalpha_i = T_i (f_i . g) - S_i / (1 - alpha_i),
 * where S_i is the part of the pixel behind splat i, dotted with g: a scalar, however many
 * features there are.  T_i follows from the final transmittance by division, so forward keeps
 * only that and how far it walked. */
#ifndef GSC_CPU_BLEND_BACKWARD_H
#define GSC_CPU_BLEND_BACKWARD_H

#include "tile.h"
#include "tile_lists.h"

/* What an intersection's slot holds, in order: sums over its pixels of w, w u, w v, w u^2, w u v,
 * w v^2, |w dx term|, |w dy term|, then for each feature the sum of alpha T g.  Here
 * w = alpha dL/dalpha, (u, v) is the whitened offset from the mean, and g the gradient with
 * respect to the pixel's feature.  The features are the channels, depth and inverse depth (the
 * last two only if their gradient was given). */
enum {
    GSC__SLOT_W,
    GSC__SLOT_U,
    GSC__SLOT_V,
    GSC__SLOT_UU,
    GSC__SLOT_UV,
    GSC__SLOT_VV,
    GSC__SLOT_ABS_X,
    GSC__SLOT_ABS_Y,
    GSC__SLOT_FEATURES
};

#define REGISTER_FEATURES 5

/* One thread's memory for one tile. */
typedef struct backward_workspace {
    gsc__tile_splat *splats; /* [GSC__CHUNK_SPLATS] */
    gsc_real *features;      /* [GSC__CHUNK_SPLATS, feature count] */
    gsc_real **slots;        /* [GSC__CHUNK_SPLATS] */
    gsc_real *gradients;     /* [feature count, 256] upstream */
    gsc_real *transmittance; /* [256] in front of the splats walked so far */
    gsc_real *behind;        /* [256] S of the splats walked so far */
    gsc_real_int *walked;    /* [256] */
    gsc__vec *sums;          /* [feature count] of one splat, if they are many */
} backward_workspace;

typedef struct backward_task {
    const gsc__raster_grads *grads;
    const gsc__frame *frame;
    const gsc__band *band;
    gsc_real *slots;
    unsigned char *scratch;
    size_t scratch_bytes; /* a thread's */
    gsc__features features;
    int32_t slot_size;
    bool clamp_stops; /* exact: no gradient through a clamped alpha */
    bool absolute;    /* sums of absolute values are wanted */
    atomic_bool damaged;
} backward_task;

static int32_t gsc__slot_size(const gsc__raster *raster, const gsc__raster_grads *grads) {
    return GSC__SLOT_FEATURES + raster->channels + (grads->depth != NULL) +
           (grads->inv_depth != NULL);
}

static size_t carve_backward_workspace(int32_t features, void *base, backward_workspace *w) {
    const size_t pixels = GSC__TILE_PIXELS, splats = GSC__CHUNK_SPLATS;
    gsc__carver carver = {.base = base};
    w->splats = gsc__carve(&carver, splats, sizeof *w->splats);
    w->features = gsc__carve(&carver, splats * (size_t)features, sizeof *w->features);
    w->slots = gsc__carve(&carver, splats, sizeof *w->slots);
    w->gradients = gsc__carve(&carver, pixels * (size_t)features, sizeof *w->gradients);
    w->transmittance = gsc__carve(&carver, pixels, sizeof *w->transmittance);
    w->behind = gsc__carve(&carver, pixels, sizeof *w->behind);
    w->walked = gsc__carve(&carver, pixels, sizeof *w->walked);
    w->sums = gsc__carve(&carver, (size_t)features, sizeof *w->sums);
    return carver.at;
}

/* Bytes that one thread needs. */
static size_t gsc__blend_backward_scratch_bytes(const gsc__raster *raster) {
    backward_workspace w;
    return carve_backward_workspace(raster->channels + 2, NULL, &w);
}

/* One splat on one block, and vector sums over the block's pixels. */
typedef struct block_splat {
    const gsc__tile_splat *splat;
    const gsc_real *feature;
    gsc__vec dx;
    gsc__vec moments[GSC__SLOT_FEATURES];
    gsc__vec *feature_sums;
} block_splat;

/* Pixels of one row of a block. */
typedef struct row_state {
    gsc__vec t, behind;
    gsc__veci walked;
} row_state;

/* One splat at one row: advances t and behind, adds to the sums. */
GSC__INLINE void backward_row(const backward_task *task, const gsc_real *gradients,
                              block_splat *block, gsc_real y, gsc__mask reached, row_state *row,
                              int features) {
    gsc__sample sample;
    gsc__vec *moments = block->moments;
    if (!gsc__sample_row(block->splat, block->dx, y, reached, &sample)) return;
    const gsc__vec one = gsc__vset(1), alpha_max = gsc__vset(GSC__ALPHA_MAX);
    gsc__vec alpha = gsc__vmin(sample.alpha, alpha_max);
    gsc__vec inverse = one / (one - alpha);
    gsc__vec t = row->t * inverse;
    gsc__vec dot = gsc__vset(0), weight = gsc__vkeep(sample.hit, alpha * t);
    for (int c = 0; c < features; ++c) {
        gsc__vec g = gsc__vload(gradients + c * GSC__TILE_PIXELS);
        dot = dot + gsc__vset(block->feature[c]) * g;
        block->feature_sums[c] = block->feature_sums[c] + weight * g;
    }
    gsc__vec grad_alpha = t * dot - row->behind * inverse;
    gsc__mask moves = sample.hit;
    if (task->clamp_stops) moves = gsc__mandnot(moves, gsc__vgt(sample.alpha, alpha_max));
    gsc__vec moment = gsc__vkeep(moves, sample.alpha * grad_alpha);
    gsc__vec moment_u = moment * sample.u, v = gsc__vset(sample.v);
    moments[GSC__SLOT_W] = moments[GSC__SLOT_W] + moment;
    moments[GSC__SLOT_U] = moments[GSC__SLOT_U] + moment_u;
    moments[GSC__SLOT_V] = moments[GSC__SLOT_V] + moment * v;
    moments[GSC__SLOT_UU] = moments[GSC__SLOT_UU] + moment_u * sample.u;
    moments[GSC__SLOT_UV] = moments[GSC__SLOT_UV] + moment_u * v;
    moments[GSC__SLOT_VV] = moments[GSC__SLOT_VV] + moment * (v * v);
    if (task->absolute) {
        const gsc__tile_splat *splat = block->splat;
        gsc__vec grad_x = moment_u * gsc__vset(splat->r00);
        gsc__vec grad_y =
            moment_u * gsc__vset(splat->r01) + moment * gsc__vset(sample.v * splat->r11);
        moments[GSC__SLOT_ABS_X] = moments[GSC__SLOT_ABS_X] + gsc__vabs(grad_x);
        moments[GSC__SLOT_ABS_Y] = moments[GSC__SLOT_ABS_Y] + gsc__vabs(grad_y);
    }
    row->behind = row->behind + weight * dot;
    row->t = gsc__vselect(sample.hit, t, row->t);
}

/* Adds a splat's sums over a block to its slot. */
GSC__INLINE void store_sums(const block_splat *block, int features, gsc_real *slot) {
    gsc_real total[GSC__SLOT_FEATURES];
    gsc__vsum8(block->moments, total);
    for (int i = 0; i < GSC__SLOT_FEATURES; ++i) slot[i] += total[i];
    for (int c = 0; c < features; ++c)
        slot[GSC__SLOT_FEATURES + c] += gsc__vsum(block->feature_sums[c]);
}

/* Walks a chunk, splats [0, count) with list positions from first on, backwards over one block.
 * features is a constant wherever this is inlined. */
GSC__INLINE void backward_block(const backward_task *task, const backward_workspace *w,
                                int32_t count, int32_t first, int block_x, int block_y,
                                int features) {
    const int corner = block_y * GSC__BLOCK_ROWS * GSC__TILE + block_x * GSC__LANES;
    const gsc__vec columns = gsc__vramp((gsc_real)(block_x * GSC__LANES));
    gsc__vec local[REGISTER_FEATURES];
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
        const gsc__tile_splat *splat = &w->splats[n];
        const unsigned bits = gsc__tile_splat_rows(splat, block_x, block_y);
        if (!bits) continue;
        block_splat block = {.splat = splat,
                             .feature = w->features + n * features,
                             .dx = columns - gsc__vset(splat->x),
                             .feature_sums = features <= REGISTER_FEATURES ? local : w->sums};
        for (int i = 0; i < GSC__SLOT_FEATURES; ++i) block.moments[i] = gsc__vset(0);
        for (int c = 0; c < features; ++c) block.feature_sums[c] = gsc__vset(0);
        for (int r = 0; r < GSC__BLOCK_ROWS; ++r) {
            if (!(bits >> r & 1)) continue;
            gsc__mask reached = gsc__igt(rows[r].walked, gsc__iset(first + n));
            backward_row(task, w->gradients + corner + r * GSC__TILE, &block,
                         (gsc_real)(block_y * GSC__BLOCK_ROWS + r) - splat->y, reached, &rows[r],
                         features);
        }
        store_sums(&block, features, w->slots[n]);
    }
    for (int r = 0; r < GSC__BLOCK_ROWS; ++r) {
        gsc__vstore(w->transmittance + corner + r * GSC__TILE, rows[r].t);
        gsc__vstore(w->behind + corner + r * GSC__TILE, rows[r].behind);
    }
}

static void backward_chunk(const backward_task *task, const backward_workspace *w, int32_t count,
                           int32_t first) {
    for (int y = 0; y < GSC__BLOCKS_Y; ++y)
        for (int x = 0; x < GSC__BLOCKS_X; ++x)
            if (task->features.count == 3)
                backward_block(task, w, count, first, x, y, 3);
            else if (task->features.count == 4)
                backward_block(task, w, count, first, x, y, 4);
            else
                backward_block(task, w, count, first, x, y, task->features.count);
}

static void find_slots(const backward_task *task, const backward_workspace *w, const uint32_t *list,
                       int32_t count) {
    const uint32_t *slots = task->band->slots + (list - task->band->lists);
    for (int32_t n = 0; n < count; ++n) {
        w->slots[n] = task->slots + (int64_t)slots[n] * task->slot_size;
        __builtin_prefetch(w->slots[n], 1);
    }
}

static void load_plane(const gsc__frame *frame, const gsc__tile_area *area, const gsc_real *image,
                       gsc_real *tile) {
    gsc__plane_to_tile(image + frame->camera * frame->layout->pixels, area, frame->raster->width, 1,
                       0, tile);
}

/* Gradients with respect to the features, zero outside the image. */
static void load_gradients(const backward_task *task, const gsc__tile_area *area, gsc_real *tile) {
    const gsc__frame *frame = task->frame;
    const gsc__raster *raster = frame->raster;
    const gsc__raster_grads *grads = task->grads;
    const int64_t camera = frame->camera * raster->channels * frame->layout->pixels;
    for (int32_t c = 0; c < raster->channels; ++c, tile += GSC__TILE_PIXELS)
        if (grads->color)
            gsc__plane_to_tile(grads->color + camera + c * gsc__channel_step(raster), area,
                               raster->width, gsc__pixel_step(raster), 0, tile);
        else
            memset(tile, 0, GSC__TILE_PIXELS * sizeof *tile);
    if (grads->depth) {
        load_plane(frame, area, grads->depth, tile);
        tile += GSC__TILE_PIXELS;
    }
    if (grads->inv_depth) load_plane(frame, area, grads->inv_depth, tile);
}

/* S of the background is the final T times (background . g - gradient with respect to alpha),
 * since the alpha output is 1 - final T. */
static void begin_backward_tile(const backward_task *task, const backward_workspace *w,
                                const gsc__tile_area *area) {
    const gsc__frame *frame = task->frame;
    const gsc__raster *raster = frame->raster;
    load_gradients(task, area, w->gradients);
    gsc__plane_to_tile(frame->final_t, area, raster->width, 1, 1, w->transmittance);
    if (task->grads->alpha)
        load_plane(frame, area, task->grads->alpha, w->behind);
    else
        memset(w->behind, 0, GSC__TILE_PIXELS * sizeof *w->behind);
    for (int i = 0; i < GSC__TILE_PIXELS; ++i) w->behind[i] = -w->behind[i];
    if (raster->background)
        for (int32_t c = 0; c < raster->channels; ++c) {
            gsc_real b = raster->background[frame->camera * raster->background_stride + c];
            for (int i = 0; i < GSC__TILE_PIXELS; ++i)
                w->behind[i] += b * w->gradients[c * GSC__TILE_PIXELS + i];
        }
    for (int i = 0; i < GSC__TILE_PIXELS; ++i) w->behind[i] *= w->transmittance[i];
    for (int y = 0; y < GSC__TILE; ++y)
        for (int x = 0; x < GSC__TILE; ++x) {
            const int64_t pixel = (int64_t)(area->y + y) * raster->width + area->x + x;
            const bool inside = y < area->height && x < area->width;
            w->walked[y * GSC__TILE + x] = inside ? (gsc_real_int)frame->walked[pixel] : 0;
        }
}

/* How many entries of the tile's list any of its pixels walked. */
static int32_t deepest_walk(const backward_workspace *w) {
    gsc_real_int deepest = 0;
    for (int i = 0; i < GSC__TILE_PIXELS; ++i)
        if (w->walked[i] > deepest) deepest = w->walked[i];
    return (int32_t)deepest;
}

static void backward_tiles(void *arg, int64_t begin, int64_t end, int thread) {
    backward_task *task = arg;
    const gsc__band *band = task->band;
    const uint64_t *offsets = task->frame->offsets;
    backward_workspace w;
    (void)carve_backward_workspace(task->features.count,
                                   task->scratch + (size_t)thread * task->scratch_bytes, &w);
    for (int64_t tile = band->begin + begin; tile < band->begin + end; ++tile) {
        if (offsets[tile] == offsets[tile + 1]) continue;
        const gsc__tile_area area = gsc__tile_area_of(task->frame, tile);
        const uint32_t *list = band->lists + (offsets[tile] - offsets[band->begin]);
        begin_backward_tile(task, &w, &area);
        const int32_t length = deepest_walk(&w);
        int32_t first = length > 0 ? (length - 1) / GSC__CHUNK_SPLATS * GSC__CHUNK_SPLATS : -1;
        for (; first >= 0; first -= GSC__CHUNK_SPLATS) {
            int32_t count = length - first;
            if (count > GSC__CHUNK_SPLATS) count = GSC__CHUNK_SPLATS;
            if (!gsc__gather(&task->features, &area, list + first, count, w.splats, w.features)) {
                atomic_store_explicit(&task->damaged, true, memory_order_relaxed);
                break;
            }
            find_slots(task, &w, list + first, count);
            backward_chunk(task, &w, count, first);
        }
    }
}

/* Adds to slots [intersections of the band, slot size], which the caller has zeroed.  scratch:
 * gsc__blend_backward_scratch_bytes for each thread.  False if the state is damaged. */
static bool gsc__blend_backward_band(gsc__pool *pool, const gsc__raster_grads *grads,
                                     const gsc__frame *frame, const gsc__band *band,
                                     gsc_real *slots, void *scratch) {
    const gsc__raster *raster = frame->raster;
    backward_task task = {
        .grads = grads,
        .frame = frame,
        .band = band,
        .slots = slots,
        .scratch = scratch,
        .scratch_bytes = gsc__blend_backward_scratch_bytes(raster),
        .features = gsc__features_of(frame, grads->depth != NULL, grads->inv_depth != NULL),
        .slot_size = gsc__slot_size(raster, grads),
        .clamp_stops = !(raster->flags & GSC_RASTER_COMPAT_3DGS),
        .absolute = grads->means2d_abs != NULL};
    gsc__parallel_for(pool, band->end - band->begin, gsc__band_grain(frame, band), backward_tiles,
                      &task);
    return !atomic_load(&task.damaged);
}

#endif
