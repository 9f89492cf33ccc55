#include "args.h"

#include <stdio.h>
#include <stdlib.h>

enum { NAME_SIZE = 48 };

/* "groups[2].gradient" */
static const char *field_name(uint32_t index, const char *field, char name[NAME_SIZE]) {
    snprintf(name, NAME_SIZE, "groups[%u].%s", index, field);
    return name;
}

/* ------------------------------------------------------------------- scalars */

static gsc_status check_beta(const gsc__call *call, const char *name, float beta, double standard,
                             double *out) {
    GSC__TRY(gsc__check_finite(call->function, name, beta));
    if (beta >= 1.0f) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: %s is %g, expected less than 1",
                         call->function, name, (double)beta);
    }
    *out = beta == 0.0f ? standard : beta < 0.0f ? 0.0 : (double)beta;
    return GSC_OK;
}

gsc_status gsc__adam_scalars(const gsc__call *call, uint32_t index, const gsc_adam_group *group,
                             gsc__adam_group *out) {
    const char *function = call->function;
    char name[NAME_SIZE];
    GSC__TRY(gsc__check_finite(function, field_name(index, "lr", name), group->lr));
    GSC__TRY(check_beta(call, field_name(index, "beta1", name), group->beta1, 0.9, &out->beta1));
    GSC__TRY(check_beta(call, field_name(index, "beta2", name), group->beta2, 0.999, &out->beta2));
    GSC__TRY(gsc__check_finite(function, field_name(index, "epsilon", name), group->epsilon));
    GSC__TRY(
        gsc__check_finite(function, field_name(index, "weight_decay", name), group->weight_decay));
    if (group->step < 0) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: %s is %d, expected 0 or more", function,
                         field_name(index, "step", name), group->step);
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
static gsc_status parameter_shape(const gsc__call *call, const char *name,
                                  const DLTensor *parameter, gsc__shape *shape) {
    gsc__tensor tensor = {.name = name, .given = parameter, .shape_only = true};
    GSC__TRY(gsc__require(call, name, parameter));
    if (parameter->ndim < 1 || parameter->ndim > GSC__MAX_DIMS) {
        return gsc__fail(GSC_ERROR_SHAPE, "%s: %s has %d dimensions, expected 1 to %d",
                         call->function, name, parameter->ndim, GSC__MAX_DIMS);
    }
    memset(shape, 0, sizeof *shape);
    shape->ndim = parameter->ndim;
    for (int32_t i = 0; i < shape->ndim; ++i) shape->dims[i] = GSC__ANY(i == 0 ? 'N' : 'D');
    tensor.shapes[0] = *shape;
    GSC__TRY(gsc__tensor_check(call, &tensor));
    memcpy(shape->dims, parameter->shape, (size_t)shape->ndim * sizeof shape->dims[0]);
    return GSC_OK;
}

static gsc_status check_required(const gsc__call *call, uint32_t index, const char *field,
                                 const DLTensor *tensor, const gsc__shape *shape, gsc_real **data) {
    char name[NAME_SIZE];
    field_name(index, field, name);
    GSC__TRY(gsc__require(call, name, tensor));
    return gsc__real_out(call, name, tensor, *shape, data);
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

static gsc_status check_tensors(const gsc__call *call, uint32_t index, const gsc_adam_group *group,
                                const DLTensor *visible, gsc__adam_group *out,
                                gsc__visible_rows *rows_out) {
    char name[NAME_SIZE];
    gsc__shape shape;
    gsc_real *gradient;
    GSC__TRY(parameter_shape(call, field_name(index, "parameter", name), group->parameter, &shape));
    GSC__TRY(check_required(call, index, "parameter", group->parameter, &shape, &out->parameter));
    GSC__TRY(check_required(call, index, "gradient", group->gradient, &shape, &gradient));
    GSC__TRY(check_required(call, index, "moment1", group->moment1, &shape, &out->moment1));
    GSC__TRY(check_required(call, index, "moment2", group->moment2, &shape, &out->moment2));
    out->gradient = gradient;
    GSC__TRY(check_visible(call, visible, shape.dims[0], rows_out));
    count_rows(&shape, out);
    return GSC_OK;
}

/* --------------------------------------------------------------- descriptors */

static gsc_status check_groups(const gsc__call *call, const gsc_adam_args *args, gsc__adam *out) {
    for (uint32_t i = 0; i < args->group_count; ++i) {
        const char *theirs = (const char *)args->groups + (size_t)i * args->group_stride;
        gsc_adam_group group;
        char name[NAME_SIZE];
        snprintf(name, sizeof name, "groups[%u]", i);
        GSC__TRY(gsc__args_copy_sized(call->function, name, &group, sizeof group, theirs,
                                      args->group_stride, GSC__SIZE_THROUGH(gsc_adam_group, step)));
        out->groups[i].decoupled = (args->flags & GSC_ADAM_DECOUPLED) != 0;
        GSC__TRY(gsc__adam_scalars(call, i, &group, &out->groups[i]));
        GSC__TRY(check_tensors(call, i, &group, args->visible, &out->groups[i], &out->visible));
    }
    return GSC_OK;
}

gsc_status gsc__adam_args(const gsc__call *call, const gsc_adam_args *theirs, gsc__adam *out) {
    gsc_adam_args args;
    memset(out, 0, sizeof *out);
    GSC__TRY(gsc__args_copy(call->function, "args", &args, sizeof args, theirs,
                            GSC__SIZE_THROUGH(gsc_adam_args, visible)));
    GSC__TRY(gsc__check_flags(call->function, "flags", args.flags, GSC_ADAM_DECOUPLED));
    if (args.group_count == 0) return GSC_OK;
    if (args.group_count > GSC__MAX_ADAM_GROUPS) {
        return gsc__fail(GSC_ERROR_OVERFLOW, "%s: group_count is %u, expected at most %d",
                         call->function, args.group_count, GSC__MAX_ADAM_GROUPS);
    }
    if (!args.groups) {
        return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: groups is NULL, expected %u groups",
                         call->function, args.group_count);
    }
    out->groups = calloc(args.group_count, sizeof *out->groups);
    if (!out->groups) {
        return gsc__fail(GSC_ERROR_OUT_OF_MEMORY, "%s: out of memory for %u groups", call->function,
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
