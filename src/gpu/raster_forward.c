#include "raster_bins.h"

#include <string.h>

#define LAUNCH(name, grid, block, args)                                                      \
    gsc__gpu_launch(context, GSC__KERNEL_##name, grid, block, &(args), sizeof(args), stream, \
                    function)

#define SIDE_MAX 65536 /* pixel numbers take 16 bits of a record */

/* Scratch of project: look-back states, and marks along the rows of bins. */
typedef struct project_scratch {
    uint64_t *blocks;     /* [blocks] */
    int32_t *differences; /* [bins_y, bins_x + 1] */
    size_t bytes;
} project_scratch;

/* Behind it stands the depth sort's own scratch. */
static project_scratch project_layout(const gsc__gpu_layout *layout, void *base) {
    gsc__gpu_cut cut = {base, 0};
    project_scratch s;
    uint32_t blocks = gsc__gpu_pieces(layout->gaussians, GSC__PROJECT_BLOCK);
    s.blocks = gsc__gpu_take(&cut, (size_t)blocks * sizeof *s.blocks);
    s.differences =
        gsc__gpu_take(&cut, (size_t)layout->grid.bins_y * (size_t)(layout->grid.bins_x + 1) *
                                sizeof *s.differences);
    s.bytes = cut.at;
    return s;
}

gsc_status gsc__gpu_raster_sizes(const gsc_context *context, const gsc__raster *raster,
                                 gsc_raster_info *info) {
    gsc__gpu_layout layout;
    (void)context;
    if (raster->width > SIDE_MAX || raster->height > SIDE_MAX)
        return gsc__fail(GSC_ERROR_UNSUPPORTED,
                         "raster: the image is %d x %d, a CUDA device draws at most %d x %d",
                         raster->width, raster->height, SIDE_MAX, SIDE_MAX);
    gsc__gpu_layout_plan(raster, &layout);
    /* Of the largest frame once project has counted, else all may be in one. */
    if (info->intersections_bytes == 0)
        info->intersections_bytes = (size_t)info->intersections * sizeof(uint32_t);
    const int64_t entries = (int64_t)(info->intersections_bytes / sizeof(uint32_t));
    const size_t project =
        project_layout(&layout, NULL).bytes + gsc__gpu_sort_scratch_bytes(&layout);
    const size_t render =
        gsc__gpu_bins_scratch_bytes(&layout, entries) + gsc__gpu_statistics_bytes(&layout);
    info->layout = layout.hash;
    info->state_bytes = layout.bytes;
    info->forward_scratch_bytes = project > render ? project : render;
    info->backward_scratch_bytes =
        gsc__gpu_bins_scratch_bytes(&layout, entries) + gsc__gpu_sums_bytes(&layout);
    return GSC_OK;
}

static gsc_status load_camera(gsc_context *context, const gsc__raster *raster, int32_t index,
                              const gsc__gpu_layout *layout, const gsc__gpu_frame *frame,
                              void *stream, const char *function) {
    gsc_k_camera args = {.camera = frame->camera,
                         .header = frame->header,
                         .magic = GSC__GPU_STATE_MAGIC,
                         .layout = layout->hash};
    gsc__gpu_camera_source_of(raster, index, &args.source);
    return LAUNCH(camera, 1, 1, args);
}

static gsc_k_project project_args(const gsc__raster *raster, int32_t index,
                                  const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                                  const gsc__gpu_frame *frame, uint64_t *blocks) {
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
        .blocks = blocks,
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
    const uint32_t blocks = gsc__gpu_pieces(raster->gaussians, GSC__PROJECT_BLOCK);
    const project_scratch scratch = project_layout(layout, buffers->scratch);
    gsc__gpu_frame frame;
    gsc__gpu_frame_open(layout, buffers->state, index, &frame);
    GSC__TRY(gsc__gpu_memset(context, frame.header, 0, sizeof *frame.header, stream, function));
    GSC__TRY(gsc__gpu_memset(context, buffers->scratch, 0, scratch.bytes, stream, function));
    GSC__TRY(load_camera(context, raster, index, layout, &frame, stream, function));
    const gsc_k_project project =
        project_args(raster, index, outputs, layout, &frame, scratch.blocks);
    GSC__TRY(LAUNCH(project, blocks, GSC__PROJECT_BLOCK, project));
    const gsc_k_count_bins count = {frame, layout->grid, scratch.differences};
    GSC__TRY(LAUNCH(count_bins, gsc__gpu_pieces(raster->gaussians, GSC__COUNT_PIECE),
                    GSC__COUNT_BLOCK, count));
    const gsc_k_sum_bins sum = {frame, layout->grid, scratch.differences};
    return LAUNCH(sum_bins, 1, 1024, sum);
}

/* What the cameras' headers said. */
typedef struct frame_totals {
    int64_t total, largest_frame, largest_bin;
} frame_totals;

static gsc_status add_header(const gsc__gpu_header *header, frame_totals *totals) {
    if (header->outside)
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                         "raster_project: means holds a point outside the near and far planes, "
                         "but GSC_RASTER_PREFILTERED promises none");
    const int64_t intersections = (int64_t)header->intersections;
    totals->total += intersections;
    if (intersections > totals->largest_frame) totals->largest_frame = intersections;
    if ((int64_t)header->largest_bin > totals->largest_bin)
        totals->largest_bin = (int64_t)header->largest_bin;
    return GSC_OK;
}

/* The documented wait is for the header alone: the depth sort runs on meanwhile. */
static gsc_status sort_frame(gsc_context *context, int32_t index,
                             const gsc__raster_buffers *buffers, const gsc__gpu_layout *layout,
                             frame_totals *totals, void *stream) {
    static const char function[] = "raster_project";
    void *sort_scratch = (unsigned char *)buffers->scratch + project_layout(layout, NULL).bytes;
    gsc__gpu_frame frame;
    gsc__gpu_reading reading;
    gsc__gpu_frame_open(layout, buffers->state, index, &frame);
    if (!totals)
        return gsc__gpu_sort_depths(context, layout, &frame, sort_scratch, stream, function);
    GSC__TRY(gsc__gpu_read_begin(context, &reading, frame.header, sizeof(gsc__gpu_header), stream,
                                 function));
    gsc_status sorted =
        gsc__gpu_sort_depths(context, layout, &frame, sort_scratch, stream, function);
    GSC__TRY(gsc__gpu_read_end(context, &reading, sizeof(gsc__gpu_header), function));
    GSC__TRY(sorted);
    gsc__gpu_header header;
    memcpy(&header, reading.data, sizeof header);
    return add_header(&header, totals);
}

gsc_status gsc__gpu_raster_project(gsc_context *context, const gsc__raster *raster,
                                   const gsc__raster_buffers *buffers,
                                   const gsc__raster_outputs *outputs, gsc_raster_info *info,
                                   void *stream) {
    gsc__gpu_layout layout;
    frame_totals totals = {0, 0, 0};
    gsc__gpu_layout_plan(raster, &layout);
    for (int32_t c = 0; c < raster->cameras; ++c) {
        GSC__TRY(project_frame(context, raster, c, buffers, outputs, &layout, stream));
        GSC__TRY(sort_frame(context, c, buffers, &layout, info ? &totals : NULL, stream));
    }
    if (!info) return GSC_OK;
    /* Cameras follow each other through one buffer, and so through one scratch. */
    info->intersections = totals.total;
    info->intersections_bytes = (size_t)totals.largest_frame * sizeof(uint32_t);
    info->intersections_min_bytes = (size_t)totals.largest_bin * sizeof(uint32_t);
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

static bool wants_statistics(const gsc__raster_outputs *out) {
    return out->touched || out->weight_sum || out->weight_count || out->weight_blend ||
           out->weight_distance;
}

static gsc_status blend_bands(gsc_context *context, const gsc__raster *raster,
                              const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                              const gsc__gpu_frame *frame, gsc__gpu_bins *bins, gsc_k_blend *blend,
                              void *stream) {
    static const char function[] = "raster_render";
    const uint32_t area = (1u << layout->grid.shift_x) * (1u << layout->grid.shift_y);
    const bool thorough =
        raster->channels != 3 || outputs->median_depth || wants_statistics(outputs);
    const uint32_t bin_count = (uint32_t)layout->grid.bins;
    for (uint32_t round = 0; round < bins->rounds; ++round) {
        GSC__TRY(gsc__gpu_bins_fill(context, layout, frame, bins, round, stream, function));
        blend->band = bins->bands + round;
        if (thorough)
            GSC__TRY(LAUNCH(blend_any, bin_count * (area / 256), 256, *blend));
        else if (outputs->depth || outputs->inv_depth)
            GSC__TRY(LAUNCH(blend_depths, gsc__gpu_blend_blocks(layout), GSC__BLEND_BLOCK, *blend));
        else
            GSC__TRY(LAUNCH(blend, gsc__gpu_blend_blocks(layout), GSC__BLEND_BLOCK, *blend));
    }
    return GSC_OK;
}

static gsc_status render_frame(gsc_context *context, const gsc__raster *raster, int32_t index,
                               const gsc__raster_buffers *buffers,
                               const gsc__raster_outputs *outputs, const gsc__gpu_layout *layout,
                               const gsc_raster_info *info, int64_t *overflow, void *stream) {
    static const char function[] = "raster_render";
    gsc__gpu_frame frame;
    gsc__gpu_bins bins;
    gsc__gpu_frame_open(layout, buffers->state, index, &frame);
    GSC__TRY(gsc__gpu_bins_plan(context, layout, &frame, buffers, info, overflow, &bins, stream,
                                function));
    gsc_k_blend blend = blend_args(raster, index, outputs, layout, &frame, &bins);
    GSC__TRY(gsc__gpu_background(context, raster, index, layout, buffers->state, stream, function,
                                 &blend.background));
    const bool statistics = wants_statistics(outputs);
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
    gsc__gpu_layout_plan(raster, &layout);
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
