#include "fields.h"

#include "core/context.h"

#include <stdio.h>

typedef struct named_type {
    uint32_t bit;
    uint8_t code, bits;
    const char *name;
} named_type;

static const named_type known_types[] = {
    {GSC__REAL, kDLFloat, GSC_REAL_BITS, GSC_REAL_BITS == 64 ? "float64" : "float32"},
    {GSC__INT32, kDLInt, 32, "int32"},
    {GSC__INT64, kDLInt, 64, "int64"},
    {GSC__UINT8, kDLUInt, 8, "uint8"},
    {GSC__BOOL, kDLBool, 8, "bool"},
};
/* More than any framework has: beyond it the view is not a tensor. */
enum { MOST_DIMS = 64 };
enum { KNOWN_TYPES = sizeof known_types / sizeof known_types[0] };

/* What a tensor without elements points to: to backends NULL means "not given". */
static const _Alignas(GSC__BUFFER_ALIGNMENT) unsigned char empty_data[GSC__BUFFER_ALIGNMENT];

/* ------------------------------------------------------------------ messages */

static const char *dtype_text(DLDataType dtype, char text[32]) {
    static const char *const kinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex"};
    for (int i = 0; i < KNOWN_TYPES; ++i) {
        if (dtype.code == known_types[i].code && dtype.bits == known_types[i].bits &&
            dtype.lanes == 1) {
            return known_types[i].name;
        }
    }
    int used;
    if (dtype.code < sizeof kinds / sizeof kinds[0]) {
        used = snprintf(text, 32, "%s%d", kinds[dtype.code], dtype.bits);
    } else {
        used = snprintf(text, 32, "type code %d of %d bits", dtype.code, dtype.bits);
    }
    if (dtype.lanes != 1) snprintf(text + used, (size_t)(32 - used), "x%d", dtype.lanes);
    return text;
}

static const char *dtypes_text(uint32_t dtypes, char text[64]) {
    size_t used = 0;
    for (int i = 0; i < KNOWN_TYPES; ++i) {
        if (!(dtypes & known_types[i].bit)) continue;
        int length =
            snprintf(text + used, 64 - used, "%s%s", used ? " or " : "", known_types[i].name);
        used += (size_t)length;
    }
    return text;
}

/* -------------------------------------------------------------------- checks */

gsc_status gsc__require(const gsc__call *call, const char *name, const DLTensor *tensor) {
    if (tensor) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "@%s is missing", name);
}

static gsc_status check_dtype(const gsc__call *call, const char *name, const DLTensor *tensor,
                              uint32_t dtypes) {
    for (int i = 0; i < KNOWN_TYPES; ++i) {
        if ((dtypes & known_types[i].bit) && tensor->dtype.code == known_types[i].code &&
            tensor->dtype.bits == known_types[i].bits && tensor->dtype.lanes == 1) {
            return GSC_OK;
        }
    }
    char given[32], expected[64];
    return gsc__refuse(call, GSC_ERROR_DTYPE, "@%s is %s, expected %s", name,
                       dtype_text(tensor->dtype, given), dtypes_text(dtypes, expected));
}

static gsc_status check_device(const gsc__call *call, const char *name, const DLTensor *tensor) {
    const DLDevice device = call->context->device;
    if (gsc__device_can_use(device, tensor->device)) return GSC_OK;
    char given[GSC__DEVICE_NAME_SIZE], expected[GSC__DEVICE_NAME_SIZE];
    return gsc__refuse(call, GSC_ERROR_DEVICE, "@%s is on %s, expected %s", name,
                       gsc__device_name(tensor->device, given), gsc__device_name(device, expected));
}

/* A view that can be read at all: the dimensions that it promises are there. */
static gsc_status check_view(const gsc__call *call, const char *name, const DLTensor *tensor) {
    if (tensor->ndim < 0) {
        return gsc__refuse(call, GSC_ERROR_SHAPE, "@%s has %d dimensions, expected 0 or more", name,
                           tensor->ndim);
    }
    if (tensor->ndim > MOST_DIMS) {
        return gsc__refuse(call, GSC_ERROR_SHAPE, "@%s has %d dimensions, expected at most %d",
                           name, tensor->ndim, MOST_DIMS);
    }
    if (tensor->ndim > 0 && !tensor->shape) {
        return gsc__refuse(call, GSC_ERROR_SHAPE, "shape of @%s is NULL, expected %d sizes", name,
                           tensor->ndim);
    }
    for (int32_t i = 0; i < tensor->ndim; ++i) {
        if (tensor->shape[i] < 0) {
            return gsc__refuse(call, GSC_ERROR_SHAPE,
                               "dimension %d of @%s is %lld, expected 0 or more", i, name,
                               (long long)tensor->shape[i]);
        }
    }
    return GSC_OK;
}

/* letters: which to check. */
static gsc_status check_limits(const gsc__call *call, const gsc__sizes *sizes,
                               const gsc__field *field, uint32_t letters) {
    for (const gsc__limit *limit = sizes->limits; limit && limit->letter; ++limit) {
        if (!(letters >> (limit->letter - 'A') & 1)) continue;
        const int64_t size = gsc__size(sizes, limit->letter);
        if (size >= limit->least && size <= limit->most) continue;
        return gsc__refuse(call, size < limit->least ? GSC_ERROR_SHAPE : GSC_ERROR_OVERFLOW,
                           "@%s has %lld %s, expected %s %lld", field->name, (long long)size,
                           limit->what, limit->least > 0 ? "1 to" : "at most",
                           (long long)limit->most);
    }
    return GSC_OK;
}

static gsc_status check_shape(const gsc__call *call, gsc__sizes *sizes, const gsc__field *field,
                              const DLTensor *given) {
    const uint32_t known = sizes->known;
    if (gsc__shape_fits(given, field->shapes, sizes))
        return check_limits(call, sizes, field, sizes->known & ~known);
    char is[GSC__SHAPE_TEXT_SIZE], expected[2 * GSC__SHAPE_TEXT_SIZE];
    return gsc__refuse(call, GSC_ERROR_SHAPE, "@%s is %s, expected %s", field->name,
                       gsc__shape_text(given->shape, given->ndim, is),
                       gsc__shapes_text(field->shapes, sizes, expected));
}

/* Bytes from the first element to the end of the last one in memory order, for strides of
 * either sign; an address space cannot hold PTRDIFF_MAX. */
static gsc_status check_extent(const gsc__call *call, const char *name, const DLTensor *tensor,
                               const int64_t *strides) {
    const uint64_t limit = (uint64_t)PTRDIFF_MAX;
    uint64_t bytes = tensor->dtype.bits / 8u;
    uint64_t item = bytes;
    for (int32_t i = 0; i < tensor->ndim; ++i) {
        uint64_t steps = (uint64_t)tensor->shape[i] - 1;
        uint64_t stride = strides[i] < 0 ? (uint64_t)(-(strides[i] + 1)) + 1 : (uint64_t)strides[i];
        if (steps == 0 || stride == 0) continue;
        if (stride > limit / item / steps || steps * stride * item > limit - bytes) {
            return gsc__refuse(call, GSC_ERROR_OVERFLOW, "@%s spans more than %lld bytes", name,
                               (long long)limit);
        }
        bytes += steps * stride * item;
    }
    if (tensor->byte_offset > limit - bytes) {
        return gsc__refuse(
            call, GSC_ERROR_OVERFLOW, "byte_offset of @%s is %llu, expected at most %llu", name,
            (unsigned long long)tensor->byte_offset, (unsigned long long)(limit - bytes));
    }
    return GSC_OK;
}

static gsc_status first_element(const gsc__call *call, const char *name, const DLTensor *tensor,
                                void **data) {
    if (!tensor->data) {
        if (!call->shapes_only) {
            return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "data of @%s is NULL", name);
        }
        *data = (void *)(uintptr_t)empty_data;
        return GSC_OK;
    }
    uintptr_t address = (uintptr_t)tensor->data + (uintptr_t)tensor->byte_offset;
    unsigned item = tensor->dtype.bits / 8u;
    if (address % item != 0) {
        return gsc__refuse(call, GSC_ERROR_LAYOUT,
                           "data of @%s is at 0x%llx, expected a multiple of %u", name,
                           (unsigned long long)address, item);
    }
    *data = (char *)tensor->data + tensor->byte_offset;
    return GSC_OK;
}

int64_t gsc__elements(const DLTensor *tensor) {
    int64_t count = 1;
    for (int32_t i = 0; i < tensor->ndim; ++i) {
        const int64_t size = tensor->shape[i];
        if (size == 0) return 0;
        count = count > INT64_MAX / size ? INT64_MAX : count * size;
    }
    return count;
}

/* Strides of dimensions of size 1 mean nothing; some producers leave anything there.  Dense ones are
 * saturated where they overflow, which check_extent then refuses. */
static gsc_status read_strides(const gsc__call *call, const gsc__field *field,
                               const DLTensor *given, int64_t *strides) {
    int64_t dense = 1;
    for (int32_t i = given->ndim - 1; i >= 0; --i) {
        const int64_t size = given->shape[i];
        strides[i] = size == 1 ? 0 : given->strides ? given->strides[i] : dense;
        if (size > 1 && strides[i] != dense && !(field->kind & GSC__STRIDED)) {
            return gsc__refuse(
                call, GSC_ERROR_LAYOUT,
                "@%s has stride %lld in dimension %d, expected %lld (dense row-major)", field->name,
                (long long)strides[i], i, (long long)dense);
        }
        if (size > 1 && strides[i] == 0 && field->kind & GSC__SEPARATE) {
            return gsc__refuse(call, GSC_ERROR_LAYOUT,
                               "@%s has stride 0 in dimension %d of size %lld, expected an output "
                               "of separate elements",
                               field->name, i, (long long)size);
        }
        dense = dense > INT64_MAX / size ? INT64_MAX : dense * size;
    }
    return GSC_OK;
}

static gsc_status check_memory(const gsc__call *call, const gsc__field *field,
                               const DLTensor *given, gsc__found *found) {
    if (gsc__elements(given) == 0) {
        memset(found->strides, 0, sizeof found->strides);
        found->data = given->data ? given->data : (void *)(uintptr_t)empty_data;
        return GSC_OK;
    }
    GSC__TRY(read_strides(call, field, given, found->strides));
    GSC__TRY(check_extent(call, field->name, given, found->strides));
    return first_element(call, field->name, given, &found->data);
}

/* -------------------------------------------------------------------- fields */

void *gsc__pointer_at(const void *base, size_t offset) {
    void *pointer;
    memcpy(&pointer, (const char *)base + offset, sizeof pointer);
    return pointer;
}

gsc_status gsc__tensor_check(const gsc__call *call, gsc__sizes *sizes, const gsc__field *field,
                             const DLTensor *given, gsc__found *found) {
    const uint32_t types = field->kind & GSC__TYPES;
    found->data = NULL;
    if (field->kind & GSC__REQUIRED) GSC__TRY(gsc__require(call, field->name, given));
    if (!given) return GSC_OK;
    GSC__TRY(check_view(call, field->name, given));
    GSC__TRY(check_dtype(call, field->name, given, types ? types : GSC__REAL));
    GSC__TRY(check_shape(call, sizes, field, given));
    if (!(field->kind & GSC__HOST_TOO) || !gsc__device_is_host(given->device))
        GSC__TRY(check_device(call, field->name, given));
    return field->kind & GSC__SHAPE_ONLY ? GSC_OK : check_memory(call, field, given, found);
}

static void store(const gsc__field *field, const DLTensor *given, const gsc__found *found,
                  void *result) {
    const bool whole = (field->kind & GSC__IMAGE) == GSC__IMAGE;
    gsc__image image = {.data = found->data, .bytes = given->dtype.bits == 8};
    for (int32_t i = 0; whole && i < given->ndim; ++i)
        image.strides[4 - given->ndim + i] = found->strides[i];
    memcpy((char *)result + field->to, &image, whole ? sizeof image : sizeof image.data);
}

gsc_status gsc__fields_check(const gsc__call *call, gsc__sizes *sizes, const gsc__field *fields,
                             size_t count, const void *descriptor, void *result) {
    for (size_t i = 0; i < count; ++i) {
        const DLTensor *given = gsc__pointer_at(descriptor, fields[i].from);
        gsc__found found;
        GSC__TRY(gsc__tensor_check(call, sizes, &fields[i], given, &found));
        if (given) store(&fields[i], given, &found, result);
    }
    return GSC_OK;
}

gsc_status gsc__tensor_bytes(const gsc__call *call, const char *name, const DLTensor *given,
                             size_t needed, void **data, size_t *bytes) {
    const gsc__field field = {.name = name, .shapes = "B", .kind = GSC__UINT8};
    gsc__sizes sizes = {0};
    gsc__found found;
    GSC__TRY(gsc__tensor_check(call, &sizes, &field, given, &found));
    *data = found.data;
    *bytes = (size_t)gsc__size(&sizes, 'B');
    if (!given) return GSC_OK;
    if ((uintptr_t)*data % GSC__BUFFER_ALIGNMENT != 0 && *bytes > 0) {
        return gsc__refuse(call, GSC_ERROR_LAYOUT,
                           "data of @%s is at 0x%llx, expected a multiple of %d", name,
                           (unsigned long long)(uintptr_t)*data, GSC__BUFFER_ALIGNMENT);
    }
    if (*bytes >= needed) return GSC_OK;
    return gsc__refuse(call, GSC_ERROR_BUFFER_TOO_SMALL, "@%s has %zu bytes, expected at least %zu",
                       name, *bytes, needed);
}
