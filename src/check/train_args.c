#include "args.h"

#include <stdio.h>

/* ---------------------------------------------------------------- parameters */

/* A tensor of the scene that may be trained. */
typedef struct parameter {
    const char *name;
    const gsc_real *data;     /* NULL: not given */
    const gsc_real *gradient; /* asked for */
    int32_t choices;
    gsc__shape shapes[2]; /* [choices], all of the same memory */
} parameter;

/* By GSC_PARAMETER_* - 1. */
static void list_parameters(const gsc__raster *raster, const gsc__raster_grads *grads,
                            parameter all[GSC__PARAMETERS]) {
    const int64_t n = raster->gaussians, d = raster->channels;
    const gsc__shape three = gsc__shape2(n, 3), four = gsc__shape2(n, 4), six = gsc__shape2(n, 6);
    const gsc__shape sh = gsc__shape3(n, raster->sh_coefficients, 3), dc = gsc__shape3(n, 1, 3);
    const gsc__shape colors[2] = {gsc__shape2(n, d), gsc__shape3(1, n, d)};
    const parameter list[GSC__PARAMETERS] = {
        {"means", raster->means, grads->means, 1, {three}},
        {"opacities", raster->opacities, grads->opacities, 2, {gsc__shape1(n), gsc__shape2(n, 1)}},
        {"scales", raster->scales, grads->scales, 1, {three}},
        {"rotations", raster->rotations, grads->rotations, 1, {four}},
        {"covariances", raster->covariances, grads->covariances, 1, {six}},
        {"colors", raster->colors, grads->colors, 2, {colors[0], colors[1]}},
        {"sh", raster->sh, grads->sh, 1, {sh}},
        {"sh_dc", raster->sh_dc, grads->sh_dc, 1, {dc}}};
    memcpy(all, list, sizeof list);
}

/* -------------------------------------------------------------------- groups */

static gsc_status check_parameter(const gsc__call *call, uint32_t index,
                                  const gsc_train_group *group, const gsc__raster *raster,
                                  const parameter *which) {
    if (!which->data) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@groups[%u] is for %s, which is not given", index, which->name);
    }
    if (which->gradient) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "@grads.%s is wanted, but groups[%u] is for %s", which->name, index,
                           which->name);
    }
    if (group->parameter != GSC_PARAMETER_COLORS || raster->channels == 3) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_UNSUPPORTED,
                       "@groups[%u] is for colors of %d channels, expected 3", index,
                       raster->channels);
}

static gsc_status check_moment(const gsc__call *call, const char *name, const DLTensor *given,
                               const parameter *which, gsc_real **data) {
    gsc__tensor moment = {
        .name = name, .given = given, .result = data, .choices = which->choices, .required = true};
    memcpy(moment.shapes, which->shapes, sizeof moment.shapes);
    return gsc__tensor_check(call, &moment);
}

/* call: with the group's path. */
static gsc_status check_group(const gsc__call *call, const gsc_train_group *group, int64_t rows,
                              const parameter *which, gsc__adam_group *out) {
    const gsc_adam_group settings = {.lr = group->lr,
                                     .beta1 = group->beta1,
                                     .beta2 = group->beta2,
                                     .epsilon = group->epsilon,
                                     .weight_decay = group->weight_decay,
                                     .step = group->step};
    GSC__TRY(gsc__adam_scalars(call, &settings, out));
    GSC__TRY(check_moment(call, "moment1", group->moment1, which, &out->moment1));
    GSC__TRY(check_moment(call, "moment2", group->moment2, which, &out->moment2));
    out->rows = rows;
    out->row_size = 1;
    for (int32_t i = 1; i < which->shapes[0].ndim; ++i) out->row_size *= which->shapes[0].dims[i];
    if (out->rows > 0 && out->row_size > 0) out->parameter = (gsc_real *)(uintptr_t)which->data;
    return GSC_OK;
}

static gsc_status check_groups(const gsc__call *call, const gsc_train_args *args,
                               const gsc__raster *raster, gsc__train *out) {
    int64_t taken[GSC__PARAMETERS];
    parameter parameters[GSC__PARAMETERS];
    char paths[GSC__PARAMETERS][GSC__GROUP_PATH_SIZE]; /* for messages about other groups, too */
    for (int i = 0; i < GSC__PARAMETERS; ++i) taken[i] = -1;
    list_parameters(raster, &out->grads, parameters);
    if (args->group_count > 0 && !args->groups) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "@groups is NULL, expected %u groups",
                           args->group_count);
    }
    for (uint32_t i = 0; i < args->group_count; ++i) {
        const char *theirs = (const char *)args->groups + (size_t)i * args->group_stride;
        gsc_train_group group;
        gsc__call part = *call;
        snprintf(paths[i % GSC__PARAMETERS], sizeof paths[0], "groups[%u].", i);
        part.path = paths[i % GSC__PARAMETERS];
        GSC__TRY(gsc__args_copy_sized(&part, NULL, &group, sizeof group, theirs, args->group_stride,
                                      GSC__SIZE_THROUGH(gsc_train_group, reserved)));
        if (group.parameter < 1 || group.parameter > GSC__PARAMETERS) {
            return gsc__refuse(&part, GSC_ERROR_INVALID_ARGUMENT,
                               "@parameter is %d, expected 1 to %d", group.parameter,
                               GSC__PARAMETERS);
        }
        const int32_t which = group.parameter - 1;
        GSC__TRY(gsc__check_flags(&part, "reserved", group.reserved, 0));
        if (taken[which] >= 0) {
            return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                               "groups[%lld] and groups[%u] are both for %s",
                               (long long)taken[which], i, parameters[which].name);
        }
        taken[which] = i;
        out->steps.groups[which].decoupled = (args->flags & GSC_TRAIN_DECOUPLED) != 0;
        GSC__TRY(check_parameter(call, i, &group, raster, &parameters[which]));
        GSC__TRY(check_group(&part, &group, raster->gaussians, &parameters[which],
                             &out->steps.groups[which]));
    }
    return GSC_OK;
}

/* --------------------------------------------------------------- descriptors */

static gsc__call call_of_part(const gsc__call *call, const char *path) {
    gsc__call part = *call;
    part.path = path;
    return part;
}

static gsc_status check_raster(const gsc__call *call, const gsc_train_args *args,
                               gsc__raster *out) {
    const gsc__call part = call_of_part(call, "raster.");
    GSC__TRY(gsc__raster_args(&part, args->raster, out));
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
    const gsc__call loss = call_of_part(call, "loss.");
    const gsc__call buffers = call_of_part(call, "buffers.");
    gsc__raster *raster = &raster_call->raster;
    gsc_train_args args;
    memset(out, 0, sizeof *out);
    GSC__TRY(gsc__args_copy(call, "args", &args, sizeof args, theirs,
                            GSC__SIZE_THROUGH(gsc_train_args, info)));
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
