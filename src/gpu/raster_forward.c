#include "raster_bins.h"
#include "raster_sums.h"

#include <string.h>

#define LAUNCH(name, grid, block, args)                                                      \
    gsc__gpu_launch(context, GSC__KERNEL_##name, grid, block, &(args), sizeof(args), stream, \
                    function)

#define SIDE_MAX 65536 /* pixel numbers take 16 bits of a record */

/* Pairs of each piece. */
static size_t project_scratch_bytes(const gsc__gpu_layout *layout) {
    return gsc__gpu_pieces(layout->gaussians, GSC__PIECE) * sizeof(uint32_t);
}

/* Depth sort and lists use the same scratch, one after the other. */
static size_t render_scratch_bytes(const gsc__gpu_layout *layout, int64_t entries) {
    const size_t sort = gsc__gpu_sort_scratch_bytes(layout);
    const size_t lists =
        gsc__gpu_bins_scratch_bytes(layout, entries) + gsc__gpu_statistics_bytes(layout);
    return sort > lists ? sort : lists;
}

gsc_status gsc__gpu_raster_sizes(const gsc_context *context, const gsc__raster *raster,
                                 gsc_raster_info *info) {
    gsc__gpu_layout layout;
    (void)context;
    if (raster->width > SIDE_MAX || raster->height > SIDE_MAX)
        return gsc__fail(GSC_ERROR_UNSUPPORTED,
                         "raster: the image is %d x %d, a CUDA device draws at most %d x %d",
                         raster->width, raster->height, SIDE_MAX, SIDE_MAX);
    gsc__gpu_layout_plan(raster, info->visible, &layout);
    info->layout = layout.hash;
    info->state_bytes = layout.bytes;
    info->forward_scratch_bytes = project_scratch_bytes(&layout);
    if (info->visible == 0 && info->intersections == 0) return GSC_OK;
    /* Of the largest frame once project has counted, else all may be in one. */
    if (info->intersections_bytes == 0)
        info->intersections_bytes = layout.lists + (size_t)info->intersections * sizeof(uint32_t);
    const int64_t entries = gsc__gpu_list_entries(&layout, info->intersections_bytes);
    const size_t render = render_scratch_bytes(&layout, entries);
    if (render > info->forward_scratch_bytes) info->forward_scratch_bytes = render;
    info->backward_scratch_bytes = gsc__gpu_bins_scratch_bytes(&layout, entries) +
                                   gsc__gpu_sums_layout(raster, &layout, NULL).bytes;
    return GSC_OK;
}

static gsc_status begin_frame(gsc_context *context, const gsc__raster *raster, int32_t index,
                              const gsc__gpu_layout *layout, const gsc__gpu_frame *frame,
                              void *stream, const char *function) {
    gsc_k_begin args = {.camera = frame->camera,
                        .header = frame->header,
                        .magic = GSC__GPU_STATE_MAGIC,
                        .layout = layout->hash};
    gsc__gpu_camera_source_of(raster, index, &args.source);
    return LAUNCH(begin, 1, 1, args);
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
        .means2d = outputs->means2d ? outputs->means2d + 2 * at : NULL,
        .out_depths = outputs->depths ? outputs->depths + at : NULL,
        .conics = outputs->conics ? outputs->conics + 3 * at : NULL,
        .out_opacities = outputs->opacities ? outputs->opacities + at : NULL};
    return args;
}

static gsc_status project_frame(gsc_context *context, const gsc__raster *raster, int32_t index,
                                const gsc__raster_buffers *buffers,
                                const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                                void *stream) {
    static const char function[] = "raster_project";
    const uint32_t pieces = gsc__gpu_pieces(raster->gaussians, GSC__PIECE);
    gsc__gpu_frame frame;
    gsc__gpu_frame_open(layout, buffers, index, &frame);
    GSC__TRY(begin_frame(context, raster, index, layout, &frame, stream, function));
    gsc_k_project project = project_args(raster, index, outputs, layout, &frame);
    project.pairs = buffers->scratch;
    GSC__TRY(LAUNCH(project, pieces, GSC__PIECE, project));
    const gsc_k_sum_pieces sum = {frame, buffers->scratch, pieces};
    return LAUNCH(sum_pieces, 1, 1024, sum);
}

/* What the cameras' headers said. */
typedef struct frame_totals {
    int64_t total, visible, largest_frame;
    int64_t fullest_bin; /* at most: a bin holds a Gaussian once */
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
    if (fullest > totals->fullest_bin) totals->fullest_bin = fullest;
    return GSC_OK;
}

/* The documented wait: for the last of the headers, and so for all. */
static gsc_status read_headers(gsc_context *context, const gsc__raster *raster,
                               const gsc__raster_buffers *buffers, const gsc__gpu_layout *layout,
                               frame_totals *totals, void *stream) {
    for (int32_t c = 0; c < raster->cameras; ++c) {
        gsc__gpu_frame frame;
        gsc__gpu_header header;
        gsc__gpu_frame_open(layout, buffers, c, &frame);
        GSC__TRY(
            gsc__gpu_read(context, &header, frame.header, sizeof header, stream, "raster_project"));
        GSC__TRY(add_header(&header, totals));
    }
    return GSC_OK;
}

gsc_status gsc__gpu_raster_project(gsc_context *context, const gsc__raster *raster,
                                   const gsc__raster_buffers *buffers,
                                   const gsc__raster_outputs *outputs, gsc_raster_info *info,
                                   void *stream) {
    gsc__gpu_layout layout;
    frame_totals totals = {0, 1, 0, 0}; /* visible 0 would mean that it is not known */
    gsc__gpu_layout_plan(raster, 0, &layout);
    for (int32_t c = 0; c < raster->cameras; ++c)
        GSC__TRY(project_frame(context, raster, c, buffers, outputs, &layout, stream));
    if (!info) return GSC_OK;
    GSC__TRY(read_headers(context, raster, buffers, &layout, &totals, stream));
    /* Cameras follow each other through one list buffer, and so through one scratch. */
    gsc__gpu_layout_plan(raster, totals.visible, &layout);
    info->visible = totals.visible;
    info->intersections = totals.total;
    info->intersections_bytes = layout.lists + (size_t)totals.largest_frame * sizeof(uint32_t);
    info->intersections_min_bytes = layout.lists + (size_t)totals.fullest_bin * sizeof(uint32_t);
    return gsc__gpu_raster_sizes(context, raster, info);
}

static float *plane(const gsc__gpu_layout *layout, float *output, int32_t index) {
    return output ? output + index * layout->pixels : NULL;
}

static gsc_k_blend blend_args(const gsc__raster *raster, int32_t index,
                              const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                              const gsc__gpu_frame *frame, const gsc__gpu_bins *bins) {
    gsc_k_blend args = {
        .frame = *frame,
        .grid = layout->grid,
        .bin_order = bins->bin_order,
        .lists = bins->lists,
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

/* Statistics of one camera: counters in place, sums in fixed point beside them. */
static gsc_status begin_statistics(gsc_context *context, const gsc__raster *raster, int32_t index,
                                   const gsc__raster_outputs *outputs, void *scratch,
                                   const gsc__gpu_layout *layout, gsc_k_blend *blend,
                                   void *stream) {
    static const char function[] = "raster_render";
    const size_t n = (size_t)raster->gaussians;
    gsc__gpu_cut cut = {scratch, 0};
    uint64_t *fixed[3];
    float *scale = gsc__gpu_take(&cut, sizeof(float));
    for (int i = 0; i < 3; ++i) fixed[i] = gsc__gpu_take(&cut, n * sizeof(uint64_t));
    GSC__TRY(gsc__gpu_memset(context, scratch, 0, cut.at, stream, function));
    const int64_t at = index * raster->gaussians;
    if (outputs->touched) blend->touched = outputs->touched + at;
    if (outputs->weight_count) blend->weight_count = outputs->weight_count + at;
    if (outputs->weight_sum) blend->weight_sum = fixed[0];
    if (outputs->weight_blend) blend->weight_blend = fixed[1];
    if (outputs->weight_distance) blend->weight_distance = fixed[2];
    blend->weight_scale = scale;
    if (blend->touched)
        GSC__TRY(
            gsc__gpu_memset(context, blend->touched, 0, n * sizeof(int32_t), stream, function));
    if (blend->weight_count)
        GSC__TRY(gsc__gpu_memset(context, blend->weight_count, 0, n * sizeof(int32_t), stream,
                                 function));
    if (!blend->weight_sum) return GSC_OK;
    const gsc_k_weight_scale weights = {blend->pixel_weights, layout->pixels, scale};
    return LAUNCH(weight_scale, 1, 1024, weights);
}

static gsc_status finish_statistics(gsc_context *context, const gsc__raster *raster, int32_t index,
                                    const gsc__raster_outputs *outputs, const gsc_k_blend *blend,
                                    void *stream) {
    static const char function[] = "raster_render";
    const int64_t at = index * raster->gaussians;
    const gsc_k_finish_statistics args = {
        .gaussians = raster->gaussians,
        .fixed_sum = blend->weight_sum,
        .fixed_blend = blend->weight_blend,
        .fixed_distance = blend->weight_distance,
        .weight_scale = blend->weight_scale,
        .weight_sum = outputs->weight_sum ? outputs->weight_sum + at : NULL,
        .weight_blend = outputs->weight_blend ? outputs->weight_blend + at : NULL,
        .weight_distance = outputs->weight_distance ? outputs->weight_distance + at : NULL};
    return LAUNCH(finish_statistics, gsc__gpu_pieces(raster->gaussians, 256), 256, args);
}

static gsc_status blend_bands(gsc_context *context, const gsc__raster *raster,
                              const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                              const gsc__gpu_frame *frame, gsc__gpu_bins *bins, gsc_k_blend *blend,
                              void *stream) {
    static const char function[] = "raster_render";
    const uint32_t area = (1u << layout->grid.shift_x) * (1u << layout->grid.shift_y);
    const bool thorough =
        raster->channels != 3 || outputs->median_depth || gsc__wants_statistics(outputs);
    const uint32_t bin_count = (uint32_t)layout->grid.bins;
    const uint32_t blocks =
        gsc__gpu_blend_blocks(layout, gsc__gpu_of(context)->device.multiprocessors);
    for (uint32_t round = 0; round < bins->rounds; ++round) {
        GSC__TRY(gsc__gpu_bins_fill(context, layout, frame, bins, round, stream, function));
        blend->band = bins->bands + round;
        if (thorough)
            GSC__TRY(LAUNCH(blend_any, bin_count * (area / 256), 256, *blend));
        else if (outputs->depth || outputs->inv_depth)
            GSC__TRY(LAUNCH(blend_depths, blocks, GSC__BLEND_BLOCK, *blend));
        else
            GSC__TRY(LAUNCH(blend, blocks, GSC__BLEND_BLOCK, *blend));
    }
    return GSC_OK;
}

/* Records of the visible Gaussians, and their order by depth. */
static gsc_status make_records(gsc_context *context, const gsc__raster *raster, int32_t index,
                               const gsc__raster_buffers *buffers,
                               const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                               const gsc__gpu_frame *frame, void *stream) {
    static const char function[] = "raster_render";
    const gsc_k_project project = project_args(raster, index, outputs, layout, frame);
    const uint32_t blocks = gsc__gpu_pieces(raster->gaussians, GSC__RECORD_PIECES * GSC__PIECE);
    const size_t needed = gsc__gpu_sort_scratch_bytes(layout);
    if (needed > buffers->scratch_bytes)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "%s: scratch has %zu bytes, expected at least %zu", function,
                         buffers->scratch_bytes, needed);
    GSC__TRY(LAUNCH(records, blocks, GSC__PIECE, project));
    return gsc__gpu_sort_depths(context, layout, frame, buffers->scratch, stream, function);
}

static gsc_status render_frame(gsc_context *context, const gsc__raster *raster, int32_t index,
                               const gsc__raster_buffers *buffers,
                               const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                               const gsc_raster_info *info, int64_t *overflow, void *stream) {
    static const char function[] = "raster_render";
    gsc__gpu_frame frame;
    gsc__gpu_bins bins;
    gsc__gpu_frame_open(layout, buffers, index, &frame);
    GSC__TRY(make_records(context, raster, index, buffers, outputs, layout, &frame, stream));
    GSC__TRY(gsc__gpu_bins_plan(context, layout, &frame, buffers, info, true, overflow, index > 0,
                                &bins, stream, function));
    gsc_k_blend blend = blend_args(raster, index, outputs, layout, &frame, &bins);
    GSC__TRY(gsc__gpu_background(context, raster, index, layout, buffers->state, stream, function,
                                 &blend.background));
    const bool statistics = gsc__wants_statistics(outputs);
    if (statistics)
        GSC__TRY(
            begin_statistics(context, raster, index, outputs, bins.rest, layout, &blend, stream));
    GSC__TRY(blend_bands(context, raster, outputs, layout, &frame, &bins, &blend, stream));
    if (!statistics) return GSC_OK;
    return finish_statistics(context, raster, index, outputs, &blend, stream);
}

gsc_status gsc__gpu_raster_render(gsc_context *context, const gsc__raster *raster,
                                  const gsc__raster_buffers *buffers,
                                  const gsc__raster_outputs *outputs, const gsc_raster_info *info,
                                  int64_t *overflow, void *stream) {
    gsc__gpu_layout layout;
    gsc__gpu_layout_plan(raster, info->visible, &layout);
    if (buffers->intersections_bytes < layout.lists)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "raster_render: intersections has %zu bytes, the visible Gaussians alone "
                         "take %zu",
                         buffers->intersections_bytes, layout.lists);
    for (int32_t c = 0; c < raster->cameras; ++c)
        GSC__TRY(
            render_frame(context, raster, c, buffers, outputs, &layout, info, overflow, stream));
    return GSC_OK;
}

gsc_status gsc__gpu_mark_visible(gsc_context *context, const gsc__raster *raster, uint8_t *visible,
                                 void *stream) {
    static const char function[] = "mark_visible";
    const uint32_t blocks = gsc__gpu_pieces(raster->gaussians, 256);
    for (int32_t c = 0; c < raster->cameras; ++c) {
        gsc_k_mark_visible args = {.gaussians = raster->gaussians,
                                   .means = raster->means,
                                   .visible = visible + c * raster->gaussians};
        gsc__gpu_camera_source_of(raster, c, &args.source);
        GSC__TRY(LAUNCH(mark_visible, blocks, 256, args));
    }
    return GSC_OK;
}
