#include "args.h"

#include <stdio.h>

/* -------------------------------------------------------------------- groups */

/* gradient: the one with respect to the group's parameter. */
static gsc_status check_parameter(const gsc__call *call, uint32_t index, const gsc__raster *raster,
                                  const gsc__raster_grads *grads, const gsc__field *gradient) {
    if (!gsc__pointer_at(raster, gradient->needs)) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@groups[%u] is for %s, which is not given", index, gradient->name);
    }
    if (gsc__pointer_at(grads, gradient->to)) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@grads.%s is wanted, but groups[%u] is for %s", gradient->name, index,
                           gradient->name);
    }
    if (gradient != gsc__parameter_field(GSC_PARAMETER_COLORS) || raster->channels == 3)
        return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_UNSUPPORTED,
                       "@groups[%u] is for colors of %d channels, expected 3", index,
                       raster->channels);
}

/* call: with the group's path. */
static gsc_status check_group(const gsc__call *call, const gsc_train_group *group,
                              const gsc__raster *raster, const gsc__field *gradient,
                              gsc__adam_group *out) {
    const gsc__field moments[] = {
        GSC__FIELD(gsc_train_group, gsc__adam_group, moment1, gradient->shapes, GSC__REQUIRED),
        GSC__FIELD(gsc_train_group, gsc__adam_group, moment2, gradient->shapes, GSC__REQUIRED)};
    gsc__sizes sizes = {0};
    gsc__raster_sizes_of(raster, &sizes);
    GSC__TRY(gsc__adam_settings(call, &group->lr, out));
    GSC__TRY(gsc__fields_check(call, &sizes, moments, GSC__COUNT(moments), group, out));
    out->rows = raster->gaussians;
    out->row_size = out->rows ? gsc__elements(group->moment1) / out->rows : 0;
    if (out->row_size > 0) out->parameter = gsc__pointer_at(raster, gradient->needs);
    return GSC_OK;
}

static gsc_status check_groups(const gsc__call *call, const gsc_train_args *args,
                               const gsc__raster *raster, gsc__train *out) {
    int64_t taken[GSC__PARAMETERS];
    char path[GSC__GROUP_PATH_SIZE];
    for (int i = 0; i < GSC__PARAMETERS; ++i) taken[i] = -1;
    if (args->group_count > 0 && !args->groups) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "@groups is NULL, expected %u groups",
                           args->group_count);
    }
    for (uint32_t i = 0; i < args->group_count; ++i) {
        const char *theirs = (const char *)args->groups + (size_t)i * args->group_stride;
        gsc_train_group group;
        snprintf(path, sizeof path, "groups[%u].", i);
        const gsc__call part = gsc__call_of_part(call, path);
        GSC__TRY(gsc__args_copy_sized(&part, NULL, &group, sizeof group, theirs, args->group_stride,
                                      GSC__SIZE_THROUGH(gsc_train_group, reserved)));
        GSC__TRY(gsc__check_range(&part, "parameter", group.parameter, 1, GSC__PARAMETERS));
        const int32_t which = group.parameter - 1;
        const gsc__field *gradient = gsc__parameter_field(group.parameter);
        GSC__TRY(gsc__check_flags(&part, "reserved", group.reserved, 0));
        if (taken[which] >= 0) {
            return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                               "groups[%lld] and groups[%u] are both for %s",
                               (long long)taken[which], i, gradient->name);
        }
        taken[which] = i;
        out->steps.groups[which].decoupled = (args->flags & GSC_TRAIN_DECOUPLED) != 0;
        GSC__TRY(check_parameter(call, i, raster, &out->grads, gradient));
        GSC__TRY(check_group(&part, &group, raster, gradient, &out->steps.groups[which]));
    }
    return GSC_OK;
}

/* --------------------------------------------------------------- descriptors */

static gsc_status check_raster(const gsc__call *call, const gsc_train_args *args,
                               gsc__raster *out) {
    const gsc__call part = gsc__call_of_part(call, "raster.");
    GSC__TRY(gsc__raster_args(&part, args->raster, out));
    if (args->grads) GSC__TRY(gsc__check_backward(&part, out));
    if (out->cameras == 1) return GSC_OK;
    return gsc__refuse(&part, GSC_ERROR_UNSUPPORTED, "@view has %d cameras, expected 1",
                       out->cameras);
}

static gsc_status check_grads(const gsc__call *call, const gsc_train_args *args,
                              const gsc__raster *raster, gsc__train *out) {
    if (!args->grads) return GSC_OK;
    GSC__TRY(gsc__raster_grads_args(call, raster, args->grads, &out->grads));
    if (!out->grads.color) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                       "@grads.color is given, but it comes from the loss");
}

gsc_status gsc__train_args(gsc__raster_call *raster_call, const gsc_train_args *theirs,
                           gsc__train *out) {
    const gsc__call *call = &raster_call->call;
    const gsc__call loss = gsc__call_of_part(call, "loss.");
    const gsc__call buffers = gsc__call_of_part(call, "buffers.");
    gsc__raster *raster = &raster_call->raster;
    gsc_train_args args;
    memset(out, 0, sizeof *out);
    GSC__TRY(GSC__ARGS_COPY(call, "args", &args, theirs, info));
    GSC__TRY(gsc__check_flags(call, "flags", args.flags, GSC_TRAIN_DECOUPLED | GSC_TRAIN_ALL_ROWS));
    out->all_rows = (args.flags & GSC_TRAIN_ALL_ROWS) != 0;
    GSC__TRY(check_raster(call, &args, raster));
    GSC__TRY(gsc__raster_outputs_args(call, raster, args.outputs, false, &raster_call->outputs));
    GSC__TRY(check_grads(call, &args, raster, out));
    GSC__TRY(gsc__train_loss_args(&loss, args.loss, raster, &out->loss));
    if (args.buffers)
        GSC__TRY(gsc__raster_buffers_args(&buffers, args.buffers, NULL, &raster_call->buffers));
    GSC__TRY(check_groups(call, &args, raster, out));
    if (!args.info) return GSC_OK;
    return gsc__args_check_result(call, "info", args.info,
                                  GSC__SIZE_THROUGH(gsc_raster_info, visible));
}
