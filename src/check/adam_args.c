#include "args.h"

#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------- scalars */

static gsc_status check_beta(const gsc__call *call, const char *name, float beta, double standard,
                             double *out) {
    GSC__TRY(gsc__check_finite(call, name, beta));
    if (beta >= 1.0f) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "@%s is %g, expected less than 1",
                           name, (double)beta);
    }
    *out = beta == 0.0f ? standard : beta < 0.0f ? 0.0 : (double)beta;
    return GSC_OK;
}

gsc_status gsc__adam_scalars(const gsc__call *call, const gsc_adam_group *group,
                             gsc__adam_group *out) {
    GSC__TRY(gsc__check_finite(call, "lr", group->lr));
    GSC__TRY(check_beta(call, "beta1", group->beta1, 0.9, &out->beta1));
    GSC__TRY(check_beta(call, "beta2", group->beta2, 0.999, &out->beta2));
    GSC__TRY(gsc__check_finite(call, "epsilon", group->epsilon));
    GSC__TRY(gsc__check_finite(call, "weight_decay", group->weight_decay));
    if (group->step < 0) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "@step is %d, expected 0 or more",
                           group->step);
    }
    out->lr = (double)group->lr;
    out->epsilon = group->epsilon == 0.0f  ? 1e-8
                   : group->epsilon < 0.0f ? 0.0
                                           : (double)group->epsilon;
    out->weight_decay = (double)group->weight_decay;
    out->step = group->step;
    return GSC_OK;
}

/* ------------------------------------------------------------------- tensors */

/* The shape of the parameter is what the other three must have. */
static gsc_status parameter_shape(const gsc__call *call, const DLTensor *parameter,
                                  gsc__shape *shape) {
    gsc__tensor tensor = {.name = "parameter", .given = parameter, .shape_only = true};
    GSC__TRY(gsc__require(call, "parameter", parameter));
    if (parameter->ndim < 1 || parameter->ndim > GSC__MAX_DIMS) {
        return gsc__refuse(call, GSC_ERROR_SHAPE, "@parameter has %d dimensions, expected 1 to %d",
                           parameter->ndim, GSC__MAX_DIMS);
    }
    memset(shape, 0, sizeof *shape);
    shape->ndim = parameter->ndim;
    for (int32_t i = 0; i < shape->ndim; ++i) shape->dims[i] = GSC__ANY(i == 0 ? 'N' : 'D');
    tensor.shapes[0] = *shape;
    GSC__TRY(gsc__tensor_check(call, &tensor));
    memcpy(shape->dims, parameter->shape, (size_t)shape->ndim * sizeof shape->dims[0]);
    return GSC_OK;
}

/* One mask for all groups, whose first dimensions must agree with it. */
static gsc_status check_visible(const gsc__call *call, const DLTensor *visible, int64_t rows,
                                gsc__visible_rows *out) {
    gsc__tensor tensor = {.name = "visible",
                          .given = visible,
                          .dtypes = GSC__BOOL | GSC__UINT8 | GSC__INT32,
                          .shapes = {gsc__shape1(rows)}};
    GSC__TRY(gsc__tensor_check(call, &tensor));
    out->data = tensor.data;
    out->bytes = visible ? visible->dtype.bits / 8 : 0;
    return GSC_OK;
}

/* A parameter without elements is one without rows: sizes beside a 0 may be anything. */
static void count_rows(const gsc__shape *shape, gsc__adam_group *out) {
    out->rows = 0;
    out->row_size = 1;
    for (int32_t i = 0; i < shape->ndim; ++i)
        if (shape->dims[i] == 0) return;
    out->rows = shape->dims[0];
    for (int32_t i = 1; i < shape->ndim; ++i) out->row_size *= shape->dims[i];
}

static gsc_status check_tensors(const gsc__call *call, const gsc_adam_group *group,
                                gsc__adam_group *out, int64_t *rows) {
    gsc__shape shape;
    GSC__TRY(parameter_shape(call, group->parameter, &shape));
    gsc__tensor list[] = {
        {"parameter", group->parameter, &out->parameter, .shapes = {shape}},
        {"gradient", group->gradient, &out->gradient, .shapes = {shape}, .required = true},
        {"moment1", group->moment1, &out->moment1, .shapes = {shape}, .required = true},
        {"moment2", group->moment2, &out->moment2, .shapes = {shape}, .required = true},
    };
    GSC__TRY(gsc__tensors_check(call, list, sizeof list / sizeof list[0]));
    *rows = shape.dims[0];
    count_rows(&shape, out);
    return GSC_OK;
}

/* --------------------------------------------------------------- descriptors */

static gsc_status check_groups(const gsc__call *call, const gsc_adam_args *args, gsc__adam *out) {
    for (uint32_t i = 0; i < args->group_count; ++i) {
        const char *theirs = (const char *)args->groups + (size_t)i * args->group_stride;
        gsc_adam_group group;
        int64_t rows;
        char path[GSC__GROUP_PATH_SIZE];
        gsc__call part = *call;
        snprintf(path, sizeof path, "groups[%u].", i);
        part.path = path;
        GSC__TRY(gsc__args_copy_sized(&part, NULL, &group, sizeof group, theirs, args->group_stride,
                                      GSC__SIZE_THROUGH(gsc_adam_group, step)));
        out->groups[i].decoupled = (args->flags & GSC_ADAM_DECOUPLED) != 0;
        GSC__TRY(gsc__adam_scalars(&part, &group, &out->groups[i]));
        GSC__TRY(check_tensors(&part, &group, &out->groups[i], &rows));
        GSC__TRY(check_visible(call, args->visible, rows, &out->visible));
    }
    return GSC_OK;
}

gsc_status gsc__adam_args(const gsc__call *call, const gsc_adam_args *theirs, gsc__adam *out) {
    gsc_adam_args args;
    memset(out, 0, sizeof *out);
    GSC__TRY(gsc__args_copy(call, "args", &args, sizeof args, theirs,
                            GSC__SIZE_THROUGH(gsc_adam_args, visible)));
    GSC__TRY(gsc__check_flags(call, "flags", args.flags, GSC_ADAM_DECOUPLED));
    if (args.group_count == 0) return GSC_OK;
    if (args.group_count > GSC__MAX_ADAM_GROUPS) {
        return gsc__refuse(call, GSC_ERROR_OVERFLOW, "@group_count is %u, expected at most %d",
                           args.group_count, GSC__MAX_ADAM_GROUPS);
    }
    if (!args.groups) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "@groups is NULL, expected %u groups",
                           args.group_count);
    }
    out->groups = calloc(args.group_count, sizeof *out->groups);
    if (!out->groups) {
        return gsc__refuse(call, GSC_ERROR_OUT_OF_MEMORY, "@out of memory for %u groups",
                           args.group_count);
    }
    out->count = (int32_t)args.group_count;
    gsc_status status = check_groups(call, &args, out);
    if (status != GSC_OK) gsc__adam_release(out);
    return status;
}

void gsc__adam_release(gsc__adam *adam) {
    free(adam->groups);
    adam->groups = NULL;
    adam->count = 0;
}
