#include "images.h"

#include <stdbool.h>
#include <stdio.h>

static int number(int major, int minor) {
    return 100 * major + minor;
}

/* Orin, and Thor by its number in CUDA 12. */
static bool is_jetson(int major, int minor) {
    return number(major, minor) == 807 || number(major, minor) == 1001;
}

/* Machine code runs within its major number only, and a Jetson's on nothing else.  PTX runs on
 * anything newer. */
static bool runs_on(const gsc__kernel_image *image, int major, int minor) {
    if (image->kind == GSC__IMAGE_CUBIN) {
        if (image->major != major) return false;
        if (is_jetson(image->major, image->minor)) return image->minor == minor;
    }
    return number(image->major, image->minor) <= number(major, minor);
}

static bool is_better(const gsc__kernel_image *image, const gsc__kernel_image *than) {
    if (!than) return true;
    if (image->kind != than->kind) return image->kind == GSC__IMAGE_CUBIN;
    return number(image->major, image->minor) > number(than->major, than->minor);
}

const gsc__kernel_image *gsc__kernel_image_choose(const gsc__kernel_image *images, size_t count,
                                                  const char *source, int major, int minor) {
    const gsc__kernel_image *best = NULL;
    for (size_t i = 0; i < count; ++i) {
        if (strcmp(images[i].source, source) != 0 || !runs_on(&images[i], major, minor)) continue;
        if (is_better(&images[i], best)) best = &images[i];
    }
    return best;
}

const char *gsc__kernel_image_target(const gsc__kernel_image *image,
                                     char name[GSC__GPU_TARGET_SIZE]) {
    snprintf(name, GSC__GPU_TARGET_SIZE, "%s_%d%d",
             image->kind == GSC__IMAGE_PTX ? "compute" : "sm", image->major, image->minor);
    return name;
}

const char *gsc__kernel_image_targets(const gsc__kernel_image *images, size_t count,
                                      const char *source, char text[GSC__GPU_TARGETS_SIZE]) {
    char name[GSC__GPU_TARGET_SIZE];
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count; ++i) {
        if (strcmp(images[i].source, source) != 0) continue;
        gsc__kernel_image_target(&images[i], name);
        const size_t length = strlen(name);
        if (used + length + 2 > GSC__GPU_TARGETS_SIZE) break;
        if (used) text[used++] = ' ';
        memcpy(text + used, name, length + 1);
        used += length;
    }
    return text;
}

gsc_status gsc__kernel_image_find(const char *function, const gsc__kernel_image *images,
                                  size_t count, const char *source, int major, int minor,
                                  const gsc__kernel_image **image) {
    char targets[GSC__GPU_TARGETS_SIZE];
    *image = gsc__kernel_image_choose(images, count, source, major, minor);
    if (*image) return GSC_OK;
    gsc__kernel_image_targets(images, count, source, targets);
    return gsc__fail(GSC_ERROR_NO_KERNEL_IMAGE,
                     "%s: the device has compute capability %d.%d, but %s.cu was compiled "
                     "for %s",
                     function, major, minor, source, targets[0] ? targets : "nothing");
}
