#include "args.h"

#define TENSOR(name, ...) GSC__FIELD(gsc_knn_args, gsc__knn, name, __VA_ARGS__)
static const gsc__field inputs[] = {
    TENSOR(points, "N3", GSC__REQUIRED),
    TENSOR(queries, "M3"),
};
static const gsc__field outputs[] = {
    TENSOR(indices, "MK", GSC__INT32 | GSC__INT64),
    TENSOR(distances2, "MK"),
    TENSOR(mean2, "M"),
};
static const gsc__limit limits[] = {
    {'N', "rows", 0, GSC__MAX_GAUSSIANS}, {'M', "rows", 0, GSC__MAX_GAUSSIANS}, {0}};

gsc_status gsc__knn_args(const gsc__call *call, const gsc_knn_args *theirs, gsc__knn *out) {
    gsc__sizes sizes = {.limits = limits};
    gsc_knn_args args;
    memset(out, 0, sizeof *out);
    GSC__TRY(GSC__ARGS_COPY(call, "args", &args, theirs, scratch));
    GSC__TRY(gsc__check_flags(call, "flags", args.flags, 0));
    out->k = args.k ? args.k : 3;
    GSC__TRY(gsc__check_range(call, "k", out->k, 1, GSC__MAX_KNN_K));
    gsc__size_set(&sizes, 'K', out->k);
    GSC__TRY(gsc__fields_check(call, &sizes, inputs, GSC__COUNT(inputs), &args, out));
    if (!args.queries) gsc__size_set(&sizes, 'M', gsc__size(&sizes, 'N'));
    out->points_count = gsc__size(&sizes, 'N');
    out->queries_count = gsc__size(&sizes, 'M');
    GSC__TRY(gsc__fields_check(call, &sizes, outputs, GSC__COUNT(outputs), &args, out));
    out->indices64 = args.indices && args.indices->dtype.bits == 64;
    return gsc__tensor_bytes(call, "scratch", args.scratch, 0, &out->scratch, &out->scratch_bytes);
}
