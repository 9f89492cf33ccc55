/* How much scratch backward needs. */
#ifndef GSC_CPU_RASTER_BACKWARD_H
#define GSC_CPU_RASTER_BACKWARD_H

#include "project_backward.h"

/* Backward works in bands of its own: the lists are made again, this time with a slot for each
 * intersection, and only as many at once as the scratch has slots for. */
#define BAND_USUAL (INT64_C(1) << 20) /* intersections; more would only cost memory */

typedef struct backward_scratch {
    gsc__listed_splat *splats; /* [N] in depth order */
    uint32_t *cursors;         /* [tiles] */
    uint32_t *slot_offsets;    /* [N + 1] */
    uint8_t *seen;             /* [N] */
    gsc__splat_sums *sums;     /* [N] */
    void *shares, *workspaces;
    /* The rest is for one band. */
    uint32_t *slot_numbers; /* [capacity] */
    gsc_real *slots;        /* [capacity, slot size] */
} backward_scratch;

static size_t carve_backward(const gsc__raster *raster, const gsc__state_layout *layout,
                             int threads, void *base, backward_scratch *s) {
    const size_t n = (size_t)raster->gaussians;
    gsc__carver carver = {.base = base};
    s->splats = gsc__carve(&carver, n, sizeof *s->splats);
    s->cursors = gsc__carve(&carver, (size_t)layout->tiles, sizeof *s->cursors);
    s->slot_offsets = gsc__carve(&carver, n + 1, sizeof *s->slot_offsets);
    s->seen = gsc__carve(&carver, n, sizeof *s->seen);
    s->sums = gsc__carve(&carver, n, sizeof *s->sums);
    s->shares = gsc__carve(&carver, 1, gsc__project_backward_scratch_bytes(raster));
    s->workspaces = gsc__carve(&carver, (size_t)threads, gsc__blend_backward_scratch_bytes(raster));
    return carver.at;
}

static size_t carve_band(int64_t capacity, int32_t slot_size, void *base, backward_scratch *s) {
    gsc__carver carver = {.base = base};
    s->slot_numbers = gsc__carve(&carver, (size_t)capacity, sizeof *s->slot_numbers);
    s->slots = gsc__carve(&carver, (size_t)capacity * (size_t)slot_size, sizeof *s->slots);
    return carver.at;
}

/* The largest capacity for which carve_band needs at most so many bytes. */
static int64_t band_capacity(size_t bytes, int32_t slot_size) {
    const size_t padding = 2 * GSC__BUFFER_ALIGNMENT;
    const size_t each = sizeof(uint32_t) + (size_t)slot_size * sizeof(gsc_real);
    return bytes > padding ? (int64_t)((bytes - padding) / each) : 0;
}

/* For frames of at most so many intersections, whose longest list has largest_tile.  Less works
 * too, in smaller bands, down to that of the longest list. */
static size_t gsc__backward_scratch_bytes(const gsc__raster *raster,
                                          const gsc__state_layout *layout, int threads,
                                          int64_t intersections, int64_t largest_tile) {
    backward_scratch s;
    int64_t band = intersections < BAND_USUAL ? intersections : BAND_USUAL;
    if (band < largest_tile) band = largest_tile;
    return carve_backward(raster, layout, threads, NULL, &s) +
           carve_band(band, GSC__SLOT_FEATURES + raster->channels + 2, NULL, &s) +
           2 * GSC__BUFFER_ALIGNMENT;
}

typedef struct backward_call {
    const gsc__raster_call *call;
    const gsc__raster_grads *grads;
    gsc__pool *pool;
    backward_scratch scratch;
    int64_t capacity; /* of a band */
    int32_t slot_size;
} backward_call;

/* False if the state is damaged. */
static bool backward_band(const backward_call *b, const gsc__frame *frame, gsc__band *band) {
    const backward_scratch *s = &b->scratch;
    if (!gsc__tile_lists_slots(b->pool, frame, s->splats, band)) return false;
    if (!gsc__tile_lists_fill(b->pool, frame, s->splats, band, s->cursors)) return false;
    memset(s->slots, 0,
           gsc__band_intersections(frame, band) * (size_t)b->slot_size * sizeof *s->slots);
    if (!gsc__blend_backward_band(b->pool, b->grads, frame, band, s->slots, s->workspaces))
        return false;
    gsc__add_slots(b->pool, b->grads, frame, s->splats, band, s->slots, s->sums);
    return true;
}

static gsc_status backward_bands(const backward_call *b, const gsc__frame *frame) {
    const char *function = b->call->call.function;
    for (int64_t begin = 0; begin < frame->layout->tiles;) {
        gsc__band band = {.begin = begin,
                          .end = gsc__band_end(frame, begin, b->capacity),
                          .lists = b->call->buffers.intersections,
                          .slots = b->scratch.slot_numbers,
                          .slot_offsets = b->scratch.slot_offsets};
        if (band.end == begin)
            return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                             "%s: intersections and scratch hold %lld intersections, the fullest "
                             "tile has %lld",
                             function, (long long)b->capacity,
                             (long long)frame->header->largest_tile);
        if (!backward_band(b, frame, &band)) return gsc__frame_damaged(function);
        begin = band.end;
    }
    return GSC_OK;
}

/* Sum over the pixels of final T times the gradient with respect to a channel: one task a
 * channel, rows in order. */
typedef struct background_task {
    const gsc__raster_grads *grads;
    const gsc__frame *frame;
} background_task;

static void background_range(void *arg, int64_t begin, int64_t end, int thread) {
    const background_task *task = arg;
    const gsc__frame *frame = task->frame;
    const gsc__raster *raster = frame->raster;
    const int64_t pixels = frame->layout->pixels;
    const bool last = (raster->flags & GSC_RASTER_PIXEL_LAST) != 0;
    const gsc_real *color = task->grads->color + frame->camera * raster->channels * pixels;
    (void)thread;
    for (int64_t c = begin; c < end; ++c) {
        const gsc_real *g = last ? color + c : color + c * pixels;
        const int64_t step = last ? raster->channels : 1;
        double sum = 0;
        for (int64_t i = 0; i < pixels; ++i) sum += (double)frame->final_t[i] * (double)g[i * step];
        task->grads->background[frame->camera * raster->background_stride + c] += (gsc_real)sum;
    }
}

static gsc_status backward_frame(const backward_call *b, const gsc__frame *frame) {
    const char *function = b->call->call.function;
    const gsc__raster *raster = frame->raster;
    const backward_scratch *s = &b->scratch;
    GSC__TRY(gsc__frame_check(frame, true, function));
    if (!gsc__tile_lists_prepare(b->pool, frame, s->splats)) return gsc__frame_damaged(function);
    memset(s->seen, 0, (size_t)raster->gaussians);
    memset(s->sums, 0, (size_t)raster->gaussians * sizeof *s->sums);
    for (int64_t i = 0; i < frame->header->visible; ++i) {
        uint8_t *seen = &s->seen[s->splats[i].gaussian];
        if (*seen) return gsc__frame_damaged(function); /* listed twice */
        *seen = 1;
    }
    GSC__TRY(backward_bands(b, frame));
    gsc__project_backward_frame(b->pool, b->grads, frame, s->seen, s->sums, s->shares);
    if (b->grads->background && b->grads->color) {
        background_task task = {b->grads, frame};
        gsc__parallel_for(b->pool, raster->channels, 1, background_range, &task);
    }
    return GSC_OK;
}

static void clear(gsc_real *gradient, int64_t count) {
    if (gradient) memset(gradient, 0, (size_t)count * sizeof *gradient);
}

static void clear_grads(const gsc__raster *raster, const gsc__raster_grads *grads) {
    const int64_t n = raster->gaussians, cameras = raster->cameras;
    clear(grads->means, 3 * n);
    clear(grads->opacities, n);
    clear(grads->scales, 3 * n);
    clear(grads->rotations, 4 * n);
    clear(grads->covariances, 6 * n);
    clear(grads->colors, n * raster->channels * (raster->colors_stride ? cameras : 1));
    clear(grads->sh, 3 * raster->sh_coefficients * n);
    clear(grads->sh_dc, 3 * n);
    clear(grads->means2d, cameras * n * grads->means2d_axes);
    clear(grads->means2d_abs, cameras * n * grads->means2d_abs_axes);
    clear(grads->view, 16 * cameras);
    clear(grads->position, 3 * cameras);
    clear(grads->background, raster->channels * (raster->background_stride ? cameras : 1));
}

/* Lays the scratch out, the fixed part and then as large a band as fits. */
static gsc_status open_scratch(backward_call *b, const gsc__state_layout *layout) {
    const gsc__raster_buffers *buffers = &b->call->buffers;
    const size_t fixed = carve_backward(&b->call->raster, layout, gsc__pool_threads(b->pool),
                                        buffers->scratch, &b->scratch);
    if (buffers->scratch_bytes < fixed)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "%s: scratch has %zu bytes, expected at least %zu", b->call->call.function,
                         buffers->scratch_bytes, fixed);
    const int64_t lists = (int64_t)(buffers->intersections_bytes / sizeof(uint32_t));
    b->slot_size = gsc__slot_size(&b->call->raster, b->grads);
    b->capacity = band_capacity(buffers->scratch_bytes - fixed, b->slot_size);
    if (b->capacity > lists) b->capacity = lists;
    if (b->capacity > GSC__BAND_MAX) b->capacity = GSC__BAND_MAX;
    (void)carve_band(b->capacity, b->slot_size, (unsigned char *)buffers->scratch + fixed,
                     &b->scratch);
    return GSC_OK;
}

static gsc_status gsc__cpu_raster_backward(const gsc__raster_call *call,
                                           const gsc_raster_info *info,
                                           const gsc__raster_grads *grads) {
    const gsc__raster *raster = &call->raster;
    backward_call b = {.call = call, .grads = grads, .pool = gsc__cpu_pool(call->call.context)};
    gsc__state_layout layout;
    gsc__state_plan(raster, &layout);
    if (info->layout != layout.hash)
        return gsc__fail(GSC_ERROR_STATE, "%s: info has layout %016llx, these args make %016llx",
                         call->call.function, (unsigned long long)info->layout,
                         (unsigned long long)layout.hash);
    GSC__TRY(open_scratch(&b, &layout));
    if (!(raster->flags & GSC_RASTER_GRAD_ADD)) clear_grads(raster, grads);
    for (int32_t c = 0; c < raster->cameras; ++c) {
        const gsc__frame frame = gsc__frame_open(raster, &layout, call->buffers.state, c);
        GSC__TRY(backward_frame(&b, &frame));
    }
    return GSC_OK;
}

#endif
