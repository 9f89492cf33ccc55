/* The forward steps: project, blend, and both without a wait between them. */
#include "raster.h"

/* --------------------------------------------------------------------- sizes */

gsc_status gsc__gpu_raster_sizes(const gsc__raster_call *call, gsc_raster_info *info) {
    const gsc__raster *raster = &call->raster;
    gsc__gpu_layout layout;
    gsc__gpu_layout_plan(raster, info->visible, &layout);
    info->layout = layout.hash;
    info->state_bytes = layout.bytes;
    info->forward_scratch_bytes = 0; /* project needs none */
    if (info->visible == 0 && info->intersections == 0) return GSC_OK;
    /* Of the largest frame once project has counted; until then one frame may have them all. */
    if (info->intersections_bytes == 0)
        info->intersections_bytes = gsc__gpu_lists_bytes(&layout, info->intersections);
    const int64_t frame = gsc__gpu_slot_capacity(&layout, info->intersections_bytes);
    const int64_t fullest = frame < layout.record_capacity ? frame : layout.record_capacity;
    if (info->intersections_min_bytes == 0)
        info->intersections_min_bytes = layout.lists + (size_t)fullest * sizeof(uint32_t);
    info->forward_scratch_bytes = gsc__gpu_lists_scratch_bytes(&layout, frame);
    /* Without work space for lists, which usually stay; else it comes from the context. */
    info->backward_scratch_bytes = gsc__gpu_sums_carve(raster, &layout, NULL).bytes;
    return GSC_OK;
}

int64_t gsc__gpu_raster_largest_frame(const gsc__raster *raster, const gsc_raster_info *info) {
    gsc__gpu_layout layout;
    gsc__gpu_layout_plan(raster, info->visible, &layout);
    return gsc__gpu_slot_capacity(&layout, info->intersections_bytes);
}

/* Scratch in the memory of the image: it is free until the image is written.  The last camera's
 * image is the last to be blended, after the last use of scratch: unless there are statistics,
 * which are summed up in scratch, or bands, whose lists are made between one part of the image and
 * the next.  Bands are made of fewer intersections than the frame has, and of more than positions
 * of 32 bits can count. */
void *gsc__gpu_lend_scratch(const gsc__raster_call *call, const gsc_raster_info *info,
                            size_t *bytes) {
    const gsc__raster *raster = &call->raster;
    const gsc__raster_outputs *outputs = &call->outputs;
    const size_t image = (size_t)raster->width * (size_t)raster->height * (size_t)raster->channels *
                         sizeof *outputs->color;
    if (gsc__wants_statistics(outputs) || info->intersections > INT32_MAX ||
        call->buffers.intersections_bytes < info->intersections_bytes)
        return NULL;
    char *begin = (char *)outputs->color + (size_t)(raster->cameras - 1) * image;
    const size_t skipped = (size_t)(-(uintptr_t)begin % GSC__BUFFER_ALIGNMENT);
    if (image < skipped || image - skipped < info->forward_scratch_bytes) return NULL;
    *bytes = image - skipped;
    return begin + skipped;
}

/* ------------------------------------------------------------------- project */

/* clears: also the words that must be zero for the lists; a separate fill would take longer. */
static gsc_status begin_frame(gsc__gpu_pass *pass, bool clears) {
    gsc__gpu_tile_lists *lists = &pass->lists;
    gsc_k_begin args = {.camera = pass->frame.camera,
                        .header = pass->frame.header,
                        .groups = pass->frame.groups,
                        .group_count = pass->layout.group_count,
                        .magic = GSC__GPU_STATE_MAGIC,
                        .layout = pass->layout.hash};
    gsc__gpu_camera_source_of(pass->raster, pass->camera, &args.source);
    if (!clears) return LAUNCH(begin, pass->call, 1, args);
    args.clear = (uint32_t *)(void *)lists->zeroed;
    args.clear_count = (uint32_t)(lists->zeroed_bytes / (4 * sizeof(uint32_t)));
    lists->is_zeroed = true;
    return LAUNCH(begin, pass->call, 1 + GSC__CLEAR_BLOCKS, args);
}

static gsc_k_project project_args(const gsc__gpu_pass *pass) {
    const gsc__raster *raster = pass->raster;
    const gsc__raster_outputs *outputs = pass->outputs;
    const int64_t n = raster->gaussians, at = pass->camera * n;
    return (gsc_k_project){.frame = pass->frame,
                           .grid = pass->layout.grid,
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
                           .colors = gsc__gpu_colors(pass),
                           .sh = raster->sh,
                           .sh_dc = raster->sh_dc,
                           .radii =
                               outputs->radii ? outputs->radii + at * outputs->radii_axes : NULL,
                           .radii_axes = outputs->radii_axes,
                           .more_outputs = outputs->means2d || outputs->depths || outputs->conics ||
                                           outputs->opacities,
                           .means2d = outputs->means2d ? outputs->means2d + 2 * at : NULL,
                           .out_depths = outputs->depths ? outputs->depths + at : NULL,
                           .conics = outputs->conics ? outputs->conics + 3 * at : NULL,
                           .out_opacities = outputs->opacities ? outputs->opacities + at : NULL};
}

static gsc_status project_frame(gsc__gpu_pass *pass, bool clears) {
    const uint32_t chunks = gsc__gpu_blocks(pass->raster->gaussians, GSC__CHUNK);
    const gsc_k_project project = project_args(pass);
    GSC__TRY(begin_frame(pass, clears));
    return LAUNCH(project, pass->call, chunks, project);
}

/* Headers of cameras: as many as one read or report holds. */
enum { HEADERS_AT_ONCE = GSC__STAGING_BYTES / sizeof(gsc__gpu_header) };

/* What the cameras' headers said. */
typedef struct frame_totals {
    int64_t total, visible, largest_frame;
    int64_t fullest_tile; /* at most: a tile holds a Gaussian once */
} frame_totals;
static const frame_totals no_frames = {.visible = 1}; /* 0 would mean that it is unknown */

static gsc_status add_headers(const gsc__gpu_pass *pass, const gsc__gpu_header *headers,
                              int32_t count, frame_totals *totals) {
    for (int32_t c = 0; c < count; ++c) {
        const int64_t intersections = (int64_t)headers[c].intersections;
        const int64_t visible = headers[c].visible;
        const int64_t fullest = visible < intersections ? visible : intersections;
        if (headers[c].outside)
            return gsc__fail(GSC_ERROR_INVALID_ARGUMENT,
                             "%s: means holds a point outside the near and far planes, but "
                             "GSC_RASTER_PREFILTERED promises none",
                             pass->call->function);
        totals->total += intersections;
        if (visible > totals->visible) totals->visible = visible;
        if (intersections > totals->largest_frame) totals->largest_frame = intersections;
        if (fullest > totals->fullest_tile) totals->fullest_tile = fullest;
    }
    return GSC_OK;
}

/* The documented wait: for the last of the headers, and so for all. */
static gsc_status read_headers(const gsc__gpu_pass *pass, frame_totals *totals) {
    gsc__gpu_header headers[HEADERS_AT_ONCE];
    for (int32_t c = 0; c < pass->raster->cameras; c += HEADERS_AT_ONCE) {
        const int32_t left = pass->raster->cameras - c;
        const int32_t count = left < HEADERS_AT_ONCE ? left : HEADERS_AT_ONCE;
        gsc__gpu_frame first;
        gsc__gpu_frame_open(&pass->layout, pass->buffers, c, &first);
        GSC__TRY(gsc__gpu_read(pass->call, headers, first.header, sizeof *headers,
                               pass->layout.camera_bytes, count));
        GSC__TRY(add_headers(pass, headers, count, totals));
    }
    return GSC_OK;
}

/* The cameras use one scratch, one after the other. */
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
    gsc__gpu_pass pass = gsc__gpu_pass_begin(call, NULL);
    frame_totals totals = no_frames;
    for (int32_t c = 0; c < call->raster.cameras; ++c) {
        gsc__gpu_pass_open(&pass, c);
        GSC__TRY(project_frame(&pass, false));
    }
    if (!info) return GSC_OK;
    GSC__TRY(read_headers(&pass, &totals));
    return fill_info(call, &totals, info);
}

/* --------------------------------------------------------------------- blend */

static float *plane(const gsc__gpu_pass *pass, float *output) {
    return output ? output + pass->camera * pass->layout.pixels : NULL;
}

static gsc_k_blend blend_args(const gsc__gpu_pass *pass) {
    const gsc__raster *raster = pass->raster;
    const gsc__raster_outputs *outputs = pass->outputs;
    const int64_t pixel = pass->camera * pass->layout.pixels;
    return (gsc_k_blend){.frame = pass->frame,
                         .grid = pass->layout.grid,
                         .lists = pass->lists.values,
                         .capacity = pass->lists.capacity,
                         .colors = gsc__gpu_colors(pass),
                         .channels = raster->channels,
                         .statistics = gsc__wants_statistics(outputs),
                         .pixel_last = (raster->flags & GSC_RASTER_PIXEL_LAST) != 0,
                         .median_default = raster->median_default,
                         .color = outputs->color + raster->channels * pixel,
                         .alpha = plane(pass, outputs->alpha),
                         .depth = plane(pass, outputs->depth),
                         .inv_depth = plane(pass, outputs->inv_depth),
                         .median_depth = plane(pass, outputs->median_depth),
                         .pixel_weights =
                             raster->pixel_weights ? raster->pixel_weights + pixel : NULL};
}

static enum gsc__gpu_kernel blend_kernel(const gsc__gpu_pass *pass) {
    const gsc__raster_outputs *outputs = pass->outputs;
    const bool details = outputs->median_depth || gsc__wants_statistics(outputs);
    const bool depths = outputs->depth || outputs->inv_depth;
    if (pass->raster->channels > 3)
        return details || depths ? GSC__KERNEL_blend_many_details : GSC__KERNEL_blend_many;
    if (details) return GSC__KERNEL_blend_details;
    return depths ? GSC__KERNEL_blend_depths : GSC__KERNEL_blend;
}

/* The first group of channels makes everything, the others only their part of the image. */
static gsc_status blend_groups(const gsc__gpu_pass *pass, const gsc_k_blend *blend) {
    const uint32_t blocks = gsc__gpu_blend_blocks(&pass->layout, pass->multiprocessors);
    gsc_k_blend group = *blend;
    GSC__TRY(gsc__gpu_launch(pass->call, blend_kernel(pass), blocks, &group));
    group.frame.final_t = NULL;
    group.alpha = NULL;
    for (int32_t c = GSC__BLEND_CHANNELS; c < group.channels; c += GSC__BLEND_CHANNELS) {
        group.channel = c;
        GSC__TRY(LAUNCH(blend_many, pass->call, blocks, group));
    }
    return GSC_OK;
}

/* statistics: memory for them, or NULL. */
static gsc_status blend_bands(gsc__gpu_pass *pass, void *statistics, gsc_k_blend *blend) {
    for (uint32_t round = 0; round < pass->lists.rounds; ++round) {
        GSC__TRY(gsc__gpu_lists_fill(pass, round));
        if (statistics && round == 0) GSC__TRY(gsc__gpu_statistics_begin(pass, statistics, blend));
        blend->band = pass->lists.bands + round;
        GSC__TRY(blend_groups(pass, blend));
    }
    return GSC_OK;
}

/* The sums go to the scratch, which is free once the lists of a single round are made and usually
 * large enough; else to memory of their own. */
static gsc_status blend_with_statistics(gsc__gpu_pass *pass, gsc_k_blend *blend) {
    gsc__workspace workspace = {.call = *pass->call};
    const size_t bytes = gsc__gpu_statistics_bytes(&pass->layout);
    void *memory = pass->buffers->scratch;
    if (pass->lists.rounds > 1 || bytes > pass->buffers->scratch_bytes)
        GSC__TRY(gsc__workspace_take(&workspace, "statistics", bytes, &memory));
    gsc_status status = blend_bands(pass, memory, blend);
    if (status == GSC_OK) status = gsc__gpu_statistics_finish(pass, blend);
    gsc__workspace_release(&workspace);
    return status;
}

/* Records of the visible Gaussians, their order by depth, and the plan of the bands. */
static gsc_status make_records(gsc__gpu_pass *pass, gsc__gpu_header *report, int64_t *overflow) {
    const int64_t n = pass->raster->gaussians;
    const uint32_t large_blocks = gsc__gpu_blocks(n, GSC__RECORD_CHUNKS * GSC__CHUNK);
    gsc_k_project project = project_args(pass);
    project.report = report;
    project.plan = gsc__gpu_plan_args(pass, overflow);
    /* Large blocks waste fewer threads, small ones are enough for all multiprocessors. */
    project.record_chunks =
        large_blocks >= 4 * (uint32_t)pass->multiprocessors ? GSC__RECORD_CHUNKS : 1;
    const uint32_t blocks = gsc__gpu_blocks(n, project.record_chunks * GSC__CHUNK);
    GSC__TRY(LAUNCH(records, pass->call, blocks, project));
    if (pass->lists.rounds > 1 || blocks == 0)
        GSC__TRY(gsc__gpu_lists_plan(pass, &project.plan, true));
    return gsc__gpu_sort_depths(pass);
}

/* Places the lists and their work space in the buffers. */
static gsc_status place_lists(gsc__gpu_pass *pass) {
    const gsc__raster_buffers *buffers = pass->buffers;
    const char *function = pass->call->function;
    if (buffers->intersections_bytes < pass->layout.lists)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "%s: intersections has %zu bytes, the visible Gaussians alone take %zu",
                         function, buffers->intersections_bytes, pass->layout.lists);
    GSC__TRY(gsc__gpu_lists_begin(pass));
    const size_t needed = gsc__gpu_lists_scratch_bytes(&pass->layout, pass->lists.capacity);
    if (needed > buffers->scratch_bytes)
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "%s: scratch has %zu bytes, expected at least %zu", function,
                         buffers->scratch_bytes, needed);
    gsc__gpu_lists_work_space(pass, buffers->scratch);
    return GSC_OK;
}

static gsc_status blend_frame(gsc__gpu_pass *pass, gsc__gpu_header *report, int64_t *overflow) {
    if (!pass->lists.is_zeroed) GSC__TRY(gsc__gpu_lists_clear(pass));
    GSC__TRY(make_records(pass, report, overflow));
    gsc_k_blend blend = blend_args(pass);
    GSC__TRY(gsc__gpu_background(pass, &blend.background));
    if (gsc__wants_statistics(pass->outputs)) return blend_with_statistics(pass, &blend);
    return blend_bands(pass, NULL, &blend);
}

/* One camera after the other, since they share the scratch; projects them too, if they are not.
 * Their counts reach `reports`, [C] or NULL, while they are blended. */
static gsc_status blend_frames(gsc__gpu_pass *pass, bool project, gsc__gpu_header *reports,
                               int64_t *overflow) {
    for (int32_t c = 0; c < pass->raster->cameras; ++c) {
        gsc__gpu_pass_open(pass, c);
        GSC__TRY(place_lists(pass));
        if (project) GSC__TRY(project_frame(pass, true));
        GSC__TRY(blend_frame(pass, reports ? reports + c : NULL, overflow));
    }
    return GSC_OK;
}

gsc_status gsc__gpu_raster_blend(const gsc__raster_call *call, const gsc_raster_info *info,
                                 int64_t *overflow) {
    gsc__gpu_pass pass = gsc__gpu_pass_begin(call, info);
    return blend_frames(&pass, false, NULL, overflow);
}

gsc_status gsc__gpu_raster_project_blend(const gsc__raster_call *call,
                                         const gsc_raster_info *expected, gsc_raster_info *found) {
    gsc__gpu_pass pass = gsc__gpu_pass_begin(call, expected);
    const int32_t cameras = call->raster.cameras;
    gsc__gpu_header headers[HEADERS_AT_ONCE];
    gsc__gpu_report report;
    frame_totals totals = no_frames;
    GSC__TRY(gsc__gpu_report_begin(pass.call, &report, sizeof *headers, cameras));
    gsc_status status = blend_frames(&pass, true, report.data, NULL);
    const bool reported = gsc__gpu_report_end(pass.call, &report, headers);
    if (status != GSC_OK) return status;
    if (reported)
        GSC__TRY(add_headers(&pass, headers, cameras, &totals));
    else
        GSC__TRY(read_headers(&pass, &totals));
    return fill_info(call, &totals, found);
}

gsc_status gsc__gpu_mark_visible(const gsc__raster_call *call, uint8_t *visible) {
    const gsc__raster *raster = &call->raster;
    const uint32_t blocks = gsc__gpu_blocks(raster->gaussians, GSC__MARK_BLOCK);
    for (int32_t c = 0; c < raster->cameras; ++c) {
        gsc_k_mark_visible args = {.gaussians = raster->gaussians,
                                   .means = raster->means,
                                   .visible = visible + c * raster->gaussians};
        gsc__gpu_camera_source_of(raster, c, &args.source);
        GSC__TRY(LAUNCH(mark_visible, &call->call, blocks, args));
    }
    return GSC_OK;
}
