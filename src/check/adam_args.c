#include "args.h"

#include <stdio.h>
#include <stdlib.h>

/* ------------------------------------------------------------------ settings */

#define SETTING(name, standard, kind)                                          \
    {                                                                          \
#name, offsetof(gsc_adam_group, name) - offsetof(gsc_adam_group, lr),  \
            offsetof(gsc__adam_group, name), standard, (kind) | GSC__TO_DOUBLE \
    }
static const gsc__number settings[] = {
    SETTING(lr, 0.0, 0),
    SETTING(beta1, 0.9, GSC__BELOW_ONE | GSC__NEGATIVE_IS_ZERO),
    SETTING(beta2, 0.999, GSC__BELOW_ONE | GSC__NEGATIVE_IS_ZERO),
    SETTING(epsilon, 1e-8, GSC__NEGATIVE_IS_ZERO),
    SETTING(weight_decay, 0.0, 0),
};

enum { STEP = offsetof(gsc_adam_group, step) - offsetof(gsc_adam_group, lr) };
_Static_assert(offsetof(gsc_train_group, step) - offsetof(gsc_train_group, lr) == STEP,
               "both kinds of groups have the same settings");

gsc_status gsc__adam_settings(const gsc__call *call, const void *lr, gsc__adam_group *out) {
    GSC__TRY(gsc__numbers_check(call, settings, GSC__COUNT(settings), lr, out));
    memcpy(&out->step, (const char *)lr + STEP, sizeof out->step);
    if (out->step >= 0) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "@step is %d, expected 0 or more",
                       out->step);
}

/* ------------------------------------------------------------------- tensors */

#define TENSOR(name) GSC__FIELD(gsc_adam_group, gsc__adam_group, name, NULL, GSC__REQUIRED)
static const gsc__field tensors[] = {TENSOR(parameter), TENSOR(gradient), TENSOR(moment1),
                                     TENSOR(moment2)};

/* One mask for all groups, whose first dimensions must agree with it. */
static gsc_status check_visible(const gsc__call *call, const DLTensor *visible, gsc__sizes *sizes,
                                gsc__visible_rows *out) {
    static const gsc__field field = {
        .name = "visible", .shapes = "N", .kind = GSC__BOOL | GSC__UINT8 | GSC__INT32};
    gsc__found found;
    GSC__TRY(gsc__tensor_check(call, sizes, &field, visible, &found));
    out->data = found.data;
    out->bytes = visible ? visible->dtype.bits / 8 : 0;
    return GSC_OK;
}

/* The shape of the parameter is what the other three must have. */
static gsc_status check_tensors(const gsc__call *call, const gsc_adam_group *group,
                                gsc__sizes *sizes, gsc__adam_group *out) {
    const DLTensor *parameter = group->parameter;
    char shape[GSC__MAX_DIMS + 1];
    GSC__TRY(gsc__require(call, "parameter", parameter));
    if (parameter->ndim < 1 || parameter->ndim > GSC__MAX_DIMS) {
        return gsc__refuse(call, GSC_ERROR_SHAPE, "@parameter has %d dimensions, expected 1 to %d",
                           parameter->ndim, GSC__MAX_DIMS);
    }
    snprintf(shape, sizeof shape, "%.*s", parameter->ndim, "NABCDEFG");
    for (size_t i = 0; i < GSC__COUNT(tensors); ++i) {
        gsc__field field = tensors[i];
        field.shapes = shape;
        GSC__TRY(gsc__fields_check(call, sizes, &field, 1, group, out));
    }
    /* A parameter without elements is one without rows: sizes beside a 0 may be anything. */
    const int64_t elements = gsc__elements(parameter);
    out->rows = elements > 0 ? parameter->shape[0] : 0;
    out->row_size = elements > 0 ? elements / out->rows : 1;
    return GSC_OK;
}

/* --------------------------------------------------------------- descriptors */

static gsc_status check_groups(const gsc__call *call, const gsc_adam_args *args, gsc__adam *out) {
    for (uint32_t i = 0; i < args->group_count; ++i) {
        const char *theirs = (const char *)args->groups + (size_t)i * args->group_stride;
        gsc__sizes sizes = {0};
        gsc_adam_group group;
        char path[GSC__GROUP_PATH_SIZE];
        snprintf(path, sizeof path, "groups[%u].", i);
        const gsc__call part = gsc__call_of_part(call, path);
        GSC__TRY(gsc__args_copy_sized(&part, NULL, &group, sizeof group, theirs, args->group_stride,
                                      GSC__SIZE_THROUGH(gsc_adam_group, step)));
        out->groups[i].decoupled = (args->flags & GSC_ADAM_DECOUPLED) != 0;
        GSC__TRY(gsc__adam_settings(&part, &group.lr, &out->groups[i]));
        GSC__TRY(check_tensors(&part, &group, &sizes, &out->groups[i]));
        GSC__TRY(check_visible(call, args->visible, &sizes, &out->visible));
    }
    return GSC_OK;
}

gsc_status gsc__adam_args(const gsc__call *call, const gsc_adam_args *theirs, gsc__adam *out) {
    gsc_adam_args args;
    memset(out, 0, sizeof *out);
    GSC__TRY(GSC__ARGS_COPY(call, "args", &args, theirs, visible));
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
