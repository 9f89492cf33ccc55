#include "image_tensor.h"

#include "random.h"

#include "math/real.h"
#include "os/system.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

size_t image_elements(const int shape[4]) {
    return (size_t)shape[0] * (size_t)shape[1] * (size_t)shape[2] * (size_t)shape[3];
}

static void place(image_tensor *t, int layout, const int shape[4]) {
    const int64_t c = shape[1], h = shape[2], w = shape[3];
    const int64_t strides[][4] = {{c * h * w, h * w, w, 1},
                                  {c * h * w, 1, w * c, c},
                                  {c * h * 2 * w, h * 2 * w, 2 * w, 2},
                                  {c * h * w, h * w, -w, 1},
                                  {0, 0, w, 1}};
    t->size = (size_t)(shape[0] * c * h * w) * (layout == LAYOUT_EVERY_SECOND ? 2 : 1);
    for (int k = 0; k < 4; k++) {
        t->shape[k] = shape[k];
        t->strides[k] = strides[layout][k];
    }
    const size_t element = t->bytes ? 1 : sizeof(gsc_real);
    t->memory = malloc(t->size * element);
    if (!t->memory) {
        fprintf(stderr, "no memory for an image\n");
        exit(EXIT_FAILURE);
    }
    t->view = (DLTensor){.data = t->memory,
                         .device = {kDLCPU, 0},
                         .ndim = 4,
                         .dtype = {t->bytes ? kDLUInt : kDLFloat, (uint8_t)(8 * element), 1},
                         .shape = t->shape,
                         .strides = t->strides};
    if (layout == LAYOUT_FLIPPED)
        t->view.data = (char *)t->memory + (size_t)((h - 1) * w) * element;
}

/* Index of a dense element from view.data. */
static int64_t offset(const image_tensor *t, size_t dense) {
    int64_t at = 0, rest = (int64_t)dense;
    for (int k = 3; k >= 0; rest /= t->shape[k], k--) at += rest % t->shape[k] * t->strides[k];
    return at;
}

static size_t elements(const image_tensor *t) {
    return (size_t)(t->shape[0] * t->shape[1] * t->shape[2] * t->shape[3]);
}

void image_tensor_make(image_tensor *t, int layout, const int shape[4], const double *values) {
    t->bytes = false;
    place(t, layout, shape);
    for (size_t i = 0; i < t->size; i++) ((gsc_real *)t->memory)[i] = (gsc_real)NAN;
    for (size_t i = elements(t); values && i-- > 0;)
        ((gsc_real *)t->view.data)[offset(t, i)] = (gsc_real)values[i];
}

void image_tensor_make_bytes(image_tensor *t, int layout, const int shape[4],
                             const uint8_t *values) {
    t->bytes = true;
    place(t, layout, shape);
    for (size_t i = 0; i < t->size; i++) ((uint8_t *)t->memory)[i] = 0xA5;
    for (size_t i = elements(t); i-- > 0;) ((uint8_t *)t->view.data)[offset(t, i)] = values[i];
}

bool image_tensor_read(const image_tensor *t, double *values) {
    size_t written = 0;
    for (size_t i = 0; i < elements(t); i++)
        values[i] = (double)((const gsc_real *)t->view.data)[offset(t, i)];
    for (size_t i = 0; i < t->size; i++)
        if (!isnan(((const gsc_real *)t->memory)[i])) written++;
    if (written == elements(t)) return true;
    fprintf(stderr, "%zu elements of an image of %zu were written\n", written, elements(t));
    return false;
}

void image_tensor_free(image_tensor *t) {
    free(t->memory);
}

/* ------------------------------------------------------------------- values */

bool values_close(const char *what, const double *got, const double *wanted, size_t count,
                  double tolerance) {
    double largest = 0, off = 0;
    for (size_t i = 0; i < count && !isnan(off); i++) {
        largest = fmax(largest, fabs(wanted[i]));
        if (!(fabs(got[i] - wanted[i]) <= off)) off = fabs(got[i] - wanted[i]);
    }
    if (off <= tolerance * largest) return true;
    fprintf(stderr, "%s: off by %g of %g\n", what, off, largest);
    return false;
}

double image_random(void) {
    static uint64_t state = 1;
    return (double)(xorshift64(&state) >> 11) / 9007199254740992.0;
}

double *image_zeros(size_t count) {
    double *values = calloc(count + 1, sizeof *values);
    if (values) return values;
    fprintf(stderr, "no memory for %zu values\n", count);
    exit(EXIT_FAILURE);
}

double *image_random_values(size_t count, double low, double high) {
    double *values = image_zeros(count);
    for (size_t i = 0; i < count; i++)
        values[i] = (double)(gsc_real)(low + (high - low) * image_random());
    return values;
}

/* ------------------------------------------------------------------ context */

size_t image_memory_left;

static void *counted_alloc(void *user, size_t bytes, size_t alignment, DLDevice device,
                           void *stream) {
    (void)user, (void)device, (void)stream;
    if (bytes > image_memory_left) return NULL;
    image_memory_left -= bytes;
    return gsc__aligned_alloc(bytes, alignment);
}

static void counted_free(void *user, void *data, size_t bytes, DLDevice device, void *stream) {
    (void)user, (void)device, (void)stream;
    image_memory_left += bytes;
    gsc__aligned_free(data);
}

gsc_context *image_context(int threads, bool counted) {
    GSC_INIT(gsc_allocator, allocator);
    allocator.alloc = counted_alloc;
    allocator.free = counted_free;
    gsc_context_desc desc;
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    desc.cpu_threads = threads;
    if (counted) desc.allocator = &allocator;
    gsc_context *context;
    if (gsc_context_create(&desc, &context) == GSC_OK) return context;
    fprintf(stderr, "%s\n", gsc_last_error());
    exit(EXIT_FAILURE);
}

int image_open_context(void **state) {
    *state = image_context(2, false);
    return 0;
}

int image_close_context(void **state) {
    gsc_context_free((gsc_context *)*state);
    return 0;
}
