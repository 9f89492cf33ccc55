#include "project_backward.h"

#include "core/limits.h"
#include "raster_scratch.h"

#include <string.h>

/* Backward works in bands of its own: the lists are made again, this time with a slot
 * for each entry, and only as many at once as the scratch has slots for. */
#define BAND_MAX (INT64_C(1) << 31)
#define BAND_USUAL (INT64_C(1) << 20) /* entries; more would only cost memory */

typedef struct backward_scratch {
    gsc__bin_item *items;   /* [N] */
    uint32_t *cursors;      /* [tiles] */
    uint32_t *slot_offsets; /* [N + 1] */
    uint8_t *seen;          /* [N] */
    gsc__splat_sums *sums;  /* [N] */
    void *partials, *workspaces;
    unsigned char *entries; /* slot numbers, then slots, for capacity entries */
    size_t entries_bytes;
} backward_scratch;

static size_t place(unsigned char *base, size_t *at, size_t bytes, void *pointer) {
    void *here = base ? base + *at : NULL;
    memcpy(pointer, &here, sizeof here);
    return *at += gsc__aligned_bytes(bytes);
}

/* Lays out everything but the entries, which take the rest; returns its size. */
static size_t scratch_layout(const gsc__raster *raster, const gsc__state_layout *layout,
                             int threads, unsigned char *base, backward_scratch *s) {
    const size_t n = (size_t)raster->gaussians;
    size_t at = 0;
    place(base, &at, n * sizeof *s->items, &s->items);
    place(base, &at, (size_t)layout->tiles * sizeof *s->cursors, &s->cursors);
    place(base, &at, (n + 1) * sizeof *s->slot_offsets, &s->slot_offsets);
    place(base, &at, n, &s->seen);
    place(base, &at, n * sizeof *s->sums, &s->sums);
    place(base, &at, gsc__unproject_partials_bytes(raster), &s->partials);
    place(base, &at, (size_t)threads * gsc__unblend_scratch_bytes(raster), &s->workspaces);
    return place(base, &at, 0, &s->entries);
}

static size_t entry_bytes(int32_t slot_size) {
    return sizeof(uint32_t) + (size_t)slot_size * sizeof(gsc_real);
}

size_t gsc__backward_scratch_bytes(const gsc__raster *raster, const gsc__state_layout *layout,
                                   int threads, int64_t intersections, int64_t largest_tile) {
    backward_scratch s;
    int64_t band = intersections < BAND_USUAL ? intersections : BAND_USUAL;
    if (band < largest_tile) band = largest_tile;
    return scratch_layout(raster, layout, threads, NULL, &s) +
           gsc__aligned_bytes(
               (size_t)band * entry_bytes(GSC__SLOT_FEATURES + raster->channels + 2) + 256);
}

static gsc_status damaged(void) {
    return gsc__fail(GSC_ERROR_STATE, "raster_backward: state is damaged");
}

/* Entries of the largest band that both buffers hold. */
static int64_t band_capacity(const gsc__raster_buffers *buffers, const backward_scratch *s,
                             int32_t slot_size) {
    size_t room = s->entries_bytes > 256 ? s->entries_bytes - 256 : 0;
    int64_t capacity = (int64_t)(room / entry_bytes(slot_size));
    int64_t lists = (int64_t)(buffers->intersections_bytes / sizeof(uint32_t));
    if (capacity > lists) capacity = lists;
    return capacity > BAND_MAX ? BAND_MAX : capacity;
}

typedef struct backward_call {
    gsc_context *context;
    const gsc__raster *raster;
    const gsc__raster_buffers *buffers;
    const gsc__raster_grads *grads;
    backward_scratch scratch;
    int32_t index;
} backward_call;

static gsc_status unblend_bands(const backward_call *call, const gsc__frame *frame) {
    gsc__pool *pool = gsc__cpu_pool(call->context);
    const gsc__raster *raster = call->raster;
    const backward_scratch *s = &call->scratch;
    const int32_t slot_size = gsc__unblend_slot_size(raster, call->grads);
    const int64_t capacity = band_capacity(call->buffers, s, slot_size);
    gsc_real *slots =
        (gsc_real *)(void *)(s->entries + gsc__aligned_bytes((size_t)capacity * sizeof(uint32_t)));
    for (int64_t begin = 0; begin < frame->layout->tiles;) {
        gsc__band band = {.begin = begin,
                          .end = gsc__band_end(frame, begin, capacity),
                          .lists = call->buffers->intersections,
                          .slots = (uint32_t *)(void *)s->entries,
                          .slot_offsets = s->slot_offsets};
        if (band.end == begin)
            return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                             "raster_backward: intersections and scratch hold %lld entries, the "
                             "fullest tile has %lld",
                             (long long)capacity, (long long)frame->header->largest_tile);
        size_t count = (size_t)(frame->offsets[band.end] - frame->offsets[band.begin]);
        if (!gsc__bins_slots(pool, frame, s->items, &band)) return damaged();
        if (!gsc__bins_fill(pool, frame, s->items, &band, s->cursors)) return damaged();
        memset(slots, 0, count * (size_t)slot_size * sizeof *slots);
        if (!gsc__unblend_band(pool, raster, call->index, call->grads, frame, &band, slots,
                               s->workspaces))
            return damaged();
        gsc__unproject_add_slots(pool, raster, call->index, call->grads, s->items,
                                 frame->header->visible, &band, slots, s->sums);
        begin = band.end;
    }
    return GSC_OK;
}

/* Sum over the pixels of final T times the gradient by a channel: one task a channel,
 * rows in order. */
typedef struct background_task {
    const gsc__raster *raster;
    const gsc__raster_grads *grads;
    const gsc__frame *frame;
    int32_t index;
} background_task;

static void background_range(void *arg, int64_t begin, int64_t end, int thread) {
    const background_task *task = arg;
    const gsc__raster *raster = task->raster;
    const int64_t pixels = task->frame->layout->pixels;
    const bool last = (raster->flags & GSC_RASTER_PIXEL_LAST) != 0;
    const gsc_real *color = task->grads->color + task->index * raster->channels * pixels;
    (void)thread;
    for (int64_t c = begin; c < end; ++c) {
        const gsc_real *g = last ? color + c : color + c * pixels;
        const int64_t step = last ? raster->channels : 1;
        double sum = 0;
        for (int64_t i = 0; i < pixels; ++i)
            sum += (double)task->frame->final_t[i] * (double)g[i * step];
        task->grads->background[task->index * raster->background_stride + c] += (gsc_real)sum;
    }
}

static gsc_status backward_frame(backward_call *call, gsc__frame *frame) {
    gsc__pool *pool = gsc__cpu_pool(call->context);
    const gsc__raster *raster = call->raster;
    const backward_scratch *s = &call->scratch;
    GSC__TRY(gsc__frame_check(frame, raster, true, "raster_backward"));
    if (!gsc__bins_prepare(pool, frame, raster->gaussians, s->items)) return damaged();
    memset(s->seen, 0, (size_t)raster->gaussians);
    memset(s->sums, 0, (size_t)raster->gaussians * sizeof *s->sums);
    for (int64_t i = 0; i < frame->header->visible; ++i) {
        if (s->seen[s->items[i].gaussian]) return damaged(); /* listed twice */
        s->seen[s->items[i].gaussian] = 1;
    }
    GSC__TRY(unblend_bands(call, frame));
    gsc__unproject_frame(pool, raster, call->index, call->grads, frame, s->seen, s->sums,
                         s->partials);
    if (call->grads->background && call->grads->color) {
        background_task task = {raster, call->grads, frame, call->index};
        gsc__parallel_for(pool, raster->channels, 1, background_range, &task);
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

gsc_status gsc__cpu_raster_backward(const gsc__raster_call *call, const gsc_raster_info *info,
                                    const gsc__raster_grads *grads) {
    gsc_context *context = call->call.context;
    const gsc__raster *raster = &call->raster;
    const gsc__raster_buffers *buffers = &call->buffers;
    const int threads = gsc__pool_threads(gsc__cpu_pool(context));
    backward_call task = {.context = context, .raster = raster, .buffers = buffers, .grads = grads};
    gsc__state_layout layout;
    gsc__state_plan(raster, &layout);
    if (info->layout != layout.hash)
        return gsc__fail(GSC_ERROR_STATE, "%s: info has layout %016llx, these args make %016llx",
                         call->call.function, (unsigned long long)info->layout,
                         (unsigned long long)layout.hash);
    size_t fixed = scratch_layout(raster, &layout, threads, buffers->scratch, &task.scratch);
    if (buffers->scratch_bytes < fixed)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "%s: scratch has %zu bytes, expected at least %zu", call->call.function,
                         buffers->scratch_bytes, fixed);
    task.scratch.entries_bytes = buffers->scratch_bytes - fixed;
    if (!(raster->flags & GSC_RASTER_GRAD_ADD)) clear_grads(raster, grads);
    for (task.index = 0; task.index < raster->cameras; ++task.index) {
        gsc__frame frame;
        gsc__frame_open(&layout, buffers->state, task.index, &frame);
        GSC__TRY(backward_frame(&task, &frame));
    }
    return GSC_OK;
}
