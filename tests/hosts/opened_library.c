#include "opened_library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

/* ---------------------------------------------------------------------- opening */

bool library_open(opened_library *library, const char *path, int mode) {
    memset(library, 0, sizeof *library);
    library->handle = dlopen(path, mode);
    if (!library->handle) {
        fprintf(stderr, "%s\n", dlerror());
        return false;
    }
    void *address;
#define LOAD(type, name, parameters)                    \
    address = dlsym(library->handle, #name);            \
    memcpy(&library->name, &address, sizeof address);   \
    if (!address) {                                     \
        fprintf(stderr, "%s has no " #name "\n", path); \
        library_close(library);                         \
        return false;                                   \
    }
    LIBRARY_FUNCTIONS(LOAD)
#undef LOAD
    return true;
}

bool library_close(opened_library *library) {
    bool closed = library->handle && dlclose(library->handle) == 0;
    memset(library, 0, sizeof *library);
    return closed;
}

gsc_context *library_context(const opened_library *library, int threads) {
    gsc_context_desc desc;
    gsc_context *context = NULL;
    gsc_context_desc_init(&desc, (DLDevice){kDLCPU, 0});
    desc.cpu_threads = threads;
    if (library->gsc_context_create(&desc, &context))
        fprintf(stderr, "%s\n", library->gsc_last_error());
    return context;
}

/* ------------------------------------------------------------------------- work */

enum { SPLATS = 600, WIDTH = 96, HEIGHT = 72, PIXELS = WIDTH * HEIGHT, NEIGHBOURS = 4 };

typedef struct work {
    float means[SPLATS][3], scales[SPLATS][3], rotations[SPLATS][4], opacities[SPLATS];
    float colors[SPLATS][3], view[16], intrinsics[4];
    float image[3 * PIXELS], target[3 * PIXELS], grad_image[3 * PIXELS], loss, ssim;
    float grad_means[SPLATS][3], grad_scales[SPLATS][3], grad_rotations[SPLATS][4];
    float grad_opacities[SPLATS], grad_colors[SPLATS][3];
    float moment1[SPLATS][3], moment2[SPLATS][3];
    float distances2[SPLATS][NEIGHBOURS];
    int32_t indices[SPLATS][NEIGHBOURS];
} work;

/* A tensor with its shape. */
typedef struct described {
    DLTensor view;
    int64_t shape[4];
} described;

static const DLTensor *describe(described *d, void *data, DLDataType type, int32_t ndim,
                                const int64_t *shape) {
    memcpy(d->shape, shape, (size_t)ndim * sizeof *shape);
    d->view = (DLTensor){data, {kDLCPU, 0}, ndim, type, d->shape, NULL, 0};
    return &d->view;
}

static const DLTensor *floats(described *d, void *data, int32_t ndim, int64_t a, int64_t b) {
    return describe(d, data, (DLDataType){kDLFloat, 32, 1}, ndim, (int64_t[]){a, b});
}

static const DLTensor *picture(described *d, float *data, bool batch) {
    const int64_t shape[] = {1, 3, HEIGHT, WIDTH};
    return describe(d, data, (DLDataType){kDLFloat, 32, 1}, batch ? 4 : 3,
                    batch ? shape : shape + 1);
}

/* A separate generator, since the C library's belongs to the whole process. */
static float uniform(uint32_t *seed, float low, float high) {
    *seed = *seed * 1664525u + 1013904223u;
    return low + (high - low) * (float)(*seed >> 8) / (float)(1u << 24);
}

static void fill(work *w) {
    uint32_t seed = 1;
    memset(w, 0, sizeof *w);
    for (int n = 0; n < SPLATS; n++) {
        for (int i = 0; i < 3; i++) {
            w->means[n][i] = uniform(&seed, -1, 1);
            w->scales[n][i] = uniform(&seed, 0.02f, 0.1f);
            w->colors[n][i] = uniform(&seed, 0, 1);
        }
        w->means[n][2] += 4;
        for (int i = 0; i < 4; i++) w->rotations[n][i] = uniform(&seed, -1, 1);
        w->opacities[n] = uniform(&seed, 0.2f, 0.9f);
    }
    for (int i = 0; i < 16; i += 5) w->view[i] = 1;
    w->intrinsics[0] = w->intrinsics[1] = 90;
    w->intrinsics[2] = WIDTH / 2.0f;
    w->intrinsics[3] = HEIGHT / 2.0f;
    for (int i = 0; i < 3 * PIXELS; i++) w->target[i] = uniform(&seed, 0, 1);
}

static bool rasterize_and_differentiate(const opened_library *library, gsc_context *context,
                                        work *w) {
    described d[18];
    GSC_INIT(gsc_raster_args, args);
    args.width = WIDTH;
    args.height = HEIGHT;
    args.view = floats(&d[0], w->view, 2, 4, 4);
    args.intrinsics = floats(&d[1], w->intrinsics, 1, 4, 0);
    args.means = floats(&d[2], w->means, 2, SPLATS, 3);
    args.scales = floats(&d[3], w->scales, 2, SPLATS, 3);
    args.rotations = floats(&d[4], w->rotations, 2, SPLATS, 4);
    args.opacities = floats(&d[5], w->opacities, 1, SPLATS, 0);
    args.colors = floats(&d[6], w->colors, 2, SPLATS, 3);
    GSC_INIT(gsc_raster_outputs, outputs);
    outputs.color = picture(&d[7], w->image, false);
    GSC_INIT(gsc_image_loss_args, loss);
    loss.l1_weight = 0.8f;
    loss.ssim_weight = 0.2f;
    loss.image = picture(&d[8], w->image, true);
    loss.target = picture(&d[9], w->target, true);
    loss.loss = floats(&d[10], &w->loss, 0, 0, 0);
    loss.grad_image = picture(&d[11], w->grad_image, true);
    GSC_INIT(gsc_raster_grads, grads);
    grads.color = picture(&d[12], w->grad_image, false);
    grads.means = floats(&d[13], w->grad_means, 2, SPLATS, 3);
    grads.scales = floats(&d[14], w->grad_scales, 2, SPLATS, 3);
    grads.rotations = floats(&d[15], w->grad_rotations, 2, SPLATS, 4);
    grads.opacities = floats(&d[16], w->grad_opacities, 1, SPLATS, 0);
    grads.colors = floats(&d[17], w->grad_colors, 2, SPLATS, 3);

    gsc_raster_saved *saved = NULL;
    bool good = !library->gsc_rasterize(context, &args, &outputs, &saved, NULL) &&
                !library->gsc_image_loss(context, &loss, NULL) &&
                !library->gsc_rasterize_backward(context, &args, saved, &grads, NULL);
    library->gsc_raster_saved_free(saved, NULL);
    return good;
}

static bool the_others(const opened_library *library, gsc_context *context, work *w) {
    described d[10];
    gsc_adam_group group;
    memset(&group, 0, sizeof group);
    group.parameter = floats(&d[0], w->means, 2, SPLATS, 3);
    group.gradient = floats(&d[1], w->grad_means, 2, SPLATS, 3);
    group.moment1 = floats(&d[2], w->moment1, 2, SPLATS, 3);
    group.moment2 = floats(&d[3], w->moment2, 2, SPLATS, 3);
    group.lr = 0.01f;
    group.step = 1;
    GSC_INIT(gsc_adam_args, adam);
    adam.groups = &group;
    adam.group_count = 1;
    adam.group_stride = sizeof group;
    GSC_INIT(gsc_knn_args, knn);
    knn.k = NEIGHBOURS;
    knn.points = floats(&d[4], w->means, 2, SPLATS, 3);
    knn.distances2 = floats(&d[5], w->distances2, 2, SPLATS, NEIGHBOURS);
    knn.indices = describe(&d[6], w->indices, (DLDataType){kDLInt, 32, 1}, 2,
                           (int64_t[]){SPLATS, NEIGHBOURS});
    GSC_INIT(gsc_ssim_args, ssim);
    ssim.image = picture(&d[7], w->image, true);
    ssim.target = picture(&d[8], w->target, true);
    ssim.mean = floats(&d[9], &w->ssim, 0, 0, 0);
    return !library->gsc_adam_step(context, &adam, NULL) &&
           !library->gsc_knn(context, &knn, NULL) &&
           !library->gsc_ssim_forward(context, &ssim, NULL);
}

/* 64-bit FNV-1a over words: all data consists of 4-byte values. */
static uint64_t hash_of(const work *w) {
    uint64_t hash = 14695981039346656037u;
    for (size_t at = 0; at < sizeof *w; at += sizeof(uint32_t)) {
        uint32_t word;
        memcpy(&word, (const char *)w + at, sizeof word);
        hash = (hash ^ word) * 1099511628211u;
    }
    return hash ? hash : 1;
}

uint64_t library_work(const opened_library *library, gsc_context *context) {
    work *w = malloc(sizeof *w);
    if (!w || !context) {
        free(w);
        return 0;
    }
    fill(w);
    uint64_t hash = 0;
    if (rasterize_and_differentiate(library, context, w) && the_others(library, context, w)) {
        /* The image is not empty, and neither are the gradients. */
        double drawn = 0, slope = 0;
        for (int i = 0; i < 3 * PIXELS; i++) drawn += (double)w->image[i];
        for (int n = 0; n < SPLATS; n++) slope += (double)(w->grad_colors[n][0] != 0);
        if (drawn > PIXELS / 10.0 && slope > SPLATS / 10.0) hash = hash_of(w);
    } else {
        fprintf(stderr, "%s\n", library->gsc_last_error());
    }
    free(w);
    return hash;
}

bool library_complains(const opened_library *library) {
    return library->gsc_device_count(kDLCPU, NULL) == GSC_ERROR_INVALID_ARGUMENT &&
           strcmp(library->gsc_last_error(), "device_count: count is NULL") == 0;
}
