/* Rows of strided images, in and out. */
#ifndef GSC_IMAGE_ROWS_H
#define GSC_IMAGE_ROWS_H

#include "cpu.h"
#include "simd.h"

static inline int64_t image_offset(const gsc__image *image, int64_t b, int64_t c, int64_t y,
                                   int64_t x) {
    return b * image->strides[0] + c * image->strides[1] + y * image->strides[2] +
           x * image->strides[3];
}

/* Reads n pixels of row y from column x on, all inside the image; bytes are divided by
 * byte_scale. */
static inline void image_row_read(const gsc__image *image, gsc_real byte_scale, int64_t b,
                                  int64_t c, int64_t y, int64_t x, int n, gsc_real *restrict out) {
    const int64_t offset = image_offset(image, b, c, y, x), step = image->strides[3];
    if (image->bytes) {
        const uint8_t *p = (const uint8_t *)image->data + offset;
        if (step == 1)
            for (int i = 0; i < n; ++i) out[i] = (gsc_real)p[i] / byte_scale;
        else
            for (int i = 0; i < n; ++i) out[i] = (gsc_real)p[i * step] / byte_scale;
        return;
    }
    const gsc_real *p = (const gsc_real *)image->data + offset;
    if (step == 1)
        memcpy(out, p, (size_t)n * sizeof *out);
    else
        for (int i = 0; i < n; ++i) out[i] = p[i * step];
}

static inline void image_row_write(const gsc__image *image, int64_t b, int64_t c, int64_t y,
                                   int64_t x, int n, const gsc_real *restrict row) {
    const int64_t step = image->strides[3];
    gsc_real *p = (gsc_real *)image->data + image_offset(image, b, c, y, x);
    if (step == 1)
        memcpy(p, row, (size_t)n * sizeof *row);
    else
        for (int i = 0; i < n; ++i) p[i * step] = row[i];
}

/* Fetches columns [x0, x1) of a row into the second-level cache, for walks over a part of the image
 * too narrow for the processor's own prefetching.  Always inline: to a compiler, a function that
 * does nothing else has no effect. */
GSC__INLINE void image_row_prefetch(const gsc__image *image, int64_t b, int64_t c, int64_t y,
                                    int64_t x0, int64_t x1) {
    enum { CACHE_LINE = 64 };
    const int64_t size = image->bytes ? 1 : (int64_t)sizeof(gsc_real);
    if (image->strides[3] != 1) return;
    const char *row = (const char *)image->data + size * image_offset(image, b, c, y, x0);
    for (int64_t k = 0; k < (x1 - x0) * size; k += CACHE_LINE) __builtin_prefetch(row + k, 0, 2);
}

/* In double precision, always in the same order. */
static inline double image_row_sum(const gsc_real *row, int n) {
    enum { LANES = 8 };
    double sums[LANES] = {0};
    int i = 0;
    for (; i + LANES <= n; i += LANES)
        for (int k = 0; k < LANES; ++k) sums[k] += (double)row[i + k];
    for (; i < n; ++i) sums[0] += (double)row[i];
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) +
           ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

#endif
