/* The entry points of everything but the rasterizer: copy, check, call the backend. */

#include "check/args.h"
#include "core/context.h"
#include "core/workspace.h"

/* -------------------------------------------------------- nearest neighbours */

gsc_status gsc_knn_scratch_bytes(gsc_context *context, const gsc_knn_args *args, size_t *bytes) {
    static const char function[] = "knn_scratch_bytes";
    gsc__call call;
    gsc__knn knn;
    GSC__TRY(gsc__call_begin(&call, function, context, NULL));
    if (!bytes) return gsc__fail(GSC_ERROR_INVALID_ARGUMENT, "%s: bytes is NULL", function);
    call.shapes_only = true;
    GSC__TRY(gsc__knn_args(&call, args, &knn));
    *bytes = context->backend->knn_scratch_bytes(&call, &knn);
    return GSC_OK;
}

gsc_status gsc_knn(gsc_context *context, const gsc_knn_args *args, void *stream) {
    gsc__call call;
    gsc__knn knn;
    GSC__TRY(gsc__call_begin(&call, "knn", context, stream));
    GSC__TRY(gsc__knn_args(&call, args, &knn));
    gsc__workspace workspace = {.call = call};
    const size_t needed = context->backend->knn_scratch_bytes(&call, &knn);
    GSC__TRY(
        gsc__workspace_provide(&workspace, "scratch", needed, &knn.scratch, &knn.scratch_bytes));
    gsc_status status = context->backend->knn(&call, &knn);
    gsc__workspace_release(&workspace);
    return status;
}

/* -------------------------------------------------------- SSIM and image loss */

gsc_status gsc_ssim_forward(gsc_context *context, const gsc_ssim_args *args, void *stream) {
    gsc__call call;
    gsc__ssim ssim;
    GSC__TRY(gsc__call_begin(&call, "ssim_forward", context, stream));
    GSC__TRY(gsc__ssim_forward_args(&call, args, &ssim));
    return context->backend->ssim_forward(&call, &ssim);
}

gsc_status gsc_ssim_backward(gsc_context *context, const gsc_ssim_args *args, void *stream) {
    gsc__call call;
    gsc__ssim ssim;
    GSC__TRY(gsc__call_begin(&call, "ssim_backward", context, stream));
    GSC__TRY(gsc__ssim_backward_args(&call, args, &ssim));
    return context->backend->ssim_backward(&call, &ssim);
}

gsc_status gsc_image_loss(gsc_context *context, const gsc_image_loss_args *args, void *stream) {
    gsc__call call;
    gsc__image_loss loss;
    GSC__TRY(gsc__call_begin(&call, "image_loss", context, stream));
    GSC__TRY(gsc__image_loss_args(&call, args, &loss));
    return context->backend->image_loss(&call, &loss);
}

/* -------------------------------------------------------------------- Adam */

gsc_status gsc_adam_step(gsc_context *context, const gsc_adam_args *args, void *stream) {
    gsc__call call;
    gsc__adam adam;
    GSC__TRY(gsc__call_begin(&call, "adam_step", context, stream));
    GSC__TRY(gsc__adam_args(&call, args, &adam));
    gsc_status status = GSC_OK;
    if (adam.count > 0) status = context->backend->adam_step(&call, &adam);
    gsc__adam_release(&adam);
    return status;
}
