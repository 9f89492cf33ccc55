#include "args.h"

static gsc_status check_points(const gsc__call *call, const char *name, const DLTensor *tensor,
                               char letter, const gsc_real **data, int64_t *count) {
    GSC__TRY(gsc__real_in(call, name, tensor, gsc__shape2(GSC__ANY(letter), 3), data));
    *count = tensor->shape[0];
    if (*count <= GSC__MAX_GAUSSIANS) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_OVERFLOW, "@%s has %lld rows, expected at most %lld", name,
                       (long long)*count, (long long)GSC__MAX_GAUSSIANS);
}

static gsc_status check_results(const gsc__call *call, const gsc_knn_args *args, gsc__knn *out) {
    const gsc__shape table = gsc__shape2(out->queries_count, out->k);
    gsc__tensor list[] = {
        {"indices", args->indices, &out->indices, GSC__INT32 | GSC__INT64, .shapes = {table}},
        {"distances2", args->distances2, &out->distances2, .shapes = {table}},
        {"mean2", args->mean2, &out->mean2, .shapes = {gsc__shape1(out->queries_count)}},
    };
    out->indices64 = args->indices && args->indices->dtype.bits == 64;
    return gsc__tensors_check(call, list, sizeof list / sizeof list[0]);
}

gsc_status gsc__knn_args(const gsc__call *call, const gsc_knn_args *theirs, gsc__knn *out) {
    gsc_knn_args args;
    memset(out, 0, sizeof *out);
    GSC__TRY(gsc__args_copy(call, "args", &args, sizeof args, theirs,
                            GSC__SIZE_THROUGH(gsc_knn_args, scratch)));
    GSC__TRY(gsc__check_flags(call, "flags", args.flags, 0));
    out->k = args.k ? args.k : 3;
    if (out->k < 1 || out->k > GSC__MAX_KNN_K) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "@k is %d, expected 1 to %d", out->k,
                           GSC__MAX_KNN_K);
    }
    GSC__TRY(gsc__require(call, "points", args.points));
    GSC__TRY(check_points(call, "points", args.points, 'N', &out->points, &out->points_count));
    out->queries_count = out->points_count;
    if (args.queries) {
        GSC__TRY(
            check_points(call, "queries", args.queries, 'M', &out->queries, &out->queries_count));
    }
    GSC__TRY(check_results(call, &args, out));
    return gsc__tensor_bytes(call, "scratch", args.scratch, 0, &out->scratch, &out->scratch_bytes);
}
