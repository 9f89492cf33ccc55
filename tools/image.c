#include "image.h"

#include "output.h"
#include "text.h"

#include <errno.h>
#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

struct picture {
    const char *path;
    int32_t width, height;
    const float *color;         /* [H, W, 3]; NULL: depth */
    const float *depth, *alpha; /* [H, W] */
    float range[2];             /* of the depth: nearest, farthest */
};

static void on_error(png_structp png, png_const_charp message) {
    const struct picture *picture = png_get_error_ptr(png);
    fail("%s: cannot write: %s", picture->path, message);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp message) {
    (void)png;
    (void)message;
}

static void write_bytes(png_structp png, png_bytep data, png_size_t bytes) {
    if (fwrite(data, 1, bytes, png_get_io_ptr(png)) != bytes) png_error(png, strerror(errno));
}

static void flush_bytes(png_structp png) {
    (void)png;
}

static void fill_color(const struct picture *picture, int32_t y, png_bytep row) {
    size_t values = 3 * (size_t)picture->width;
    const float *color = picture->color + (size_t)y * values;
    for (size_t i = 0; i < values; i++) {
        float value = color[i] > 0 ? color[i] : 0; /* NaN too */
        row[i] = (png_byte)((value < 1 ? value : 1) * 255 + 0.5f);
    }
}

/* Expected depth; NAN where the picture is more background than scene. */
static float expected_depth(const struct picture *picture, size_t i) {
    float alpha = picture->alpha[i], depth = picture->depth[i] / alpha;
    return alpha >= 0.5f && isfinite(depth) ? depth : NAN;
}

static void fill_depth(const struct picture *picture, int32_t y, png_bytep row) {
    float farthest = picture->range[1], extent = farthest - picture->range[0];
    for (int32_t x = 0; x < picture->width; x++) {
        float z = expected_depth(picture, (size_t)y * (size_t)picture->width + (size_t)x);
        unsigned value = 0;
        if (!isnan(z))
            value = extent > 0 ? 1 + (unsigned)((farthest - z) / extent * 65534 + 0.5f) : 65535;
        if (value > 65535) value = 65535;
        row[2 * x] = (png_byte)(value >> 8);
        row[2 * x + 1] = (png_byte)(value & 255);
    }
}

/* libpng copies the texts. */
static void set_range(png_structp png, png_infop info, const float *range) {
    char keys[2][16] = {"depth nearest", "depth farthest"}, values[2][32];
    png_text texts[2];
    memset(texts, 0, sizeof texts);
    for (int i = 0; i < 2; i++) {
        snprintf(values[i], sizeof values[i], "%.9g", (double)range[i]);
        texts[i].compression = PNG_TEXT_COMPRESSION_NONE;
        texts[i].key = keys[i];
        texts[i].text = values[i];
        texts[i].text_length = strlen(values[i]);
    }
    png_set_text(png, info, texts, 2);
}

/* Has setjmp, and so no variables that a jump could make invalid. */
static bool encode(png_structp png, png_infop info, const struct picture *picture, png_bytep row) {
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_IHDR(png, info, (png_uint_32)picture->width, (png_uint_32)picture->height,
                 picture->color ? 8 : 16, picture->color ? PNG_COLOR_TYPE_RGB : PNG_COLOR_TYPE_GRAY,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (picture->color)
        png_set_sRGB(png, info, PNG_sRGB_INTENT_PERCEPTUAL);
    else
        set_range(png, info, picture->range);
    png_write_info(png, info);
    for (int32_t y = 0; y < picture->height; y++) {
        if (picture->color)
            fill_color(picture, y, row);
        else
            fill_depth(picture, y, row);
        png_write_row(png, row);
    }
    png_write_end(png, info);
    return true;
}

static bool write_picture(const struct picture *picture) {
    output_file file;
    if (!output_open(&file, picture->path)) return false;
    png_bytep row = malloc((size_t)picture->width * (picture->color ? 3 : 2));
    png_structp png =
        png_create_write_struct(PNG_LIBPNG_VER_STRING, (png_voidp)picture, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    bool written = false;
    if (row && info) {
        png_set_write_fn(png, file.stream, write_bytes, flush_bytes);
        written = encode(png, info, picture, row);
    } else {
        fail("%s: no memory to write it", picture->path);
    }
    png_destroy_write_struct(&png, &info);
    free(row);
    return output_close(&file, written);
}

bool image_write_color(const char *path, const float *color, int32_t width, int32_t height) {
    return write_picture(&(struct picture){path, width, height, .color = color});
}

bool image_write_depth(const char *path, const float *depth, const float *alpha, int32_t width,
                       int32_t height, float range[2]) {
    struct picture picture = {path, width, height, .depth = depth, .alpha = alpha};
    float nearest = INFINITY, farthest = -INFINITY;
    for (size_t i = 0; i < (size_t)width * (size_t)height; i++) {
        float z = expected_depth(&picture, i);
        if (z < nearest) nearest = z;
        if (z > farthest) farthest = z;
    }
    picture.range[0] = range[0] = nearest <= farthest ? nearest : 0;
    picture.range[1] = range[1] = nearest <= farthest ? farthest : 0;
    return write_picture(&picture);
}
