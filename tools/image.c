#include "image.h"

#include "failure.h"
#include "host.h"

#include <errno.h>
#include <math.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

/* Fills one row of the file from the pixels. */
typedef void row_fn(const void *pixels, int32_t y, png_bytep row);

struct picture {
    const char *path;
    int32_t width, height;
    int color_type, bit_depth;
    const png_text *texts;
    int text_count;
    row_fn *fill;
    const void *pixels;
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

/* What runs under setjmp has no variables of its own that a jump could spoil. */
static bool encode(png_structp png, png_infop info, const struct picture *picture, png_bytep row) {
    if (setjmp(png_jmpbuf(png))) return false;
    png_set_IHDR(png, info, (png_uint_32)picture->width, (png_uint_32)picture->height,
                 picture->bit_depth, picture->color_type, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (picture->color_type == PNG_COLOR_TYPE_RGB)
        png_set_sRGB(png, info, PNG_sRGB_INTENT_PERCEPTUAL);
    if (picture->text_count) png_set_text(png, info, picture->texts, picture->text_count);
    png_write_info(png, info);
    for (int32_t y = 0; y < picture->height; y++) {
        picture->fill(picture->pixels, y, row);
        png_write_row(png, row);
    }
    png_write_end(png, info);
    return true;
}

static bool write_picture(const struct picture *picture) {
    output_file file;
    if (!output_open(&file, picture->path)) return false;
    size_t channels = picture->color_type == PNG_COLOR_TYPE_RGB ? 3 : 1;
    png_bytep row = malloc((size_t)picture->width * channels * (size_t)picture->bit_depth / 8);
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

typedef struct color_pixels {
    const float *color;
    int32_t width;
} color_pixels;

static void fill_color(const void *pixels, int32_t y, png_bytep row) {
    const color_pixels *from = pixels;
    size_t values = 3 * (size_t)from->width;
    const float *color = from->color + (size_t)y * values;
    for (size_t i = 0; i < values; i++) {
        float value = color[i] > 0 ? color[i] : 0; /* NaN too */
        row[i] = (png_byte)((value < 1 ? value : 1) * 255 + 0.5f);
    }
}

bool image_write_color(const char *path, const float *color, int32_t width, int32_t height) {
    color_pixels pixels = {color, width};
    struct picture picture = {.path = path, .width = width, .height = height};
    picture.color_type = PNG_COLOR_TYPE_RGB;
    picture.bit_depth = 8;
    picture.fill = fill_color;
    picture.pixels = &pixels;
    return write_picture(&picture);
}

typedef struct depth_pixels {
    const float *depth, *alpha;
    int32_t width;
    float nearest, farthest;
} depth_pixels;

/* Expected depth; NAN where the picture is more background than scene. */
static float expected_depth(const depth_pixels *pixels, size_t i) {
    float alpha = pixels->alpha[i], depth = pixels->depth[i] / alpha;
    return alpha >= 0.5f && isfinite(depth) ? depth : NAN;
}

static void fill_depth(const void *pixels, int32_t y, png_bytep row) {
    const depth_pixels *from = pixels;
    float extent = from->farthest - from->nearest;
    for (int32_t x = 0; x < from->width; x++) {
        float z = expected_depth(from, (size_t)y * (size_t)from->width + (size_t)x);
        unsigned value = 0;
        if (!isnan(z))
            value =
                extent > 0 ? 1 + (unsigned)((from->farthest - z) / extent * 65534 + 0.5f) : 65535;
        if (value > 65535) value = 65535;
        row[2 * x] = (png_byte)(value >> 8);
        row[2 * x + 1] = (png_byte)(value & 255);
    }
}

static void find_range(depth_pixels *pixels, size_t count) {
    float nearest = INFINITY, farthest = -INFINITY;
    for (size_t i = 0; i < count; i++) {
        float z = expected_depth(pixels, i);
        if (z < nearest) nearest = z;
        if (z > farthest) farthest = z;
    }
    pixels->nearest = nearest <= farthest ? nearest : 0;
    pixels->farthest = nearest <= farthest ? farthest : 0;
}

bool image_write_depth(const char *path, const float *depth, const float *alpha, int32_t width,
                       int32_t height, float range[2]) {
    depth_pixels pixels = {depth, alpha, width, 0, 0};
    find_range(&pixels, (size_t)width * (size_t)height);
    range[0] = pixels.nearest;
    range[1] = pixels.farthest;
    char nearest_key[] = "depth nearest", farthest_key[] = "depth farthest";
    char values[2][32];
    for (int i = 0; i < 2; i++) snprintf(values[i], sizeof values[i], "%.9g", (double)range[i]);
    png_text texts[2];
    memset(texts, 0, sizeof texts);
    for (int i = 0; i < 2; i++) {
        texts[i].compression = PNG_TEXT_COMPRESSION_NONE;
        texts[i].key = i ? farthest_key : nearest_key;
        texts[i].text = values[i];
        texts[i].text_length = strlen(values[i]);
    }
    struct picture picture = {.path = path, .width = width, .height = height};
    picture.color_type = PNG_COLOR_TYPE_GRAY;
    picture.bit_depth = 16;
    picture.texts = texts;
    picture.text_count = 2;
    picture.fill = fill_depth;
    picture.pixels = &pixels;
    return write_picture(&picture);
}
