/* Adam on the device.  As on the CPU, what is constant for a group is computed in double
 * precision and rounded once; what is per element is computed in single precision. */
#include "adam.h"

#include <math.h>

static const char function[] = "adam_step";

gsc__gpu_adam_constants gsc__gpu_adam_constants_of(const gsc__adam_group *group) {
    double correction1 = 1, correction2 = 1;
    if (group->step > 0) {
        correction1 = 1 - pow(group->beta1, group->step);
        correction2 = 1 - pow(group->beta2, group->step);
    }
    return (gsc__gpu_adam_constants){
        .decay = (float)(group->decoupled ? 0 : group->weight_decay),
        .keep = (float)(group->decoupled ? 1 - group->lr * group->weight_decay : 1),
        .beta1 = (float)group->beta1,
        .beta2 = (float)group->beta2,
        .complement1 = (float)(1 - group->beta1),
        .complement2 = (float)(1 - group->beta2),
        .step_size = (float)(group->lr / correction1),
        .root_scale = (float)(1 / sqrt(correction2)),
        .epsilon = (float)group->epsilon};
}

static gsc__gpu_adam_group group_args(const gsc__adam_group *group) {
    return (gsc__gpu_adam_group){
        .parameter = group->parameter,
        .moment1 = group->moment1,
        .moment2 = group->moment2,
        .gradient = group->gradient,
        .count = group->rows * group->row_size,
        .row_size = group->row_size,
        .vectors = gsc__gpu_is_aligned(group->parameter) && gsc__gpu_is_aligned(group->moment1) &&
                   gsc__gpu_is_aligned(group->moment2) && gsc__gpu_is_aligned(group->gradient),
        .constants = gsc__gpu_adam_constants_of(group)};
}

/* Launches of at most GSC__ADAM_GROUPS groups and INT32_MAX blocks. */
gsc_status gsc__gpu_adam_step(gsc_context *context, const gsc__adam_group *groups, int32_t count,
                              const gsc__visible_rows *visible, void *stream) {
    gsc_k_adam args;
    int32_t next = 0;
    while (next < count) {
        int64_t end = 0;
        memset(&args, 0, sizeof args);
        args.visible = visible->data;
        args.visible_bytes = visible->bytes;
        for (; next < count && args.count < GSC__ADAM_GROUPS; ++next) {
            const int64_t elements = groups[next].rows * groups[next].row_size;
            const int64_t blocks = (elements + GSC__ADAM_PIECE - 1) / GSC__ADAM_PIECE;
            if (args.count > 0 && end + blocks > INT32_MAX) break;
            if (blocks > INT32_MAX) {
                return gsc__fail(
                    GSC_ERROR_OVERFLOW, "%s: groups[%d] has %lld elements, expected at most %lld",
                    function, next, (long long)elements, (long long)INT32_MAX * GSC__ADAM_PIECE);
            }
            if (blocks == 0) continue;
            end += blocks;
            args.groups[args.count] = group_args(&groups[next]);
            args.groups[args.count++].block_end = (uint32_t)end;
        }
        GSC__TRY(gsc__gpu_launch(context, GSC__KERNEL_adam, (uint32_t)end, GSC__ADAM_BLOCK, &args,
                                 sizeof args, stream, function));
    }
    return GSC_OK;
}
