#include "args.h"

gsc_status gsc__raster_buffers_args(const gsc__call *call, const gsc_raster_buffers *theirs,
                                    const gsc__buffer_needs *needs, gsc__raster_buffers *out) {
    static const gsc__buffer_needs nothing = {.uses_intersections = true};
    const bool required = needs != NULL;
    gsc_raster_buffers buffers;
    memset(out, 0, sizeof *out);
    if (!needs) needs = &nothing;
    GSC__TRY(GSC__ARGS_COPY(call, "buffers", &buffers, theirs, scratch));
    if (required) GSC__TRY(gsc__require(call, "state", buffers.state));
    GSC__TRY(gsc__tensor_bytes(call, "state", buffers.state, needs->state, &out->state,
                               &out->state_bytes));
    if (needs->uses_intersections) {
        if (needs->intersections > 0)
            GSC__TRY(gsc__require(call, "intersections", buffers.intersections));
        GSC__TRY(gsc__tensor_bytes(call, "intersections", buffers.intersections,
                                   needs->intersections, &out->intersections,
                                   &out->intersections_bytes));
    }
    return gsc__tensor_bytes(call, "scratch", buffers.scratch, needs->scratch, &out->scratch,
                             &out->scratch_bytes);
}

gsc_status gsc__raster_info_args(const gsc__call *call, const gsc_raster_info *theirs,
                                 gsc_raster_info *out) {
    GSC__TRY(GSC__ARGS_COPY(call, "info", out, theirs, visible));
    out->struct_size = sizeof *out;
    if (out->visible < 0 || out->visible > GSC__MAX_GAUSSIANS)
        return gsc__refuse(call, out->visible < 0 ? GSC_ERROR_INVALID_ARGUMENT : GSC_ERROR_OVERFLOW,
                           "@info has %lld visible, expected 0 to %lld", (long long)out->visible,
                           (long long)GSC__MAX_GAUSSIANS);
    if (out->intersections >= 0 && out->intersections <= GSC__MAX_INTERSECTIONS) return GSC_OK;
    return gsc__refuse(call,
                       out->intersections < 0 ? GSC_ERROR_INVALID_ARGUMENT : GSC_ERROR_OVERFLOW,
                       "@info has %lld intersections, expected 0 to %lld",
                       (long long)out->intersections, (long long)GSC__MAX_INTERSECTIONS);
}
