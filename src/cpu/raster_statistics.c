#include "raster_statistics.h"

#include <string.h>

static void gsc__statistics_clear(const gsc__raster *raster, const gsc__raster_outputs *out) {
    const size_t count = (size_t)(raster->gaussians * raster->cameras);
    if (out->touched) memset(out->touched, 0, count * sizeof *out->touched);
    if (out->weight_count) memset(out->weight_count, 0, count * sizeof *out->weight_count);
    if (out->weight_sum) memset(out->weight_sum, 0, count * sizeof *out->weight_sum);
    if (out->weight_blend) memset(out->weight_blend, 0, count * sizeof *out->weight_blend);
    if (out->weight_distance) memset(out->weight_distance, 0, count * sizeof *out->weight_distance);
}

static size_t carve_statistics(const gsc__frame *frame, size_t capacity, void *base,
                               gsc__statistics *statistics) {
    const size_t visible = (size_t)frame->header->visible;
    gsc__carver carver = {.base = base};
    statistics->entries = gsc__carve(&carver, capacity, sizeof *statistics->entries);
    statistics->slots = gsc__carve(&carver, capacity, sizeof *statistics->slots);
    statistics->slot_offsets = gsc__carve(&carver, visible + 1, sizeof *statistics->slot_offsets);
    return carver.at;
}

static gsc_status gsc__statistics_open(const gsc__call *call, const gsc__frame *frame,
                                       int64_t capacity, gsc__statistics *statistics) {
    if (capacity > frame->header->intersections) capacity = frame->header->intersections;
    statistics->bytes = carve_statistics(frame, (size_t)capacity, NULL, statistics);
    GSC__TRY(gsc__context_alloc(call, "statistics", statistics->bytes, &statistics->block));
    (void)carve_statistics(frame, (size_t)capacity, statistics->block, statistics);
    return GSC_OK;
}

static void gsc__statistics_close(const gsc__call *call, const gsc__statistics *statistics) {
    gsc__context_release(call->context, statistics->block, statistics->bytes, call->stream);
}

static bool gsc__statistics_begin(gsc__pool *pool, const gsc__frame *frame,
                                  const gsc__statistics *statistics,
                                  const gsc__listed_splat *splats, gsc__band *band) {
    band->slots = statistics->slots;
    band->slot_offsets = statistics->slot_offsets;
    if (!gsc__tile_lists_slots(pool, frame, splats, band)) return false;
    memset(statistics->entries, 0,
           gsc__band_intersections(frame, band) * sizeof *statistics->entries);
    return true;
}

typedef struct statistics_task {
    const gsc__raster_outputs *outputs;
    const gsc__blend_statistics *entries;
    const gsc__listed_splat *splats;
    const gsc__band *band;
    int64_t base; /* of the camera in the outputs */
} statistics_task;

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

static void gsc__statistics_add(gsc__pool *pool, const gsc__raster_outputs *outputs,
                                const gsc__frame *frame, const gsc__statistics *statistics,
                                const gsc__listed_splat *splats, const gsc__band *band) {
    statistics_task task = {outputs, statistics->entries, splats, band,
                            frame->camera * frame->raster->gaussians};
    gsc__parallel_for(pool, frame->header->visible, 1024, add_statistics, &task);
}
