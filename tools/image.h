/* Writes pictures as PNG files, under a temporary name until they are complete. */
#ifndef GSPLAT_C_TOOLS_IMAGE_H
#define GSPLAT_C_TOOLS_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

/* 8-bit sRGB: colours are clamped to [0, 1]; NaN becomes 0.  False after fail(). */
bool image_write_color(const char *path, const float *color /* [H, W, 3] */, int32_t width,
                       int32_t height);

/* 16-bit grey: 65535 at range[0], the nearest, falling linearly to 1 at range[1], the
 * farthest; 0 where alpha is below a half.  The range is found, returned and written
 * into the file as the text chunks "depth nearest" and "depth farthest". */
bool image_write_depth(const char *path, const float *depth /* [H, W] sum of z alpha T */,
                       const float *alpha /* [H, W] */, int32_t width, int32_t height,
                       float range[2]);

#endif
