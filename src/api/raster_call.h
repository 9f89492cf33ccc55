/* The steps of the rasterizer, as its entry points put them together. */
#ifndef GSC_RASTER_CALL_H
#define GSC_RASTER_CALL_H

#include "check/args.h"
#include "core/context.h"
#include "core/workspace.h"

/* Begins a call: checks the arguments and asks the backend for sizes.  info: what is known of
 * the frame, NULL: nothing.  Leaves buffers and outputs empty. */
gsc_status gsc__raster_begin(gsc__raster_call *call, const char *function, gsc_context *context,
                             const gsc_raster_args *args, const gsc_raster_info *info,
                             void *stream);
/* What the backend says, given the intersections of info (NULL: nothing). */
gsc_status gsc__raster_sizes(const gsc__raster_call *call, const gsc_raster_info *info,
                             gsc_raster_info *sizes);
/* If earlier frames tell what to expect of this one, makes sizes those of such a frame; else
 * sizes->visible stays 0. */
gsc_status gsc__raster_forecast(const gsc__raster_call *call, gsc_raster_info *sizes);
/* GSC_ERROR_STATE unless info comes from a call with such arguments. */
gsc_status gsc__raster_check_layout(const gsc__raster_call *call, const gsc_raster_info *info);

/* Projects, waits for the counts, and keeps them for later forecasts. */
gsc_status gsc__raster_project(const gsc__raster_call *call, gsc_raster_info *info);
/* Projects and blends a frame of which info says what to expect, and then what was found.
 * !*fits: the buffers were too small, so the frame was only projected. */
gsc_status gsc__raster_project_blend(const gsc__raster_call *call, gsc_raster_info *info,
                                     bool *fits);

/* Provides the scratch to blend a frame of info: the caller's, memory of the outputs, or a block. */
gsc_status gsc__raster_scratch(gsc__raster_call *call, gsc__workspace *workspace,
                               const gsc_raster_info *info);
/* Projects and blends.  Those of the call's buffers that are NULL come from the workspace, and
 * stay there.  with_backward: the scratch will do for backward, too. */
gsc_status gsc__raster_forward(gsc__raster_call *call, gsc__workspace *workspace,
                               bool with_backward, gsc_raster_info *info);

#endif
