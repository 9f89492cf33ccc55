/* What every entry point with a context begins with. */
#ifndef GSC_API_CALL_H
#define GSC_API_CALL_H

#include "check/raster_args.h"
#include "core/context.h"

/* Checks context and stream and begins the call; the checker is for its tensors. */
gsc_status gsc__begin(const char *function, gsc_context *context, void *stream, gsc__call *call,
                      gsc__checker *checker);

/* Memory for one call, if the caller gave none. */
typedef struct gsc__scratch {
    gsc_context *context;
    void *stream;
    void *owned; /* NULL: the caller's, or none yet */
    size_t bytes;
} gsc__scratch;
/* Leaves *data and *bytes alone if *data is given, else provides at least `needed` bytes;
 * *data is not NULL afterwards. */
gsc_status gsc__scratch_provide(gsc__scratch *scratch, gsc_context *context, const char *function,
                                size_t needed, void *stream, void **data, size_t *bytes);
void gsc__scratch_release(gsc__scratch *scratch);

/* Checks what every call of the rasterizer has; info NULL: nothing is known of the
 * intersections.  Leaves out buffers and outputs. */
gsc_status gsc__raster_begin(gsc__raster_call *call, gsc__checker *checker, const char *function,
                             gsc_context *context, const gsc_raster_args *args,
                             const gsc_raster_info *info, void *stream);
/* What the backend says, given the intersections of info (NULL: nothing). */
gsc_status gsc__raster_sizes(const gsc__raster_call *call, const gsc_raster_info *info,
                             gsc_raster_info *sizes);
/* Makes sizes of a frame of which nothing is known those of one as earlier frames let expect
 * it, where they do; else visible stays 0. */
gsc_status gsc__raster_forecast(const gsc__raster_call *call, gsc_raster_info *sizes);
/* GSC_ERROR_INVALID_ARGUMENT unless info expects something. */
gsc_status gsc__raster_check_expected(const gsc__raster_call *call, const gsc_raster_info *info);
/* Scratch of forward in the memory of the image, where that is large enough, no part of the image
 * is drawn by then, and buffers have none; info: of the frame. */
void gsc__scratch_in_color(gsc__raster_call *call, const gsc_raster_info *info);
/* Projects, with a wait for what there is, and notes that for later forecasts. */
gsc_status gsc__raster_project(const gsc__raster_call *call, gsc_raster_info *info);
/* Draws a frame of which info says what is expected, then what was found; without *fits it
 * was only projected.  Notes what was found for later forecasts. */
gsc_status gsc__raster_project_blend(const gsc__raster_call *call, gsc_raster_info *info,
                                     bool *fits);
/* Capacity for the whole frame, or for as large a part of it as there is memory for: the frame
 * then is done in bands. */
gsc_status gsc__alloc_intersections(gsc_context *context, const gsc_raster_info *info,
                                    const char *what, void *stream, void **data, size_t *bytes);
/* GSC_ERROR_STATE unless info is of a call with such arguments. */
gsc_status gsc__raster_check_layout(const gsc__raster_call *call, const gsc_raster_info *info);

#endif
