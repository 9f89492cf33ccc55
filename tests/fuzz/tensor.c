#include "tensor.h"

#include "os/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POISON UINT32_C(0xffc0dead) /* a NaN that no arithmetic makes */

enum { LARGEST = 1 << 20 }; /* bytes of one view's memory */

static _Noreturn void broken(const char *what) {
    fprintf(stderr, "fuzz: %s: %s\n", what, gsc_last_error());
    abort();
}

/* -------------------------------------------------------------------- memory */

void *fuzz_allocate(fuzz_memory *memory, size_t bytes) {
    if (memory->block_count == FUZZ_BLOCKS) broken("too many blocks for one input");
    void *block = gsc__aligned_alloc(bytes, 256);
    if (!block) broken("out of memory");
    memset(block, 0, bytes ? bytes : 1);
    memory->last_bytes = bytes;
    return memory->blocks[memory->block_count++] = block;
}

void fuzz_free(fuzz_memory *memory) {
    for (int i = 0; i < memory->block_count; i++) gsc__aligned_free(memory->blocks[i]);
    memory->block_count = memory->output_count = 0;
}

/* ------------------------------------------------------------------- tensors */

static const DLDataType types[] = {
    {kDLFloat, 32, 1}, {kDLInt, 32, 1}, {kDLInt, 64, 1}, {kDLUInt, 8, 1}, {kDLBool, 8, 1},
};

static int64_t size_of(const fuzz_shape *shape) {
    int64_t size = 1;
    for (int32_t i = 0; i < shape->ndim; i++) size *= shape->dims[i];
    return size;
}

static DLTensor *make_view(fuzz_memory *memory, DLDataType type, const fuzz_shape *shape) {
    DLTensor *tensor = fuzz_allocate(memory, sizeof *tensor);
    tensor->device.device_type = kDLCPU;
    tensor->dtype = type;
    tensor->ndim = shape->ndim;
    size_t bytes = (size_t)shape->ndim * sizeof(int64_t);
    tensor->shape = fuzz_allocate(memory, bytes);
    memcpy(tensor->shape, shape->dims, bytes);
    return tensor;
}

DLTensor *fuzz_plain_tensor(fuzz_memory *memory, int type, fuzz_shape shape) {
    DLTensor *tensor = make_view(memory, types[type], &shape);
    tensor->data = fuzz_allocate(memory, (size_t)size_of(&shape) * types[type].bits / 8);
    return tensor;
}

/* Row-major strides, then one of: unchanged, a gap between rows, columns first, backwards, one row
 * for all. */
static void choose_strides(fuzz_input *input, fuzz_memory *memory, DLTensor *tensor) {
    int32_t n = tensor->ndim, kind = fuzz_range(input, 0, 5);
    if (kind == 0 || n <= 0) return;
    int64_t *strides = fuzz_allocate(memory, (size_t)n * sizeof *strides), step = 1;
    for (int32_t k = 0; k < n; k++) {
        int32_t i = kind == 3 ? k : n - 1 - k;
        strides[i] = step;
        int64_t size = tensor->shape[i];
        if (size > 0 && size <= LARGEST && step <= LARGEST) step *= size;
        if (kind == 2) step += fuzz_range(input, 0, 7);
    }
    int32_t one = fuzz_range(input, 0, n - 1);
    if (kind == 4) strides[one] = -strides[one];
    if (kind == 5) strides[one] = 0;
    tensor->strides = strides;
}

/* Allocates exactly the bytes that the view reaches; data is NULL if that is too much. */
static void back_view(fuzz_memory *memory, DLTensor *tensor) {
    int64_t low = 0, high = 0, dense = 1, item = tensor->dtype.bits / 8 * tensor->dtype.lanes;
    bool empty = false;
    for (int32_t i = tensor->ndim - 1; i >= 0; i--) {
        int64_t size = tensor->shape[i], stride = tensor->strides ? tensor->strides[i] : dense;
        if (size < 0 || size > LARGEST || stride > LARGEST || stride < -LARGEST) return;
        empty |= size == 0;
        dense *= size;
        int64_t reach = (size - 1) * stride;
        *(reach < 0 ? &low : &high) += reach;
        if (dense > LARGEST || high > LARGEST || low < -LARGEST) return;
    }
    int64_t bytes = empty ? 0 : (high - low + 1) * item;
    char *block = fuzz_allocate(memory, (size_t)bytes + (size_t)tensor->byte_offset);
    tensor->data = block - (empty ? 0 : low * item);
}

static void fill_floats(fuzz_random random, uint8_t extremes, fuzz_fill fill, float *values,
                        size_t count) {
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = fuzz_next(&random);
        float unit = (float)(bits >> 8) / 16777216;
        values[i] = fill == FUZZ_SIGNED ? 2 * unit - 1 : unit;
        if ((bits & 255) < extremes) values[i] = fuzz_extreme(fuzz_next(&random));
    }
}

/* Fills all memory of back_view, regardless of strides. */
static void fill_block(fuzz_input *input, const fuzz_memory *memory, const DLTensor *tensor,
                       fuzz_fill fill) {
    char *block = memory->blocks[memory->block_count - 1];
    const size_t bytes = memory->last_bytes;
    const uint32_t poison = POISON;
    if (fill == FUZZ_OUTPUT) {
        for (size_t i = 0; i + 4 <= bytes; i += 4) memcpy(block + i, &poison, 4);
        return;
    }
    uint8_t extremes = fuzz_chance(input, 24) ? fuzz_byte(input) : 0;
    fuzz_random random = fuzz_seed(input);
    if (tensor->dtype.code == kDLFloat && tensor->dtype.bits == 32 && fill != FUZZ_BYTES)
        fill_floats(random, extremes, fill, (float *)(void *)block, bytes / 4);
    else
        for (size_t i = 0; i < bytes; i++) block[i] = (char)(fuzz_next(&random) >> 24);
}

/* Makes one property of a view wrong, before it gets memory; false: no tensor at all. */
static bool damage_view(fuzz_input *input, DLTensor *tensor) {
    static const int64_t sizes[] = {-1, 0, 1, INT64_MAX, INT64_MIN, INT64_C(1) << 31, 1 << 16};
    int32_t one = tensor->ndim > 0 ? fuzz_range(input, 0, tensor->ndim - 1) : -1;
    switch (fuzz_range(input, 0, 9)) {
    case 0: return false;
    case 1: tensor->dtype = types[fuzz_range(input, 0, 4)]; break;
    case 2:
        tensor->dtype.code = fuzz_byte(input);
        tensor->dtype.bits = (uint8_t)(8 << fuzz_range(input, 0, 3));
        tensor->dtype.lanes = (uint16_t)fuzz_range(input, 0, 4);
        break;
    case 3:
        if (one >= 0) tensor->shape[one] += fuzz_range(input, -2, 2);
        break;
    case 4:
        if (one >= 0) tensor->shape[one] = sizes[fuzz_range(input, 0, 6)];
        break;
    case 5: tensor->ndim = tensor->ndim > 0 ? tensor->ndim - 1 : -1; break;
    case 6: tensor->device.device_type = (DLDeviceType)fuzz_range(input, 0, 20); break;
    case 7: tensor->device.device_id = fuzz_range(input, -1, 2); break;
    case 8: tensor->byte_offset = (uint64_t)fuzz_range(input, 0, 64); break;
    default: break; /* strides, which come next */
    }
    return true;
}

DLTensor *fuzz_tensor(fuzz_input *input, fuzz_memory *memory, int type, fuzz_shape shape,
                      fuzz_fill fill, bool any_strides) {
    DLTensor *tensor = make_view(memory, types[type], &shape);
    bool wrong = memory->damage > 0 && fuzz_chance(input, memory->damage);
    if (wrong && !damage_view(input, tensor)) return NULL;
    if (wrong || any_strides) choose_strides(input, memory, tensor);
    int before = memory->block_count;
    if (tensor->ndim >= 0) back_view(memory, tensor);
    if (memory->block_count > before) {
        fill_block(input, memory, tensor, fill);
        if (!wrong && !tensor->strides && fill == FUZZ_OUTPUT && type == FUZZ_FLOAT32)
            memory->outputs[memory->output_count++] = tensor;
    }
    if (wrong && fuzz_chance(input, 16)) tensor->data = NULL;
    if (wrong && fuzz_chance(input, 16)) tensor->shape = NULL;
    return tensor;
}

void *fuzz_struct(fuzz_input *input, fuzz_memory *memory, const void *descriptor, size_t bytes) {
    size_t real = bytes, said = bytes;
    if (memory->damage > 0 && fuzz_chance(input, 8)) {
        memory->output_count = 0; /* a shorter one asks for fewer */
        switch (fuzz_range(input, 0, 4)) {
        case 0: said = real = (size_t)fuzz_range(input, 8, (int32_t)bytes); break;
        case 1: said = real = bytes + (size_t)fuzz_range(input, 1, 64); break;
        case 2: said = SIZE_MAX; break;
        case 3: said = 65537; break;
        default: said = 0; break;
        }
    }
    char *copy = fuzz_allocate(memory, real);
    memcpy(copy, descriptor, real < bytes ? real : bytes);
    if (real > bytes && fuzz_chance(input, 128)) copy[real - 1] = 1;
    memcpy(copy, &said, sizeof said);
    return copy;
}

/* ------------------------------------------------------------------- context */

static int allowed_allocations, live_allocations;

static void *take(void *user, size_t bytes, size_t alignment, DLDevice device, void *stream) {
    (void)user, (void)device, (void)stream;
    if (allowed_allocations-- <= 0 || bytes > (size_t)1 << 28) return NULL;
    void *block = gsc__aligned_alloc(bytes, alignment);
    if (!block) return NULL;
    memset(block, 0xa5, bytes); /* the library may not rely on zeros */
    live_allocations++;
    return block;
}

static void give(void *user, void *data, size_t bytes, DLDevice device, void *stream) {
    (void)user, (void)bytes, (void)device, (void)stream;
    live_allocations--;
    gsc__aligned_free(data);
}

gsc_context *fuzz_context(fuzz_input *input) {
    static gsc_context *contexts[2];
    int which = fuzz_chance(input, 16) ? 1 : 0;
    if (!contexts[which]) {
        GSC_INIT(gsc_allocator, allocator);
        allocator.alloc = take;
        allocator.free = give;
        GSC_INIT(gsc_context_desc, desc);
        desc.abi_version = GSC_ABI_VERSION;
        desc.device.device_type = kDLCPU;
        desc.allocator = &allocator;
        desc.cpu_threads = which ? 3 : 1;
        if (gsc_context_create(&desc, &contexts[which])) broken("no context");
    }
    allowed_allocations = fuzz_chance(input, 8) ? fuzz_range(input, 0, 7) : 1000000;
    return contexts[which];
}

void fuzz_check_status(gsc_status status) {
    if (status == GSC_OK) return;
    if (status < 0 || status >= GSC_ERROR_INTERNAL) broken("status");
    if (!*gsc_last_error()) broken("a failure without a message");
}

void fuzz_check_returned(void) {
    if (live_allocations != 0) broken("memory that was not given back");
}

void fuzz_check_outputs(const fuzz_memory *memory) {
    for (int k = 0; k < memory->output_count; k++) {
        const DLTensor *tensor = memory->outputs[k];
        size_t count = 1;
        for (int32_t i = 0; i < tensor->ndim; i++) count *= (size_t)tensor->shape[i];
        const char *data = tensor->data;
        for (size_t i = 0; i < count; i++) {
            uint32_t bits;
            memcpy(&bits, data + 4 * i, 4);
            if (bits == POISON) broken("an output that was not written");
        }
    }
}
