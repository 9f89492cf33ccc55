/* Numbers of a descriptor, by tables of fields. */
#ifndef GSC_NUMBER_H
#define GSC_NUMBER_H

#include "core/backend.h"

/* What a number may be, beyond finite, and what its result is. */
enum {
    GSC__NOT_NEGATIVE = 1u << 0,
    GSC__BELOW_ONE = 1u << 1,
    GSC__NEGATIVE_IS_ZERO = 1u << 2,
    GSC__TO_DOUBLE = 1u << 3 /* the result is a double, not a gsc_real */
};

typedef struct gsc__number {
    const char *name;
    size_t from;     /* offset in the descriptor */
    size_t to;       /* and in the result */
    double standard; /* what 0 stands for */
    uint32_t kind;
} gsc__number;

/* The initialiser of a number that has the same name in both structs. */
#define GSC__NUMBER(descriptor, result, name, ...) \
    { #name, offsetof(descriptor, name), offsetof(result, name), __VA_ARGS__ }

/* Checks each, up to the first that fails, and fills in the result. */
gsc_status gsc__numbers_check(const gsc__call *call, const gsc__number *numbers, size_t count,
                              const void *descriptor, void *result);

/* "@NAME is 5, expected 0 to 4" unless it is in the range. */
gsc_status gsc__check_range(const gsc__call *call, const char *name, int32_t value, int32_t least,
                            int32_t most);

#endif
