#include "fields.h"

#include <math.h>

static gsc_status check(const gsc__call *call, const gsc__number *number, float value) {
    const char *expected = NULL;
    if (number->kind & GSC__BELOW_ONE && value >= 1.0f) expected = "less than 1";
    if (number->kind & GSC__NOT_NEGATIVE && value < 0.0f) expected = "0 or more";
    if (!isfinite(value)) expected = "a finite number";
    if (!expected) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "@%s is %g, expected %s", number->name,
                       (double)value, expected);
}

gsc_status gsc__numbers_check(const gsc__call *call, const gsc__number *numbers, size_t count,
                              const void *descriptor, void *result) {
    for (size_t i = 0; i < count; ++i) {
        const gsc__number *number = &numbers[i];
        float given;
        memcpy(&given, (const char *)descriptor + number->from, sizeof given);
        GSC__TRY(check(call, number, given));
        double wide = given == 0.0f ? number->standard : (double)given;
        if (number->kind & GSC__NEGATIVE_IS_ZERO && given < 0.0f) wide = 0.0;
        const gsc_real real = (gsc_real)wide;
        if (number->kind & GSC__TO_DOUBLE)
            memcpy((char *)result + number->to, &wide, sizeof wide);
        else
            memcpy((char *)result + number->to, &real, sizeof real);
    }
    return GSC_OK;
}

gsc_status gsc__check_range(const gsc__call *call, const char *name, int32_t value, int32_t least,
                            int32_t most) {
    if (value >= least && value <= most) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "@%s is %d, expected %d to %d", name,
                       value, least, most);
}
