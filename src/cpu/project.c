#include "project.h"
#include "math/sh_math.h"
#include "sort.h"

#include <stdatomic.h>
#include <string.h>

#define CHUNK 2048 /* Gaussians whose survivors are collected together */

#if GSC_REAL_BITS == 64
#define sort_depths gsc__sort_pairs64
typedef gsc__pairs64 depth_pairs;
#else
#define sort_depths gsc__sort_pairs32
typedef gsc__pairs32 depth_pairs;
#endif

typedef struct project_task {
    const gsc__raster_outputs *outputs;
    gsc__frame *frame;
    gsc__camera camera;
    depth_pairs pairs;      /* [N] depths of the visible and their indices; chunk by chunk,
                               in index order */
    uint32_t *chunk_counts; /* [chunks] */
    int64_t *chunk_offsets; /* [chunks + 1] their places without gaps */
    int32_t *differences;   /* [threads, tiles_y, tiles_x + 1] of list lengths along x */
    void *sort_scratch;
    atomic_bool outside; /* a prefiltered point was outside the planes */
} project_task;

bool gsc__project_gaussian(const gsc__raster *raster, const gsc__camera *camera, int64_t i,
                           gsc__projection *p) {
    const gsc_real *mean = raster->means + 3 * i;
    gsc__to_camera(camera, mean, p->point);
    if (!gsc__in_depth_range(camera, p->point)) return false;
    gsc__project_mean(camera, mean, p);
    gsc__project_jacobian(camera, p);
    if (raster->covariances) {
        gsc__project_covariance(raster->covariances + 6 * i, p);
    } else {
        const bool log = (raster->flags & GSC_RASTER_LOG_SCALES) != 0;
        gsc_real scale[3];
        for (int j = 0; j < 3; ++j) {
            const gsc_real stored = raster->scales[3 * i + j];
            scale[j] = (log ? gsc__exp(stored) : stored) * raster->scale_modifier;
        }
        gsc__project_axes(camera, scale, raster->rotations + 4 * i, p);
    }
    return gsc__blur(camera, p) && gsc__finite(p->mean[0]) && gsc__finite(p->mean[1]);
}

/* Tiles [range[0], range[1]) along one axis. */
static void box_tiles(gsc_real mean, gsc_real extent, gsc_real size, int32_t range[2]) {
    gsc_real pad = GSC_REAL(0.01) + GSC_REAL(2e-6) * extent;
    gsc_real first = gsc__ceil(gsc__clamp(mean - extent - pad, 0, size));
    gsc_real last = gsc__floor(gsc__clamp(mean + extent + pad, -1, size - 1));
    range[0] = (int32_t)first / GSC__TILE;
    range[1] = last < first ? range[0] : (int32_t)last / GSC__TILE + 1;
}

/* The original's tiles: a square of half-size radius, both ends truncated. */
static void compat_tiles(gsc_real mean, gsc_real radius, int32_t tiles, int32_t range[2]) {
    const gsc_real limit = (gsc_real)tiles * GSC__COMPAT_TILE;
    gsc_real first = gsc__clamp(mean - radius, 0, limit);
    gsc_real last = gsc__clamp(mean + radius + (GSC__COMPAT_TILE - 1), 0, limit);
    range[0] = (int32_t)(first / GSC__COMPAT_TILE);
    range[1] = (int32_t)(last / GSC__COMPAT_TILE);
}

/* Fills the record's rectangle: that of the ellipse where alpha can reach 1/255, in compat cut
 * to the original's square.  False if the splat is outside the image; an empty rectangle only
 * means that it blends nowhere. */
static bool record_rectangle(const gsc__camera *camera, const gsc__state_layout *layout,
                             const gsc__projection *p, const gsc_real radii[2],
                             gsc__record *record) {
    int32_t range[2][2] = {{0, 0}, {0, 0}};
    const int32_t tiles[2] = {layout->tiles_x, layout->tiles_y};
    bool reaches = record->log2_alpha >= 0;
    for (int axis = 0; axis < 2; ++axis) {
        int32_t square[2] = {0, tiles[axis]};
        if (camera->compat) compat_tiles(p->mean[axis], radii[axis], tiles[axis], square);
        if (square[0] >= square[1]) return false;
        if (!reaches) continue;
        gsc_real variance = axis == 0 ? p->cov[0] : p->cov[2];
        gsc_real extent = gsc__sqrt(record->log2_alpha / GSC__HALF_LOG2_E * variance);
        box_tiles(p->mean[axis], extent, axis == 0 ? camera->width : camera->height, range[axis]);
        if (range[axis][0] < square[0]) range[axis][0] = square[0];
        if (range[axis][1] > square[1]) range[axis][1] = square[1];
        if (range[axis][0] >= range[axis][1]) reaches = false;
    }
    record->x0 = (uint16_t)(reaches ? range[0][0] : 0);
    record->x1 = (uint16_t)(reaches ? range[0][1] : 0);
    record->y0 = (uint16_t)(reaches ? range[1][0] : 0);
    record->y1 = (uint16_t)(reaches ? range[1][1] : 0);
    return true;
}

/* Colour from spherical harmonics: max(0, 0.5 + sum).  Backward needs to know which channels the
 * clamp left alone. */
static void record_sh(const gsc__raster *raster, const gsc__camera *camera, int64_t i,
                      gsc__record *record) {
    gsc_real direction[3], basis[GSC__SH_MAX_COEFFICIENTS];
    gsc_real sum[3] = {GSC_REAL(0.5), GSC_REAL(0.5), GSC_REAL(0.5)};
    (void)gsc__sh_direction(raster->means + 3 * i, camera->position, direction);
    gsc__sh_basis(raster->sh_degree, direction, basis);
    const gsc_real *rest = raster->sh ? raster->sh + 3 * raster->sh_coefficients * i : NULL;
    const gsc_real *dc = raster->sh_dc ? raster->sh_dc + 3 * i : rest;
    if (!raster->sh_dc) rest += 3;
    for (int c = 0; c < 3; ++c) sum[c] += basis[0] * dc[c];
    int count = (raster->sh_degree + 1) * (raster->sh_degree + 1);
    for (int k = 1; k < count; ++k, rest += 3)
        for (int c = 0; c < 3; ++c) sum[c] += basis[k] * rest[c];
    for (int c = 0; c < 3; ++c) {
        const bool unclamped = sum[c] > 0;
        record->rgb[c] = unclamped || !gsc__finite(sum[c]) ? sum[c] : 0;
        record->unclamped |= (uint32_t)unclamped << c;
    }
}

/* False if a channel is not finite. */
static bool record_color(const gsc__frame *frame, const gsc__camera *camera, int64_t i,
                         gsc__record *record) {
    const gsc__raster *raster = frame->raster;
    if (!raster->colors) {
        record_sh(raster, camera, i, record);
        return gsc__finite(record->rgb[0]) && gsc__finite(record->rgb[1]) &&
               gsc__finite(record->rgb[2]);
    }
    const gsc_real *color =
        raster->colors + frame->camera * raster->colors_stride + i * raster->channels;
    for (int32_t c = 0; c < raster->channels; ++c)
        if (!gsc__finite(color[c])) return false;
    if (raster->channels == 3) memcpy(record->rgb, color, sizeof record->rgb);
    return true;
}

static uint32_t count_tiles(const gsc__state_layout *layout, const gsc__record *record,
                            int32_t *differences) {
    gsc__span spans[GSC__SPAN_ROWS];
    uint32_t count = 0;
    for (int32_t row = record->y0; row < record->y1; row += GSC__SPAN_ROWS) {
        int32_t rows = record->y1 - row < GSC__SPAN_ROWS ? record->y1 - row : GSC__SPAN_ROWS;
        gsc__tile_spans(record, row, rows, spans);
        for (int32_t i = 0; i < rows; ++i) {
            if (spans[i].begin >= spans[i].end) continue;
            int32_t *line = differences + (int64_t)(row + i) * (layout->tiles_x + 1);
            line[spans[i].begin] += 1;
            line[spans[i].end] -= 1;
            count += (uint32_t)(spans[i].end - spans[i].begin);
        }
    }
    return count;
}

static void write_outputs(const project_task *task, int64_t i, const gsc__projection *p,
                          const gsc_real radii[2], gsc_real opacity) {
    const gsc__raster_outputs *out = task->outputs;
    const int64_t at = task->frame->camera * task->frame->raster->gaussians + i;
    const bool seen = p != NULL;
    if (out->radii && out->radii_axes == 2) {
        out->radii[2 * at] = seen ? (int32_t)radii[0] : 0;
        out->radii[2 * at + 1] = seen ? (int32_t)radii[1] : 0;
    } else if (out->radii) {
        out->radii[at] = seen ? (int32_t)gsc__fmax(radii[0], radii[1]) : 0;
    }
    const gsc_real centre = task->camera.compat ? 0 : GSC_REAL(0.5);
    if (out->means2d) {
        out->means2d[2 * at] = seen ? p->mean[0] + centre : 0;
        out->means2d[2 * at + 1] = seen ? p->mean[1] + centre : 0;
    }
    if (out->depths) out->depths[at] = seen ? p->point[2] : 0;
    if (out->opacities) out->opacities[at] = seen ? opacity : 0;
    if (out->conics) {
        out->conics[3 * at] = seen ? p->cov[2] / p->det : 0;
        out->conics[3 * at + 1] = seen ? -p->cov[1] / p->det : 0;
        out->conics[3 * at + 2] = seen ? p->cov[0] / p->det : 0;
    }
}

/* Projects Gaussian i and writes its outputs.  True if it can blend somewhere; its record is
 * then complete except for tiles. */
static bool make_record(project_task *task, int64_t i, gsc__record *record) {
    const gsc__raster *raster = task->frame->raster;
    gsc__projection p;
    gsc_real radii[2] = {0, 0}, opacity = gsc__gaussian_opacity(raster, i);
    bool inside = gsc__project_gaussian(raster, &task->camera, i, &p);
    if (!inside && (raster->flags & GSC_RASTER_PREFILTERED) &&
        !gsc__in_depth_range(&task->camera, p.point))
        atomic_store_explicit(&task->outside, true, memory_order_relaxed);
    if (inside) {
        opacity *= p.compensation;
        record->mean[0] = p.mean[0];
        record->mean[1] = p.mean[1];
        record->depth = p.point[2];
        record->opacity = opacity;
        record->log2_alpha = opacity > 0 ? gsc__log2(opacity) + GSC__LOG2_255 : -1;
        record->unclamped = 0;
        record->gaussian = (uint32_t)i;
        gsc__whiten(&p, &record->r00, &record->r01, &record->r11);
        inside =
            gsc__finite(opacity) && gsc__finite(record->r01) &&
            gsc__splat_radii(&task->camera, &p, raster->radius_clip, record->log2_alpha, radii) &&
            record_rectangle(&task->camera, task->frame->layout, &p, radii, record) &&
            record_color(task->frame, &task->camera, i, record);
    }
    write_outputs(task, i, inside ? &p : NULL, radii, opacity);
    return inside && record->x0 < record->x1;
}

static void project_chunks(void *arg, int64_t begin, int64_t end, int thread) {
    project_task *task = arg;
    const gsc__state_layout *layout = task->frame->layout;
    int32_t *differences =
        task->differences + (int64_t)thread * layout->tiles_y * (layout->tiles_x + 1);
    for (int64_t chunk = begin; chunk < end; ++chunk) {
        int64_t first = chunk * CHUNK, last = first + CHUNK, at = first;
        if (last > task->frame->raster->gaussians) last = task->frame->raster->gaussians;
        for (int64_t i = first; i < last; ++i) {
            gsc__record *record = &task->frame->records[i];
            if (!make_record(task, i, record)) continue;
            record->tiles = count_tiles(layout, record, differences);
            if (record->tiles == 0) continue;
            memcpy(&task->pairs.other_keys[at], &record->depth, sizeof record->depth);
            task->pairs.other_values[at++] = (uint32_t)i;
        }
        task->chunk_counts[chunk] = (uint32_t)(at - first);
    }
}

/* The bits of positive floats have the order of the floats, so depths sort as integers. */
static void compact_chunks(void *arg, int64_t begin, int64_t end, int thread) {
    project_task *task = arg;
    const depth_pairs *pairs = &task->pairs;
    (void)thread;
    for (int64_t chunk = begin; chunk < end; ++chunk) {
        size_t count = task->chunk_counts[chunk];
        int64_t to = task->chunk_offsets[chunk], from = chunk * CHUNK;
        memcpy(pairs->keys + to, pairs->other_keys + from, count * sizeof *pairs->keys);
        memcpy(pairs->values + to, pairs->other_values + from, count * sizeof *pairs->values);
    }
}

/* Visible Gaussians by depth, equal depths by index, into the frame. */
static void sort_visible(gsc__pool *pool, project_task *task, int64_t chunks) {
    task->chunk_offsets[0] = 0;
    for (int64_t i = 0; i < chunks; ++i)
        task->chunk_offsets[i + 1] = task->chunk_offsets[i] + task->chunk_counts[i];
    gsc__parallel_for(pool, chunks, 16, compact_chunks, task);
    const int64_t visible = task->chunk_offsets[chunks];
    task->frame->header->visible = visible;
    sort_depths(pool, &task->pairs, visible, GSC_REAL_BITS, task->sort_scratch);
    memcpy(task->frame->order, task->pairs.values, (size_t)visible * sizeof(uint32_t));
}

/* List lengths from the threads' differences, summed up to offsets. */
static void sum_tiles(const project_task *task, int threads) {
    const gsc__state_layout *layout = task->frame->layout;
    const int64_t stride = (int64_t)layout->tiles_y * (layout->tiles_x + 1);
    gsc__state_header *header = task->frame->header;
    uint64_t *offsets = task->frame->offsets, sum = 0;
    for (int32_t y = 0; y < layout->tiles_y; ++y) {
        int64_t length = 0;
        for (int32_t x = 0; x < layout->tiles_x; ++x) {
            for (int t = 0; t < threads; ++t)
                length += task->differences[t * stride + (int64_t)y * (layout->tiles_x + 1) + x];
            *offsets++ = sum;
            sum += (uint64_t)length;
            if (length > header->largest_tile) header->largest_tile = length;
        }
    }
    *offsets = sum;
    header->intersections = (int64_t)sum;
}

/* Threads count list lengths in arrays of their own. */
static size_t differences_count(const gsc__state_layout *layout, int threads) {
    return (size_t)threads * (size_t)layout->tiles_y * (size_t)(layout->tiles_x + 1);
}

static size_t carve_task(const gsc__raster *raster, const gsc__state_layout *layout, int threads,
                         void *base, project_task *task) {
    const size_t n = (size_t)raster->gaussians, chunks = (n + CHUNK - 1) / CHUNK;
    gsc__carver carver = {.base = base};
    task->pairs.keys = gsc__carve(&carver, n, sizeof *task->pairs.keys);
    task->pairs.other_keys = gsc__carve(&carver, n, sizeof *task->pairs.other_keys);
    task->pairs.values = gsc__carve(&carver, n, sizeof *task->pairs.values);
    task->pairs.other_values = gsc__carve(&carver, n, sizeof *task->pairs.other_values);
    task->chunk_counts = gsc__carve(&carver, chunks, sizeof *task->chunk_counts);
    task->chunk_offsets = gsc__carve(&carver, chunks + 1, sizeof *task->chunk_offsets);
    task->differences =
        gsc__carve(&carver, differences_count(layout, threads), sizeof *task->differences);
    task->sort_scratch = gsc__carve(&carver, 1, gsc__sort_scratch_bytes(threads));
    return carver.at;
}

size_t gsc__project_scratch_bytes(const gsc__raster *raster, const gsc__state_layout *layout,
                                  int threads) {
    project_task task;
    return carve_task(raster, layout, threads, NULL, &task);
}

gsc_status gsc__project_frame(const gsc__raster_call *call, gsc__frame *frame) {
    const gsc__raster *raster = frame->raster;
    gsc__pool *pool = gsc__cpu_pool(call->call.context);
    const int threads = gsc__pool_threads(pool);
    const int64_t chunks = (raster->gaussians + CHUNK - 1) / CHUNK;
    project_task task = {.outputs = &call->outputs, .frame = frame};
    (void)carve_task(raster, frame->layout, threads, call->buffers.scratch, &task);
    memset(task.differences, 0,
           differences_count(frame->layout, threads) * sizeof *task.differences);
    gsc__camera_load(raster, frame->camera, &task.camera);
    gsc__frame_begin(frame);
    gsc__parallel_for(pool, chunks, 1, project_chunks, &task);
    if (atomic_load(&task.outside))
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "%s: means holds a point outside the near and far planes, but "
                         "GSC_RASTER_PREFILTERED promises none",
                         call->call.function);
    sort_visible(pool, &task, chunks);
    sum_tiles(&task, threads);
    return GSC_OK;
}
