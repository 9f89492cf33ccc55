#include "raster_statistics.h"
#include "raster_sums.h"
#include "tile_lists.h"

#include <string.h>

#define LAUNCH(name, grid, block, args)                                                      \
    gsc__gpu_launch(context, GSC__KERNEL_##name, grid, block, &(args), sizeof(args), stream, \
                    function)

#define SIDE_MAX 65536 /* pixel numbers take 16 bits of a record */

gsc_status gsc__gpu_raster_sizes(const gsc__raster_call *call, gsc_raster_info *info) {
    const gsc__raster *raster = &call->raster;
    gsc__gpu_layout layout;
    if (raster->width > SIDE_MAX || raster->height > SIDE_MAX)
        return gsc__fail(
            GSC_ERROR_UNSUPPORTED,
            "%s: width x height is %d x %d, expected sides of at most %d on a CUDA device",
            call->call.function, raster->width, raster->height, SIDE_MAX);
    gsc__gpu_layout_plan(raster, info->visible, &layout);
    info->layout = layout.hash;
    info->state_bytes = layout.bytes;
    info->forward_scratch_bytes = 0; /* project needs none */
    if (info->visible == 0 && info->intersections == 0) return GSC_OK;
    /* Of the largest frame once project has counted, else all may be in one. */
    if (info->intersections_bytes == 0)
        info->intersections_bytes = gsc__gpu_lists_bytes(&layout, info->intersections);
    const int64_t intersections = gsc__gpu_slot_capacity(&layout, info->intersections_bytes);
    if (info->intersections_min_bytes == 0)
        info->intersections_min_bytes =
            layout.lists + (size_t)(intersections < layout.record_capacity
                                        ? intersections
                                        : layout.record_capacity) *
                               sizeof(uint32_t);
    info->forward_scratch_bytes = gsc__gpu_lists_scratch_bytes(&layout, intersections);
    /* The lists stay; those that are made again take their work space from elsewhere. */
    info->backward_scratch_bytes = gsc__gpu_sums_layout(raster, &layout, NULL).bytes;
    return GSC_OK;
}

int64_t gsc__gpu_raster_largest_frame(const gsc__raster *raster, const gsc_raster_info *info) {
    gsc__gpu_layout layout;
    gsc__gpu_layout_plan(raster, info->visible, &layout);
    return gsc__gpu_slot_capacity(&layout, info->intersections_bytes);
}

/* A fill of its own between the kernels would cost more than its bytes. */
static gsc_status begin_frame(gsc_context *context, const gsc__raster *raster, int32_t index,
                              const gsc__gpu_layout *layout, const gsc__gpu_frame *frame,
                              gsc__gpu_tile_lists *lists, void *stream, const char *function) {
    gsc_k_begin args = {.camera = frame->camera,
                        .header = frame->header,
                        .groups = frame->groups,
                        .group_count = layout->group_count,
                        .magic = GSC__GPU_STATE_MAGIC,
                        .layout = layout->hash};
    gsc__gpu_camera_source_of(raster, index, &args.source);
    if (!lists) return LAUNCH(begin, 1, GSC__BEGIN_BLOCK, args);
    args.clear = (uint32_t *)(void *)lists->zeroed;
    args.clear_count = (uint32_t)(lists->zeroed_bytes / (4 * sizeof(uint32_t)));
    lists->is_zeroed = true;
    return LAUNCH(begin, 1 + GSC__CLEAR_BLOCKS, GSC__BEGIN_BLOCK, args);
}

static gsc_k_project project_args(const gsc__raster *raster, int32_t index,
                                  const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                                  const gsc__gpu_frame *frame) {
    const int64_t n = raster->gaussians, at = index * n;
    gsc_k_project args = {
        .frame = *frame,
        .grid = layout->grid,
        .gaussians = n,
        .scale_modifier = raster->scale_modifier,
        .radius_clip = raster->radius_clip,
        .channels = raster->channels,
        .sh_degree = raster->sh_degree,
        .sh_coefficients = (int32_t)raster->sh_coefficients,
        .prefiltered = (raster->flags & GSC_RASTER_PREFILTERED) != 0,
        .log_scales = (raster->flags & GSC_RASTER_LOG_SCALES) != 0,
        .logit_opacities = (raster->flags & GSC_RASTER_LOGIT_OPACITIES) != 0,
        .means = raster->means,
        .opacities = raster->opacities,
        .scales = raster->scales,
        .rotations = raster->rotations,
        .covariances = raster->covariances,
        .colors = raster->colors ? raster->colors + index * raster->colors_stride : NULL,
        .sh = raster->sh,
        .sh_dc = raster->sh_dc,
        .radii = outputs->radii ? outputs->radii + at * outputs->radii_axes : NULL,
        .radii_axes = outputs->radii_axes,
        .more_outputs =
            outputs->means2d || outputs->depths || outputs->conics || outputs->opacities,
        .means2d = outputs->means2d ? outputs->means2d + 2 * at : NULL,
        .out_depths = outputs->depths ? outputs->depths + at : NULL,
        .conics = outputs->conics ? outputs->conics + 3 * at : NULL,
        .out_opacities = outputs->opacities ? outputs->opacities + at : NULL};
    return args;
}

/* tiles: to be cleared for the lists, or NULL. */
static gsc_status project_frame(gsc_context *context, const gsc__raster *raster, int32_t index,
                                const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                                const gsc__gpu_frame *frame, gsc__gpu_tile_lists *lists,
                                void *stream) {
    static const char function[] = "raster_project";
    const uint32_t chunks = gsc__gpu_ceil_div(raster->gaussians, GSC__CHUNK);
    GSC__TRY(begin_frame(context, raster, index, layout, frame, lists, stream, function));
    const gsc_k_project project = project_args(raster, index, outputs, layout, frame);
    return LAUNCH(project, chunks, GSC__CHUNK, project);
}

/* Of the cameras: as many as one read or report holds. */
enum { HEADERS_AT_ONCE = GSC__STAGING_BYTES / sizeof(gsc__gpu_header) };

/* What the cameras' headers said. */
typedef struct frame_totals {
    int64_t total, visible, largest_frame;
    int64_t fullest_tile; /* at most: a tile holds a Gaussian once */
} frame_totals;

static gsc_status add_header(const gsc__gpu_header *header, frame_totals *totals) {
    if (header->outside)
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "raster_project: means holds a point outside the near and far planes, "
                         "but GSC_RASTER_PREFILTERED promises none");
    const int64_t intersections = (int64_t)header->intersections, visible = header->visible;
    const int64_t fullest = visible < intersections ? visible : intersections;
    totals->total += intersections;
    if (visible > totals->visible) totals->visible = visible;
    if (intersections > totals->largest_frame) totals->largest_frame = intersections;
    if (fullest > totals->fullest_tile) totals->fullest_tile = fullest;
    return GSC_OK;
}

static gsc_status add_headers(const gsc__gpu_header *headers, int32_t count, frame_totals *totals) {
    for (int32_t c = 0; c < count; ++c) GSC__TRY(add_header(&headers[c], totals));
    return GSC_OK;
}

/* The documented wait: for the last of the headers, and so for all. */
static gsc_status read_headers(gsc_context *context, const gsc__raster *raster,
                               const gsc__raster_buffers *buffers, const gsc__gpu_layout *layout,
                               frame_totals *totals, void *stream, const char *function) {
    gsc__gpu_header headers[HEADERS_AT_ONCE];
    for (int32_t c = 0; c < raster->cameras; c += HEADERS_AT_ONCE) {
        const int32_t left = raster->cameras - c;
        const int32_t count = left < HEADERS_AT_ONCE ? left : HEADERS_AT_ONCE;
        gsc__gpu_frame first;
        gsc__gpu_frame_open(layout, buffers, c, &first);
        GSC__TRY(gsc__gpu_read_rows(context, headers, first.header, sizeof *headers,
                                    layout->camera_bytes, count, stream, function));
        GSC__TRY(add_headers(headers, count, totals));
    }
    return GSC_OK;
}

/* Cameras follow each other through one scratch. */
static gsc_status fill_info(const gsc__raster_call *call, const frame_totals *totals,
                            gsc_raster_info *info) {
    gsc__gpu_layout layout;
    gsc__gpu_layout_plan(&call->raster, totals->visible, &layout);
    info->visible = totals->visible;
    info->intersections = totals->total;
    info->intersections_bytes = gsc__gpu_lists_bytes(&layout, totals->largest_frame);
    info->intersections_min_bytes = layout.lists + (size_t)totals->fullest_tile * sizeof(uint32_t);
    return gsc__gpu_raster_sizes(call, info);
}

gsc_status gsc__gpu_raster_project(const gsc__raster_call *call, gsc_raster_info *info) {
    gsc_context *context = call->call.context;
    const gsc__raster *raster = &call->raster;
    const gsc__raster_buffers *buffers = &call->buffers;
    const gsc__raster_outputs *outputs = &call->outputs;
    void *stream = call->call.stream;
    gsc__gpu_layout layout;
    frame_totals totals = {0, 1, 0, 0}; /* visible 0 would mean that it is not known */
    gsc__gpu_layout_plan(raster, 0, &layout);
    for (int32_t c = 0; c < raster->cameras; ++c) {
        gsc__gpu_frame frame;
        gsc__gpu_frame_open(&layout, buffers, c, &frame);
        GSC__TRY(project_frame(context, raster, c, outputs, &layout, &frame, NULL, stream));
    }
    if (!info) return GSC_OK;
    GSC__TRY(read_headers(context, raster, buffers, &layout, &totals, stream, "raster_project"));
    return fill_info(call, &totals, info);
}

static float *plane(const gsc__gpu_layout *layout, float *output, int32_t index) {
    return output ? output + index * layout->pixels : NULL;
}

static gsc_k_blend blend_args(const gsc__raster *raster, int32_t index,
                              const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                              const gsc__gpu_frame *frame, const gsc__gpu_tile_lists *lists) {
    gsc_k_blend args = {
        .frame = *frame,
        .grid = layout->grid,
        .lists = lists->values,
        .capacity = lists->capacity,
        .colors = raster->colors ? raster->colors + index * raster->colors_stride : NULL,
        .channels = raster->channels,
        .pixel_last = (raster->flags & GSC_RASTER_PIXEL_LAST) != 0,
        .median_default = raster->median_default,
        .color = outputs->color + index * raster->channels * layout->pixels,
        .alpha = plane(layout, outputs->alpha, index),
        .depth = plane(layout, outputs->depth, index),
        .inv_depth = plane(layout, outputs->inv_depth, index),
        .median_depth = plane(layout, outputs->median_depth, index),
        .pixel_weights =
            raster->pixel_weights ? raster->pixel_weights + index * layout->pixels : NULL};
    return args;
}

static enum gsc__gpu_kernel blend_kernel(const gsc__raster *raster,
                                         const gsc__raster_outputs *outputs) {
    if (raster->channels != 3 || outputs->median_depth || gsc__wants_statistics(outputs))
        return GSC__KERNEL_blend_any;
    return outputs->depth || outputs->inv_depth ? GSC__KERNEL_blend_depths : GSC__KERNEL_blend;
}

static gsc_status blend_bands(gsc_context *context, const gsc__raster *raster, int32_t index,
                              const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                              const gsc__gpu_frame *frame, gsc__gpu_tile_lists *lists,
                              void *statistics, gsc_k_blend *blend, void *stream) {
    static const char function[] = "raster_blend";
    const uint32_t area = (1u << layout->grid.shift_x) * (1u << layout->grid.shift_y);
    const enum gsc__gpu_kernel kernel = blend_kernel(raster, outputs);
    const bool any = kernel == GSC__KERNEL_blend_any;
    const uint32_t blocks =
        any ? (uint32_t)layout->grid.tiles * (area / 256)
            : gsc__gpu_blend_blocks(layout, gsc__gpu_of(context)->device.multiprocessors);
    for (uint32_t round = 0; round < lists->rounds; ++round) {
        GSC__TRY(gsc__gpu_lists_fill(context, layout, frame, lists, round, stream, function));
        if (statistics && round == 0)
            GSC__TRY(gsc__gpu_statistics_begin(context, raster, index, outputs, statistics, layout,
                                               blend, stream));
        blend->band = lists->bands + round;
        GSC__TRY(gsc__gpu_launch(context, kernel, blocks, any ? 256 : GSC__BLEND_BLOCK, blend,
                                 sizeof *blend, stream, function));
    }
    return GSC_OK;
}

/* With statistics: in the scratch, which is free once the lists of a single round are made
 * and large enough as a rule, else in memory of their own. */
static gsc_status blend_frame(gsc_context *context, const gsc__raster *raster, int32_t index,
                              const gsc__raster_buffers *buffers,
                              const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                              const gsc__gpu_frame *frame, gsc__gpu_tile_lists *lists,
                              gsc_k_blend *blend, void *stream) {
    if (!gsc__wants_statistics(outputs))
        return blend_bands(context, raster, index, outputs, layout, frame, lists, NULL, blend,
                           stream);
    const size_t bytes = gsc__gpu_statistics_bytes(layout);
    void *own = NULL, *memory = buffers->scratch;
    if (lists->rounds > 1 || bytes > buffers->scratch_bytes) {
        GSC__TRY(gsc__context_alloc(context, bytes, "raster_blend: statistics", stream, &own));
        memory = own;
    }
    gsc_status status =
        blend_bands(context, raster, index, outputs, layout, frame, lists, memory, blend, stream);
    if (status == GSC_OK)
        status = gsc__gpu_statistics_finish(context, raster, index, outputs, blend, stream);
    gsc__context_release(context, own, bytes, stream);
    return status;
}

/* Records of the visible Gaussians, their order by depth, and the plan. */
static gsc_status make_records(gsc_context *context, const gsc__raster *raster, int32_t index,
                               const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                               const gsc__gpu_frame *frame, const gsc__gpu_tile_lists *lists,
                               gsc__gpu_header *report, int64_t *overflow, void *stream) {
    static const char function[] = "raster_blend";
    const uint32_t most = gsc__gpu_ceil_div(raster->gaussians, GSC__RECORD_CHUNKS * GSC__CHUNK);
    const int multiprocessors = gsc__gpu_of(context)->device.multiprocessors;
    gsc_k_project project = project_args(raster, index, outputs, layout, frame);
    project.report = report;
    project.plan = gsc__gpu_plan_args(layout, frame, lists, overflow, index > 0);
    /* Large blocks waste fewer threads, small ones are enough for all multiprocessors. */
    project.record_chunks = most >= 4 * (uint32_t)multiprocessors ? GSC__RECORD_CHUNKS : 1;
    const uint32_t blocks =
        gsc__gpu_ceil_div(raster->gaussians, project.record_chunks * GSC__CHUNK);
    GSC__TRY(LAUNCH(records, blocks, GSC__RECORD_BLOCK, project));
    if (lists->rounds > 1 || blocks == 0)
        GSC__TRY(gsc__gpu_lists_plan(context, layout, frame, lists, &project.plan, true, stream,
                                     function));
    return gsc__gpu_sort_depths(context, frame, lists, stream, function);
}

/* Where the lists and the work for them lie in the buffers. */
static gsc_status place_lists(const gsc__gpu_layout *layout, int32_t camera,
                              const gsc__gpu_frame *frame, const gsc__raster_buffers *buffers,
                              const gsc_raster_info *info, gsc__gpu_tile_lists *lists,
                              const char *function) {
    if (buffers->intersections_bytes < layout->lists)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "%s: intersections has %zu bytes, the visible Gaussians alone take %zu",
                         function, buffers->intersections_bytes, layout->lists);
    GSC__TRY(gsc__gpu_lists_begin(layout, camera, frame, buffers, info, lists, function));
    const size_t needed = gsc__gpu_lists_scratch_bytes(layout, lists->capacity);
    if (needed > buffers->scratch_bytes)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "%s: scratch has %zu bytes, expected at least %zu", function,
                         buffers->scratch_bytes, needed);
    gsc__gpu_lists_work_space(layout, buffers->scratch, lists);
    return GSC_OK;
}

static gsc_status render_frame(gsc_context *context, const gsc__raster *raster, int32_t index,
                               const gsc__raster_buffers *buffers,
                               const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                               const gsc__gpu_frame *frame, gsc__gpu_tile_lists *lists,
                               gsc__gpu_header *report, int64_t *overflow, void *stream) {
    static const char function[] = "raster_blend";
    if (!lists->is_zeroed) GSC__TRY(gsc__gpu_lists_clear(context, lists, stream, function));
    GSC__TRY(make_records(context, raster, index, outputs, layout, frame, lists, report, overflow,
                          stream));
    gsc_k_blend blend = blend_args(raster, index, outputs, layout, frame, lists);
    GSC__TRY(gsc__gpu_background(context, raster, index, layout, buffers->state, stream, function,
                                 &blend.background));
    return blend_frame(context, raster, index, buffers, outputs, layout, frame, lists, &blend,
                       stream);
}

gsc_status gsc__gpu_raster_blend(const gsc__raster_call *call, const gsc_raster_info *info,
                                 int64_t *overflow) {
    gsc_context *context = call->call.context;
    const gsc__raster *raster = &call->raster;
    const gsc__raster_buffers *buffers = &call->buffers;
    const gsc__raster_outputs *outputs = &call->outputs;
    void *stream = call->call.stream;
    gsc__gpu_layout layout;
    gsc__gpu_layout_plan(raster, info->visible, &layout);
    for (int32_t c = 0; c < raster->cameras; ++c) {
        gsc__gpu_frame frame;
        gsc__gpu_tile_lists lists;
        gsc__gpu_frame_open(&layout, buffers, c, &frame);
        GSC__TRY(place_lists(&layout, c, &frame, buffers, info, &lists, "raster_blend"));
        GSC__TRY(render_frame(context, raster, c, buffers, outputs, &layout, &frame, &lists, NULL,
                              overflow, stream));
    }
    return GSC_OK;
}

/* Camera after camera, since they share the scratch.  Their counts travel to `reports`, [C] or
 * NULL, while they are drawn. */
static gsc_status draw_frames(gsc_context *context, const gsc__raster *raster,
                              const gsc__raster_buffers *buffers,
                              const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                              const gsc_raster_info *expected, gsc__gpu_header *reports,
                              void *stream) {
    for (int32_t c = 0; c < raster->cameras; ++c) {
        gsc__gpu_frame frame;
        gsc__gpu_tile_lists lists;
        gsc__gpu_frame_open(layout, buffers, c, &frame);
        GSC__TRY(place_lists(layout, c, &frame, buffers, expected, &lists, "raster_project_blend"));
        GSC__TRY(project_frame(context, raster, c, outputs, layout, &frame, &lists, stream));
        GSC__TRY(render_frame(context, raster, c, buffers, outputs, layout, &frame, &lists,
                              reports ? reports + c : NULL, NULL, stream));
    }
    return GSC_OK;
}

gsc_status gsc__gpu_raster_project_blend(const gsc__raster_call *call,
                                         const gsc_raster_info *expected, gsc_raster_info *found) {
    gsc_context *context = call->call.context;
    const gsc__raster *raster = &call->raster;
    const gsc__raster_buffers *buffers = &call->buffers;
    const gsc__raster_outputs *outputs = &call->outputs;
    void *stream = call->call.stream;
    static const char function[] = "raster_project_blend";
    gsc__gpu_layout layout;
    gsc__gpu_header headers[HEADERS_AT_ONCE];
    gsc__gpu_report report;
    frame_totals totals = {0, 1, 0, 0};
    gsc__gpu_layout_plan(raster, expected->visible, &layout);
    GSC__TRY(gsc__gpu_report_begin(context, &report, sizeof *headers, raster->cameras, stream,
                                   function));
    gsc_status status =
        draw_frames(context, raster, buffers, outputs, &layout, expected, report.data, stream);
    const bool reported = gsc__gpu_report_end(context, &report, headers, stream);
    if (status != GSC_OK) return status;
    if (reported)
        GSC__TRY(add_headers(headers, raster->cameras, &totals));
    else
        GSC__TRY(read_headers(context, raster, buffers, &layout, &totals, stream, function));
    return fill_info(call, &totals, found);
}

gsc_status gsc__gpu_mark_visible(const gsc__raster_call *call, uint8_t *visible) {
    gsc_context *context = call->call.context;
    const gsc__raster *raster = &call->raster;
    void *stream = call->call.stream;
    static const char function[] = "mark_visible";
    const uint32_t blocks = gsc__gpu_ceil_div(raster->gaussians, 256);
    for (int32_t c = 0; c < raster->cameras; ++c) {
        gsc_k_mark_visible args = {.gaussians = raster->gaussians,
                                   .means = raster->means,
                                   .visible = visible + c * raster->gaussians};
        gsc__gpu_camera_source_of(raster, c, &args.source);
        GSC__TRY(LAUNCH(mark_visible, blocks, 256, args));
    }
    return GSC_OK;
}
