/* The entry points of everything but the rasterizer: copy, check, call the backend. */

#include "call.h"
#include "check/adam_args.h"
#include "check/image_args.h"
#include "check/knn_args.h"

/* -------------------------------------------------------- nearest neighbours */

gsc_status gsc_knn_scratch_bytes(gsc_context *context, const gsc_knn_args *args, size_t *bytes) {
    static const char function[] = "knn_scratch_bytes";
    gsc__call call;
    gsc__checker checker;
    gsc__knn knn;
    GSC__TRY(gsc__begin(function, context, NULL, &call, &checker));
    if (!bytes) return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: bytes is NULL", function);
    checker.shapes_only = true;
    GSC__TRY(gsc__knn_args(&checker, args, &knn));
    *bytes = context->backend->knn_scratch_bytes(&call, &knn);
    return GSC_OK;
}

gsc_status gsc_knn(gsc_context *context, const gsc_knn_args *args, void *stream) {
    static const char function[] = "knn";
    gsc__call call;
    gsc__checker checker;
    gsc__knn knn;
    gsc__scratch scratch;
    GSC__TRY(gsc__begin(function, context, stream, &call, &checker));
    GSC__TRY(gsc__knn_args(&checker, args, &knn));
    const size_t needed = context->backend->knn_scratch_bytes(&call, &knn);
    if (knn.scratch && knn.scratch_bytes < needed) {
        return gsc__fail(GSC_ERROR_BUFFER_TOO_SMALL,
                         "%s: scratch has %zu bytes, expected at least %zu", function,
                         knn.scratch_bytes, needed);
    }
    GSC__TRY(gsc__scratch_provide(&scratch, context, "knn: scratch", needed, stream, &knn.scratch,
                                  &knn.scratch_bytes));
    gsc_status status = context->backend->knn(&call, &knn);
    gsc__scratch_release(&scratch);
    return status;
}

/* -------------------------------------------------------- SSIM and image loss */

gsc_status gsc_ssim_forward(gsc_context *context, const gsc_ssim_args *args, void *stream) {
    gsc__call call;
    gsc__checker checker;
    gsc__ssim ssim;
    GSC__TRY(gsc__begin("ssim_forward", context, stream, &call, &checker));
    GSC__TRY(gsc__ssim_forward_args(&checker, args, &ssim));
    return context->backend->ssim_forward(&call, &ssim);
}

gsc_status gsc_ssim_backward(gsc_context *context, const gsc_ssim_args *args, void *stream) {
    gsc__call call;
    gsc__checker checker;
    gsc__ssim ssim;
    GSC__TRY(gsc__begin("ssim_backward", context, stream, &call, &checker));
    GSC__TRY(gsc__ssim_backward_args(&checker, args, &ssim));
    return context->backend->ssim_backward(&call, &ssim);
}

gsc_status gsc_image_loss(gsc_context *context, const gsc_image_loss_args *args, void *stream) {
    gsc__call call;
    gsc__checker checker;
    gsc__image_loss loss;
    GSC__TRY(gsc__begin("image_loss", context, stream, &call, &checker));
    GSC__TRY(gsc__image_loss_args(&checker, args, &loss));
    return context->backend->image_loss(&call, &loss);
}

/* -------------------------------------------------------------------- Adam */

gsc_status gsc_adam_step(gsc_context *context, const gsc_adam_args *args, void *stream) {
    gsc__call call;
    gsc__checker checker;
    gsc__adam adam;
    GSC__TRY(gsc__begin("adam_step", context, stream, &call, &checker));
    GSC__TRY(gsc__adam_args(&checker, args, &adam));
    gsc_status status = GSC_OK;
    if (adam.count > 0) status = context->backend->adam_step(&call, &adam);
    gsc__adam_release(&adam);
    return status;
}
