#include "context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* -------------------------------------------------------------------- create */

static gsc_status copy_allocator(const gsc__call *call, const gsc_allocator *theirs,
                                 gsc_allocator *ours) {
    memset(ours, 0, sizeof *ours);
    if (!theirs) return GSC_OK;
    GSC__TRY(GSC__ARGS_COPY(call, "allocator", ours, theirs, free));
    if (!ours->alloc != !ours->free) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "allocator has %s but no %s, expected both or neither",
                           ours->alloc ? "alloc" : "free", ours->alloc ? "free" : "alloc");
    }
    return GSC_OK;
}

static gsc_status choose_allocator(const gsc__call *call, const gsc_context_desc *desc,
                                   gsc_context *context) {
    GSC__TRY(copy_allocator(call, desc->allocator, &context->allocator));
    if (!context->managed.allocate) return GSC_OK;
    if (context->allocator.alloc)
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT,
                           "allocator and allocate are set, expected one of them");
    context->allocator = (gsc_allocator){sizeof context->allocator, &context->managed,
                                         gsc__managed_alloc, gsc__managed_free};
    return GSC_OK;
}

static gsc_status check_desc(const gsc__call *call, const gsc_context_desc *desc) {
    if (desc->abi_version >> 16 != GSC_ABI_MAJOR) {
        return gsc__refuse(call, GSC_ERROR_ABI, "abi_version is 0x%x, expected 0x%x (major %d)",
                           desc->abi_version, GSC_ABI_VERSION, GSC_ABI_MAJOR);
    }
    GSC__TRY(gsc__check_flags(call, "flags", desc->flags, GSC_CONTEXT_SYNC_CHECK));
    if (desc->log_level < 0 || desc->log_level > GSC_LOG_DEBUG) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "log_level is %d, expected 0 to %d",
                           desc->log_level, GSC_LOG_DEBUG);
    }
    if (desc->cpu_threads < 0 || desc->cpu_threads > GSC__MAX_CPU_THREADS) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "cpu_threads is %d, expected 0 to %d",
                           desc->cpu_threads, GSC__MAX_CPU_THREADS);
    }
    return GSC_OK;
}

static int32_t thread_count(const gsc_context_desc *desc) {
    if (desc->cpu_threads > 0) return desc->cpu_threads;
    int count = gsc__cpu_count();
    return count < GSC__MAX_CPU_THREADS ? count : GSC__MAX_CPU_THREADS;
}

/* What is the same for every backend. */
static void free_parts(gsc_context *context) {
    gsc__managed_close(&context->managed);
    gsc__forecasts_close(&context->forecasts);
    free(context);
}

static gsc_status create(const gsc__call *call, const gsc_context_desc *desc,
                         gsc_allocate_fn *allocate, gsc_context **context) {
    if (!context) {
        return gsc__refuse(call, GSC_ERROR_INVALID_ARGUMENT, "context is NULL");
    }
    *context = NULL;
    gsc_context_desc ours;
    const gsc__backend *backend;
    GSC__TRY(GSC__ARGS_COPY(call, "desc", &ours, desc, cpu_threads));
    GSC__TRY(check_desc(call, &ours));
    GSC__TRY(gsc__device_backend(call->function, ours.device, &backend));

    gsc_context *created = calloc(1, sizeof *created);
    if (!created) return gsc__refuse(call, GSC_ERROR_OUT_OF_MEMORY, "out of memory");
    created->backend = backend;
    created->device = ours.device;
    created->flags = ours.flags;
    created->cpu_threads = thread_count(&ours);
    created->log = ours.log;
    created->log_user = ours.log_user;
    created->log_level = ours.log_level ? ours.log_level : GSC_LOG_WARNING;
    gsc__forecasts_open(&created->forecasts);
    gsc__managed_open(&created->managed, allocate);
    gsc_status status = choose_allocator(call, &ours, created);
    if (status == GSC_OK) status = backend->open(created);
    if (status == GSC_OK)
        *context = created;
    else
        free_parts(created);
    return status;
}

gsc_status gsc_context_create(const gsc_context_desc *desc, gsc_context **context) {
    const gsc__call call = {.function = "context_create"};
    return create(&call, desc, NULL, context);
}

gsc_status gsc_context_create_managed(const gsc_context_desc *desc, gsc_allocate_fn *allocate,
                                      gsc_context **context) {
    const gsc__call call = {.function = "context_create_managed"};
    return create(&call, desc, allocate, context);
}

void gsc_context_free(gsc_context *context) {
    if (!context) return;
    context->backend->close(context);
    free_parts(context);
}

gsc_status gsc_context_limits(const gsc_context *context, gsc_limits *limits) {
    const gsc__call call = {.function = "context_limits"};
    if (!context) {
        return gsc__refuse(&call, GSC_ERROR_INVALID_ARGUMENT, "context is NULL");
    }
    GSC__TRY(
        gsc__args_check_result(&call, "limits", limits, GSC__SIZE_THROUGH(gsc_limits, max_side)));
    const gsc_limits ours = {
        .max_gaussians = GSC__MAX_GAUSSIANS,
        .max_intersections = GSC__MAX_INTERSECTIONS,
        .max_pixels = GSC__MAX_PIXELS,
        .max_cameras = GSC__MAX_CAMERAS,
        .max_channels = GSC__MAX_CHANNELS,
        .max_sh_degree = GSC__MAX_SH_DEGREE,
        .max_knn_k = GSC__MAX_KNN_K,
        .max_side = context->backend->max_side,
    };
    gsc__args_return(limits, &ours, sizeof ours);
    return GSC_OK;
}

/* -------------------------------------------------------------------- memory */

static void *raw_alloc(gsc_context *context, size_t bytes, void *stream) {
    const gsc_allocator *allocator = &context->allocator;
    if (!allocator->alloc) {
        if (context->backend->alloc) return context->backend->alloc(context, bytes, stream);
        return gsc__aligned_alloc(bytes, GSC__BUFFER_ALIGNMENT);
    }
    return allocator->alloc(allocator->user, bytes, GSC__BUFFER_ALIGNMENT, context->device, stream);
}

static bool is_aligned(const void *block) {
    return (uintptr_t)block % GSC__BUFFER_ALIGNMENT == 0;
}

void *gsc__context_try_alloc(gsc_context *context, size_t bytes, void *stream) {
    void *block = bytes ? raw_alloc(context, bytes, stream) : NULL;
    if (is_aligned(block)) return block;
    gsc__context_release(context, block, bytes, stream);
    return NULL;
}

gsc_status gsc__context_alloc(const gsc__call *call, const char *what, size_t bytes, void **data) {
    *data = NULL;
    if (bytes == 0) return GSC_OK;
    void *block = raw_alloc(call->context, bytes, call->stream);
    if (!block) {
        return gsc__fail(GSC_ERROR_OUT_OF_MEMORY, "%s: %s: out of memory, %zu bytes were wanted",
                         call->function, what, bytes);
    }
    if (!is_aligned(block)) {
        gsc__context_release(call->context, block, bytes, call->stream);
        return gsc__fail(
            GSC_ERROR_LAYOUT, "%s: %s: allocator gave memory at 0x%llx, expected a multiple of %d",
            call->function, what, (unsigned long long)(uintptr_t)block, GSC__BUFFER_ALIGNMENT);
    }
    *data = block;
    return GSC_OK;
}

void gsc__context_release(gsc_context *context, void *data, size_t bytes, void *stream) {
    const gsc_allocator *allocator = &context->allocator;
    if (!data) return;
    if (allocator->free) {
        allocator->free(allocator->user, data, bytes, context->device, stream);
    } else if (context->backend->free) {
        context->backend->free(context, data, stream);
    } else {
        gsc__aligned_free(data);
    }
}

/* ----------------------------------------------------------------------- log */

void gsc__log(const gsc_context *context, int32_t level, const char *format, ...) {
    if (!context->log || level > context->log_level) return;
    char text[512];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (length >= 0) context->log(context->log_user, level, text);
}
