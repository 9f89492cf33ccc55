/* The shared library, opened at run time as a host does, and work that uses every operation.
 * Nothing here ends the program or calls cmocka, so that threads and children of fork can use
 * it. */
#ifndef TESTS_OPENED_LIBRARY_H
#define TESTS_OPENED_LIBRARY_H

#include "gsplat_c.h"

#include <stdbool.h>

/* type, name, parameters */
#define LIBRARY_FUNCTIONS(X)                                                                       \
    X(uint32_t, gsplat_c_abi_version, (void))                                                      \
    X(const char *, gsc_version, (void))                                                           \
    X(const char *, gsc_build_info_json, (void))                                                   \
    X(const char *, gsc_last_error, (void))                                                        \
    X(gsc_status, gsc_device_count, (int32_t, int32_t *))                                          \
    X(gsc_status, gsc_device_report_json, (DLDevice, char *, size_t *))                            \
    X(gsc_status, gsc_context_create, (const gsc_context_desc *, gsc_context **))                  \
    X(void, gsc_context_free, (gsc_context *))                                                     \
    X(gsc_status, gsc_rasterize,                                                                   \
      (gsc_context *, const gsc_raster_args *, const gsc_raster_outputs *, gsc_raster_saved **,    \
       void *))                                                                                    \
    X(gsc_status, gsc_rasterize_backward,                                                          \
      (gsc_context *, const gsc_raster_args *, const gsc_raster_saved *, const gsc_raster_grads *, \
       void *))                                                                                    \
    X(void, gsc_raster_saved_free, (gsc_raster_saved *, void *))                                   \
    X(gsc_status, gsc_knn, (gsc_context *, const gsc_knn_args *, void *))                          \
    X(gsc_status, gsc_image_loss, (gsc_context *, const gsc_image_loss_args *, void *))            \
    X(gsc_status, gsc_ssim_forward, (gsc_context *, const gsc_ssim_args *, void *))                \
    X(gsc_status, gsc_adam_step, (gsc_context *, const gsc_adam_args *, void *))

typedef struct opened_library {
    void *handle;
#define LIBRARY_MEMBER(type, name, parameters) type(*name) parameters;
    LIBRARY_FUNCTIONS(LIBRARY_MEMBER)
#undef LIBRARY_MEMBER
} opened_library;

/* mode: RTLD_NOW with RTLD_LOCAL or RTLD_GLOBAL.  On failure false, and a line on stderr. */
bool library_open(opened_library *library, const char *path, int mode);
bool library_close(opened_library *library);

/* A CPU context, or NULL. */
gsc_context *library_context(const opened_library *library, int threads);

/* Rasterizes a scene, and runs loss, gradients, Adam, neighbours and SSIM on it.  Returns a hash of
 * all results, the same on every call; 0 on failure. */
uint64_t library_work(const opened_library *library, gsc_context *context);

/* Whether a call that must fail does fail, and sets this thread's message. */
bool library_complains(const opened_library *library);

#endif
