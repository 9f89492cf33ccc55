#include "blend_forward.h"

#include "core/limits.h"
#include "project.h"
#include "raster_scratch.h"

#include <string.h>

/* Entries of one band: slot and cursor numbers are 32 bits wide. */
#define BAND_MAX (INT64_C(1) << 31)

/* Scratch of render: depth-ordered items, a cursor per tile, a workspace a thread. */
typedef struct render_scratch {
    gsc__bin_item *items;
    uint32_t *cursors;
    void *workspaces;
} render_scratch;

static size_t render_scratch_layout(const gsc__raster *raster, const gsc__state_layout *layout,
                                    int threads, void *base, render_scratch *scratch) {
    unsigned char *at = base;
    size_t items = gsc__aligned_bytes((size_t)raster->gaussians * sizeof(gsc__bin_item));
    size_t cursors = gsc__aligned_bytes((size_t)layout->tiles * sizeof(uint32_t));
    if (base) {
        scratch->items = (gsc__bin_item *)(void *)at;
        scratch->cursors = (uint32_t *)(void *)(at + items);
        scratch->workspaces = at + items + cursors;
    }
    return items + cursors + (size_t)threads * gsc__blend_scratch_bytes(raster);
}

gsc_status gsc__cpu_raster_sizes(const gsc__raster_call *call, gsc_raster_info *info) {
    const gsc__raster *raster = &call->raster;
    gsc_context *context = call->call.context;
    const int threads = gsc__pool_threads(gsc__cpu_pool(context));
    gsc__state_layout layout;
    render_scratch scratch = {0};
    gsc__state_plan(raster, &layout);
    size_t project = gsc__project_scratch_bytes(raster, &layout, threads);
    size_t render = render_scratch_layout(raster, &layout, threads, NULL, &scratch);
    info->layout = layout.hash;
    info->state_bytes = layout.bytes;
    info->forward_scratch_bytes = project > render ? project : render;
    if (info->intersections_bytes == 0)
        info->intersections_bytes = (size_t)info->intersections * sizeof(uint32_t);
    /* Unless project said otherwise, one tile may hold every Gaussian. */
    int64_t fullest = (int64_t)(info->intersections_min_bytes / sizeof(uint32_t));
    if (fullest == 0) fullest = raster->gaussians;
    if (fullest > info->intersections) fullest = info->intersections;
    info->backward_scratch_bytes =
        gsc__backward_scratch_bytes(raster, &layout, threads, info->intersections, fullest);
    return GSC_OK;
}

gsc_status gsc__cpu_raster_project(const gsc__raster_call *call, gsc_raster_info *info) {
    gsc_context *context = call->call.context;
    const gsc__raster *raster = &call->raster;
    const gsc__raster_buffers *buffers = &call->buffers;
    const gsc__raster_outputs *outputs = &call->outputs;
    gsc__state_layout layout;
    int64_t total = 0, visible = 1, largest_frame = 0, largest_tile = 0;
    gsc__state_plan(raster, &layout);
    for (int32_t c = 0; c < raster->cameras; ++c) {
        gsc__frame frame;
        gsc__frame_open(&layout, buffers->state, c, &frame);
        GSC__TRY(gsc__project_frame(gsc__cpu_pool(context), raster, c, outputs, &frame,
                                    buffers->scratch));
        int64_t count = frame.header->intersections;
        total += count;
        if (frame.header->visible > visible) visible = frame.header->visible;
        if (count > largest_frame) largest_frame = count;
        if (frame.header->largest_tile > largest_tile) largest_tile = frame.header->largest_tile;
    }
    if (!info) return GSC_OK;
    info->visible = visible; /* 0 would mean that it is not known */
    info->intersections = total;
    /* Cameras follow each other through one buffer. */
    info->intersections_bytes = (size_t)largest_frame * sizeof(uint32_t);
    info->intersections_min_bytes = (size_t)largest_tile * sizeof(uint32_t);
    return gsc__cpu_raster_sizes(call, info);
}

/* Per-Gaussian statistics and what their sums in fixed order need: a slot per list
 * entry, summed splat by splat in tile order. */
typedef struct statistics {
    const gsc__raster_outputs *outputs;
    gsc__entry_statistics *entries; /* [slots of the band] */
    const gsc__bin_item *items;
    const gsc__band *band;
    int64_t base; /* of the camera in the outputs */
} statistics;

static void clear_statistics(const gsc__raster *raster, const gsc__raster_outputs *out) {
    size_t count = (size_t)(raster->gaussians * raster->cameras);
    if (out->touched) memset(out->touched, 0, count * sizeof *out->touched);
    if (out->weight_count) memset(out->weight_count, 0, count * sizeof *out->weight_count);
    if (out->weight_sum) memset(out->weight_sum, 0, count * sizeof *out->weight_sum);
    if (out->weight_blend) memset(out->weight_blend, 0, count * sizeof *out->weight_blend);
    if (out->weight_distance) memset(out->weight_distance, 0, count * sizeof *out->weight_distance);
}

static void add_statistics(void *arg, int64_t begin, int64_t end, int thread) {
    const statistics *s = arg;
    const gsc__raster_outputs *out = s->outputs;
    (void)thread;
    for (int64_t i = begin; i < end; ++i) {
        const int64_t at = s->base + s->items[i].gaussian;
        for (uint32_t slot = s->band->slot_offsets[i]; slot < s->band->slot_offsets[i + 1];
             ++slot) {
            const gsc__entry_statistics *entry = &s->entries[slot];
            if (out->touched) out->touched[at] += entry->touched;
            if (out->weight_count) out->weight_count[at] += entry->weight_count;
            if (out->weight_sum) out->weight_sum[at] += entry->weight_sum;
            if (out->weight_blend) out->weight_blend[at] += entry->weight_blend;
            if (out->weight_distance) out->weight_distance[at] += entry->weight_distance;
        }
    }
}

/* Memory that only statistics need, for bands of at most capacity entries. */
typedef struct statistics_memory {
    void *slots, *slot_offsets, *entries;
    size_t slots_bytes, slot_offsets_bytes, entries_bytes;
} statistics_memory;

static gsc_status statistics_open(gsc_context *context, int64_t visible, int64_t capacity,
                                  statistics_memory *memory) {
    memory->slots_bytes = (size_t)capacity * sizeof(uint32_t);
    memory->slot_offsets_bytes = (size_t)(visible + 1) * sizeof(uint32_t);
    memory->entries_bytes = (size_t)capacity * sizeof(gsc__entry_statistics);
    GSC__TRY(gsc__context_alloc(context, memory->slots_bytes, "statistics", NULL, &memory->slots));
    GSC__TRY(gsc__context_alloc(context, memory->slot_offsets_bytes, "statistics", NULL,
                                &memory->slot_offsets));
    return gsc__context_alloc(context, memory->entries_bytes, "statistics", NULL, &memory->entries);
}

static void statistics_close(gsc_context *context, const statistics_memory *memory) {
    gsc__context_release(context, memory->entries, memory->entries_bytes, NULL);
    gsc__context_release(context, memory->slot_offsets, memory->slot_offsets_bytes, NULL);
    gsc__context_release(context, memory->slots, memory->slots_bytes, NULL);
}

static gsc_status damaged(void) {
    return gsc__fail(GSC_ERROR_STATE, "raster_blend: state is damaged");
}

/* Blends one band; memory->slots is NULL without statistics. */
static gsc_status render_band(gsc_context *context, const gsc__raster *raster, int32_t index,
                              const gsc__raster_outputs *outputs, const gsc__frame *frame,
                              const render_scratch *scratch, const statistics_memory *memory,
                              gsc__band *band) {
    gsc__pool *pool = gsc__cpu_pool(context);
    gsc__entry_statistics *entries = memory->entries;
    if (memory->slots) {
        size_t count = (size_t)(frame->offsets[band->end] - frame->offsets[band->begin]);
        band->slots = memory->slots;
        band->slot_offsets = memory->slot_offsets;
        if (!gsc__bins_slots(pool, frame, scratch->items, band)) return damaged();
        memset(entries, 0, count * sizeof *entries);
    }
    if (!gsc__bins_fill(pool, frame, scratch->items, band, scratch->cursors)) return damaged();
    if (!gsc__blend_band(pool, raster, index, outputs, frame, band, memory->slots ? entries : NULL,
                         scratch->workspaces))
        return damaged();
    if (!memory->slots) return GSC_OK;
    statistics task = {outputs, entries, scratch->items, band, index * raster->gaussians};
    gsc__parallel_for(pool, frame->header->visible, 1024, add_statistics, &task);
    return GSC_OK;
}

static gsc_status render_bands(gsc_context *context, const gsc__raster *raster, int32_t index,
                               const gsc__raster_buffers *buffers,
                               const gsc__raster_outputs *outputs, const gsc__frame *frame,
                               const render_scratch *scratch, const statistics_memory *memory) {
    int64_t capacity = (int64_t)(buffers->intersections_bytes / sizeof(uint32_t));
    if (capacity > BAND_MAX) capacity = BAND_MAX;
    for (int64_t begin = 0; begin < frame->layout->tiles;) {
        gsc__band band = {.begin = begin, .lists = buffers->intersections};
        band.end = gsc__band_end(frame, begin, capacity);
        if (band.end == begin)
            return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                             "raster_blend: intersections has %zu bytes, the fullest tile "
                             "needs %lld",
                             buffers->intersections_bytes,
                             (long long)frame->header->largest_tile * (long long)sizeof(uint32_t));
        GSC__TRY(render_band(context, raster, index, outputs, frame, scratch, memory, &band));
        begin = band.end;
    }
    return GSC_OK;
}

static gsc_status render_frame(gsc_context *context, const gsc__raster *raster, int32_t index,
                               const gsc__raster_buffers *buffers,
                               const gsc__raster_outputs *outputs, gsc__frame *frame,
                               const render_scratch *scratch) {
    statistics_memory memory = {0};
    gsc_status status = GSC_OK;
    GSC__TRY(gsc__frame_check(frame, raster, false, "raster_blend"));
    if (!gsc__bins_prepare(gsc__cpu_pool(context), frame, raster->gaussians, scratch->items))
        return damaged();
    if (gsc__wants_statistics(outputs)) {
        int64_t capacity = (int64_t)(buffers->intersections_bytes / sizeof(uint32_t));
        if (capacity > frame->header->intersections) capacity = frame->header->intersections;
        status = statistics_open(context, frame->header->visible, capacity, &memory);
    }
    if (status == GSC_OK)
        status = render_bands(context, raster, index, buffers, outputs, frame, scratch, &memory);
    statistics_close(context, &memory);
    if (status == GSC_OK) frame->header->rendered = 1;
    return status;
}

gsc_status gsc__cpu_raster_blend(const gsc__raster_call *call, const gsc_raster_info *info,
                                 int64_t *overflow) {
    gsc_context *context = call->call.context;
    const gsc__raster *raster = &call->raster;
    const gsc__raster_buffers *buffers = &call->buffers;
    const gsc__raster_outputs *outputs = &call->outputs;
    gsc__state_layout layout;
    render_scratch scratch = {0};
    (void)info;
    gsc__state_plan(raster, &layout);
    (void)render_scratch_layout(raster, &layout, gsc__pool_threads(gsc__cpu_pool(context)),
                                buffers->scratch, &scratch);
    clear_statistics(raster, outputs);
    for (int32_t c = 0; c < raster->cameras; ++c) {
        gsc__frame frame;
        gsc__frame_open(&layout, buffers->state, c, &frame);
        GSC__TRY(render_frame(context, raster, c, buffers, outputs, &frame, &scratch));
    }
    if (overflow) *overflow = 0;
    return GSC_OK;
}

typedef struct visible_task {
    const gsc__raster *raster;
    gsc__camera camera;
    uint8_t *visible; /* [N] */
} visible_task;

static void mark_range(void *arg, int64_t begin, int64_t end, int thread) {
    const visible_task *task = arg;
    (void)thread;
    for (int64_t i = begin; i < end; ++i) {
        gsc_real point[3];
        gsc__to_camera(&task->camera, task->raster->means + 3 * i, point);
        task->visible[i] = gsc__in_depth_range(&task->camera, point);
    }
}

gsc_status gsc__cpu_mark_visible(const gsc__raster_call *call, uint8_t *visible) {
    gsc_context *context = call->call.context;
    const gsc__raster *raster = &call->raster;
    for (int32_t c = 0; c < raster->cameras; ++c) {
        visible_task task = {.raster = raster, .visible = visible + c * raster->gaussians};
        gsc__camera_load_view(raster, c, &task.camera);
        gsc__parallel_for(gsc__cpu_pool(context), raster->gaussians, 16384, mark_range, &task);
    }
    return GSC_OK;
}
