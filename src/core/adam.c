#include "backend.h"

#include <math.h>

gsc__adam_constants gsc__adam_constants_of(const gsc__adam_group *group) {
    double correction1 = 1, correction2 = 1;
    if (group->step > 0) {
        correction1 = 1 - pow(group->beta1, group->step);
        correction2 = 1 - pow(group->beta2, group->step);
    }
    return (gsc__adam_constants){
        .decay = (gsc_real)(group->decoupled ? 0 : group->weight_decay),
        .keep = (gsc_real)(group->decoupled ? 1 - group->lr * group->weight_decay : 1),
        .beta1 = (gsc_real)group->beta1,
        .beta2 = (gsc_real)group->beta2,
        .complement1 = (gsc_real)(1 - group->beta1),
        .complement2 = (gsc_real)(1 - group->beta2),
        .step_size = (gsc_real)(group->lr / correction1),
        .root_scale = (gsc_real)(1 / sqrt(correction2)),
        .epsilon = (gsc_real)group->epsilon};
}
