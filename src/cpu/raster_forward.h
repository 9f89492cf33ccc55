/* The forward steps: project, and blend with the sums over pixels that it may write for each
 * Gaussian. */
#ifndef GSC_CPU_RASTER_FORWARD_H
#define GSC_CPU_RASTER_FORWARD_H

#include "blend_forward.h"
#include "raster_backward.h"

/* ---------------------------------------------------------------- statistics */

/* They are added up in one order, whatever the threads do: each intersection has a slot of its
 * own, and a splat's slots are added in tile order. */

/* Memory that only statistics need; all NULL without them. */
typedef struct statistics {
    gsc__blend_statistics *entries; /* [intersections of the band] by slot */
    uint32_t *slots;                /* [intersections of the band] */
    uint32_t *slot_offsets;         /* [visible + 1] */
} statistics;

static void clear_statistics(const gsc__raster *raster, const gsc__raster_outputs *out) {
    const size_t count = (size_t)(raster->gaussians * raster->cameras);
    if (out->touched) memset(out->touched, 0, count * sizeof *out->touched);
    if (out->weight_count) memset(out->weight_count, 0, count * sizeof *out->weight_count);
    if (out->weight_sum) memset(out->weight_sum, 0, count * sizeof *out->weight_sum);
    if (out->weight_blend) memset(out->weight_blend, 0, count * sizeof *out->weight_blend);
    if (out->weight_distance) memset(out->weight_distance, 0, count * sizeof *out->weight_distance);
}

static size_t carve_statistics(const gsc__frame *frame, size_t capacity, void *base,
                               statistics *s) {
    const size_t visible = (size_t)frame->header->visible;
    gsc__carver carver = {.base = base};
    s->entries = gsc__carve(&carver, capacity, sizeof *s->entries);
    s->slots = gsc__carve(&carver, capacity, sizeof *s->slots);
    s->slot_offsets = gsc__carve(&carver, visible + 1, sizeof *s->slot_offsets);
    return carver.at;
}

/* For bands of at most capacity intersections. */
static gsc_status take_statistics(gsc__workspace *workspace, const gsc__frame *frame,
                                  int64_t capacity, statistics *s) {
    void *memory;
    if (capacity > frame->header->intersections) capacity = frame->header->intersections;
    const size_t bytes = carve_statistics(frame, (size_t)capacity, NULL, s);
    GSC__TRY(gsc__workspace_take(workspace, "statistics", bytes, &memory));
    (void)carve_statistics(frame, (size_t)capacity, memory, s);
    return GSC_OK;
}

/* Numbers the band's slots and clears them.  False if the state is damaged. */
static bool begin_statistics(gsc__pool *pool, const gsc__frame *frame, const statistics *s,
                             const gsc__listed_splat *splats, gsc__band *band) {
    band->slots = s->slots;
    band->slot_offsets = s->slot_offsets;
    if (!gsc__tile_lists_slots(pool, frame, splats, band)) return false;
    memset(s->entries, 0, gsc__band_intersections(frame, band) * sizeof *s->entries);
    return true;
}

typedef struct statistics_task {
    const gsc__raster_outputs *outputs;
    const gsc__blend_statistics *entries;
    const gsc__listed_splat *splats;
    const gsc__band *band;
    int64_t base; /* of the camera in the outputs */
} statistics_task;

/* Adds the band's slots to the outputs. */
static void add_statistics(void *arg, int64_t begin, int64_t end, int thread) {
    const statistics_task *task = arg;
    const gsc__raster_outputs *out = task->outputs;
    const uint32_t *slot_offsets = task->band->slot_offsets;
    (void)thread;
    for (int64_t i = begin; i < end; ++i) {
        const int64_t at = task->base + task->splats[i].gaussian;
        for (uint32_t slot = slot_offsets[i]; slot < slot_offsets[i + 1]; ++slot) {
            const gsc__blend_statistics *entry = &task->entries[slot];
            if (out->touched) out->touched[at] += entry->touched;
            if (out->weight_count) out->weight_count[at] += entry->weight_count;
            if (out->weight_sum) out->weight_sum[at] += entry->weight_sum;
            if (out->weight_blend) out->weight_blend[at] += entry->weight_blend;
            if (out->weight_distance) out->weight_distance[at] += entry->weight_distance;
        }
    }
}

/* --------------------------------------------------------------------- steps */

typedef struct blend_scratch {
    gsc__listed_splat *splats; /* [N] in depth order */
    uint32_t *cursors;         /* [tiles] */
    void *workspaces;          /* a thread's after the other's */
} blend_scratch;

static size_t carve_blend_scratch(const gsc__raster *raster, const gsc__state_layout *layout,
                                  int threads, void *base, blend_scratch *scratch) {
    gsc__carver carver = {.base = base};
    scratch->splats = gsc__carve(&carver, (size_t)raster->gaussians, sizeof *scratch->splats);
    scratch->cursors = gsc__carve(&carver, (size_t)layout->tiles, sizeof *scratch->cursors);
    scratch->workspaces = gsc__carve(&carver, (size_t)threads, gsc__blend_scratch_bytes(raster));
    return carver.at;
}

static gsc_status gsc__cpu_raster_sizes(const gsc__raster_call *call, gsc_raster_info *info) {
    const gsc__raster *raster = &call->raster;
    const int threads = gsc__pool_threads(gsc__cpu_pool(call->call.context));
    gsc__state_layout layout;
    blend_scratch scratch;
    gsc__state_plan(raster, &layout);
    const size_t project = gsc__project_scratch_bytes(raster, &layout, threads);
    const size_t blend = carve_blend_scratch(raster, &layout, threads, NULL, &scratch);
    info->layout = layout.hash;
    info->state_bytes = layout.bytes;
    info->forward_scratch_bytes = project > blend ? project : blend;
    if (info->intersections_bytes == 0)
        info->intersections_bytes = (size_t)info->intersections * sizeof(uint32_t);
    /* Until project has counted, one tile may hold every Gaussian. */
    int64_t largest_tile = (int64_t)(info->intersections_min_bytes / sizeof(uint32_t));
    if (largest_tile == 0) largest_tile = raster->gaussians;
    if (largest_tile > info->intersections) largest_tile = info->intersections;
    info->backward_scratch_bytes =
        gsc__backward_scratch_bytes(raster, &layout, threads, info->intersections, largest_tile);
    return GSC_OK;
}

static gsc_status gsc__cpu_raster_project(const gsc__raster_call *call, gsc_raster_info *info) {
    const gsc__raster *raster = &call->raster;
    gsc__state_layout layout;
    int64_t total = 0, visible = 1, largest_frame = 0, largest_tile = 0;
    gsc__state_plan(raster, &layout);
    for (int32_t c = 0; c < raster->cameras; ++c) {
        gsc__frame frame = gsc__frame_open(raster, &layout, call->buffers.state, c);
        GSC__TRY(gsc__project_frame(call, &frame));
        const gsc__state_header *header = frame.header;
        total += header->intersections;
        if (header->visible > visible) visible = header->visible;
        if (header->intersections > largest_frame) largest_frame = header->intersections;
        if (header->largest_tile > largest_tile) largest_tile = header->largest_tile;
    }
    if (!info) return GSC_OK;
    info->visible = visible; /* 0 would mean unknown */
    info->intersections = total;
    /* The cameras take turns with one buffer. */
    info->intersections_bytes = (size_t)largest_frame * sizeof(uint32_t);
    info->intersections_min_bytes = (size_t)largest_tile * sizeof(uint32_t);
    return gsc__cpu_raster_sizes(call, info);
}

/* False if the state is damaged. */
static bool blend_one_band(const gsc__raster_call *call, const gsc__frame *frame,
                           const blend_scratch *scratch, const statistics *s, gsc__band *band) {
    gsc__pool *pool = gsc__cpu_pool(call->call.context);
    if (s->entries && !begin_statistics(pool, frame, s, scratch->splats, band)) return false;
    if (!gsc__tile_lists_fill(pool, frame, scratch->splats, band, scratch->cursors)) return false;
    if (!gsc__blend_band(pool, &call->outputs, frame, band, s->entries, scratch->workspaces))
        return false;
    if (s->entries) {
        statistics_task task = {&call->outputs, s->entries, scratch->splats, band,
                                frame->camera * frame->raster->gaussians};
        gsc__parallel_for(pool, frame->header->visible, 1024, add_statistics, &task);
    }
    return true;
}

static gsc_status blend_bands(const gsc__raster_call *call, const gsc__frame *frame,
                              const blend_scratch *scratch, const statistics *s, int64_t capacity) {
    for (int64_t begin = 0; begin < frame->layout->tiles;) {
        gsc__band band = {.begin = begin,
                          .end = gsc__band_end(frame, begin, capacity),
                          .lists = call->buffers.intersections};
        if (band.end == begin)
            return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                             "%s: intersections has %zu bytes, the fullest tile needs %lld",
                             call->call.function, call->buffers.intersections_bytes,
                             (long long)frame->header->largest_tile * (long long)sizeof(uint32_t));
        if (!blend_one_band(call, frame, scratch, s, &band))
            return gsc__frame_damaged(call->call.function);
        begin = band.end;
    }
    return GSC_OK;
}

static gsc_status blend_frame(const gsc__raster_call *call, const gsc__frame *frame,
                              const blend_scratch *scratch) {
    gsc__workspace workspace = {.call = call->call};
    statistics s = {0};
    int64_t capacity = (int64_t)(call->buffers.intersections_bytes / sizeof(uint32_t));
    if (capacity > GSC__BAND_MAX) capacity = GSC__BAND_MAX;
    GSC__TRY(gsc__frame_check(frame, false, call->call.function));
    if (!gsc__tile_lists_prepare(gsc__cpu_pool(call->call.context), frame, scratch->splats))
        return gsc__frame_damaged(call->call.function);
    if (gsc__wants_statistics(&call->outputs))
        GSC__TRY(take_statistics(&workspace, frame, capacity, &s));
    const gsc_status status = blend_bands(call, frame, scratch, &s, capacity);
    gsc__workspace_release(&workspace);
    if (status == GSC_OK) frame->header->blended = 1;
    return status;
}

static gsc_status gsc__cpu_raster_blend(const gsc__raster_call *call, const gsc_raster_info *info,
                                        int64_t *overflow) {
    const gsc__raster *raster = &call->raster;
    const int threads = gsc__pool_threads(gsc__cpu_pool(call->call.context));
    gsc__state_layout layout;
    blend_scratch scratch;
    (void)info;
    gsc__state_plan(raster, &layout);
    (void)carve_blend_scratch(raster, &layout, threads, call->buffers.scratch, &scratch);
    clear_statistics(raster, &call->outputs);
    for (int32_t c = 0; c < raster->cameras; ++c) {
        const gsc__frame frame = gsc__frame_open(raster, &layout, call->buffers.state, c);
        GSC__TRY(blend_frame(call, &frame, &scratch));
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

static gsc_status gsc__cpu_mark_visible(const gsc__raster_call *call, uint8_t *visible) {
    const gsc__raster *raster = &call->raster;
    for (int32_t c = 0; c < raster->cameras; ++c) {
        visible_task task = {.raster = raster, .visible = visible + c * raster->gaussians};
        gsc__camera_load_view(raster, c, &task.camera);
        gsc__parallel_for(gsc__cpu_pool(call->call.context), raster->gaussians, 16384, mark_range,
                          &task);
    }
    return GSC_OK;
}

#endif
